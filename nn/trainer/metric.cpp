#include "nn/trainer/metric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// Throws unless there's a row of scores for each target.
void check(const char* name, const Tensor& outputs, const Tensor& targets, int64_t classes = -1) {
  if (targets.dtype() != DType::i64) {
    throw DTypeError(name, "targets " + targets.str(), "numbers of classes, i64", "Cast them with to(DType::i64)");
  }
  bool fits = outputs.rank() == targets.rank() + 1 && outputs.size(-1) > 0;
  for (int i = 0; fits && i < targets.rank(); i++) fits = outputs.size(i) == targets.size(i);
  if (fits && (classes < 0 || outputs.size(-1) == classes)) return;
  throw ShapeError(name, "outputs " + outputs.str() + " and targets " + targets.str(),
                   classes < 0 ? "outputs of the targets' shape and one axis more, the classes"
                               : "outputs of the targets' shape and an axis of " + std::to_string(classes) + " classes",
                   "Give it what cross_entropy() is given, classes last");
}

Tensor counter(const Shape& shape, Device device) { return Tensor::zeros(shape, DType::i64, device); }

/// 1 row for each target
Tensor rows_of(const Tensor& outputs, const Tensor& targets) {
  return outputs.reshape({targets.numel(), outputs.size(-1)});
}

Tensor number_of(const Tensor& targets) { return Tensor::full({}, targets.numel(), DType::i64, targets.device()); }

double ratio(const Tensor& a, const Tensor& b) { return a.item() / b.item(); }  // NaN for 0 / 0

}  // namespace

void Metric::reset() {
  for (const Tensor& sum : sums_) sum.fill_(0);
}

void Metric::add_to(size_t i, const Tensor& what) { sums_[i].copy_(ashlar::add(sums_[i], what)); }

Accuracy::Accuracy(Device device) : Metric({counter({}, device), counter({}, device)}) {}

void Accuracy::add(const Tensor& outputs, const Tensor& targets) {
  check("Accuracy", outputs, targets);
  add_to(0, count_nonzero(equal(argmax(outputs, {-1}).to(DType::i64), targets)).to(DType::i64));
  add_to(1, number_of(targets));
}

double Accuracy::read() const { return ratio(sums()[0], sums()[1]); }

TopKAccuracy::TopKAccuracy(int64_t k, Device device) : Metric({counter({}, device), counter({}, device)}), k_(k) {
  if (k > 0) return;
  throw ValueError("TopKAccuracy", "k = " + std::to_string(k), "a positive number", "5 is usual");
}

void TopKAccuracy::add(const Tensor& outputs, const Tensor& targets) {
  check("TopKAccuracy", outputs, targets);
  const Tensor flat = targets.contiguous().reshape({targets.numel(), 1});
  const Tensor best = topk(rows_of(outputs, targets), std::min(k_, outputs.size(-1))).indices.to(DType::i64);
  add_to(0, count_nonzero(equal(best, flat)).to(DType::i64));
  add_to(1, number_of(targets));
}

double TopKAccuracy::read() const { return ratio(sums()[0], sums()[1]); }

Perplexity::Perplexity(Device device) : Metric({Tensor::zeros({}, DType::f32, device), counter({}, device)}) {}

void Perplexity::add(const Tensor& outputs, const Tensor& targets) {
  check("Perplexity", outputs, targets);
  const Tensor flat = targets.contiguous().reshape({targets.numel()});
  const Tensor known = logical_and(ge(flat, 0), lt(flat, outputs.size(-1)));
  const Tensor losses = cross_entropy(rows_of(outputs, targets).to(DType::f32), flat);
  add_to(0, sum(where(known, losses, 0.0)));
  add_to(1, count_nonzero(known).to(DType::i64));
}

double Perplexity::read() const { return std::exp(ratio(sums()[0], sums()[1])); }

ConfusionMatrix::ConfusionMatrix(int64_t classes, Device device)
    : Metric({counter({std::max<int64_t>(classes, 1) * classes}, device)}), classes_(classes) {
  if (classes > 0) return;
  throw ValueError("ConfusionMatrix", std::to_string(classes) + " classes", "at least one", "10 for digits");
}

void ConfusionMatrix::add(const Tensor& outputs, const Tensor& targets) {
  check("ConfusionMatrix", outputs, targets, classes_);
  const Tensor right = targets.contiguous().reshape({targets.numel()});
  const Tensor answered = argmax(rows_of(outputs, targets), {-1}).to(DType::i64);
  const Tensor known = logical_and(ge(right, 0), lt(right, classes_));
  const Tensor place = ashlar::add(mul(where(known, right, 0), classes_), answered);
  const Tensor& counts = sums()[0];
  counts.copy_(scatter_add(counts, place, known.to(DType::i64), 0));
}

Tensor ConfusionMatrix::matrix() const { return sums()[0].to(Device::cpu()).clone().reshape({classes_, classes_}); }

double ConfusionMatrix::read() const {
  const std::vector<int64_t> counts = sums()[0].to_vector<int64_t>();
  double recognised = 0;
  int occurring = 0;
  for (int64_t row = 0; row < classes_; row++) {
    int64_t all = 0;
    for (int64_t column = 0; column < classes_; column++) all += counts[static_cast<size_t>(row * classes_ + column)];
    if (all == 0) continue;
    occurring++;
    recognised += static_cast<double>(counts[static_cast<size_t>(row * (classes_ + 1))]) / static_cast<double>(all);
  }
  return occurring > 0 ? recognised / occurring : std::numeric_limits<double>::quiet_NaN();
}

Metrics::Metrics(std::initializer_list<std::shared_ptr<Metric>> all) : all_(all) {
  std::unordered_set<std::string> seen;
  for (const std::shared_ptr<Metric>& metric : all_) {
    if (metric != nullptr && seen.insert(metric->name()).second) continue;
    throw ValueError("Metrics", metric == nullptr ? "a null pointer" : "\"" + metric->name() + "\" twice",
                     "metrics of different names", "Give it what std::make_shared makes");
  }
}

void Metrics::add(const Var& outputs, const Tensor& targets) const {
  const NoGrad no_grad;
  for (const std::shared_ptr<Metric>& metric : all_) metric->add(outputs.value(), targets);
}

void Metrics::reset() const {
  for (const std::shared_ptr<Metric>& metric : all_) metric->reset();
}

std::vector<std::string> Metrics::names() const {
  std::vector<std::string> result;
  for (const std::shared_ptr<Metric>& metric : all_) result.push_back(metric->name());
  return result;
}

std::vector<double> Metrics::read() const {
  std::vector<double> result;
  for (const std::shared_ptr<Metric>& metric : all_) result.push_back(metric->read());
  return result;
}

std::vector<Tensor> Metrics::sums() const {
  std::vector<Tensor> result;
  for (const std::shared_ptr<Metric>& metric : all_) {
    result.insert(result.end(), metric->sums().begin(), metric->sums().end());
  }
  return result;
}

}  // namespace ashlar::nn
