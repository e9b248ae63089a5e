// Calls of attention whose scores don't fit into the memory that they may take, cut into pieces whose do.
#pragma once

#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::forms {

/// Part of a call on tensors [batch, heads, rows, width] or [batch, heads, rows]: some batches, heads of keys with the
/// heads of queries that share them, and queries.
struct AttentionPiece {
  int64_t batch = 0, batches, head = 0, heads, sharing, query = 0, queries;

  /// A view of what the piece has of queries, and of what there is one of for each query, or of keys and values, or of
  /// either where heads and queries aren't cut. An axis of one element, which a mask may broadcast, stays.
  Tensor of_queries(const Tensor& x) const;
  Tensor of_keys(const Tensor& x) const;
  Tensor of_batches(const Tensor& x) const;
};

/// [N, rows, width] and [rows, width], and what has one value for each row, with axes for the `missing` heads and
/// batches.
Tensor with_heads(Tensor x, int missing);

/// A view whose rows are dense and that nowhere steps backwards, or a copy.
Tensor with_dense_rows(const Tensor& x);

/// The pieces of a call, in the order of its batches, heads and queries. Each keeps `bytes_of_pair` for each query and
/// key, both padded to tiles, in `most_bytes`, or else has 64 queries of one head of keys. 0 bytes of a pair: one
/// piece, as far as CUDA's grids go.
std::vector<AttentionPiece> pieces_of_attention(const Tensor& query, const Tensor& key, int64_t bytes_of_pair,
                                                int64_t most_bytes);

}  // namespace ashlar::forms
