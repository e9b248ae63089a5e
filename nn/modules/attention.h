// Attention of several heads.
#pragma once

#include <memory>
#include <string>

#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"

namespace ashlar::nn {

struct MultiheadAttentionOptions {
  bool bias = true;
  bool batch_first = false;
  int64_t kdim = 0, vdim = 0;  ///< width of keys and values; 0: embed_dim
  double dropout = 0;          ///< of the weights, in training
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// Where attention looks.
struct AttentionMask {
  Var attn_mask = {};  ///< broadcasts to [batch, heads, queries, keys]; boolean (true: takes part), or added
  bool is_causal = false;
  /// [batch, keys], boolean (true: takes part; the opposite of PyTorch's key_padding_mask), or added.
  Var key_mask = {};
};

/// Attention of several heads (Vaswani et al. 2017; torch.nn.MultiheadAttention) as one fused kernel between two
/// products; the weights, and what dropout leaves of them, never lie in memory. Parameters "in_proj_weight" [3 embed,
/// embed], or "q_proj_weight", "k_proj_weight" and "v_proj_weight" where keys or values have another width (Xavier),
/// "in_proj_bias" [3 embed] (0) and "out_proj". Unlike PyTorch's, boolean masks are true where a key takes part, as in
/// scaled_dot_product_attention; a query that sees no key gets 0 instead of NaN.
class MultiheadAttention : public ModuleOf<MultiheadAttention> {
 public:
  /// Throws ValueError unless both are positive and embed_dim is a multiple of num_heads.
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options = {});

  /// query [queries, batch, embed], key [keys, batch, kdim] and value [keys, batch, vdim] (batch first with
  /// batch_first) to query's shape. Throws ShapeError.
  Var forward(const Var& query, const Var& key, const Var& value, const AttentionMask& mask = {}) const;
  /// Of x with itself: one product makes queries, keys and values.
  Var forward(const Var& x, const AttentionMask& mask = {}) const;
  /// The weights, [batch, heads, queries, keys], without dropout: what torch.nn.MultiheadAttention returns second
  /// (there the mean over heads).
  Var weights(const Var& query, const Var& key, const AttentionMask& mask = {}) const;
  std::string details() const override;

 protected:
  void members(Members& members) override;

 private:
  enum Part : uint8_t { kQuery, kKey, kValue };
  Var projected(const Var& x, Part part) const;
  Var heads_of(const Var& x) const;
  AttentionMask joined(const AttentionMask& mask, const Var& q, const Var& k) const;
  Var weights_of(const Var& q, const Var& k, const AttentionMask& mask) const;
  Var attended(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) const;
  void check(const Var& x, int64_t width) const;

  int64_t embed_, heads_, key_width_, value_width_;
  bool batch_first_;
  Var in_proj_weight_, q_proj_weight_, k_proj_weight_, v_proj_weight_, in_proj_bias_;
  Linear out_proj_;
  std::shared_ptr<Dropout> dropout_;  ///< none where it is 0
};

}  // namespace ashlar::nn
