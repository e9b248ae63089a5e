#include "tools/hybrid/tasks.h"

#include "ashlar/ashlar.h"
#include "nn/data/mnist.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "runtime/support/error.h"

namespace ashlar::tools {
namespace {

nn::Sequential mlp(const std::vector<int64_t>& sizes, uint64_t seed) {
  Random random(seed);
  nn::Sequential model;
  for (size_t i = 1; i < sizes.size(); i++) {
    if (i > 1) model.add<nn::ReLU>();
    model.add<nn::Linear>(sizes[i - 1], sizes[i], random);
  }
  return model;
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
    train_on(points(8192));
    splits_ = {points(4096), points(4096)};
  }
  nn::Sequential model(uint64_t seed) const override { return mlp({kInputs, 64, 64, 1}, seed); }
  Var loss(nn::Sequential& model, const std::vector<Tensor>& batch) const override {
    const Var error = ad::sub(model(batch[0]), batch[1]);
    return ad::mean(ad::mul(error, error));
  }
  Var losses(nn::Sequential& model, const std::vector<Tensor>& batch) const override {
    return nn::mse_loss(model(batch[0]), Var(batch[1]), nn::Reduction::none).reshape({-1});
  }
  HeldOut evaluate(nn::Sequential& model, Split split, Device device) const override {
    const std::vector<Tensor>& of = splits_.at(static_cast<size_t>(split));
    const double value = loss(model, {of[0].to(device), of[1].to(device)}).value().item();
    return {value, value};
  }

 private:
  static constexpr int64_t kInputs = 16;
  std::vector<std::vector<Tensor>> splits_;
};

class Images : public Task {
 public:
  explicit Images(const std::filesystem::path& folder) : data_(nn::read_mnist_folder(folder)) {
    const nn::PixelStatistics statistics = nn::pixel_statistics(data_.train);
    scale_ = 1 / (255 * statistics.deviation);
    shift_ = -statistics.mean / statistics.deviation;
    batch_ = 128;
    budgets_ = {800, 1600, 3200, 6400};
    const int64_t rows = data_.train.size(), held = rows / 6;
    const auto part = [](const nn::LabeledImages& all, int64_t from, int64_t to) {
      return std::vector<Tensor>{all.images.slice(0, from, to).reshape({to - from, -1}),
                                 all.labels.slice(0, from, to).to(DType::i64)};
    };
    train_on(part(data_.train, 0, rows - held));
    splits_ = {part(data_.train, rows - held, rows), part(data_.test, 0, data_.test.size())};
  }
  nn::Sequential model(uint64_t seed) const override {
    return mlp({data_.train.pixels(), 128, 64, data_.classes}, seed);
  }
  Var loss(nn::Sequential& model, const std::vector<Tensor>& batch) const override {
    return nn::cross_entropy(logits(model, batch), batch[1]);
  }
  Var losses(nn::Sequential& model, const std::vector<Tensor>& batch) const override {
    return nn::cross_entropy(logits(model, batch), batch[1], {.reduction = nn::Reduction::none});
  }
  HeldOut evaluate(nn::Sequential& model, Split split, Device device) const override {
    constexpr int64_t kPart = 2000;
    const std::vector<Tensor>& of = splits_.at(static_cast<size_t>(split));
    HeldOut sum;
    const int64_t count = of[0].size(0);
    for (int64_t at = 0; at < count; at += kPart) {
      const int64_t end = std::min(at + kPart, count);
      const Tensor labels = of[1].slice(0, at, end).to(device);
      const Tensor logits = model(affine(of[0].slice(0, at, end).to(device).to(DType::f32), scale_, shift_)).value();
      sum.loss += nn::cross_entropy(logits, labels).value().item() * static_cast<double>(end - at);
      sum.error += logical_not(eq(logits.argmax({1}), labels)).to(DType::f32).sum().item();
    }
    return {sum.loss / static_cast<double>(count), sum.error / static_cast<double>(count)};
  }

 private:
  Var logits(nn::Sequential& model, const std::vector<Tensor>& batch) const {
    return model(affine(batch[0].to(DType::f32), scale_, shift_));
  }
  nn::ImageDataset data_;
  double scale_ = 1, shift_ = 0;
  std::vector<std::vector<Tensor>> splits_;
};

}  // namespace

std::unique_ptr<Task> make_task(const std::string& name, const std::filesystem::path& data) {
  if (name == "regression") return std::make_unique<Regression>();
  if (name == "fashion") return std::make_unique<Images>(data);
  throw ValueError("ashlar-hybrid", "the task \"" + name + "\"", "regression or fashion",
                   "Separate several with commas");
}

}  // namespace ashlar::tools
