#include "tools/hybrid/tasks.h"

#include <algorithm>

#include "ashlar/ashlar.h"
#include "nn/data/device_dataset.h"
#include "nn/data/mnist.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/convolution.h"
#include "nn/modules/flatten.h"
#include "nn/modules/linear.h"
#include "nn/modules/pooling.h"
#include "nn/modules/sequential.h"
#include "runtime/support/error.h"
#include "tools/train/characters.h"
#include "tools/train/transformer.h"

namespace ashlar::tools {
namespace {

constexpr uint64_t kNoiseSeed = 20240602;

/// A module whose forward takes what a batch begins with.
template <class M>
Network network_of(M model) {
  const auto module = std::make_shared<M>(std::move(model));
  return {module, [module](const Tensor& inputs) -> Var { return module->forward(inputs); }};
}

void add_layers(nn::Sequential& model, const std::vector<int64_t>& sizes, Random& random) {
  for (size_t i = 1; i < sizes.size(); i++) {
    if (i > 1) model.add<nn::ReLU>();
    model.add<nn::Linear>(sizes[i - 1], sizes[i], random);
  }
}

Tensor wrong_answers(const Tensor& logits, const Tensor& labels) {
  return logical_not(eq(logits.argmax({1}), labels)).to(DType::f32).sum();
}

/// y = a · tanh(W₂ tanh(W₁ x)) + 0.1 ε
class Regression : public Task {
 public:
  Regression() {
    batch_ = 64;
    budgets_ = {1000, 2000, 4000, 8000};
    Random random(20240601);
    const Tensor first = Tensor::randn({kInputs, 32}, random) * 0.25, second = Tensor::randn({32, 32}, random) * 0.2,
                 last = Tensor::randn({32, 1}, random) * 0.3;
    const auto points = [&](int64_t count) {
      const Tensor x = Tensor::randn({count, kInputs}, random);
      const Tensor y = x.matmul(first).tanh().matmul(second).tanh().matmul(last);
      return std::vector<Tensor>{x, y + Tensor::randn({count, 1}, random) * 0.1};
    };
    training_ = points(8192);
    splits_[0] = points(4096);
    splits_[1] = points(4096);
  }
  Network network(uint64_t seed) const override {
    Random random(seed);
    nn::Sequential model;
    add_layers(model, {kInputs, 64, 64, 1}, random);
    return network_of(std::move(model));
  }
  Var losses(const Network& network, const std::vector<Tensor>& batch) const override {
    return nn::mse_loss(network.forward(batch[0]), Var(batch[1]), nn::Reduction::none).reshape({-1});
  }

 protected:
  Sums measure(const Network& network, const std::vector<Tensor>& batch) const override {
    const Tensor sum = losses(network, batch).value().sum();
    return {sum, sum};
  }

 private:
  static constexpr int64_t kInputs = 16;
};

/// Labelled images, what is common to all networks: pixels as they are in files, u8.
class Images : public Task {
 public:
  Images(const std::filesystem::path& folder, double label_noise) {
    const nn::ImageDataset data = nn::read_mnist_folder(folder);
    const nn::PixelStatistics statistics = nn::pixel_statistics(data.train);
    scale_ = 1 / (255 * statistics.deviation);
    shift_ = -statistics.mean / statistics.deviation;
    classes_ = data.classes;
    height_ = data.train.images.size(1);
    width_ = data.train.images.size(2);
    budgets_ = {800, 1600, 3200, 6400};
    const int64_t rows = data.train.size(), held = rows / 6;
    const auto part = [](const nn::LabeledImages& all, int64_t from, int64_t to) {
      return std::vector<Tensor>{all.images.slice(0, from, to).unsqueeze(1),
                                 all.labels.slice(0, from, to).to(DType::i64)};
    };
    training_ = part(data.train, 0, rows - held);
    training_[1] = with_noise(training_[1], label_noise);
    splits_ = {part(data.train, rows - held, rows), part(data.test, 0, data.test.size())};
  }
  Var losses(const Network& network, const std::vector<Tensor>& batch) const override {
    return ad::cross_entropy(logits(network, batch[0]), batch[1]);
  }

 protected:
  Sums measure(const Network& network, const std::vector<Tensor>& batch) const override {
    const Tensor output = logits(network, batch[0]).value();
    return {cross_entropy(output, batch[1]).sum(), wrong_answers(output, batch[1])};
  }
  int64_t classes_ = 0, height_ = 0, width_ = 0;

 private:
  Var logits(const Network& network, const Tensor& pixels) const {
    return network.forward(affine(pixels.to(DType::f32), scale_, shift_));
  }
  Tensor with_noise(const Tensor& labels, double part) const {
    if (part == 0 || classes_ < 2) return labels;
    Random random(kNoiseSeed);
    std::vector<int64_t> noisy = labels.to_vector<int64_t>();
    for (int64_t& label : noisy) {
      const bool is_wrong = random.uniform() < part;
      const auto away = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(classes_ - 1)));
      if (is_wrong) label = (label + away) % classes_;
    }
    return Tensor::from(noisy, labels.shape());
  }
  double scale_ = 1, shift_ = 0;
};

class ImagesByMlp : public Images {
  using Images::Images;

 public:
  Network network(uint64_t seed) const override {
    Random random(seed);
    nn::Sequential model;
    model.add<nn::Flatten>();
    add_layers(model, {height_ * width_, 128, 64, classes_}, random);
    return network_of(std::move(model));
  }
};

