// rope: any axis of positions, as [outer, positions, inner, d] (generators/rope.cpp).
#include "ashlar/ops/rope.h"

#include <array>
#include <cmath>

#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {

namespace {

/// i64 [1] or [size of axis 0] to point at; of none, something.
Tensor checked_offsets(const Tensor& x, const Tensor& offsets, int axis) {
  if (!offsets.defined()) return Tensor::empty({1}, DType::i64, x.device());
  const std::string came = "x: " + x.str() + ", offsets: " + offsets.str();
  if (offsets.dtype() != DType::i64 && offsets.dtype() != DType::i32) {
    throw DTypeError("rope", came, "offsets of i64 or i32", "Convert them with to(DType::i64)");
  }
  if (offsets.device() != x.device()) {
    throw DeviceError("rope", came, "both on one device", "Move one of them with to(device)");
  }
  const bool is_one = offsets.numel() == 1 && offsets.rank() <= 1;
  if (!is_one && (axis == 0 || offsets.shape() != Shape{x.size(0)})) {
    throw ShapeError("rope", came + ", axis " + std::to_string(axis),
                     "one offset, or one for each index of axis 0 where positions are along another",
                     "Give one for each sequence");
  }
  return offsets.to(DType::i64).contiguous().reshape({offsets.numel()});
}

}  // namespace

Tensor rope(const Tensor& x, double base, int64_t offset, bool interleaved, int64_t axis, bool inverse,
            const Tensor& offsets) try {
  const int at = x.rank() < 2 ? 0 : normalize_axis("rope", axis, x.rank());
  if (x.rank() < 2 || at == x.rank() - 1 || x.shape().back() % 2 != 0) {
    throw ShapeError("rope", "x: " + x.str() + ", axis " + std::to_string(axis),
                     "an even size of the last axis, and positions along another",
                     "Give the axis of the positions, or reshape()");
  }
  constexpr int64_t kLargestPosition = 1 << 24;  // counted in f32
  if (!(base > 0) || offset < 0 || offset + x.shape()[at] > kLargestPosition) {
    throw ValueError("rope", "base = " + std::to_string(base) + ", offset = " + std::to_string(offset),
                     "a positive base, and positions from 0 to 2^24", "10000 is the base of the paper");
  }
  if (x.dtype() != DType::f32 && x.dtype() != DType::f16 && x.dtype() != DType::bf16) {
    throw DTypeError("rope", x.str(), "f32, f16 or bf16", "Convert with to(dtype)");
  }
  const Tensor begins = checked_offsets(x, offsets, at);
  Shape canonical{1, x.shape()[at], 1, x.shape().back()};
  for (int i = 0; i + 1 < x.rank(); i++) {
    if (i != at) canonical[i < at ? 0 : 2] *= x.shape()[i];
  }
  const Tensor y = Tensor::empty(canonical, DType::f32, x.device());
  if (y.numel() == 0) return Tensor::empty(x.shape(), x.dtype(), x.device());
  const KernelKey key{.elements = {DType::f32, DType::f32}, .variant = static_cast<uint16_t>(interleaved ? 1 : 0)};
  const std::array inputs{x.to(DType::f32).contiguous().reshape(canonical), begins};
  const std::array<Scalar, 4> scalars{std::log2(base), inverse ? -1.0 : 1.0, offset, int64_t{offsets.defined()}};
  launch(kernels::rope_turn, key, inputs, scalars, std::span(&y, 1));
  return y.reshape(x.shape()).to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("rope");
}

}  // namespace ashlar
