#include "autograd/recipes/ragged.h"

#include <concepts>

#include "ashlar/ad/ragged.h"
#include "ashlar/ops/varlen_attention.h"
#include "autograd/recipes/attention.h"
#include "operators/varlen_attention.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

template <class T>
std::vector<T> varlen_attn_grad(const T& dy, const T& query, const T& key, const T& value, const Tensor& cu_seq_q,
                                const Tensor& cu_seq_k, const T& y, const T& logsumexp, int64_t max_q, int64_t max_k,
                                bool is_causal, double scale, Needs needs) {
  if constexpr (std::same_as<T, Tensor>) {
    const Tensor delta = y.numel() == 0 ? Tensor::zeros({}, DType::f32, y.device()) : attention_delta(dy, y);
    return varlen_attn_gradients(dy, query, key, value, cu_seq_q, cu_seq_k, logsumexp, delta, max_q, max_k, is_causal,
                                 scale, {needs(0), needs(1), needs(2)});
  } else {
    const RaggedLayout of(query.value(), key.value(), cu_seq_q, cu_seq_k, max_q, max_k, is_causal);
    const auto of_queries = [&](const T& x) {
      return jagged_to_padded(x, of.offsets_q, of.queries, true).permute({0, 2, 1, 3});
    };
    const auto of_keys = [&](const T& x) {
      return jagged_to_padded(x, of.offsets_k, of.keys, true).permute({0, 2, 1, 3});
    };
    // The weights are worked out again.
    const std::vector<T> padded = attention_grad(of_queries(dy), of_queries(query), of_keys(key), of_keys(value),
                                                 T(of.mask), T(), T(), of.diagonal, scale, needs);
    std::vector<T> gradients(3);
    const auto pack = [](const T& x, const Tensor& offsets, const T& like) {
      return padded_to_jagged(x.permute({0, 2, 1, 3}), offsets, like.shape()[0], true);
    };
    if (needs(0)) gradients[0] = pack(padded[0], of.offsets_q, query);
    if (needs(1)) gradients[1] = pack(padded[1], of.offsets_k, key);
    if (needs(2)) gradients[2] = pack(padded[2], of.offsets_k, value);
    return gradients;
  }
}

template std::vector<Tensor> varlen_attn_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                              const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, bool,
                                              double, Needs);
template std::vector<Var> varlen_attn_grad(const Var&, const Var&, const Var&, const Var&, const Tensor&, const Tensor&,
                                           const Var&, const Var&, int64_t, int64_t, bool, double, Needs);

}  // namespace ashlar::recipes
