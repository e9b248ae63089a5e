#include "nn/modules/attention.h"

#include <cmath>

#include "ashlar/ad.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options)
    : embed_(embed_dim),
      heads_(num_heads),
      batch_first_(options.batch_first),
      out_proj_(std::max<int64_t>(embed_dim, 1), std::max<int64_t>(embed_dim, 1),
                {.bias = options.bias, .device = options.device, .dtype = options.dtype, .random = options.random}) {
  if (embed_dim <= 0 || num_heads <= 0 || embed_dim % num_heads != 0) {
    throw ValueError("MultiheadAttention",
                     std::to_string(embed_dim) + " dimensions, " + std::to_string(num_heads) + " heads",
                     "positive numbers, dimensions a multiple of heads", "Give each head the same width");
  }
  const Placement placement = placement_of(options);
  const float bound = std::sqrt(6.0F / static_cast<float>(4 * embed_dim));
  in_proj_weight_ = Var(initial_uniform({3 * embed_dim, embed_dim}, -bound, bound, placement), true);
  if (!options.bias) return;
  in_proj_bias_ = Var(initial_full({3 * embed_dim}, 0, placement), true);
  out_proj_.bias().value().fill_(0);
}

std::string MultiheadAttention::details() const {
  return std::to_string(embed_) + ", " + std::to_string(heads_) + " heads";
}

void MultiheadAttention::check(const Var& x) const {
  if (x.rank() == 3 && x.size(2) == embed_) return;
  throw ShapeError("MultiheadAttention", x.value().str(),
                   std::string(batch_first_ ? "[batch, steps, " : "[steps, batch, ") + std::to_string(embed_) + "]",
                   "Use unsqueeze() for a single sequence, or say batch_first");
}

/// x times rows of in_proj_weight, plus as many elements of in_proj_bias.
Var MultiheadAttention::projected(const Var& x, int64_t first, int64_t count) const {
  const auto own = [&](const Var& parameter) {
    return count == 3 || !parameter.defined() ? parameter
                                              : parameter.slice(0, first * embed_, (first + count) * embed_);
  };
  return ad::matmul(x, own(in_proj_weight_), {.transpose_b = true}, own(in_proj_bias_));
}

/// [steps, batch, embed] as [batch, heads, steps, width], where it lies.
Var MultiheadAttention::heads_of(const Var& x) const {
  const Var split = x.reshape({x.size(0), x.size(1), heads_, embed_ / heads_});
  return split.permute(batch_first_ ? Shape{0, 2, 1, 3} : Shape{1, 2, 0, 3});
}

Var MultiheadAttention::attended(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const {
  const Var y =
      ad::scaled_dot_product_attention(heads_of(q), heads_of(k), heads_of(v), mask.attn_mask, mask.is_causal).y;
  return out_proj_(y.permute(batch_first_ ? Shape{0, 2, 1, 3} : Shape{2, 0, 1, 3}).reshape(q.shape()));
}

Var MultiheadAttention::forward(const Var& query, const Var& key, const Var& value, const AttentionMask& mask) const {
  for (const Var* x : {&query, &key, &value}) check(*x);
  return attended(projected(query, 0, 1), projected(key, 1, 1), projected(value, 2, 1), mask);
}

Var MultiheadAttention::forward(const Var& x, const AttentionMask& mask) const {
  check(x);
  const Var all = projected(x, 0, 3);
  const auto part = [&](int64_t i) { return all.slice(2, i * embed_, (i + 1) * embed_); };
  return attended(part(0), part(1), part(2), mask);
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerEncoderLayerOptions& o)
    : self_attn_(d_model, nhead,
                 {.batch_first = o.batch_first, .device = o.device, .dtype = o.dtype, .random = o.random}),
      linear1_(d_model, o.dim_feedforward, {.device = o.device, .dtype = o.dtype, .random = o.random}),
      dropout_(o.dropout, {.device = o.device, .random = o.random}),
      linear2_(o.dim_feedforward, d_model, {.device = o.device, .dtype = o.dtype, .random = o.random}),
      norm1_(Shape{d_model}, {.eps = o.layer_norm_eps, .device = o.device, .dtype = o.dtype}),
      norm2_(Shape{d_model}, {.eps = o.layer_norm_eps, .device = o.device, .dtype = o.dtype}),
      dropout1_(o.dropout, {.device = o.device, .random = o.random}),
      dropout2_(o.dropout, {.device = o.device, .random = o.random}),
      gelu_(o.gelu),
      norm_first_(o.norm_first) {}

Var TransformerEncoderLayer::forward(const Var& x, const AttentionMask& mask) const {
  const auto attend = [&](const Var& h) { return dropout1_(self_attn_.forward(h, mask)); };
  const auto feed = [&](const Var& h) {
    return dropout2_(linear2_(dropout_(linear1_.forward(h, gelu_ ? Activation::gelu : Activation::relu))));
  };
  if (norm_first_) {
    const Var h = ad::add(x, attend(norm1_(x)));
    return ad::add(h, feed(norm2_(h)));
  }
  const Var h = norm1_(ad::add(x, attend(x)));
  return norm2_(ad::add(h, feed(h)));
}

}  // namespace ashlar::nn
