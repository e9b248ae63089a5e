// Binding: a tensor's view written down as the halide_buffer_t that compiled kernels read.
#pragma once

#include <HalideRuntime.h>

#include <cstdint>

#include "runtime/tensor/shape.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::detail {

/// How kernels see an element: f16 and bf16 as their bits, bool as a byte.
halide_type_t halide_type(DType dtype);

/// What the `device` field of an OpenCL buffer points to. The layout is Halide's own (src/runtime/opencl.cpp).
struct OpenClHandle {
  uint64_t offset;  ///< in bytes; other than 0 it makes Halide create a sub-buffer
  void* memory;     ///< cl_mem
};

/// A bound argument; not to be copied or moved, since the buffer points into it.
struct Binding {
  halide_buffer_t buffer;
  halide_dimension_t dimensions[kMaxRank + 1];
  OpenClHandle handle;

  Binding() = default;
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  /// Inputs point at the storage's base and carry the offset in one more, outermost dimension {min: -offset,
  /// extent: offset + 1, stride: 1}, which kernels read at coordinate 0. So the base's alignment is always known. Where
  /// the kernel doesn't take any innermost stride (`is_strided`), it may count on 1.
  void input(const Tensor& x, bool is_strided);
  /// Outputs and scratch point at their first element. Precondition: output_is_aligned(x).
  void output(const Tensor& x);

 private:
  /// Kernels may count on stride 1; where the size is 1, the view's own stride says nothing.
  void make_innermost_dense(const Tensor& x);
  void point_at(const Tensor& x, int64_t byte_offset, int dimension_count);
};

/// Whether the device can store to this view in place.
bool output_is_aligned(const Tensor& x);

/// Elements from the first to the last in memory, inclusive: what 32-bit index arithmetic has to reach. Not empty.
int64_t span_of(const Tensor& x);

}  // namespace ashlar::detail
