// Gradient of attention within packed sequences.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y = varlen_attn(query, key, value, …): those by query, key and value where `needs` asks for them. For gradients of
/// gradients the sequences get rows of their own, and attention_grad() does the rest.
template <class T>
std::vector<T> varlen_attn_grad(const T& dy, const T& query, const T& key, const T& value, const Tensor& cu_seq_q,
                                const Tensor& cu_seq_k, const T& y, const T& logsumexp, int64_t max_q, int64_t max_k,
                                bool is_causal, double scale, Needs needs);

}  // namespace ashlar::recipes
