// Fewer dimensions for the same elements, over several operands at once.
#pragma once

#include <functional>
#include <vector>

#include "runtime/launch/launch.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::forms {

/// How large the pieces of a larger tensor may be.
inline constexpr int64_t kMaxElements = kMostElements;

/// Nested loops over `sizes`, outermost first, with the strides of every operand along them.
struct Loops {
  Shape sizes;
  std::vector<Shape> strides;
};

/// Drops dimensions of size 1 and merges a dimension with the next where every operand steps evenly across the two:
/// stride[i] = size[i + 1] · stride[i + 1]. The elements keep their row-major order.
Loops collapse(const Shape& sizes, const std::vector<Shape>& strides);

/// Reorders the dimensions so that the first operand's strides fall from the outermost to the innermost.
void sort_by_first(Loops& loops);

/// Moves those loops outside, but for the innermost two, that cost least there, where there are more than `rank`:
/// for_each_piece() makes a piece of each of their steps. Short ones do, and those whose steps leave the first operand,
/// which is written, aligned.
void sort_for_few_pieces(Loops& loops, int rank);

/// Calls `run(piece, offsets)` for pieces of at most `rank` dimensions and kMaxElements elements that together make
/// `loops`; `offsets` are elements to add to each operand's own offset.
void for_each_piece(const Loops& loops, int rank,
                    const std::function<void(const Loops& piece, const std::vector<int64_t>& offsets)>& run);

/// The `operand`-th operand of a piece as a tensor of exactly `rank` dimensions, with sizes of 1 added outside.
Tensor piece_of(const Tensor& tensor, const Loops& piece, int operand, int64_t offset, int rank);

/// Whether any step goes backwards.
bool has_negative_strides(const Tensor& tensor);

/// `tensor` itself, or a dense copy where a stride is negative: only the movement kernels take those.
Tensor without_negative_strides(const Tensor& tensor);

/// The elements of `tensor`, dense and with exactly dense_strides(shape), as `shape` (of as many elements).
Tensor dense_as(const Tensor& tensor, const Shape& shape);

}  // namespace ashlar::forms
