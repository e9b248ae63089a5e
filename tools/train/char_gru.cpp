// char-gru: gated recurrent units (Cho et al. 2014) that foretell characters, by back-propagation through windows of a
// text whose states go on from one to the next.
#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "nn/init.h"
#include "nn/loss.h"
#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"
#include "nn/modules/recurrent.h"
#include "tools/train/text.h"

namespace ashlar::tools::train {
namespace {

class Network : public nn::ModuleOf<Network> {
 public:
  Network(const TextSettings& settings, int64_t characters, Random& random)
      : tokens_(Tensor::randn({characters, settings.width}, random) * 0.1, true),
        gru_(settings.width, settings.width, {.num_layers = settings.layers, .batch_first = true, .random = &random}),
        dropout_(settings.dropout, {.random = &random}),
        head_(settings.width, characters, random),
        state_(Tensor::zeros({settings.layers, settings.batch, settings.width})) {}

  struct Result {
    Var logits;  ///< [n · steps, characters]
    Var h_n;     ///< [layers, n, width]
  };
  /// tokens i64 [n, steps], h as h_n: zeros where it's left out.
  Result forward(const Tensor& tokens, const Var& h = {}) {
    const Var x = dropout_(ad::embedding(tokens, tokens_));
    const nn::GRU::Result y = gru_(x, h.defined() ? h.to(x.dtype()) : h);
    const Var output = dropout_(y.output);
    return {head_(output.reshape({-1, output.size(2)})).to(DType::f32), y.h_n.to(DType::f32)};
  }
  /// The same from where the batch before ended, or from zeros where `follows`, f32 [n], is 0. Gradients don't go back
  /// that far.
  Var following(const Tensor& tokens, const Tensor& follows) {
    const Tensor& state = state_.value();
    const Result y = forward(tokens, Var(state * follows.reshape({-1, 1})));
    state.copy_(y.h_n.value());
    return y.logits;
  }

 protected:
  void members(nn::Members& members) override {
    members.parameter("tokens", tokens_);
    members.buffer("state", state_, nn::Saved::with_checkpoints);
    members.child("gru", gru_);
    members.child("dropout", dropout_);
    members.child("head", head_);
  }

 private:
  Var tokens_;
  nn::GRU gru_;
  nn::Dropout dropout_;
  nn::Linear head_;
  Var state_;  ///< at the end of the last batch
};

int train(const TextSettings& settings) {
  const Device device = Device::parse(settings.device);
  check_places(settings);
  const Text text(settings.data, settings.context);
  Random random(settings.seed);
  Network model(settings, text.vocabulary().size(), random);
  model.to(device);

  const auto loss = [&](const std::vector<Tensor>& batch) {
    return nn::cross_entropy(model.following(batch[0].to(device), batch[2].to(device)),
                             batch[1].to(device).reshape({-1}));
  };
  // The held-out text in a few rows, each read from its begin to its end.
  const auto characters = static_cast<int64_t>(text.held_out().size()) - 1;
  const int64_t rows = std::clamp<int64_t>(characters / (4 * settings.context), 1, 32), length = characters / rows;
  const nn::CharDataset windows(text.held_out(), length, length);
  const auto held_out = [&] {
    std::vector<int64_t> all(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; i++) all[static_cast<size_t>(i)] = i;
    const std::vector<Tensor> read = windows.batch(all, nn::Dataset::Draw(0, 0));
    double sum = 0;
    Var h;
    for (int64_t at = 0; at < length; at += settings.context) {
      const auto part = [&](const Tensor& of) {
        return of.slice(1, at, std::min(at + settings.context, length)).contiguous().to(device);
      };
      const Tensor targets = part(read[1]).reshape({-1});
      const Network::Result y = model(part(read[0]), h);
      sum += nn::cross_entropy(y.logits, targets).item() * static_cast<double>(targets.numel());
      h = y.h_n;
    }
    return sum / static_cast<double>(rows * length);
  };
  Var h;
  size_t seen = 0;
  const auto next = [&](std::span<const int64_t> so_far) {
    const std::span<const int64_t> fresh = so_far.subspan(seen);
    const Network::Result y = model(Tensor::from(fresh, {1, static_cast<int64_t>(fresh.size())}, device), h);
    h = y.h_n;
    seen = so_far.size();
    return y.logits.value().select(0, -1);
  };
  std::cout << introduction("char-gru", model, device) << text.description() << std::endl;
  return train_text(settings, text, {model, /*follow=*/true, loss, held_out, next});
}

std::function<int()> add(CLI::App& command) {
  const auto settings = std::make_shared<TextSettings>();
  settings->data.clear();
  settings->batch = 32;
  settings->layers = 1;
  settings->width = 256;
  settings->learning_rate = 0.002;
  add_text_options(command, *settings);
  command.footer(
      "The defaults suit a CPU. For a GPU: --device cuda --layers 2 --width 512 --context 128 --batch 64 --dropout 0.4 "
      "--steps 1500");
  return [settings] { return train(*settings); };
}

}  // namespace

const Program kCharGru{"char-gru", "Gated recurrent units that learn a text by its characters and go on writing", add};

}  // namespace ashlar::tools::train
