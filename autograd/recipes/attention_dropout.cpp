// In a file of its own: programs that attend without dropout don't link its kernels.
#include <concepts>

#include "ashlar/ops.h"
#include "autograd/recipes/attention.h"
#include "autograd/recipes/values.h"

namespace ashlar::recipes {
namespace {

// What takes part of the weights of a call with dropout, [batch, heads, queries, keys] of f32: 1 / (1 - p) or 0.
Tensor kept_weights(const Tensor& query, const Tensor& key, const Tensor& state, double p) {
  const int rank = query.rank();
  const int64_t batch = rank > 2 ? query.size(0) : 1, heads = rank > 3 ? query.size(1) : 1;
  const int64_t queries = query.size(-2), keys = key.size(-2), rows = (queries + 1) / 2, columns = (keys + 1) / 2;
  // The four numbers of a block are two queries' by two keys'.
  const Tensor ones = Tensor::ones({batch, heads, rows, columns, 2, 2}, DType::f32, query.device());
  const Tensor in_pairs = dropout_at(ones, state, p).permute({0, 1, 2, 4, 3, 5});
  return in_pairs.reshape({batch, heads, 2 * rows, 2 * columns}).slice(2, 0, queries).slice(3, 0, keys);
}

}  // namespace

template <class T>
std::vector<T> attention_dropout_grad(const T& dy, const T& query, const T& key, const T& value, const Tensor& state,
                                      const T& attn_mask, const T& y, const T& logsumexp, bool is_causal, double p,
                                      double scale, Needs needs) {
  const auto composed = [&](Needs of) {
    const Tensor kept = kept_weights(value_of(query), value_of(key), state, p);
    return composed_attention_grad(dy, query, key, value, attn_mask, kept, is_causal, scale, of);
  };
  if constexpr (std::same_as<T, Tensor>) {
    std::vector<Tensor> gradients(4);
    const Tensor delta = needs(0) || needs(1) ? attention_delta(dy, y) : logsumexp;  // no other needs it
    const auto by = [&](auto kernel) {
      return kernel(dy, query, key, value, logsumexp, delta, state, attn_mask, is_causal, p, scale);
    };
    if (needs(0)) gradients[0] = by(attention_dropout_query_grad);
    if (needs(1)) gradients[1] = by(attention_dropout_key_grad);
    if (needs(2)) gradients[2] = by(attention_dropout_value_grad);
    if (needs(3)) gradients[3] = composed(Needs(8))[3];
    return gradients;
  } else {
    return composed(needs);
  }
}

template std::vector<Tensor> attention_dropout_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                    const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool,
                                                    double, double, Needs);
template std::vector<Var> attention_dropout_grad(const Var&, const Var&, const Var&, const Var&, const Tensor&,
                                                 const Var&, const Var&, const Var&, bool, double, double, Needs);

}  // namespace ashlar::recipes
