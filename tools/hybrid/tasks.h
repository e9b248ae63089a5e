// What ashlar-hybrid trains: networks small enough for hundreds of runs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/module.h"

namespace ashlar::tools {

/// Loss, and the rate of wrong answers (for regression the loss again), over a whole split.
struct HeldOut {
  double loss = 0;
  double error = 0;
};

/// Which samples a run is measured on. Whatever is chosen (rates, betas, horizons) is chosen on `validation`.
enum class Split : uint8_t { validation, test };

/// A module, and what it computes of a batch's first tensor.
struct Network {
  std::shared_ptr<nn::Module> module;
  std::function<Var(const Tensor& inputs)> forward;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual Network network(uint64_t seed) const = 0;  ///< on the CPU
  /// A loss for each sample of a batch, which is on the network's device.
  virtual Var losses(const Network& network, const std::vector<Tensor>& batch) const = 0;
  /// What becomes of inputs by chance before a step, from a stream of numbers as DeviceDataset::random(); none: nothing
  /// does. What it returns works on `device` alone.
  using Augmentation = std::function<Tensor(const Tensor& inputs, const Tensor& random)>;
  virtual Augmentation augmentation(Device device) const;
  HeldOut evaluate(const Network& network, Split split, Device device) const;

  const std::vector<Tensor>& training() const { return training_; }  ///< samples along axis 0, on the CPU
  int64_t batch() const { return batch_; }
  const std::vector<int64_t>& budgets() const { return budgets_; }  ///< steps, rising

 protected:
  /// Of a batch, the sums over its samples of losses and of wrong answers, on the device, rank 0.
  struct Sums {
    Tensor loss, wrong;
  };
  virtual Sums measure(const Network& network, const std::vector<Tensor>& batch) const = 0;

  int64_t batch_ = 128;
  std::vector<int64_t> budgets_;
  std::vector<Tensor> training_;
  std::array<std::vector<Tensor>, 2> splits_;
};

/// Where data lie, and what is done to them.
struct TaskData {
  std::filesystem::path fashion = "/usr/share/datasets/fashion-mnist";  ///< folders in MNIST's format
  std::filesystem::path mnist;
  std::string text;  ///< a file in UTF-8
  /// Part of the training labels that is made wrong: another class, drawn from a fixed seed. Held-out labels stay
  /// right.
  double label_noise = 0;
};

/// "regression": a random network of tanh with 16 inputs and some noise, learnt by 16-64-64-1 with ReLU from 8192
/// points. "fashion": Fashion-MNIST by 784-128-64-10 with ReLU. "fashion-cnn" and "mnist-cnn": two convolutions with 16
/// and 32 channels of 3 × 3, ReLU and the maximum of 2 × 2 behind each, then 128 and 10; images are shifted by up to
/// two pixels, those of Fashion-MNIST flipped too. Of images the last sixth of the training ones is the validation
/// split. "char-transformer": two layers of width 128 with four heads that foretell the next character of windows of
/// 64, one from every 16th character on; each half of the text's last tenth is a split.
///
/// Throws ValueError on another name, or label noise where there are no labels; DataError where there are no data.
std::unique_ptr<Task> make_task(const std::string& name, const TaskData& data);

}  // namespace ashlar::tools
