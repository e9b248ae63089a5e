// char-transformer: a decoder of a transformer (Vaswani et al. 2017; Radford et al. 2019) that foretells characters.
#include <cmath>
#include <iostream>
#include <memory>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "nn/data/data_loader.h"
#include "nn/init.h"
#include "nn/loss.h"
#include "nn/modules/dropout.h"
#include "nn/modules/module_list.h"
#include "nn/modules/normalization.h"
#include "nn/modules/transformer.h"
#include "runtime/support/error.h"
#include "tools/train/text.h"

namespace ashlar::tools::train {
namespace {

struct Settings : TextSettings {
  int64_t heads = 4;
};

class Transformer : public nn::ModuleOf<Transformer> {
 public:
  Transformer(const Settings& settings, int64_t characters, Random& random)
      : context_(settings.context),
        tokens_(Tensor::zeros({characters, settings.width}), true),
        positions_(Tensor::zeros({context_, settings.width}), true),
        dropout_(settings.dropout, {.random = &random}),
        norm_(Shape{settings.width}) {
    const nn::TransformerEncoderLayerOptions options{.dim_feedforward = 4 * settings.width,
                                                     .dropout = settings.dropout,
                                                     .gelu = true,
                                                     .batch_first = true,
                                                     .norm_first = true,
                                                     .random = &random};
    for (int64_t i = 0; i < settings.layers; i++) layers_.emplace(settings.width, settings.heads, options);
    initialise(settings.layers, random);
  }

  int64_t context() const { return context_; }
  /// tokens i64 [n, steps ≤ context] to logits [n, steps, characters]. Each sees itself and those before it. The logits
  /// are products with the characters' vectors.
  Var forward(const Tensor& tokens) {
    Var x = dropout_(ad::add(ad::embedding(tokens, tokens_), positions_.slice(0, 0, tokens.size(1))));
    for (nn::TransformerEncoderLayer& layer : layers_) x = layer(x, nn::AttentionMask{.is_causal = true});
    return ad::matmul(norm_(x), tokens_, {.transpose_b = true}).to(DType::f32);
  }

 protected:
  void members(nn::Members& members) override {
    members.parameter("tokens", tokens_);
    members.parameter("positions", positions_);
    members.child("dropout", dropout_);
    members.child("layers", layers_);
    members.child("norm", norm_);
  }

 private:
  /// Normal with deviation 0.02, what ends on the residual's path less by the root of how often; biases 0.
  void initialise(int64_t layers, Random& random) {
    const double less = 1 / std::sqrt(2.0 * static_cast<double>(layers));
    for (const auto& [name, parameter] : named_parameters()) {
      const bool is_last = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
      if (parameter.rank() > 1) nn::init::normal_(parameter, 0, is_last ? 0.02 * less : 0.02, &random);
      if (name.ends_with("bias")) parameter.value().fill_(0);
    }
  }

  int64_t context_;
  Var tokens_, positions_;
  nn::Dropout dropout_;
  nn::ModuleList<nn::TransformerEncoderLayer> layers_;
  nn::LayerNorm norm_;
};

int train(const Settings& settings) {
  const Device device = Device::parse(settings.device);
  check_places(settings);
  if (settings.width % settings.heads != 0) {
    throw ValueError("--heads", std::to_string(settings.heads) + " heads of " + std::to_string(settings.width),
                     "a --width that is a multiple of --heads", "Give each head the same width");
  }
  const Text text(settings.data, settings.context);
  Random random(settings.seed);
  Transformer model(settings, text.vocabulary().size(), random);
  model.to(device);

  const auto loss = [&](const std::vector<Tensor>& batch) {
    const Var logits = model(batch[0].to(device));
    return nn::cross_entropy(logits.reshape({-1, logits.size(2)}), batch[1].to(device).reshape({-1}));
  };
  const nn::CharDataset windows(text.held_out(), settings.context, settings.context);
  const auto held_out = [&] {
    nn::DataLoader loader(windows, {.batch = settings.batch});
    loader.start(0);
    double sum = 0;
    while (const auto batch = loader.next()) sum += loss(*batch).item() * static_cast<double>((*batch)[0].size(0));
    return sum / static_cast<double>(windows.size());
  };
  // Always a whole window, so that kernels see one shape; what stands behind the text isn't seen from it.
  const auto next = [&](std::span<const int64_t> so_far) {
    const size_t seen = std::min(so_far.size(), static_cast<size_t>(model.context()));
    std::vector<int64_t> window(so_far.end() - static_cast<int64_t>(seen), so_far.end());
    window.resize(static_cast<size_t>(model.context()), 0);
    return model(Tensor::from(window, {1, model.context()}, device))
        .value()
        .select(0, 0)
        .select(0, static_cast<int64_t>(seen) - 1);
  };
  std::cout << introduction("char-transformer", model, device) << text.description() << std::endl;
  return train_text(settings, text, {model, /*follow=*/false, loss, held_out, next});
}

std::function<int()> add(CLI::App& command) {
  const auto settings = std::make_shared<Settings>();
  settings->data.clear();
  settings->batch = 32;
  add_text_options(command, *settings);
  command.add_option("--heads", settings->heads, "Of each layer's attention")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.footer(
      "The defaults suit a CPU. For a GPU, about 10 million parameters: --device cuda --layers 6 --heads 6 --width 384 "
      "--context 256 --batch 64 --dropout 0.2 --steps 5000");
  return [settings] { return train(*settings); };
}

}  // namespace

const Program kCharTransformer{"char-transformer",
                               "A transformer that learns a text by its characters and goes on writing", add};

}  // namespace ashlar::tools::train
