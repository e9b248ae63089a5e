#include "nn/modules/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/splitting.h"
#include "ashlar/var_arithmetic.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr double kFar = -1e30;  // finite: a row of it alone has weights, which are hidden then

/// 0 where a boolean mask holds, else -∞.
Var as_added(const Var& mask) {
  const auto number = [&](float value) { return Tensor::full({}, value, DType::f32, mask.device()); };
  return ashlar::where(mask.value(), number(0), number(-std::numeric_limits<float>::infinity()));
}

Var hiding_what_either_hides(const Var& a, const Var& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  const bool a_is_boolean = a.dtype() == DType::boolean, b_is_boolean = b.dtype() == DType::boolean;
  if (a_is_boolean && b_is_boolean) return ashlar::logical_and(a.value(), b.value());
  return ad::add(a_is_boolean ? as_added(a) : a, b_is_boolean ? as_added(b) : b);
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options)
    : embed_(embed_dim),
      heads_(num_heads),
      key_width_(options.kdim == 0 ? embed_dim : options.kdim),
      value_width_(options.vdim == 0 ? embed_dim : options.vdim),
      batch_first_(options.batch_first),
      out_proj_(std::max<int64_t>(embed_dim, 1), std::max<int64_t>(embed_dim, 1),
                {.bias = options.bias, .device = options.device, .dtype = options.dtype, .random = options.random}) {
  if (embed_dim <= 0 || num_heads <= 0 || embed_dim % num_heads != 0 || key_width_ <= 0 || value_width_ <= 0) {
    throw ValueError("MultiheadAttention",
                     std::to_string(embed_dim) + " dimensions (keys " + std::to_string(key_width_) + ", values " +
                         std::to_string(value_width_) + "), " + std::to_string(num_heads) + " heads",
                     "positive numbers, dimensions a multiple of heads", "Give each head the same width");
  }
  const Placement placement = placement_of(options);
  const auto xavier = [&](int64_t rows, int64_t columns) {
    const float bound = std::sqrt(6.0F / static_cast<float>(rows + columns));
    return Var(initial_uniform({rows, columns}, -bound, bound, placement), true);
  };
  if (key_width_ == embed_ && value_width_ == embed_) {
    in_proj_weight_ = xavier(3 * embed_, embed_);
  } else {
    q_proj_weight_ = xavier(embed_, embed_);
    k_proj_weight_ = xavier(embed_, key_width_);
    v_proj_weight_ = xavier(embed_, value_width_);
  }
  if (options.dropout != 0) {
    dropout_ =
        std::make_shared<Dropout>(options.dropout, DropoutOptions{.device = options.device, .random = options.random});
  }
  if (!options.bias) return;
  in_proj_bias_ = Var(initial_full({3 * embed_}, 0, placement), true);
  out_proj_.bias().value().fill_(0);
}

void MultiheadAttention::members(Members& members) {
  members.parameter("in_proj_weight", in_proj_weight_);
  members.parameter("q_proj_weight", q_proj_weight_);
  members.parameter("k_proj_weight", k_proj_weight_);
  members.parameter("v_proj_weight", v_proj_weight_);
  members.parameter("in_proj_bias", in_proj_bias_);
  members.child("out_proj", out_proj_);
  members.child("dropout", dropout_);
}

std::string MultiheadAttention::details() const {
  return std::to_string(embed_) + ", " + std::to_string(heads_) + " heads";
}

void MultiheadAttention::check(const Var& x, int64_t width) const {
  if (x.rank() == 3 && x.size(2) == width) return;
  throw ShapeError("MultiheadAttention", x.value().str(),
                   std::string(batch_first_ ? "[batch, steps, " : "[steps, batch, ") + std::to_string(width) + "]",
                   "Use unsqueeze() for a single sequence, or say batch_first");
}

/// x times its rows of in_proj_weight, or its own weight, plus its elements of in_proj_bias.
Var MultiheadAttention::projected(const Var& x, Part part) const {
  const auto own = [&](const Var& all) {
    return all.defined() ? all.slice(0, part * embed_, (part + 1) * embed_) : all;
  };
  const Var& separate = part == kQuery ? q_proj_weight_ : part == kKey ? k_proj_weight_ : v_proj_weight_;
  const Var weight = separate.defined() ? separate : own(in_proj_weight_);
  return ad::matmul(x, weight, {.transpose_b = true}, own(in_proj_bias_));
}

