#include "tests/conformance/inputs.h"

#include <algorithm>
#include <limits>

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

template <class T>
struct Storage {
  static Tensor upload(const std::vector<double>& values, DType dtype, Device device) {
    std::vector<T> stored(values.size());
    for (size_t i = 0; i < values.size(); ++i) store(values[i], dtype, &stored[i]);
    return Tensor::from(std::span<const T>(stored), {static_cast<int64_t>(stored.size())}, device);
  }
  static std::vector<double> download(const Tensor& tensor) {
    const auto stored = tensor.to_vector<T>();
    std::vector<double> values(stored.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = load(tensor.dtype(), &stored[i]);
    return values;
  }
};

// std::vector<bool> has no addresses.
template <>
struct Storage<bool> {
  static Tensor upload(const std::vector<double>& values, DType, Device device) {
    const auto stored = std::make_unique<bool[]>(values.size());
    std::ranges::transform(values, stored.get(), [](double v) { return v != 0; });
    return Tensor::from(std::span<const bool>(stored.get(), values.size()), {static_cast<int64_t>(values.size())},
                        device);
  }
  static std::vector<double> download(const Tensor& tensor) {
    const auto stored = tensor.to_vector<bool>();
    return {stored.begin(), stored.end()};
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

Tensor upload_flat(const std::vector<double>& values, DType dtype, Device device) {
  return with_storage(dtype, [&](auto storage) { return storage.upload(values, dtype, device); });
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

Made make(const Input& input, DType dtype, Device device, uint64_t seed) {
  dtype = input.dtype.value_or(dtype);
  Made made{.host = {input.shape, {}, dtype}, .tensor = {}};
  const Placement placement = input.placement ? *input.placement : place(input.shape, input.layout);
  if (input.shape.numel() == 0) {
    made.tensor = Tensor::empty(input.shape, dtype, device);
    if (!input.placement) return made;
    made.tensor = Tensor::empty({placement.offset + 1}, dtype, device)
                      .as_strided(input.shape, placement.strides, placement.offset);
    return made;
  }
  int64_t stored_count = placement.offset + 1;
  for (int i = 0; i < input.shape.rank(); ++i) {
    if (placement.strides[i] > 0) stored_count += placement.strides[i] * (input.shape[i] - 1);
  }
  const bool dense = input.layout == Layout::dense && !input.placement;
  const std::vector<double> drawn = draw(input.values, stored_count, dtype, seed);
  std::vector<double> stored(drawn.size() + (dense ? 0 : 5), poison(dtype));
  made.host.values.reserve(static_cast<size_t>(input.shape.numel()));
  for_each_index(input.shape, placement.strides, [&](const Shape&, int64_t position) {
    const int64_t at = placement.offset + position;
    stored[at] = drawn[at];
    made.host.values.push_back(drawn[at]);
  });
  const Tensor flat = upload_flat(stored, dtype, device);
  made.tensor = dense ? flat.reshape(input.shape) : flat.as_strided(input.shape, placement.strides, placement.offset);
  return made;
}

Tensor upload(const HostTensor& host, Device device) {
  return upload_flat(host.values, host.dtype, device).reshape(host.shape);
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

std::vector<std::byte> storage_bytes(const Tensor& tensor) {
  detail::Storage& storage = *tensor.storage();
  std::vector<std::byte> bytes(static_cast<size_t>(storage.bytes() - storage.begin()));
  detail::copy_to_host(bytes.data(), storage, storage.begin(), storage.bytes() - storage.begin());
  return bytes;
}

}  // namespace ashlar::conformance
