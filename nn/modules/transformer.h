// The transformer's layers and what is made of them (Vaswani et al. 2017), with torch.nn's names of parameters.
#pragma once

#include "nn/modules/attention.h"
#include "nn/modules/module_list.h"
#include "nn/modules/normalization.h"
#include "nn/modules/residual_stream.h"

namespace ashlar::nn {

/// Of a layer. Dropout stands behind attentions, the activation and the feed-forward part, not on attentions' weights.
struct TransformerLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  bool gelu = false;  ///< in place of relu
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  ///< norms stand before attentions and the feed-forward part (Xiong et al. 2020)
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};
using TransformerEncoderLayerOptions = TransformerLayerOptions;
using TransformerDecoderLayerOptions = TransformerLayerOptions;

/// linear2(dropout(activation(linear1(x)))), children "linear1" and "linear2" of the layer.
class TransformerFeedForward {
 public:
  TransformerFeedForward(int64_t d_model, const TransformerLayerOptions& options);
  Var forward(const Var& x) const;
  void tell(Members& members);

 private:
  Linear linear1_;
  Dropout dropout_;
  Linear linear2_;
  bool gelu_;
};

/// x + attention, normalised, then + feed-forward, normalised; with norm_first x + attention of the normalised and so
/// on (torch.nn.TransformerEncoderLayer). Children "self_attn", "linear1", "linear2", "norm1", "norm2".
class TransformerEncoderLayer : public ModuleOf<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerLayerOptions& options = {});
  /// x [steps, batch, d_model], or batch first, to the same shape.
  Var forward(const Var& x, const AttentionMask& mask = {}) const { return added(terms(x, mask)); }
  /// What forward(x) adds up last with norm_first, else the result alone; and the same of x + residual. A container
  /// leaves the addition to the norm that comes next.
  Terms terms(const Var& x, const AttentionMask& mask = {}) const { return terms_of({x, {}}, mask); }
  Terms terms_of_sum(const Var& x, const Var& residual, const AttentionMask& mask = {}) const {
    return terms_of({residual, x}, mask);
  }

 protected:
  void members(Members& members) override;

 private:
  Terms terms_of(const Terms& x, const AttentionMask& mask) const;

  MultiheadAttention self_attn_;
  TransformerFeedForward feed_;
  LayerNorm norm1_, norm2_;
  Dropout dropout1_, dropout2_;
  bool norm_first_;
};

/// The same with an attention to an encoder's output between the two (torch.nn.TransformerDecoderLayer). Children
/// "self_attn", "multihead_attn", "linear1", "linear2", "norm1", "norm2", "norm3".
class TransformerDecoderLayer : public ModuleOf<TransformerDecoderLayer> {
 public:
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerLayerOptions& options = {});
  /// x [steps, batch, d_model] and memory [memory's steps, batch, d_model], or batch first, to x's shape.
  Var forward(const Var& x, const Var& memory, const AttentionMask& mask = {},
              const AttentionMask& memory_mask = {}) const {
    return added(terms(x, memory, mask, memory_mask));
  }
  /// As TransformerEncoderLayer's.
  Terms terms(const Var& x, const Var& memory, const AttentionMask& mask = {},
              const AttentionMask& memory_mask = {}) const {
    return terms_of({x, {}}, memory, mask, memory_mask);
  }
  Terms terms_of_sum(const Var& x, const Var& residual, const Var& memory, const AttentionMask& mask = {},
                     const AttentionMask& memory_mask = {}) const {
    return terms_of({residual, x}, memory, mask, memory_mask);
  }

 protected:
  void members(Members& members) override;

 private:
  Terms terms_of(const Terms& x, const Var& memory, const AttentionMask& mask, const AttentionMask& memory_mask) const;

  MultiheadAttention self_attn_, multihead_attn_;
  TransformerFeedForward feed_;
  LayerNorm norm1_, norm2_, norm3_;
  Dropout dropout1_, dropout2_, dropout3_;
  bool norm_first_;
};

/// Layers one after another, children "layers.0" and so on, and a norm behind them if wanted, child "norm". Unlike
/// PyTorch's they are not copies of one: each begins with numbers of its own.
template <class Derived, class Layer>
class TransformerStack : public ModuleOf<Derived> {
 public:
  /// Throws ValueError unless there is a layer.
  TransformerStack(int64_t num_layers, int64_t d_model, int64_t nhead, const TransformerLayerOptions& options = {},
                   bool has_norm = false);
  /// As a layer's.
  template <class... More>
  requires(requires(const Layer& layer, const Var& x, const More&... more) { layer.forward(x, more...); }) Var
      forward(const Var& x, const More&... more)
  const {
    Terms y{x, {}};
    for (const Layer& layer : layers_) {
      y = y.branch.defined() ? layer.terms_of_sum(y.branch, y.stream, more...) : layer.terms(y.stream, more...);
    }
    if (norm_ != nullptr && y.branch.defined()) return norm_->of_sum(y.branch, y.stream).y;
    return norm_ != nullptr ? norm_->forward(y.stream) : added(y);
  }
  const ModuleList<Layer>& layers() const { return layers_; }

 protected:
  void members(Members& members) override {
    members.child("layers", layers_);
    members.child("norm", norm_);
  }

 private:
  ModuleList<Layer> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

/// forward(x, mask)
class TransformerEncoder : public TransformerStack<TransformerEncoder, TransformerEncoderLayer> {
  using TransformerStack::TransformerStack;
};
/// forward(x, memory, mask, memory_mask)
class TransformerDecoder : public TransformerStack<TransformerDecoder, TransformerDecoderLayer> {
  using TransformerStack::TransformerStack;
};

struct TransformerOptions {
  int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  TransformerLayerOptions layer = {};
};

/// Encoder and decoder, each with a norm behind its layers (torch.nn.Transformer): children "encoder" and "decoder".
/// Matrices begin uniform as Xavier's.
class Transformer : public ModuleOf<Transformer> {
 public:
  explicit Transformer(int64_t d_model = 512, int64_t nhead = 8, const TransformerOptions& options = {});
  /// source [source's steps, batch, d_model] and target [steps, batch, d_model], or batch first, to target's shape.
  Var forward(const Var& source, const Var& target, const AttentionMask& source_mask = {},
              const AttentionMask& target_mask = {}, const AttentionMask& memory_mask = {}) const;

 protected:
  void members(Members& members) override {
    members.child("encoder", encoder_);
    members.child("decoder", decoder_);
  }

 private:
  TransformerEncoder encoder_;
  TransformerDecoder decoder_;
};

}  // namespace ashlar::nn
