// Canonical forms: how a public call on tensors of any rank and stride becomes a call of a kernel compiled for a few.
// One function per Form of runtime/launch/kernel.h. The typed functions that the build generates (ashlar/ops/*.h) call
// these.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/launch/launch.h"

namespace ashlar {

/// Axes to reduce; empty means all.
using Axes = Shape;

/// Fused after a contraction.
enum class Activation : uint8_t { none, relu, gelu };

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  std::optional<Tensor> bias = {};  ///< [n], added to every row
  Activation activation = Activation::none;
  /// f32 factors may be rounded to TF32 where that is quicker (on a GPU with cuBLASLt); error ≤ 2^-10 Σ|terms|.
  bool allow_tf32 = false;
};

namespace forms {

/// Declared ranks and shapes, dense. Outputs come back in the order of declaration; an in-place output is its input.
std::vector<Tensor> plain(const KernelInfo& kernel, std::span<const Tensor> inputs, std::span<const Scalar> scalars,
                          uint8_t variant = 0);

/// y[i] = f(x1[i], …): all of one shape (else ShapeError), any rank and strides.
std::vector<Tensor> pointwise(const KernelInfo& kernel, std::span<const Tensor> inputs,
                              std::span<const Scalar> scalars = {});

/// y = f(a, b, …) with NumPy broadcasting, any rank and strides.
Tensor broadcast(const KernelInfo& kernel, std::span<const Tensor> inputs, std::span<const Scalar> scalars = {});

/// Kernels over dense [rows, columns] where the columns are `axis` of the first input. Inputs of the first one's rank
/// are brought into the same form; inputs of one rank less are per row. Outputs of rank 2 come back in the first
/// input's shape, outputs of rank 1 in that shape without `axis`.
std::vector<Tensor> rows(const KernelInfo& kernel, std::span<const Tensor> inputs, int64_t axis,
                         std::span<const Scalar> scalars = {});

/// Reduces `axes`. The kernel's accumulator dtype is cast back to the input's, unless its output dtype is fixed.
/// `scalars` are the kernel's, but for `chunk` and `scale`, which the form gives.
Tensor reduction(const KernelInfo& kernel, const Tensor& x, const Axes& axes, bool keepdim,
                 std::span<const Scalar> scalars = {});

/// c[…, m, n] = Σ_k a[…, m, k] · b[…, k, n]; batch axes broadcast; rank 1 operands as in NumPy's matmul.
Tensor contraction(const KernelInfo& kernel, const Tensor& a, const Tensor& b, const MatmulOptions& options);

}  // namespace forms
}  // namespace ashlar
