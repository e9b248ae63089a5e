#include "tools/train/transformer.h"

#include <cmath>

#include "ashlar/ad.h"
#include "nn/init.h"

namespace ashlar::tools::train {

CharTransformer::CharTransformer(int64_t characters, const CharTransformerOptions& options, Random& random)
    : context_(options.context),
      tokens_(Tensor::zeros({characters, options.width}), true),
      positions_(Tensor::zeros({context_, options.width}), true),
      dropout_(options.dropout, {.random = &random}),
      norm_(Shape{options.width}) {
  const nn::TransformerEncoderLayerOptions layer{.dim_feedforward = 4 * options.width,
                                                 .dropout = options.dropout,
                                                 .gelu = true,
                                                 .batch_first = true,
                                                 .norm_first = true,
                                                 .random = &random};
  for (int64_t i = 0; i < options.layers; i++) layers_.emplace(options.width, options.heads, layer);
  initialise(options.layers, random);
}

Var CharTransformer::forward(const Tensor& tokens) {
  Var x = dropout_(ad::add(ad::embedding(tokens, tokens_), positions_.slice(0, 0, tokens.size(1))));
  for (nn::TransformerEncoderLayer& layer : layers_) x = layer(x, nn::AttentionMask{.is_causal = true});
  return ad::matmul(norm_(x), tokens_, {.transpose_b = true}).to(DType::f32);
}

void CharTransformer::members(nn::Members& members) {
  members.parameter("tokens", tokens_);
  members.parameter("positions", positions_);
  members.child("dropout", dropout_);
  members.child("layers", layers_);
  members.child("norm", norm_);
}

/// Normal with deviation 0.02, what ends on the residual's path less by the root of how often; biases 0.
void CharTransformer::initialise(int64_t layers, Random& random) {
  const double less = 1 / std::sqrt(2.0 * static_cast<double>(layers));
  for (const auto& [name, parameter] : named_parameters()) {
    const bool is_last = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
    if (parameter.rank() > 1) nn::init::normal_(parameter, 0, is_last ? 0.02 * less : 0.02, &random);
    if (name.ends_with("bias")) parameter.value().fill_(0);
  }
}

}  // namespace ashlar::tools::train
