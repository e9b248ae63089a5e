// A product whose operands lie so that its tiles read them element by element can be quicker on copies of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "runtime/launch/kernel.h"
#include "runtime/launch/quads.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::forms {

/// Which operands of a product are copied first.
struct AlignedOperands {
  static constexpr int64_t kQuad = detail::kQuad;
  bool left = false, right = false;
  double microseconds = -1;  ///< what the product takes so by the model, with its copies; -1: there's none
};

/// y = a·b, all [m, k], [k, n], [m, n] or batches of these.
struct ProductOperands {
  const Tensor &a, &b, &y;
};

/// What the product takes by its plans' model with these operands copied, but without the copies; -1: there's no model.
using AlignedModel = std::function<double(const AlignedOperands&)>;

/// By the plans "aligned_operands" (both) and "as_they_stand" (runtime/launch/plans.h), the choice by the model and
/// what it takes to copy: of one operand, both, or none. `numbers`: at most two more that the model's answers depend
/// on.
AlignedOperands aligned_operands(const KernelInfo& kernel, const ProductOperands& operands,
                                 std::span<const int64_t> numbers, const AlignedModel& model);

/// Memory for [batch…, rows, columns] in the shape of x but for these, whose rows begin at whole quads; unwritten.
Tensor room_for_aligned(const Tensor& x, int64_t rows, int64_t columns);
/// x there, its further rows 0; what is in further columns is unwritten.
Tensor laid_aligned(const Tensor& x, int64_t rows, int64_t columns);
/// As such memory lies, for models: it's x's own, and never read or written.
Tensor imagined_aligned(const Tensor& x, int64_t rows, int64_t columns);

}  // namespace ashlar::forms
