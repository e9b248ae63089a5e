#include "runtime/launch/bind.h"

#include <HalideRuntimeCuda.h>
#include <HalideRuntimeOpenCL.h>

#include <limits>
#include <numeric>

#include "runtime/device/stream_state.h"
#include "runtime/tensor/storage.h"

namespace ashlar::detail {
namespace {

constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

/// Strides of dimensions of size 0 or 1 mean nothing: some value that fits.
int32_t stride_of(const Tensor& x, int axis) {
  const int64_t stride = x.strides()[axis];
  if (x.shape()[axis] > 1) return static_cast<int32_t>(stride);
  return stride >= -kMostElements && stride <= kMostElements ? static_cast<int32_t>(stride) : 0;
}

/// Elements from the view's first element down to its lowest one in memory; 0 unless strides are negative.
int64_t reach_below(const Tensor& x) {
  int64_t below = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.strides()[axis] < 0) below -= (x.shape()[axis] - 1) * x.strides()[axis];
  }
  return below;
}

}  // namespace

halide_type_t halide_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {halide_type_float, 32};
    case DType::f16:
      return {halide_type_uint, 16};
    case DType::bf16:
      return {halide_type_uint, 16};
    case DType::f64:
      return {halide_type_float, 64};
    case DType::i32:
      return {halide_type_int, 32};
    case DType::i64:
      return {halide_type_int, 64};
    case DType::u8:
      return {halide_type_uint, 8};
    case DType::boolean:
      return {halide_type_uint, 8};
    case DType::u32:
      return {halide_type_uint, 32};
    case DType::i8:
      return {halide_type_int, 8};
    case DType::u16:
      return {halide_type_uint, 16};
    case DType::i16:
      return {halide_type_int, 16};
  }
  return {halide_type_handle, 64};
}

int64_t span_of(const Tensor& x) {
  int64_t reach = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t stride = x.strides()[axis];
    reach += (x.shape()[axis] - 1) * (stride < 0 ? -stride : stride);
  }
  return reach;
}

bool output_is_aligned(const Tensor& x) {
  const int64_t bytes = x.offset() * size_of(x.dtype());
  return bytes == 0 || bytes % x.storage()->home().owner().output_alignment() == 0;
}

void Binding::input(const Tensor& x, bool is_strided) {
  const int64_t width = size_of(x.dtype());
  // Halide computes indices in 32 bits: of a far offset, whole aligned stretches go into the pointer.
  int64_t folded = 0;
  if (x.offset() > kMostElements - span_of(x)) {
    const int64_t step = std::lcm(kBaseAlignment, x.storage()->home().owner().output_alignment());
    folded = (x.offset() - reach_below(x)) * width / step * step;
  }
  const auto offset = static_cast<int32_t>(x.offset() - folded / width);
  point_at(x, folded, x.rank() + 1);
  if (!is_strided) make_innermost_dense(x);
  dimensions[x.rank()] = halide_dimension_t(-offset, offset + 1, 1);
}

void Binding::output(const Tensor& x) {
  point_at(x, x.offset() * size_of(x.dtype()), x.rank());
  make_innermost_dense(x);
}

void Binding::make_innermost_dense(const Tensor& x) {
  if (x.rank() > 0 && x.shape()[x.rank() - 1] <= 1) dimensions[0].stride = 1;
}

void Binding::point_at(const Tensor& x, int64_t byte_offset, int dimension_count) {
  const Storage& storage = *x.storage();
  buffer = {};  // no dirty flag: Halide never has a reason to copy
  switch (storage.device().kind) {
    case DeviceKind::cpu:
      buffer.host = reinterpret_cast<uint8_t*>(storage.host() + byte_offset);
      break;
    case DeviceKind::opencl:
      handle = {static_cast<uint64_t>(byte_offset), reinterpret_cast<void*>(storage.handle())};
      buffer.device = reinterpret_cast<uint64_t>(&handle);
      buffer.device_interface = halide_opencl_device_interface();
      break;
    case DeviceKind::cuda:
      buffer.device = storage.handle() + static_cast<uint64_t>(byte_offset);
      buffer.device_interface = halide_cuda_device_interface();
      break;
  }
  buffer.type = halide_type(x.dtype());
  buffer.dimensions = dimension_count;
  buffer.dim = dimensions;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto size = static_cast<int32_t>(x.shape()[axis]);
    dimensions[x.rank() - 1 - axis] = halide_dimension_t(0, size, stride_of(x, axis));
  }
}

}  // namespace ashlar::detail
