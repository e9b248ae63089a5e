// What ashlar-hybrid trains: networks small enough for dozens of runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nn/data/data_loader.h"
#include "nn/modules/sequential.h"

namespace ashlar::tools {

/// Loss, and the rate of wrong answers (for regression the loss again), over a whole split.
struct HeldOut {
  double loss = 0;
  double error = 0;
};

/// Which samples a run is measured on. Whatever is chosen (rates, betas, horizons) is chosen on `validation`.
enum class Split : uint8_t { validation, test };

class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Sequential model(uint64_t seed) const = 0;  ///< on the CPU
  virtual Var loss(nn::Sequential& model, const std::vector<Tensor>& batch) const = 0;
  virtual HeldOut evaluate(nn::Sequential& model, Split split, Device device) const = 0;
  /// The same, one for each sample.
  virtual Var losses(nn::Sequential& model, const std::vector<Tensor>& batch) const = 0;
  const nn::Dataset& training() const { return *training_; }
  const std::vector<Tensor>& training_tensors() const { return tensors_; }  ///< of that data set, on the CPU
  int64_t batch() const { return batch_; }
  const std::vector<int64_t>& budgets() const { return budgets_; }  ///< steps, rising

 protected:
  void train_on(const std::vector<Tensor>& tensors) {
    tensors_ = tensors;
    training_ = std::make_unique<nn::TensorDataset>(tensors);
  }
  int64_t batch_ = 128;
  std::vector<int64_t> budgets_;

 private:
  std::vector<Tensor> tensors_;
  std::unique_ptr<nn::Dataset> training_;
};

/// "regression": a random network of tanh with 16 inputs and some noise, learnt by 16-64-64-1 with ReLU from 8192
/// points. "fashion": Fashion-MNIST, or what lies in `data`, by 784-128-64-10 with ReLU; the last 10000 training images
/// are the validation split. Throws ValueError on another name, DataError where there is no data.
std::unique_ptr<Task> make_task(const std::string& name, const std::filesystem::path& data);

}  // namespace ashlar::tools
