#include "runtime/forms/attention_pieces.h"

#include <algorithm>

#include "runtime/support/rounding.h"

namespace ashlar::forms {
namespace {

// So many to a piece that all pieces have about as many, in multiples of `step`.
int64_t evenly(int64_t all, int64_t most, int64_t step = 1) {
  const int64_t pieces = detail::over(all, most);
  return detail::round_up(detail::over(all, pieces), step);
}

Tensor some(const Tensor& x, int axis, int64_t first, int64_t count) {
  return x.size(axis) == 1 || x.size(axis) == count ? x : x.slice(axis, first, first + count);
}

}  // namespace

Tensor AttentionPiece::of_queries(const Tensor& x) const {
  return some(some(of_batches(x), 1, head * sharing, heads * sharing), 2, query, queries);
}

Tensor AttentionPiece::of_keys(const Tensor& x) const { return some(of_batches(x), 1, head, heads); }

Tensor AttentionPiece::of_batches(const Tensor& x) const { return some(x, 0, batch, batches); }

Tensor with_heads(Tensor x, int missing) {
  if (missing > 0) x = x.unsqueeze(missing == 1 && x.rank() > 1 ? 1 : 0);
  return missing > 1 ? x.unsqueeze(0) : x;
}

Tensor with_dense_rows(const Tensor& x) {
  Shape strides = x.strides();
  bool fits = strides.back() == 1 || x.shape().back() <= 1;
  for (int axis = 0; axis < x.rank(); axis++) fits = fits && (strides[axis] >= 0 || x.shape()[axis] <= 1);
  if (!fits) return x.contiguous();
  for (int axis = 0; axis < x.rank(); axis++) {
    if (x.shape()[axis] <= 1) strides[axis] = 0;
  }
  strides[x.rank() - 1] = 1;
  return Tensor(x.storage(), x.shape(), strides, x.offset(), x.dtype());
}

std::vector<AttentionPiece> pieces_of_attention(const Tensor& query, const Tensor& key, int64_t bytes_of_pair,
                                                int64_t most_bytes) {
  constexpr int64_t kMostBatches = 65535;  // the third dimension of CUDA's grids
  constexpr int64_t kTileOfQueries = 64, kPadding = 128;
  const int64_t batches = query.size(0), heads = key.size(1), queries = query.size(2);
  AttentionPiece most{.batches = kMostBatches, .heads = heads, .sharing = query.size(1) / heads, .queries = queries};
  if (bytes_of_pair > 0) {
    const int64_t of_query = bytes_of_pair * (key.size(2) + kPadding) * most.sharing,
                  of_head = of_query * (queries + kPadding);
    const auto fitting = [most_bytes](int64_t of_one) { return std::max(most_bytes / of_one, int64_t{1}); };
    most.batches =
        evenly(batches, std::min(fitting(of_head * heads), std::max(kMostBatches / query.size(1), int64_t{1})));
    most.heads = evenly(heads, std::min(heads, fitting(of_head)));
    if (of_head > most_bytes) {
      most.queries =
          std::min(queries, evenly(queries, fitting(of_query * kTileOfQueries) * kTileOfQueries, kTileOfQueries));
    }
  }
  std::vector<AttentionPiece> pieces;
  AttentionPiece next = most;
  for (next.batch = 0; next.batch < batches; next.batch += most.batches) {
    next.batches = std::min(most.batches, batches - next.batch);
    for (next.head = 0; next.head < heads; next.head += most.heads) {
      next.heads = std::min(most.heads, heads - next.head);
      for (next.query = 0; next.query < queries; next.query += most.queries) {
        next.queries = std::min(most.queries, queries - next.query);
        pieces.push_back(next);
      }
    }
  }
  return pieces;
}

}  // namespace ashlar::forms
