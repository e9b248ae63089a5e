// How varlen_attn() lays its sequences out, for itself and for its gradient.
#pragma once

#include "runtime/tensor/tensor.h"

namespace ashlar {

/// Sequences with rows for the longest, each at the end of its rows. Where the last query of each sees its last key,
/// query row q of all sees key rows up to q + keys - queries.
struct RaggedLayout {
  Tensor offsets_q, offsets_k;  ///< i64 [batch + 1]
  int64_t queries, keys;        ///< rows of each sequence; causal: at least as many of keys as of queries
  int64_t diagonal = 0;         ///< the form Attention's is_causal: 0, or 1 + keys - queries
  Tensor mask;                  ///< bool [batch, 1, 1, keys]: where there is a key

  /// max_q and max_k are 0 for as many as there are. Throws ValueError, DTypeError, DeviceError, ShapeError and, on the
  /// CPU, IndexError.
  RaggedLayout(const Tensor& query, const Tensor& key, const Tensor& cu_seq_q, const Tensor& cu_seq_k, int64_t max_q,
               int64_t max_k, bool is_causal);
};

}  // namespace ashlar
