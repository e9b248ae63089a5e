#include "tests/conformance/inputs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "runtime/tensor/storage.h"
#include "runtime/tensor/transfer.h"

namespace ashlar::conformance {
namespace {

Placement place(const Shape& shape, Layout layout) {
  Placement placement{dense_strides(shape)};
  const int last = shape.rank() - 1;
  if (last < 0) return placement;
  if (layout == Layout::transposed && last == 0) layout = Layout::stepped;
  Shape stored = shape;
  switch (layout) {
    case Layout::dense:
      break;
    case Layout::offset:
      placement.offset = 3;
      break;
    case Layout::transposed:
      std::swap(stored[last], stored[last - 1]);
      placement.strides = dense_strides(stored);
      std::swap(placement.strides[last], placement.strides[last - 1]);
      break;
    case Layout::stepped:
      stored[last] *= 2;
      placement.strides = dense_strides(stored);
      placement.strides[last] = 2;
      placement.offset = 1;
      break;
    case Layout::flipped:
      placement.strides[last] = -1;
      placement.offset = shape[last] - 1;
      break;
    case Layout::broadcast_first:
    case Layout::broadcast_last: {
      const int axis = layout == Layout::broadcast_first ? 0 : last;
      stored[axis] = 1;
      placement.strides = dense_strides(stored);
      placement.strides[axis] = 0;
      break;
    }
  }
  return placement;
}

// Elements of T, and the same as doubles: of the types that C++ knows by its own conversions, a whole array at once.
template <class T>
struct Storage {
  static constexpr bool kIsKnown = std::is_arithmetic_v<T>;

  static std::vector<std::byte> stored(const std::vector<double>& values, DType dtype) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    T* elements = reinterpret_cast<T*>(bytes.data());
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (kIsKnown) {
        elements[i] = static_cast<T>(values[i]);
      } else {
        store(values[i], dtype, &elements[i]);
      }
    }
    return bytes;
  }
  static Tensor upload(const std::vector<std::byte>& bytes, Device device) {
    const std::span elements(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
    return Tensor::from(elements, {static_cast<int64_t>(elements.size())}, device);
  }
  static std::vector<double> download(const Tensor& tensor) {
    const auto elements = tensor.to_vector<T>();
    if constexpr (kIsKnown) {
      return {elements.begin(), elements.end()};
    } else {
      std::vector<double> values(elements.size());
      load_all(tensor.dtype(), elements.data(), values);
      return values;
    }
  }
};

template <class Use>
auto with_storage(DType dtype, Use use) {
  switch (dtype) {
    case DType::f32:
      return use(Storage<float>{});
    case DType::f16:
      return use(Storage<Half>{});
    case DType::bf16:
      return use(Storage<BFloat16>{});
    case DType::f64:
      return use(Storage<double>{});
    case DType::i32:
      return use(Storage<int32_t>{});
    case DType::i64:
      return use(Storage<int64_t>{});
    case DType::u8:
      return use(Storage<uint8_t>{});
    case DType::u32:
      return use(Storage<uint32_t>{});
    case DType::i8:
      return use(Storage<int8_t>{});
    case DType::u16:
      return use(Storage<uint16_t>{});
    case DType::i16:
      return use(Storage<int16_t>{});
    case DType::boolean:
      break;
  }
  return use(Storage<bool>{});
}

std::vector<std::byte> stored(const std::vector<double>& values, DType dtype) {
  return with_storage(dtype, [&](auto storage) { return storage.stored(values, dtype); });
}

Tensor upload_flat(const std::vector<std::byte>& bytes, DType dtype, Device device) {
  return with_storage(dtype, [&](auto storage) { return storage.upload(bytes, device); });
}

// Without elements.
Drawn blank(const Input& input, DType dtype) {
  return {.host = {input.shape, {}, input.dtype.value_or(dtype)},
          .placement = input.placement ? *input.placement : place(input.shape, input.layout),
          .is_dense = !input.placement && (input.layout == Layout::dense || input.shape.numel() == 0),
          .stored = {}};
}

// Up to the element that lies furthest behind.
int64_t stored_count(const Shape& shape, const Placement& placement) {
  int64_t count = placement.offset + 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (placement.strides[i] > 0) count += placement.strides[i] * (shape[i] - 1);
  }
  return count;
}

