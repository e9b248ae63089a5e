// A decoder of a transformer (Vaswani et al. 2017; Radford et al. 2019) that foretells characters.
#pragma once

#include <cstdint>

#include "nn/module.h"
#include "nn/modules/dropout.h"
#include "nn/modules/module_list.h"
#include "nn/modules/normalization.h"
#include "nn/modules/transformer.h"
#include "runtime/tensor/random.h"

namespace ashlar::tools::train {

struct CharTransformerOptions {
  int64_t context = 64;  ///< characters that it sees at most
  int64_t layers = 4;
  int64_t heads = 4;  ///< of each layer's attention; divides `width`
  int64_t width = 128;
  double dropout = 0;
};

class CharTransformer : public nn::ModuleOf<CharTransformer> {
 public:
  /// For a vocabulary of `characters`. On the CPU.
  CharTransformer(int64_t characters, const CharTransformerOptions& options, Random& random);

  int64_t context() const { return context_; }
  /// tokens i64 [n, steps ≤ context] to logits f32 [n, steps, characters]. Each sees itself and those before it. The
  /// logits are products with the characters' vectors.
  Var forward(const Tensor& tokens);

 protected:
  void members(nn::Members& members) override;

 private:
  void initialise(int64_t layers, Random& random);

  int64_t context_;
  Var tokens_, positions_;
  nn::Dropout dropout_;
  nn::ModuleList<nn::TransformerEncoderLayer> layers_;
  nn::LayerNorm norm_;
};

}  // namespace ashlar::tools::train
