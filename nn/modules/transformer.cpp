#include "nn/modules/transformer.h"

#include <string>

#include "ashlar/ad.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

using Options = TransformerLayerOptions;

LinearOptions linear(const Options& o) { return {.device = o.device, .dtype = o.dtype, .random = o.random}; }

MultiheadAttentionOptions attention(const Options& o) {
  return {.batch_first = o.batch_first, .device = o.device, .dtype = o.dtype, .random = o.random};
}

LayerNorm norm(int64_t d_model, const Options& o) {
  return LayerNorm(d_model, {.eps = o.layer_norm_eps, .device = o.device, .dtype = o.dtype});
}

Dropout dropout(const Options& o) { return Dropout(o.dropout, {.device = o.device, .random = o.random}); }

/// A layer's parts around a residual stream, each normalised before or behind, in one pass with the addition that comes
/// before the norm.
class ResidualStream {
 public:
  ResidualStream(const Terms& x, bool norm_first) : norm_first_(norm_first) {
    if (norm_first)
      x_ = x;
    else
      x_.stream = added(x);
  }

  /// Normalised first: x += part(norm(x)); else x = norm(x + part(x)).
  template <class Part>
  void through(const LayerNorm& norm, const Part& part) {
    if (!norm_first_) {
      x_.stream = norm.of_sum(part(x_.stream), x_.stream).y;
    } else if (!x_.branch.defined()) {
      x_.branch = part(norm(x_.stream));
    } else {
      const auto [y, h] = norm.of_sum(x_.branch, x_.stream);
      x_ = {h, part(y)};
    }
  }
  const Terms& end() const { return x_; }

 private:
  Terms x_;
  bool norm_first_;
};

}  // namespace

TransformerFeedForward::TransformerFeedForward(int64_t d_model, const Options& o)
    : linear1_(d_model, o.dim_feedforward, linear(o)),
      dropout_(dropout(o)),
      linear2_(o.dim_feedforward, d_model, linear(o)),
      gelu_(o.gelu) {}

Var TransformerFeedForward::forward(const Var& x) const {
  return linear2_(dropout_(linear1_.forward(x, gelu_ ? Activation::gelu : Activation::relu)));
}

void TransformerFeedForward::tell(Members& members) {
  members.child("linear1", linear1_);
  members.child("dropout", dropout_);
  members.child("linear2", linear2_);
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead, const Options& o)
    : self_attn_(d_model, nhead, attention(o)),
      feed_(d_model, o),
      norm1_(norm(d_model, o)),
      norm2_(norm(d_model, o)),
      dropout1_(dropout(o)),
      dropout2_(dropout(o)),
      norm_first_(o.norm_first) {}

void TransformerEncoderLayer::members(Members& members) {
  members.child("self_attn", self_attn_);
  feed_.tell(members);
  members.child("norm1", norm1_);
  members.child("norm2", norm2_);
  members.child("dropout1", dropout1_);
  members.child("dropout2", dropout2_);
}

Terms TransformerEncoderLayer::terms_of(const Terms& x, const AttentionMask& mask) const {
  ResidualStream stream(x, norm_first_);
  stream.through(norm1_, [&](const Var& y) { return dropout1_(self_attn_(y, mask)); });
  stream.through(norm2_, [&](const Var& y) { return dropout2_(feed_.forward(y)); });
  return stream.end();
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead, const Options& o)
    : self_attn_(d_model, nhead, attention(o)),
      multihead_attn_(d_model, nhead, attention(o)),
      feed_(d_model, o),
      norm1_(norm(d_model, o)),
      norm2_(norm(d_model, o)),
      norm3_(norm(d_model, o)),
      dropout1_(dropout(o)),
      dropout2_(dropout(o)),
      dropout3_(dropout(o)),
      norm_first_(o.norm_first) {}

void TransformerDecoderLayer::members(Members& members) {
  members.child("self_attn", self_attn_);
  members.child("multihead_attn", multihead_attn_);
  feed_.tell(members);
  members.child("norm1", norm1_);
  members.child("norm2", norm2_);
  members.child("norm3", norm3_);
  members.child("dropout1", dropout1_);
  members.child("dropout2", dropout2_);
  members.child("dropout3", dropout3_);
}

Terms TransformerDecoderLayer::terms_of(const Terms& x, const Var& memory, const AttentionMask& mask,
                                        const AttentionMask& memory_mask) const {
  ResidualStream stream(x, norm_first_);
  stream.through(norm1_, [&](const Var& y) { return dropout1_(self_attn_(y, mask)); });
  stream.through(norm2_, [&](const Var& y) { return dropout2_(multihead_attn_(y, memory, memory, memory_mask)); });
  stream.through(norm3_, [&](const Var& y) { return dropout3_(feed_.forward(y)); });
  return stream.end();
}

template <class Derived, class Layer>
TransformerStack<Derived, Layer>::TransformerStack(int64_t num_layers, int64_t d_model, int64_t nhead,
                                                   const Options& options, bool has_norm) {
  if (num_layers < 1) {
    throw ValueError(class_name(typeid(Derived)), std::to_string(num_layers) + " layers", "a positive number",
                     "Say how many layers stand behind each other");
  }
  for (int64_t i = 0; i < num_layers; i++) layers_.emplace(d_model, nhead, options);
  if (has_norm) norm_ = std::make_shared<LayerNorm>(norm(d_model, options));
}

template class TransformerStack<TransformerEncoder, TransformerEncoderLayer>;
template class TransformerStack<TransformerDecoder, TransformerDecoderLayer>;

Transformer::Transformer(int64_t d_model, int64_t nhead, const TransformerOptions& options)
    : encoder_(options.num_encoder_layers, d_model, nhead, options.layer, true),
      decoder_(options.num_decoder_layers, d_model, nhead, options.layer, true) {
  for (const Var& parameter : parameters()) {
    if (parameter.rank() > 1) init::xavier_uniform_(parameter, 1, options.layer.random);
  }
}

Var Transformer::forward(const Var& source, const Var& target, const AttentionMask& source_mask,
                         const AttentionMask& target_mask, const AttentionMask& memory_mask) const {
  return decoder_(target, encoder_(source, source_mask), target_mask, memory_mask);
}

}  // namespace ashlar::nn