/// Without norms, so that averaged weights are all that there is to average.
class ImagesByCnn : public Images {
 public:
  ImagesByCnn(const std::filesystem::path& folder, double label_noise, double flip)
      : Images(folder, label_noise), flip_(flip) {
    if (height_ >= 4 && width_ >= 4) return;
    throw DataError("ashlar-hybrid",
                    folder.string() + " of images of " + std::to_string(height_) + " × " + std::to_string(width_),
                    "4 × 4 pixels or more", "Two stages halve them");
  }
  Network network(uint64_t seed) const override {
    Random random(seed);
    nn::Sequential model;
    int64_t in = 1;
    for (const int64_t out : {16, 32}) {
      model.add<nn::Conv2d>(in, out, Shape{3}, nn::Conv2dOptions{.padding = {1}, .random = &random});
      model.add<nn::ReLU>().add<nn::MaxPool2d>(Shape{2});
      in = out;
    }
    model.add<nn::Flatten>();
    add_layers(model, {in * (height_ / 4) * (width_ / 4), 128, classes_}, random);
    return network_of(std::move(model));
  }
  Augmentation augmentation(Device device) const override {
    return nn::RandomCropFlip({.height = height_, .width = width_, .padding = 2, .flip = flip_}, device);
  }

 private:
  double flip_;
};

class CharacterWindows : public Task {
 public:
  explicit CharacterWindows(const std::string& file) {
    const train::Text text(file, kContext, "--text");
    characters_ = text.vocabulary().size();
    batch_ = 32;
    budgets_ = {1000, 2000, 4000, 8000};
    const auto half = static_cast<size_t>(text.held_out().size() / 2);
    training_ = windows(text.training(), kStride);
    splits_ = {windows(text.held_out().first(half), kContext), windows(text.held_out().subspan(half), kContext)};
  }
  Network network(uint64_t seed) const override {
    Random random(seed);
    return network_of(train::CharTransformer(characters_, {.context = kContext, .layers = 2}, random));
  }
  Var losses(const Network& network, const std::vector<Tensor>& batch) const override {
    return ad::cross_entropy(logits(network, batch[0]), batch[1].reshape({-1})).reshape({-1, kContext}).mean({1});
  }

 protected:
  Sums measure(const Network& network, const std::vector<Tensor>& batch) const override {
    const Tensor output = logits(network, batch[0]).value(), next = batch[1].reshape({-1});
    return {affine(cross_entropy(output, next).sum(), 1.0 / kContext, 0.0),
            affine(wrong_answers(output, next), 1.0 / kContext, 0.0)};
  }

 private:
  static constexpr int64_t kContext = 64, kStride = 16;
  Var logits(const Network& network, const Tensor& tokens) const {
    return network.forward(tokens).reshape({-1, characters_});
  }
  static std::vector<Tensor> windows(std::span<const int64_t> tokens, int64_t stride) {
    if (tokens.size() <= static_cast<size_t>(kContext)) {
      throw DataError("--text", std::to_string(tokens.size()) + " characters in a part of the text",
                      "at least " + std::to_string(kContext + 1), "Give a longer text");
    }
    const nn::CharDataset all(tokens, kContext, stride);
    std::vector<int64_t> indices(static_cast<size_t>(all.size()));
    for (size_t i = 0; i < indices.size(); i++) indices[i] = static_cast<int64_t>(i);
    return all.batch(indices, nn::Dataset::Draw(0, 0));
  }
  int64_t characters_ = 0;
};

}  // namespace

Task::Augmentation Task::augmentation(Device /*device*/) const { return {}; }

HeldOut Task::evaluate(const Network& network, Split split, Device device) const {
  constexpr int64_t kPart = 1000;
  const std::vector<Tensor>& of = splits_.at(static_cast<size_t>(split));
  const int64_t count = of[0].size(0);
  Sums sums{Tensor::zeros({}, DType::f32, device), Tensor::zeros({}, DType::f32, device)};
  for (int64_t at = 0; at < count; at += kPart) {
    std::vector<Tensor> batch;
    for (const Tensor& tensor : of) batch.push_back(tensor.slice(0, at, std::min(at + kPart, count)).to(device));
    const Sums more = measure(network, batch);
    sums = {sums.loss + more.loss, sums.wrong + more.wrong};
  }
  return {sums.loss.item() / static_cast<double>(count), sums.wrong.item() / static_cast<double>(count)};
}

std::unique_ptr<Task> make_task(const std::string& name, const TaskData& data) {
  constexpr const char* kName = "ashlar-hybrid";
  const bool has_labels = name == "fashion" || name == "fashion-cnn" || name == "mnist-cnn";
  if (data.label_noise > 0 && !has_labels) {
    throw ValueError(kName, "label noise with the task \"" + name + "\"", "fashion, fashion-cnn or mnist-cnn",
                     "The others have no labels: leave --label-noise out");
  }
  if (name == "regression") return std::make_unique<Regression>();
  if (name == "fashion") return std::make_unique<ImagesByMlp>(data.fashion, data.label_noise);
  if (name == "fashion-cnn") return std::make_unique<ImagesByCnn>(data.fashion, data.label_noise, 0.5);
  if (name == "mnist-cnn") return std::make_unique<ImagesByCnn>(data.mnist, data.label_noise, 0.0);
  if (name == "char-transformer") return std::make_unique<CharacterWindows>(data.text);
  throw ValueError(kName, "the task \"" + name + "\"",
                   "regression, fashion, fashion-cnn, mnist-cnn or char-transformer", "Separate several with commas");
}

}  // namespace ashlar::tools
