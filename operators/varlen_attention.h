// Attention within packed sequences, for itself and for its gradients.
#pragma once

#include <array>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar {

/// The gradients by query, key and value, those that are `needed`, of a call of varlen_attn() that gave `logsumexp`.
/// delta [rows, heads]: Σ dy y of each query's head.
std::vector<Tensor> varlen_attn_gradients(const Tensor& dy, const Tensor& query, const Tensor& key, const Tensor& value,
                                          const Tensor& cu_seq_q, const Tensor& cu_seq_k, const Tensor& logsumexp,
                                          const Tensor& delta, int64_t max_q, int64_t max_k, bool is_causal,
                                          double scale, const std::array<bool, 3>& needed);

/// Sequences with rows for the longest, each at the end of its rows, for gradients of gradients. Where the last query
/// of each sees its last key, query row q of all sees key rows up to q + keys - queries.
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
