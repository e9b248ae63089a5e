// Gradients of scaled_dot_product_attention.
#pragma once

#include <array>
#include <vector>

#include "autograd/node.h"
#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// Gradients for query, key, value and attn_mask, where `needs` asks for them. Of tensors by kernels that work the
/// weights out again (on the CPU by one for all three); that of a mask is composed of operators, piece by piece, and
/// gradients of gradients are so at once, which takes memory for all weights. `is_causal` as the form's
/// (runtime/forms/attention.h): 1, and how many queries come before the first.
template <class T>
std::vector<T> attention_grad(const T& dy, const T& query, const T& key, const T& value, const T& attn_mask, const T& y,
                              const T& logsumexp, int64_t is_causal, double scale, Needs needs);

/// Those by query, key and value of {dy, query, key, value, logsumexp, delta, attn_mask or nothing} on a GPU, which
/// keeps weights and their slopes in memory. A call of more than `most_bytes` of these is cut: into some batches, some
/// heads of one, or some queries of the heads that share their keys, 64 at least.
std::vector<Tensor> attention_grad_by_pairs(const std::array<Tensor, 7>& operands, int64_t is_causal, double scale,
                                            int64_t most_bytes);

/// That by an added mask of tensors, summed where the mask broadcasts, in pieces as above: pairs of a query and a key
/// take `most_bytes` at a time.
Tensor attention_mask_grad(const Tensor& dy, const Tensor& query, const Tensor& key, const Tensor& value,
                           const Tensor& attn_mask, int64_t is_causal, double scale, int64_t most_bytes);

/// Σ dy y of each query, in f32: what those kernels call delta.
Tensor attention_delta(const Tensor& dy, const Tensor& y);

/// As attention_grad() of weights that were dropped with probability p by the stream of `state`.
template <class T>
std::vector<T> attention_dropout_grad(const T& dy, const T& query, const T& key, const T& value, const Tensor& state,
                                      const T& attn_mask, const T& y, const T& logsumexp, bool is_causal, double p,
                                      double scale, Needs needs);

/// Both composed of operators. `kept`: what weights are multiplied by before they weigh values; undefined: nothing.
template <class T>
std::vector<T> composed_attention_grad(const T& dy, const T& query, const T& key, const T& value, const T& attn_mask,
                                       const Tensor& kept, int64_t is_causal, double scale, Needs needs);

}  // namespace ashlar::recipes