// What lies between the elements of a view: a kernel that reads it shows.
double poison(DType dtype) {
  switch (dtype) {
    case DType::i32:
    case DType::i64:
    case DType::u32:
      return std::numeric_limits<int32_t>::max();
    case DType::i16:
    case DType::u16:
      return std::numeric_limits<int16_t>::max();
    case DType::i8:
      return 127;
    case DType::u8:
      return 255;
    case DType::boolean:
      return 1;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace

Tensor Drawn::tensor(Device device) const {
  const Shape& shape = host.shape;
  if (shape.numel() == 0) {
    if (is_dense) return Tensor::empty(shape, host.dtype, device);
    const Tensor storage = Tensor::empty({placement.offset + 1}, host.dtype, device);
    return storage.as_strided(shape, placement.strides, placement.offset);
  }
  const Tensor flat = upload_flat(stored, host.dtype, device);
  return is_dense ? flat.reshape(shape) : flat.as_strided(shape, placement.strides, placement.offset);
}

Drawn drawn(const Input& input, DType dtype, uint64_t seed) {
  dtype = input.dtype.value_or(dtype);
  Drawn one = blank(input, dtype);
  if (input.shape.numel() == 0) return one;
  const Placement& placement = one.placement;
  std::vector<double> values = draw(input.values, stored_count(input.shape, placement), dtype, seed);
  if (one.is_dense) {
    one.stored = stored(values, dtype);
    one.host.values = std::move(values);
    return one;
  }
  std::vector<double> all(values.size() + 5, poison(dtype));
  one.host.values.reserve(static_cast<size_t>(input.shape.numel()));
  for_each_index(input.shape, placement.strides, [&](const Shape&, int64_t position) {
    const int64_t at = placement.offset + position;
    all[at] = values[at];
    one.host.values.push_back(values[at]);
  });
  one.stored = stored(all, dtype);
  return one;
}

const std::vector<Drawn>& DrawnCase::inputs() {
  if (inputs_) return *inputs_;
  std::vector<Drawn> inputs;
  for (size_t i = 0; i < item_.inputs.size(); ++i) inputs.push_back(drawn(item_.inputs[i], dtype_, seed() + i));
  return inputs_.emplace(std::move(inputs));
}

std::vector<HostTensor> DrawnCase::hosts() {
  std::vector<HostTensor> hosts;
  for (const Drawn& input : inputs()) hosts.push_back(input.host);
  return hosts;
}

std::vector<Tensor> DrawnCase::tensors(Device device) {
  std::vector<Tensor> tensors;
  for (const Drawn& input : inputs()) tensors.push_back(input.tensor(device));
  return tensors;
}

std::vector<Tensor> blank_tensors(const Case& item, DType dtype, Device device) {
  constexpr size_t kWord = sizeof(int32_t);
  std::vector<Tensor> tensors;
  for (const Input& input : item.inputs) {
    Drawn one = blank(input, dtype);
    const int64_t count = input.shape.numel() == 0 ? 0 : stored_count(input.shape, one.placement);
    one.stored.resize(static_cast<size_t>(count * size_of(one.host.dtype)));
    for (size_t i = 0; i < one.stored.size(); i += kWord) one.stored[i] = std::byte{1};
    tensors.push_back(one.tensor(device));
  }
  return tensors;
}

Made make(const Input& input, DType dtype, Device device, uint64_t seed) {
  Drawn one = drawn(input, dtype, seed);
  Tensor tensor = one.tensor(device);
  return {.host = std::move(one.host), .tensor = std::move(tensor)};
}

Tensor upload(const HostTensor& host, Device device) {
  return upload_flat(stored(host.values, host.dtype), host.dtype, device).reshape(host.shape);
}

HostTensor download(const Tensor& tensor) {
  return {tensor.shape(), with_storage(tensor.dtype(), [&](auto storage) { return storage.download(tensor); }),
          tensor.dtype()};
}

std::vector<std::byte> element_bytes(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
  const Tensor dense = tensor.contiguous();
  const int64_t offset = dense.offset() * size_of(dense.dtype());
  detail::copy_to_host(bytes.data(), *dense.storage(), offset, dense.bytes());
  return bytes;
}

// In one go, which == of vectors of std::byte isn't.
bool same_bytes(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

std::vector<std::byte> storage_bytes(const Tensor& tensor) {
  detail::Storage& storage = *tensor.storage();
  std::vector<std::byte> bytes(static_cast<size_t>(storage.bytes() - storage.begin()));
  detail::copy_to_host(bytes.data(), storage, storage.begin(), storage.bytes() - storage.begin());
  return bytes;
}

}  // namespace ashlar::conformance
