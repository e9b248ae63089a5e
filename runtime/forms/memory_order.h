// Tensors that are dense but for the order of their dimensions, as a transpose is: elementwise calls on them, and
// results that lie as operands do.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/launch/form.h"

namespace ashlar::forms {

/// The strides that a result of this shape gets: those of the operands of that shape where all of them are alike,
/// without gaps, and in another order than row-major; else nothing. As in PyTorch; what broadcasts has no say.
std::optional<Shape> strides_in_other_order(const Shape& shape, std::span<const Tensor> operands);

/// Where all operands lie alike without gaps, but not in row-major order: calls `form` on them as they follow each
/// other in memory, and gives the results the operands' strides, as PyTorch does. Nothing where that isn't so, or where
/// the kernel writes in place. Inputs declared with rank 0 where others aren't are no operands, nor are single elements
/// where `broadcasts`.
std::optional<std::vector<Tensor>> call_along_memory(const KernelInfo& kernel, const FormCall& call,
                                                     std::vector<Tensor> (*form)(const KernelInfo&, const FormCall&),
                                                     bool broadcasts = false);

/// The first `count` axes of x from the outermost in memory to the innermost, those behind them as they are.
Shape axes_in_memory(const Tensor& x, int count);

/// What permute() takes to undo permute(axes).
Shape inverse_of(const Shape& axes);

/// Uninitialised, of x's dtype and device, and of a shape of its rank whose axes follow each other in memory as x's do,
/// rows dense.
Tensor empty_in_order_of(const Tensor& x, const Shape& shape);

/// The tensor without gaps whose parts along `axis` these are, one after the other and all of one size, where they lie;
/// nothing where there is none.
std::optional<Tensor> whole_of(std::span<const Tensor> parts, int axis);

/// Uninitialised, of the shapes of `like`, in whose order: parts of one tensor where those are, so that whoever joins
/// them has nothing to copy.
std::vector<Tensor> empty_as(std::span<const Tensor> like);

}  // namespace ashlar::forms
