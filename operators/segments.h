// The source of a scatter, sorted by where it goes: what has one place is a segment.
#pragma once

#include "runtime/launch/kernel.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// The terms' places: [outer, count, inner], or one row of places for all lines.
struct Places {
  Tensor index;
  bool shared = false;
  int64_t skip = -1;  ///< a place that gets nothing
};

/// Order [outer, count, inner] and starts [outer, n + 1, inner] (i32): terms order[o, starts[o,p,i] … starts[o,p+1,i],
/// i] go to place p, in the order of the source.
struct Segments {
  Tensor order, starts;
};
Segments sorted_segments(const Places& places, int64_t outer, int64_t n, int64_t inner);

/// [o,j,i] of rows [(o,i), j], or of one row for all (o, i).
Tensor as_lines(const Tensor& rows, bool shared, int64_t outer, int64_t inner);

/// Whether, of that many terms, a thread of a GPU (or a task of the CPU) had better walk along the line itself: one
/// launch in place of a sort.
bool walks_along_lines(const KernelInfo& operation, Device device, int64_t count);

}  // namespace ashlar
