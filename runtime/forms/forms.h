// What the typed functions that the build generates (ashlar/ops/*.h) stand on: the types of the forms' options, and
// the forms whose options have a type of their own as functions.
#pragma once

#include <span>
#include <vector>

#include "runtime/forms/library.h"
#include "runtime/launch/form.h"
#include "runtime/launch/launch.h"

namespace ashlar {

/// Axes to reduce; empty means all.
using Axes = Shape;

/// Fused after a contraction.
enum class Activation : uint8_t { none, relu, gelu };

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  Activation activation = Activation::none;
  /// f32 factors may be rounded to TF32 where that is quicker (on a GPU with cuBLASLt); error ≤ 2^-10 Σ|terms|.
  bool allow_tf32 = false;
};

namespace forms {

/// Kernels over dense [rows, columns] where the columns are `axis` of the first input. The other arguments' axes say
/// what they are (Argument::axes): of the first input's shape, of that shape without `axis` (per row), or [columns].
/// Optional inputs may be undefined. Outputs come back in the same shapes.
std::vector<Tensor> rows(const KernelInfo& kernel, std::span<const Tensor> inputs, int64_t axis,
                         std::span<const Scalar> scalars = {}, uint16_t variant = 0);

/// Reduces `axes`. The kernel's accumulator dtype is cast back to the input's, unless its output dtype is fixed.
/// `scalars` are the kernel's, but for `chunk` and `scale`, which the form gives.
Tensor reduction(const KernelInfo& kernel, const Tensor& x, const Axes& axes, bool keepdim,
                 std::span<const Scalar> scalars = {}, uint16_t variant = 0);

/// c[…, m, n] = Σ_k a[…, m, k] · b[…, k, n] + bias[n] of `inputs` a, b and bias; batch axes broadcast; rank 1 operands
/// as in NumPy's matmul; the bias may be undefined or missing. A `result` that is given, dense and of the result's
/// shape, takes it.
Tensor contraction(const KernelInfo& kernel, std::span<const Tensor> inputs, const MatmulOptions& options,
                   std::span<const Scalar> scalars = {}, uint16_t variant = 0, const Tensor& result = {});

}  // namespace forms
}  // namespace ashlar