/// [steps, batch, embed] or [steps, batch, heads, width] as [batch, heads, steps, width], where it lies.
Var MultiheadAttention::heads_of(const Var& x) const {
  const Var heads = x.rank() == 4 ? x : x.reshape({x.size(0), x.size(1), heads_, embed_ / heads_});
  return heads.permute(batch_first_ ? Shape{0, 2, 1, 3} : Shape{1, 2, 0, 3});
}

/// The mask with its key_mask in attn_mask.
AttentionMask MultiheadAttention::joined(const AttentionMask& mask, const Var& q, const Var& k) const {
  if (!mask.key_mask.defined()) return mask;
  const Var& keys = mask.key_mask;
  const int batch_axis = batch_first_ ? 0 : 1;
  if (keys.shape() != Shape{q.size(batch_axis), k.size(1 - batch_axis)}) {
    throw ShapeError("MultiheadAttention", "key_mask " + keys.value().str() + " for keys " + k.value().str(),
                     "[batch, keys]", "Use attn_mask for masks of other shapes");
  }
  const Var spread = keys.reshape({keys.size(0), 1, 1, keys.size(1)});
  return {.attn_mask = hiding_what_either_hides(mask.attn_mask, spread), .is_causal = mask.is_causal};
}

/// softmax(q kᵀ / √width + mask), 0 for a query that sees no key
Var MultiheadAttention::weights_of(const Var& q, const Var& k, const AttentionMask& mask) const {
  const double scale = 1 / std::sqrt(static_cast<double>(embed_ / heads_));
  const Var scores = ad::affine(ad::matmul(heads_of(q), heads_of(k), {.transpose_b = true}), scale, 0);
  Var hiding = mask.attn_mask;
  if (mask.is_causal) {
    const Tensor ones = Tensor::ones({scores.size(2), scores.size(3)}, DType::boolean, scores.device());
    hiding = hiding_what_either_hides(hiding, Var(ashlar::tril(ones)));
  }
  if (!hiding.defined()) return ad::softmax(scores);
  const Var added = hiding.dtype() == DType::boolean ? as_added(hiding) : hiding;
  const Var all = ad::add(scores, added);
  const Tensor hidden =
      ashlar::eq(all.value(), Tensor::full({}, -std::numeric_limits<float>::infinity(), all.dtype(), all.device()));
  return ad::masked_fill(ad::softmax(ad::masked_fill(all, hidden, kFar)), hidden, 0);
}

Var MultiheadAttention::attended(const Var& q, const Var& k, const Var& v, const AttentionMask& given) const {
  const AttentionMask mask = joined(given, q, k);
  const Var query = heads_of(q), key = heads_of(k), value = heads_of(v);
  Var y;
  if (dropout_ != nullptr && dropout_->training()) {
    // A block of random numbers is for two queries by two keys.
    const int64_t blocks = query.size(0) * heads_ * ((query.size(2) + 1) / 2) * ((key.size(2) + 1) / 2);
    y = ad::attention_dropout_at(query, key, value, dropout_->take(blocks), mask.attn_mask, mask.is_causal,
                                 dropout_->p())
            .y;
  } else {
    y = ad::scaled_dot_product_attention(query, key, value, mask.attn_mask, mask.is_causal).y;
  }
  const Var as_given = y.permute(batch_first_ ? Shape{0, 2, 1, 3} : Shape{2, 0, 1, 3});
  return out_proj_(as_given.reshape({q.size(0), q.size(1), embed_}));
}

Var MultiheadAttention::weights(const Var& query, const Var& key, const AttentionMask& mask) const {
  check(query, embed_);
  check(key, key_width_);
  const Var q = projected(query, kQuery), k = projected(key, kKey);
  return weights_of(q, k, joined(mask, q, k));
}

Var MultiheadAttention::forward(const Var& query, const Var& key, const Var& value, const AttentionMask& mask) const {
  check(query, embed_);
  check(key, key_width_);
  check(value, value_width_);
  return attended(projected(query, kQuery), projected(key, kKey), projected(value, kValue), mask);
}

Var MultiheadAttention::forward(const Var& x, const AttentionMask& mask) const {
  if (!in_proj_weight_.defined()) return forward(x, x, x, mask);
  check(x, embed_);
  const Var all = ad::matmul(x, in_proj_weight_, {.transpose_b = true}, in_proj_bias_);
  // Cut as heads, so that gradients of these are put together as they lie.
  const Var heads = all.reshape({all.size(0), all.size(1), 3 * heads_, embed_ / heads_});
  const std::vector<Var> parts = split(heads, heads_, 2);
  return attended(parts[kQuery], parts[kKey], parts[kValue], mask);
}

}  // namespace ashlar::nn
