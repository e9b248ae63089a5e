// Training steps of whole networks: forward, backward and Adam. Without dropout, whose numbers nobody could check.
#include <cmath>
#include <memory>
#include <optional>

#include "ashlar/ad.h"
#include "autograd/backward.h"
#include "benchmarks/benchmark.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/channel_norm.h"
#include "nn/modules/convolution.h"
#include "nn/modules/embedding.h"
#include "nn/modules/flatten.h"
#include "nn/modules/linear.h"
#include "nn/modules/pooling.h"
#include "nn/modules/recurrent.h"
#include "nn/modules/sequential.h"
#include "nn/modules/transformer.h"
#include "nn/optim/adam.h"
#include "nn/trainer/replayed_step.h"

namespace ashlar::bench {
namespace {

using enum DType;
using conformance::Pattern;

/// A network and what it makes of a batch: logits [labels, classes].
struct Network {
  std::shared_ptr<nn::Module> model;
  std::function<Var(const Tensor& batch)> logits;
};

template <class Model>
Network network_of(std::shared_ptr<Model> model) {
  return {model, [model](const Tensor& batch) { return model->forward(batch); }};
}

/// Steps on one batch; inputs: the batch, its labels, then the parameters to start from, in the model's order. On a GPU
/// the second step is captured and the further ones replay it, as in nn::fit().
class TrainingStep {
 public:
  explicit TrainingStep(Network network) : network_(std::move(network)) {}

  std::vector<Tensor> operator()(Tensors x) {
    if (!optimizer_) build(x);
    step_->run({x[0], x[1]});
    return {loss_};
  }

 private:
  void build(Tensors x) {
    network_.model->to(x[0].device());
    network_.model->to(x[2].dtype());
    const std::vector<Var> parameters = network_.model->parameters();
    for (size_t i = 0; i < parameters.size(); i++) parameters[i].value().copy_(x[i + 2]);
    optimizer_.emplace(parameters);
    step_.emplace(x[0].device(), std::nullopt, [this](const std::vector<Tensor>& batch) {
      optimizer_->zero_grad();
      const Var loss = nn::cross_entropy(network_.logits(batch[0]), batch[1]);
      backward(loss);
      optimizer_->step();
      loss_ = loss.value();
    });
  }
  Network network_;
  std::optional<nn::Adam> optimizer_;
  std::optional<nn::ReplayedStep> step_;
  Tensor loss_;
};

Input integers(Shape shape, int64_t values) {
  return {.shape = std::move(shape),
          .values = {.pattern = Pattern::integers, .low = 0, .high = static_cast<double>(values - 1)},
          .dtype = i64};
}

/// Of what `make` returns. `flops`: of one step.
Benchmark training_step(std::string kernel, std::string name, const Input& batch, const Input& labels,
                        const std::function<Network()>& make, double flops, int checked_call) {
  std::vector<Input> inputs{batch, labels};
  for (const auto& [parameter, value] : make().model->named_parameters()) {
    const bool is_gain = parameter.ends_with("weight") && value.rank() == 1;
    const double spread = value.rank() > 1 ? 1 / std::sqrt(static_cast<double>(value.numel() / value.size(0))) : 0.04;
    inputs.push_back({.shape = value.shape(), .values = {.low = is_gain - spread, .high = is_gain + spread}});
  }
  return {.kernel = std::move(kernel),
          .name = std::move(name),
          .inputs = std::move(inputs),
          .make = [make] { return [step = std::make_shared<TrainingStep>(make())](Tensors x) { return (*step)(x); }; },
          .flops = flops,
          .checked_call = checked_call,
          .stateful = true};
}

/// Of `products` multiplications and additions forward for each sample, twice as many back, but for those that the
/// first layer's input would need.
double flops_of(int64_t samples, int64_t products, int64_t of_first) {
  return 2.0 * static_cast<double>(samples) * static_cast<double>(3 * products - of_first);
}

/// ashlar-train's, 784-256-128-10 with ReLU.
Benchmark mlp_training(int64_t batch) {
  const auto make = [] {
    Random random(0);
    return network_of(std::make_shared<nn::Sequential>(nn::Linear(784, 256, random), nn::ReLU(),
                                                       nn::Linear(256, 128, random), nn::ReLU(),
                                                       nn::Linear(128, 10, random)));
  };
  return training_step("mlp_step", "batch_" + std::to_string(batch), {.shape = {batch, 784}}, integers({batch}, 10),
                       make, flops_of(batch, 784 * 256 + 256 * 128 + 128 * 10, 784 * 256), 5);
}

/// ashlar-train's on images of 28 × 28: two convolutions, normalised, with maxima of 2 × 2, and two layers.
Benchmark cnn_training(int64_t batch, VendorPolicy vendor = VendorPolicy::automatic) {
  const auto make = [] {
    Random random(0);
    const nn::Conv2dOptions same{.padding = {1}, .bias = false, .random = &random};
    return network_of(std::make_shared<nn::Sequential>(
        nn::Conv2d(1, 16, Shape{3}, same), nn::BatchNorm2d(16), nn::ReLU(), nn::MaxPool2d(Shape{2}),
        nn::Conv2d(16, 32, Shape{3}, same), nn::BatchNorm2d(32), nn::ReLU(), nn::MaxPool2d(Shape{2}), nn::Flatten(),
        nn::Linear(32 * 7 * 7, 128, random), nn::ReLU(), nn::Linear(128, 10, random)));
  };
  constexpr int64_t kFirst = 28 * 28 * 16 * 9, kSecond = 14 * 14 * 32 * 16 * 9, kLayers = 32 * 7 * 7 * 128 + 128 * 10;
  Benchmark step =
      training_step("cnn_step", (vendor == VendorPolicy::never ? "own_batch_" : "batch_") + std::to_string(batch),
                    {.shape = {batch, 1, 28, 28}}, integers({batch}, 10), make,
                    flops_of(batch, kFirst + kSecond + kLayers, kFirst), 2);
  step.vendor = vendor;
  return step;
}

/// A decoder that foretells characters: vectors of characters and places, layers with the norms before, causal; the
/// logits are products with the characters' vectors.
class Transformer : public nn::ModuleOf<Transformer> {
 public:
  Transformer(int64_t characters, int64_t context, int64_t layers, int64_t width, Random& random)
      : tokens_(Tensor::zeros({characters, width}), true),
        positions_(Tensor::zeros({context, width}), true),
        decoder_(layers, width, width / kHeadWidth,
                 {.dim_feedforward = 4 * width,
                  .dropout = 0,
                  .gelu = true,
                  .batch_first = true,
                  .norm_first = true,
                  .random = &random},
                 /*has_norm=*/true) {}
  Var forward(const Tensor& tokens) {
    const Var x = decoder_(ad::add(ad::embedding(tokens, tokens_), positions_), nn::AttentionMask{.is_causal = true});
    return ad::matmul(x.reshape({-1, x.size(2)}), tokens_, {.transpose_b = true});
  }

