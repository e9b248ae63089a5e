// Packed sequences of several lengths, with rows of their own and back (generators/ragged.cpp).
#include "ashlar/ops/ragged.h"

#include <array>
#include <bit>
#include <string>

#include "operators/ragged.h"
#include "runtime/forms/carrier.h"
#include "runtime/forms/check.h"
#include "runtime/graph/graph.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {

Tensor checked_offsets(const char* operation, const char* name, const Tensor& x, const Tensor& offsets, int64_t total,
                       int64_t longest) {
  if (!x.defined() || !offsets.defined()) {
    throw ValueError(operation, "an undefined tensor", "tensors with elements", "Give one for each input");
  }
  const std::string came = std::string(name) + ": " + offsets.str();
  if (offsets.dtype() != DType::i64 && offsets.dtype() != DType::i32) {
    throw DTypeError(operation, came, "offsets of i64 or i32", "Convert them with to(DType::i64)");
  }
  if (offsets.device() != x.device()) {
    throw DeviceError(operation, x.str() + ", " + came, "both on one device", "Move one of them with to(device)");
  }
  if (offsets.rank() != 1 || offsets.numel() == 0) {
    throw ShapeError(operation, came, "offsets [sequences + 1]",
                     "Give where each sequence begins, and where the last one ends");
  }
  const Tensor wide = offsets.to(DType::i64).contiguous();
  if (x.device().kind != DeviceKind::cpu || is_capturing(x.device())) return wide;
  const auto* values = static_cast<const int64_t*>(wide.data());
  for (int64_t i = 0; i < wide.numel(); i++) {
    const int64_t last = i == 0 ? 0 : values[i - 1];
    if (values[i] < last || values[i] > total) {
      throw IndexError(operation, std::string(name) + "[" + std::to_string(i) + "] = " + std::to_string(values[i]),
                       "offsets that rise from 0 to " + std::to_string(total) + " at most, the number of packed rows",
                       "Add up the sequences' lengths");
    }
    if (i > 0 && values[i] - last > longest) {
      throw ValueError(
          operation,
          "sequence " + std::to_string(i - 1) + " of " + std::to_string(values[i] - last) + " rows by " + name,
          std::to_string(longest) + " rows at most", "Give the longest sequence's length");
    }
  }
  return wide;
}

namespace {

void check_size(const char* operation, const char* name, int64_t size) {
  if (size >= 0) return;
  throw ValueError(operation, std::string(name) + " = " + std::to_string(size), "0 or more", "It is a number of rows");
}

[[noreturn]] void refuse_shape(const char* operation, const Tensor& x, const char* needed) {
  throw ShapeError(operation, x.str(), needed, "Use reshape()");
}

/// The sizes behind the first `leading` axes as two, [heads, width]: what strides allow of [heads, …] stays a view.
Shape trailing_sizes(const Shape& shape, int leading) {
  Shape sizes{1, 1};
  if (shape.rank() > leading + 1) sizes[0] = shape[leading];
  for (int axis = leading + (shape.rank() > leading + 1 ? 1 : 0); axis < shape.rank(); axis++) sizes[1] *= shape[axis];
  return sizes;
}

KernelKey key_for(const Tensor& x) { return {.elements = {forms::carrier(x.dtype())}}; }

/// The bits of what is given for a row that has none: NaN, or 0 of integers.
int64_t bits_of_nothing(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x7fc00000;
    case DType::f64:
      return 0x7ff8000000000000;
    case DType::f16:
      return 0x7e00;
    case DType::bf16:
      return 0x7fc0;
    default:
      return 0;
  }
}

/// values [total, …] to [batch, rows, …]
Tensor padded(const Tensor& values, const Tensor& offsets, int64_t rows, bool align_right) {
  const int64_t batch = offsets.numel() - 1;
  Shape shape{batch, rows};
  for (int axis = 1; axis < values.rank(); axis++) shape.push_back(values.shape()[axis]);
  if (values.numel() == 0) return Tensor::zeros(shape, values.dtype(), values.device());
  const Tensor y = Tensor::empty(shape, values.dtype(), values.device());
  if (y.numel() == 0) return y;
  const Shape sizes = trailing_sizes(values.shape(), 1);
  const Tensor x =
      forms::as_declared(kernels::padded_rows, 0, forms::as_carrier(values), {values.size(0), sizes[0], sizes[1]});
  const Tensor out = forms::as_carrier(y).reshape({batch, rows, sizes[0], sizes[1]});
  launch(kernels::padded_rows, key_for(values), std::array{x, offsets},
         std::array<Scalar, 2>{rows, int64_t{align_right}}, std::span(&out, 1));
  return y;
}

/// x [batch, rows, …] to [total, …]
Tensor packed(const Tensor& x, const Tensor& offsets, int64_t total, bool align_right) {
  const int64_t batch = x.size(0), rows = x.size(1);
  Shape shape{total};
  for (int axis = 2; axis < x.rank(); axis++) shape.push_back(x.shape()[axis]);
  if (x.numel() == 0) return Tensor::zeros(shape, x.dtype(), x.device());
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const Shape sizes = trailing_sizes(x.shape(), 2);
  const Tensor in =
      forms::as_declared(kernels::packed_rows, 0, forms::as_carrier(x), {batch, rows, sizes[0], sizes[1]});
  const Tensor out = forms::as_carrier(y).reshape({total, sizes[0], sizes[1]});
  const std::array<Scalar, 4> scalars{rows, int64_t{align_right},
                                      static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(batch))),
                                      bits_of_nothing(x.dtype())};
  launch(kernels::packed_rows, key_for(x), std::array{in, offsets}, scalars, std::span(&out, 1));
  return y;
}

}  // namespace

Tensor jagged_to_padded(const Tensor& values, const Tensor& offsets, int64_t max_length, bool align_right) try {
  check_size("jagged_to_padded", "max_length", max_length);
  if (values.defined() && values.rank() == 0) refuse_shape("jagged_to_padded", values, "values [rows, …]");
  const int64_t total = values.defined() ? values.size(0) : 0;
  return padded(values, checked_offsets("jagged_to_padded", "offsets", values, offsets, total, max_length), max_length,
                align_right);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("jagged_to_padded");
}

Tensor padded_to_jagged(const Tensor& x, const Tensor& offsets, int64_t total, bool align_right) try {
  check_size("padded_to_jagged", "total", total);
  if (x.defined() && x.rank() < 2) refuse_shape("padded_to_jagged", x, "padded [sequences, rows, …]");
  const int64_t rows = x.defined() ? x.size(1) : 0;
  const Tensor wide = checked_offsets("padded_to_jagged", "offsets", x, offsets, total, rows);
  if (wide.numel() != x.size(0) + 1) {
    throw ShapeError("padded_to_jagged", "padded: " + x.str() + ", offsets: " + offsets.str(),
                     "an offset more than sequences", "Give where each begins, and where the last one ends");
  }
  return packed(x, wide, total, align_right);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("padded_to_jagged");
}

}  // namespace ashlar
