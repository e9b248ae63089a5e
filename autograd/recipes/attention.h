// Gradients of scaled_dot_product_attention.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// Gradients for query, key, value and attn_mask, where `needs` asks for them. Of tensors by kernels that work the
/// weights out again; that of a mask, and gradients of gradients, are composed of operators and take memory for all
/// weights.
template <class T>
std::vector<T> attention_grad(const T& dy, const T& query, const T& key, const T& value, const T& attn_mask, const T& y,
                              const T& logsumexp, bool is_causal, double scale, Needs needs);

}  // namespace ashlar::recipes