 protected:
  void members(nn::Members& members) override {
    members.parameter("tokens", tokens_);
    members.parameter("positions", positions_);
    members.child("decoder", decoder_);
  }

 private:
  static constexpr int64_t kHeadWidth = 64;
  Var tokens_, positions_;
  nn::TransformerEncoder decoder_;
};

constexpr int64_t kCharacters = 65;  // tinyshakespeare's

Benchmark transformer_training(int64_t batch, int64_t context, int64_t layers, int64_t width) {
  const auto make = [=] {
    Random random(0);
    return network_of(std::make_shared<Transformer>(kCharacters, context, layers, width, random));
  };
  // A token's: 12 width² of products and, on average, half the context's scores and sums of values.
  const int64_t products = layers * (12 * width * width + context * width) + kCharacters * width;
  return training_step("transformer_step",
                       std::to_string(layers) + "_layers_of_" + std::to_string(width) + "_batch_" +
                           std::to_string(batch) + "x" + std::to_string(context),
                       integers({batch, context}, kCharacters), integers({batch * context}, kCharacters), make,
                       flops_of(batch * context, products, 0), 2);
}

/// Gated recurrent units that foretell characters.
class CharGru : public nn::ModuleOf<CharGru> {
 public:
  CharGru(int64_t characters, int64_t width, Random& random)
      : tokens_(characters, width, {.random = &random}),
        gru_(width, width, {.batch_first = true, .random = &random}),
        head_(width, characters, random) {}
  Var forward(const Tensor& tokens) {
    const Var y = gru_(tokens_(tokens)).output;
    return head_(y.reshape({-1, y.size(2)}));
  }

 protected:
  void members(nn::Members& members) override {
    members.child("tokens", tokens_);
    members.child("gru", gru_);
    members.child("head", head_);
  }

 private:
  nn::Embedding tokens_;
  nn::GRU gru_;
  nn::Linear head_;
};

Benchmark gru_training(int64_t batch, int64_t context, int64_t width) {
  const auto make = [=] {
    Random random(0);
    return network_of(std::make_shared<CharGru>(kCharacters, width, random));
  };
  return training_step(
      "gru_step", "hidden_" + std::to_string(width) + "_batch_" + std::to_string(batch) + "x" + std::to_string(context),
      integers({batch, context}, kCharacters), integers({batch * context}, kCharacters), make,
      flops_of(batch * context, 6 * width * width + kCharacters * width, 0), 2);
}

}  // namespace

std::vector<Benchmark> training_benchmarks() {
  return {mlp_training(64),
          mlp_training(128),
          cnn_training(64),
          cnn_training(512),
          cnn_training(64, VendorPolicy::never),
          cnn_training(512, VendorPolicy::never),
          transformer_training(64, 256, 6, 384),
          gru_training(32, 64, 256)};
}

}  // namespace ashlar::bench
