// Making tensors and asking about them.
#include "runtime/tensor/tensor.h"

#include "runtime/device/stream_state.h"
#include "runtime/forms/movement.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/transfer.h"

namespace ashlar {

namespace {

int64_t checked_bytes(const char* operation, const Shape& shape, DType dtype) {
  for (int64_t size : shape) {
    if (size < 0) throw ShapeError(operation, shape.str(), "sizes of 0 or more", "Check how the shape was computed");
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes)) {
    throw ShapeError(operation, shape.str() + " of " + std::string(name_of(dtype)), "fewer than 2^63 bytes",
                     "Use smaller sizes");
  }
  return bytes;
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) try {
  const int64_t bytes = checked_bytes("Tensor::empty", shape, dtype);
  return Tensor(detail::Storage::create(bytes, device), shape, dense_strides(shape), 0, dtype);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::empty");
}

Tensor Tensor::full(const Shape& shape, Number value, DType dtype, Device device) {
  const Tensor result = empty(shape, dtype, device);
  result.fill_(value);
  return result;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }

Tensor Tensor::ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }

Tensor Tensor::from_bytes(const void* data, size_t count, DType dtype, const Shape& shape, Device device) try {
  const int64_t bytes = checked_bytes("Tensor::from", shape, dtype);
  if (count != static_cast<size_t>(shape.numel())) {
    throw ShapeError("Tensor::from", std::to_string(count) + " values for the shape " + shape.str(),
                     std::to_string(shape.numel()) + " values", "Give one value for every element");
  }
  const Tensor result = empty(shape, dtype, device);
  detail::copy_from_host(*result.storage_, 0, data, bytes);
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::from");
}

Tensor Tensor::borrow_bytes(void* data, DType dtype, const Shape& shape) try {
  const int64_t bytes = checked_bytes("Tensor::borrow", shape, dtype);
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(dtype)) != 0) {
    throw ValueError("Tensor::borrow", "a pointer that is no multiple of " + std::to_string(size_of(dtype)),
                     "the alignment of " + std::string(name_of(dtype)), "Copy the values with Tensor::from()");
  }
  std::shared_ptr<detail::Storage> storage = detail::Storage::borrow(data, bytes);
  const int64_t offset = storage->begin() / size_of(dtype);
  return Tensor(std::move(storage), shape, dense_strides(shape), offset, dtype);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::borrow");
}

void Tensor::check_defined(const char* operation) const {
  if (!defined()) {
    throw ValueError(operation, "an undefined tensor", "a tensor with elements",
                     "Make one with Tensor::empty(), Tensor::from() or an operator first");
  }
}

Device Tensor::device() const {
  check_defined("Tensor::device");
  return storage_->device();
}

int64_t Tensor::size(int64_t axis) const { return shape_[normalize_axis("Tensor::size", axis, rank())]; }

bool Tensor::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t stride = 1;
  for (int i = rank() - 1; i >= 0; i--) {
    if (shape_[i] != 1 && strides_[i] != stride) return false;
    stride *= shape_[i];
  }
  return true;
}

std::string Tensor::str() const {
  if (!defined()) return "undefined";
  return std::string(name_of(dtype_)) + shape_.str() + " on " + device().str();
}

uint64_t Tensor::version() const {
  check_defined("Tensor::version");
  return storage_->version();
}

void Tensor::bump_version() const {
  check_defined("Tensor::bump_version");
  storage_->bump();
}

void* Tensor::data() const {
  check_defined("Tensor::data");
  if (storage_->host() == nullptr) {
    throw DeviceError("Tensor::data", str(), "a tensor on the CPU", "Copy it there with to(Device::cpu())");
  }
  detail::refuse_in_capture(detail::current_stream(Device::cpu()), "Tensor::data");
  return storage_->host() + offset_ * size_of(dtype_);
}

}  // namespace ashlar
