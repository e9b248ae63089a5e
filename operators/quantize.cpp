// Eight-bit integers with a scale for each block (generators/quantize.cpp).
#include "ashlar/ops/quantize.h"

#include <array>

#include "runtime/forms/check.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {

QuantizeInt8Result quantize_int8(const Tensor& x, int64_t block_size) try {
  forms::key_of(kernels::quantize_int8, {.inputs = std::span(&x, 1)});
  const int64_t last = x.rank() == 0 ? 1 : x.size(-1);
  const int64_t block = block_size == 0 ? last : block_size;
  if (block_size < 0 || (last > 0 && last % block != 0)) {
    throw ValueError("quantize_int8", "block_size = " + std::to_string(block_size) + " of " + x.str(),
                     "a size that divides the last axis, or 0 for the whole of it", "Pad the last axis");
  }
  const int64_t blocks = last == 0 ? 0 : last / block;
  Shape scales = x.rank() == 0 ? Shape{1} : x.shape();
  scales[scales.rank() - 1] = blocks;
  const Shape rows{scales.numel(), last == 0 ? 0 : block};
  const auto [values, scale] = quantize_rows(x.contiguous().reshape(rows));
  return {values.reshape(x.shape()), scale.reshape(scales)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("quantize_int8");
}

Tensor dequantize_int8(const Tensor& values, const Tensor& scale) try {
  forms::key_of(kernels::dequantize_int8, {.inputs = std::array{values, scale}});
  const Shape whole = values.rank() == 0 ? Shape{1} : values.shape();
  Shape scales = scale.shape();
  const int64_t blocks = scales.rank() == 0 ? 0 : scales.back(), last = whole.back();
  bool fits = scales.rank() == whole.rank() && (blocks > 0 ? last % blocks == 0 : last == 0);
  if (fits) {
    scales[scales.rank() - 1] = last;
    fits = scales == whole;
  }
  if (!fits) {
    throw ShapeError("dequantize_int8", "values: " + values.str() + ", scale: " + scale.str(),
                     "a scale for each block of the last axis, all blocks of one size",
                     "Give what quantize_int8 returned");
  }
  const Shape rows{scale.numel(), blocks > 0 ? last / blocks : 0};
  return dequantize_rows(values.contiguous().reshape(rows), scale.contiguous().reshape({scale.numel()}))
      .reshape(values.shape());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("dequantize_int8");
}

}  // namespace ashlar
