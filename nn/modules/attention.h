// Attention and the encoder's layer of a transformer.
#pragma once

#include <string>

#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"
#include "nn/modules/normalization.h"

namespace ashlar::nn {

struct MultiheadAttentionOptions {
  bool bias = true;
  bool batch_first = false;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// Where attention looks.
struct AttentionMask {
  Var attn_mask = {};  ///< broadcasts to [batch, heads, queries, keys]; boolean (true: takes part), or added
  bool is_causal = false;
};

/// Attention of several heads (Vaswani et al. 2017; torch.nn.MultiheadAttention) as one fused kernel between two
/// products; the weights never lie in memory and aren't returned. Parameters "in_proj_weight" [3 embed, embed]
/// (Xavier), "in_proj_bias" [3 embed] (0) and "out_proj". Unlike PyTorch's, boolean masks are true where a key takes
/// part, as in scaled_dot_product_attention.
class MultiheadAttention : public ModuleOf<MultiheadAttention> {
 public:
  /// Throws ValueError unless both are positive and embed_dim is a multiple of num_heads.
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options = {});

  /// query [queries, batch, embed], key and value [keys, batch, embed] (batch first with batch_first) to query's shape.
  /// Throws ShapeError.
  Var forward(const Var& query, const Var& key, const Var& value, const AttentionMask& mask = {}) const;
  /// Of x with itself: one product makes queries, keys and values.
  Var forward(const Var& x, const AttentionMask& mask = {}) const;
  std::string details() const override;

 protected:
  void members(Members& members) override {
    members.parameter("in_proj_weight", in_proj_weight_);
    members.parameter("in_proj_bias", in_proj_bias_);
    members.child("out_proj", out_proj_);
  }

 private:
  Var projected(const Var& x, int64_t first, int64_t count) const;
  Var heads_of(const Var& x) const;
  Var attended(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const;
  void check(const Var& x) const;

  int64_t embed_, heads_;
  bool batch_first_;
  Var in_proj_weight_, in_proj_bias_;
  Linear out_proj_;
};

struct TransformerEncoderLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  bool gelu = false;  ///< in place of relu
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;
};

/// x + attention, normalised, then + feed-forward, normalised (Vaswani et al. 2017; torch.nn.TransformerEncoderLayer);
/// with norm_first both before (Xiong et al. 2020). Children "self_attn", "linear1", "linear2", "norm1", "norm2".
/// Dropout stands behind the attention, the activation and the feed-forward layer, not on the attention's weights.
class TransformerEncoderLayer : public ModuleOf<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerEncoderLayerOptions& options = {});
  /// x [steps, batch, d_model], or batch first, to the same shape.
  Var forward(const Var& x, const AttentionMask& mask = {}) const;

 protected:
  void members(Members& members) override {
    members.child("self_attn", self_attn_);
    members.child("linear1", linear1_);
    members.child("dropout", dropout_);
    members.child("linear2", linear2_);
    members.child("norm1", norm1_);
    members.child("norm2", norm2_);
    members.child("dropout1", dropout1_);
    members.child("dropout2", dropout2_);
  }

 private:
  MultiheadAttention self_attn_;
  Linear linear1_;
  Dropout dropout_;
  Linear linear2_;
  LayerNorm norm1_, norm2_;
  Dropout dropout1_, dropout2_;
  bool gelu_, norm_first_;
};

}  // namespace ashlar::nn
