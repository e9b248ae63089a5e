// Figures that batches add up to: what a training's outputs say of it beside the loss.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/var.h"

namespace ashlar::nn {

/// Sums that lie on a device. To have another, derive from it: add() computes with operators and writes into sums()
/// with copy_(), read() makes a number of them.
class Metric {
 public:
  virtual ~Metric() = default;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  /// The column's name in files: "accuracy".
  virtual std::string name() const = 0;
  /// A batch's outputs and targets on the metric's device. Only queues work, so that it may be part of a captured step.
  virtual void add(const Tensor& outputs, const Tensor& targets) = 0;
  /// Of all since reset(): waits for the device. NaN where nothing was added.
  virtual double read() const = 0;
  void reset();
  /// What checkpoints keep.
  const std::vector<Tensor>& sums() const { return sums_; }

 protected:
  explicit Metric(std::vector<Tensor> sums) : sums_(std::move(sums)) {}
  /// sums()[i] += what
  void add_to(size_t i, const Tensor& what);

 private:
  std::vector<Tensor> sums_;
};

/// All below take outputs [..., classes], a score for each class (logits or probabilities), and targets i64 [...]. They
/// throw ShapeError, DTypeError where these don't fit, DeviceError. Counts are exact.

/// The part of rows whose largest score is the target's (the first of several that are as large).
class Accuracy : public Metric {
 public:
  explicit Accuracy(Device device = {});
  std::string name() const override { return "accuracy"; }
  void add(const Tensor& outputs, const Tensor& targets) override;
  double read() const override;
};

/// The part of rows whose target is among the k largest scores.
class TopKAccuracy : public Metric {
 public:
  /// Throws ValueError unless k is positive.
  explicit TopKAccuracy(int64_t k, Device device = {});
  std::string name() const override { return "top_" + std::to_string(k_) + "_accuracy"; }
  void add(const Tensor& outputs, const Tensor& targets) override;
  double read() const override;

 private:
  int64_t k_;
};

/// e to the mean of -ln softmax(outputs)[target]: of how many equally likely answers the outputs leave a choice. Rows
/// whose target is no class (padding) don't count. The sum is f32.
class Perplexity : public Metric {
 public:
  explicit Perplexity(Device device = {});
  std::string name() const override { return "perplexity"; }
  void add(const Tensor& outputs, const Tensor& targets) override;
  double read() const override;
};

/// How often the class of a column was answered where that of a row was right. As a number: the mean over the classes
/// that occur of the part that was recognised (balanced accuracy). Targets that are no class don't count.
class ConfusionMatrix : public Metric {
 public:
  /// Throws ValueError unless there's a class.
  explicit ConfusionMatrix(int64_t classes, Device device = {});
  std::string name() const override { return "balanced_accuracy"; }
  void add(const Tensor& outputs, const Tensor& targets) override;
  double read() const override;
  /// i64 [classes, classes] on the CPU: of the pass that was last, for fit() the last validation if there is one.
  Tensor matrix() const;

 private:
  int64_t classes_;
};

/// Several, told of a batch together:
///
///   nn::Metrics metrics{std::make_shared<nn::Accuracy>(device), std::make_shared<nn::TopKAccuracy>(5, device)};
///   const auto loss = [&](const std::vector<Tensor>& batch) {
///     const Var logits = model(batch[0]);
///     metrics.add(logits, batch[1]);
///     return nn::cross_entropy(logits, batch[1]);
///   };
class Metrics {
 public:
  /// Throws ValueError on a null pointer, or when two have one name.
  Metrics(std::initializer_list<std::shared_ptr<Metric>> all);

  void add(const Var& outputs, const Tensor& targets) const;
  void reset() const;
  std::vector<std::string> names() const;
  /// In the order of names().
  std::vector<double> read() const;
  /// Of all, one after the other.
  std::vector<Tensor> sums() const;

 private:
  std::vector<std::shared_ptr<Metric>> all_;
};

}  // namespace ashlar::nn
