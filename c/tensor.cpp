#include <algorithm>
#include <memory>

#include "c/handles.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/transfer.h"

using namespace ashlar;

namespace ashlar::c {

AshlarTensor* handle_of(Tensor tensor) {
  std::string device = tensor.device().str();
  return new AshlarTensor{std::move(tensor), std::move(device)};
}

DType parse_dtype(const char* operation, const char* name) {
  check_given(operation, "dtype", name);
  std::string all;
  for (int i = 0; i < kDTypes; i++) {
    const auto dtype = static_cast<DType>(i);
    if (name_of(dtype) == name) return dtype;
    all += (i ? ", " : "") + std::string(name_of(dtype));
  }
  throw DTypeError(operation, "the element type " + std::string(name), "one of " + all, "Check the spelling");
}

Shape shape_of(const char* operation, size_t rank, const int64_t* sizes) {
  if (rank > 0) check_given(operation, "shape", sizes);
  Shape shape;
  for (size_t i = 0; i < rank; i++) shape.push_back(sizes[i]);  // throws beyond kMaxRank
  return shape;
}

Tensor borrowed(const char* operation, void* first, DType dtype, const Shape& shape, const Shape& strides,
                Device device, std::function<void()> release) {
  const int64_t width = size_of(dtype);
  int64_t lowest = 0, highest = 0;  // elements before and after the first
  bool is_empty = false;
  for (int i = 0; i < shape.rank(); i++) {
    if (shape[i] < 0) throw ShapeError(operation, "the shape " + shape.str(), "sizes of 0 or more", "Check the sizes");
    is_empty = is_empty || shape[i] == 0;
    (strides[i] < 0 ? lowest : highest) += (shape[i] - 1) * strides[i];
  }
  if (is_empty) return Tensor::empty(shape, dtype, device);
  const auto address = reinterpret_cast<uint64_t>(first);
  if (first == nullptr || address % static_cast<uint64_t>(width) != 0) {
    throw ValueError(operation, first ? "an address that is no multiple of " + std::to_string(width) : "data = NULL",
                     "the address of elements of " + std::string(name_of(dtype)), "Copy the elements to such a place");
  }
  auto* start = static_cast<char*>(first) + lowest * width;
  const auto storage = detail::Storage::borrow(start, (highest - lowest + 1) * width, device, std::move(release));
  return Tensor(storage, shape, strides, storage->begin() / width - lowest, dtype);
}

}  // namespace ashlar::c

namespace {

/// The elements, which are dense, as [offset, offset + bytes) of their storage.
void check_bytes(const char* operation, const Tensor& x, const void* data, size_t bytes) {
  if (bytes != static_cast<size_t>(x.bytes())) {
    throw ValueError(operation, std::to_string(bytes) + " bytes for " + x.str(), std::to_string(x.bytes()) + " bytes",
                     "Give the bytes of all its elements");
  }
  if (bytes > 0) c::check_given(operation, "data", data);
}

}  // namespace

AshlarStatus ashlar_tensor_create(const char* dtype, size_t rank, const int64_t* shape, const char* device,
                                  AshlarTensor** tensor) {
  constexpr const char* kName = "ashlar_tensor_create";
  return c::guarded([&] {
    c::check_given(kName, "tensor", tensor);
    *tensor = c::handle_of(
        Tensor::empty(c::shape_of(kName, rank, shape), c::parse_dtype(kName, dtype), c::parse_device(kName, device)));
  });
}

AshlarStatus ashlar_tensor_borrow(void* data, const char* dtype, size_t rank, const int64_t* shape,
                                  const int64_t* strides, const char* device, AshlarTensor** tensor) {
  constexpr const char* kName = "ashlar_tensor_borrow";
  return c::guarded([&] {
    c::check_given(kName, "tensor", tensor);
    const Shape sizes = c::shape_of(kName, rank, shape);
    const Shape steps = strides ? c::shape_of(kName, rank, strides) : dense_strides(sizes);
    *tensor = c::handle_of(
        c::borrowed(kName, data, c::parse_dtype(kName, dtype), sizes, steps, c::parse_device(kName, device)));
  });
}

AshlarStatus ashlar_tensor_view(const AshlarTensor* tensor, size_t rank, const int64_t* shape, const int64_t* strides,
                                int64_t offset, AshlarTensor** view) {
  constexpr const char* kName = "ashlar_tensor_view";
  return c::guarded([&] {
    c::check_given(kName, "tensor", tensor);
    c::check_given(kName, "view", view);
    const Shape sizes = c::shape_of(kName, rank, shape);
    const Shape steps = strides ? c::shape_of(kName, rank, strides) : dense_strides(sizes);
    *view = c::handle_of(tensor->tensor.as_strided(sizes, steps, tensor->tensor.offset() + offset));
  });
}

AshlarStatus ashlar_tensor_to(const AshlarTensor* tensor, const char* dtype, const char* device,
                              AshlarTensor** converted) {
  constexpr const char* kName = "ashlar_tensor_to";
  return c::guarded([&] {
    c::check_given(kName, "tensor", tensor);
    c::check_given(kName, "converted", converted);
    Tensor result = tensor->tensor;
    if (dtype != nullptr) result = result.to(c::parse_dtype(kName, dtype));
    if (device != nullptr) result = result.to(c::parse_device(kName, device));
    *converted = c::handle_of(std::move(result));
  });
}

AshlarStatus ashlar_tensor_write(const AshlarTensor* tensor, const void* data, size_t bytes) {
  constexpr const char* kName = "ashlar_tensor_write";
  return c::guarded([&] {
    c::check_given(kName, "tensor", tensor);
    const Tensor& to = tensor->tensor;
    check_bytes(kName, to, data, bytes);
    if (bytes == 0) return;
    const Tensor dense = to.is_contiguous() ? to : Tensor::empty(to.shape(), to.dtype(), to.device());
    detail::copy_from_host(*dense.storage(), dense.offset() * size_of(dense.dtype()), data, dense.bytes());
    if (to.is_contiguous()) {
      to.bump_version();
    } else {
      to.copy_(dense);
    }
  });
}

AshlarStatus ashlar_tensor_read(const AshlarTensor* tensor, void* data, size_t bytes) {
  constexpr const char* kName = "ashlar_tensor_read";
  return c::guarded([&] {
    c::check_given(kName, "tensor", tensor);
    check_bytes(kName, tensor->tensor, data, bytes);
    if (bytes == 0) return;
    const Tensor dense = tensor->tensor.contiguous();
    detail::copy_to_host(data, *dense.storage(), dense.offset() * size_of(dense.dtype()), dense.bytes());
  });
}

size_t ashlar_tensor_rank(const AshlarTensor* tensor) { return static_cast<size_t>(tensor->tensor.rank()); }
const int64_t* ashlar_tensor_shape(const AshlarTensor* tensor) { return tensor->tensor.shape().begin(); }
const int64_t* ashlar_tensor_strides(const AshlarTensor* tensor) { return tensor->tensor.strides().begin(); }
const char* ashlar_tensor_dtype(const AshlarTensor* tensor) { return name_of(tensor->tensor.dtype()).data(); }
const char* ashlar_tensor_device(const AshlarTensor* tensor) { return tensor->device.c_str(); }

void* ashlar_tensor_data(const AshlarTensor* tensor) {
  const Tensor& x = tensor->tensor;
  if (x.device().kind == DeviceKind::opencl) return nullptr;
  return reinterpret_cast<char*>(x.storage()->handle()) + x.offset() * size_of(x.dtype());
}

void ashlar_tensor_free(AshlarTensor* tensor) { delete tensor; }
