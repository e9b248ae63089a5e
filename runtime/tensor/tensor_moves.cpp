// Moving elements: between layouts, dtypes, devices, and to the host.
#include <algorithm>
#include <cstring>

#include "runtime/forms/check.h"
#include "runtime/forms/movement.h"
#include "runtime/forms/overlap.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/transfer.h"

namespace ashlar {

namespace {

double to_double(const void* element, DType dtype) {
  const auto read = [element]<class T>(T value) {
    std::memcpy(&value, element, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f32:
      return read(float{});
    case DType::f16:
      return static_cast<float>(read(Half{}));
    case DType::bf16:
      return static_cast<float>(read(BFloat16{}));
    case DType::f64:
      return read(double{});
    case DType::i32:
      return read(int32_t{});
    case DType::i64:
      return static_cast<double>(read(int64_t{}));
    case DType::u8:
      return read(uint8_t{});
    case DType::u32:
      return read(uint32_t{});
    case DType::i8:
      return read(int8_t{});
    case DType::u16:
      return read(uint16_t{});
    case DType::i16:
      return read(int16_t{});
    case DType::boolean:
      return read(uint8_t{}) != 0;
  }
  return 0;
}

}  // namespace

Tensor Tensor::contiguous() const {
  check_defined("Tensor::contiguous");
  return is_contiguous() ? *this : clone();
}

Tensor Tensor::clone() const try {
  check_defined("Tensor::clone");
  const Tensor result = empty(shape_, dtype_, device());
  forms::copy(*this, result);
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::clone");
}

Tensor Tensor::to(Device device) const try {
  check_defined("Tensor::to");
  if (device == this->device()) return *this;
  const Tensor result = empty(shape_, dtype_, device);
  result.copy_(*this);
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::to");
}

Tensor Tensor::to(DType dtype) const try {
  check_defined("Tensor::to");
  return dtype == dtype_ ? *this : forms::cast(*this, dtype);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::to");
}

void Tensor::copy_(const Tensor& source) const try {
  check_defined("Tensor::copy_");
  source.check_defined("Tensor::copy_");
  if (source.shape_ != shape_) {
    throw ShapeError("Tensor::copy_", source.str() + " into " + str(), "tensors of one shape",
                     "Use source.broadcast_to(destination.shape()) or reshape()");
  }
  if (source.dtype_ != dtype_) {
    throw DTypeError("Tensor::copy_", source.str() + " into " + str(), "tensors of one dtype",
                     "Convert the source with " + forms::conversion(dtype_));
  }
  if (numel() == 0) return;
  if (source.device() == device()) {
    if (forms::share_memory(*this, source)) return forms::copy(source.clone(), *this);
    return forms::copy(source, *this);
  }
  // Between devices only whole runs of bytes travel.
  const Tensor from = source.contiguous();
  const Tensor landed = is_contiguous() ? *this : empty(shape_, dtype_, device());
  detail::copy_bytes(*landed.storage_, landed.offset_ * size_of(dtype_), *from.storage_, from.offset_ * size_of(dtype_),
                     bytes());
  if (!is_contiguous()) return forms::copy(landed, *this);
  bump_version();
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::copy_");
}

void Tensor::fill_(Number value) const try {
  check_defined("Tensor::fill_");
  constexpr int64_t kExact = int64_t{1} << 53;  // beyond it, a double may not hold an integer
  const bool is_exact = !value.is_integer() || std::abs(value.integer() / 2) < kExact / 2;
  if (is_exact || dtype_ != DType::i64) return forms::fill(*this, value.real());
  copy_(from({value.integer()}, Shape{}, device()).broadcast_to(shape_));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::fill_");
}

void Tensor::read_bytes(void* data, DType dtype) const try {
  check_defined("Tensor::to_vector");
  if (dtype != dtype_) {
    throw DTypeError("Tensor::to_vector", str(), "elements of " + std::string(name_of(dtype)),
                     "Convert the tensor with " + forms::conversion(dtype));
  }
  if (numel() == 0) return;
  const Tensor dense = contiguous();
  detail::copy_to_host(data, *dense.storage_, dense.offset_ * size_of(dtype_), bytes());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::to_vector");
}

std::vector<double> Tensor::to_doubles() const try {
  check_defined("Tensor::to_doubles");
  const auto width = static_cast<size_t>(size_of(dtype_));
  auto elements = host_copy([&] { return std::vector<char>(static_cast<size_t>(numel()) * width); });
  read_bytes(elements.data(), dtype_);
  auto values = host_copy([&] { return std::vector<double>(static_cast<size_t>(numel())); });
  for (size_t i = 0; i < values.size(); i++) values[i] = to_double(elements.data() + i * width, dtype_);
  return values;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::to_doubles");
}

const Tensor& Tensor::operator=(const Tensor& source) && {
  check_defined("Tensor::operator=");
  source.check_defined("Tensor::operator=");
  copy_(source.to(dtype_).broadcast_to(shape_));
  return *this;
}

const Tensor& Tensor::operator=(Number value) && {
  fill_(value);
  return *this;
}

double Tensor::item() const try {
  check_defined("Tensor::item");
  if (numel() != 1) {
    throw ShapeError("Tensor::item", str(), "exactly one element", "Reduce it or take one element with select()");
  }
  alignas(8) char element[8];
  detail::copy_to_host(element, *storage_, offset_ * size_of(dtype_), size_of(dtype_));
  return to_double(element, dtype_);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::item");
}

}  // namespace ashlar
