#include "nn/hybrid/step_recorder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "StepRecorder";

/// The sum of squares of all of them.
double squares_of(const std::vector<Tensor>& tensors) {
  double total = 0;
  for (const Tensor& tensor : tensors) {
    const Tensor wide = tensor.to(DType::f32);
    total += sum(mul(wide, wide)).item();
  }
  return total;
}

void keep_last(std::vector<double>& values, size_t count) {
  if (values.size() > count) values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(count));
}

}  // namespace

StepRecorder::StepRecorder(const Optimizer& optimizer, Device device, int64_t most)
    : optimizer_(optimizer),
      most_(most),
      last_(Tensor::zeros({2}, DType::f32, device)),
      ring_(Tensor::zeros({most, 2}, DType::f32, device)) {}

void StepRecorder::measure(const Tensor& loss) const {
  const NoGrad no_grad;
  last_.select(0, 0).copy_(loss);
  last_.select(0, 1).copy_(optimizer_.norm_of_gradients());
}

void StepRecorder::keep() {
  if (waiting() == most_) {
    throw ValueError(kName, "a step beyond " + std::to_string(most_), "read() before", "Read more often");
  }
  ring_.select(0, waiting()).copy_(last_);
  rates_waiting_.push_back(optimizer_.learning_rate());
}

int64_t StepRecorder::read() {
  const int64_t steps = waiting();
  if (steps == 0) return 0;
  const std::vector<float> numbers = ring_.slice(0, 0, steps).to_vector<float>();
  for (size_t i = 0; i < rates_waiting_.size(); i++) {
    losses_.push_back(numbers[2 * i]);
    gradients_.push_back(numbers[2 * i + 1]);
    rates_.push_back(rates_waiting_[i]);
  }
  rates_waiting_.clear();
  count_ += steps;
  for (std::vector<double>* all : {&losses_, &gradients_, &rates_}) keep_last(*all, kHistory);
  before_ = now_;
  now_ = norms();
  return steps;
}

ArenaNorms StepRecorder::norms() const {
  const NoGrad no_grad;
  const std::vector<Tensor> values = optimizer_.arena_values();
  double elements = 0;
  for (const Tensor& arena : values) elements += static_cast<double>(arena.numel());
  ArenaNorms result;
  result.weights = std::sqrt(squares_of(values) / std::max(elements, 1.0));
  for (size_t i = 0; i < result.moments.size(); i++) {
    result.moments[i] = std::sqrt(squares_of(optimizer_.arena_moments(i)));
  }
  return result;
}

void StepRecorder::go_back(int64_t count) {
  rates_waiting_.clear();
  const auto dropped = static_cast<size_t>(std::clamp<int64_t>(count_ - count, 0, count_));
  for (std::vector<double>* all : {&losses_, &gradients_, &rates_})
    all->resize(all->size() - std::min(dropped, all->size()));
  count_ = std::min(count_, count);
}

TrainingMeasures StepRecorder::measures(int64_t count) const {
  const auto later = static_cast<size_t>(count_ - count);
  const auto until = [&](const std::vector<double>& all) {
    const std::span<const double> seen = std::span(all).first(all.size() - std::min(later, all.size()));
    return seen.last(std::min(seen.size(), kStateWindow));
  };
  TrainingMeasures result;
  result.losses = until(losses_);
  result.gradients = until(gradients_);
  result.rates = until(rates_);
  result.now = now_;
  result.before = before_;
  return result;
}

std::span<const double> StepRecorder::losses(int64_t first, int64_t last) const {
  const int64_t oldest = count_ - static_cast<int64_t>(losses_.size());
  if (first < oldest || last < first || last > count_) {
    throw ValueError(kName, "steps " + std::to_string(first) + " to " + std::to_string(last),
                     "some of the steps " + std::to_string(oldest) + " to " + std::to_string(count_),
                     "Ask for losses sooner");
  }
  return std::span(losses_).subspan(static_cast<size_t>(first - oldest), static_cast<size_t>(last - first));
}

NamedTensors StepRecorder::state_dict() const {
  std::vector<double> recorded;
  for (const std::vector<double>* all : {&losses_, &gradients_, &rates_}) {
    recorded.insert(recorded.end(), all->begin(), all->end());
  }
  std::vector<double> numbers{static_cast<double>(count_)};
  for (const ArenaNorms& norms : {now_, before_}) {
    numbers.insert(numbers.end(), {norms.weights, norms.moments[0], norms.moments[1]});
  }
  return {{"recorded", Tensor::from(recorded, {3, static_cast<int64_t>(losses_.size())})},
          {"recorder", Tensor::from(numbers, {static_cast<int64_t>(numbers.size())})},
          {"waiting", Tensor::from(rates_waiting_, {waiting()})},
          {"ring", ring_}};
}

void StepRecorder::load_state_dict(const NamedTensors& state) {
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  const auto refuse = [] {
    throw ValueError(kName, "other records", "those of a hybrid training with the same options",
                     "Remove the checkpoint to begin anew");
  };
  for (const char* name : {"recorded", "recorder", "waiting", "ring"}) {
    if (!given.contains(name)) refuse();
  }
  const Tensor recorded = given.at("recorded"), ring = given.at("ring");
  const std::vector<double> numbers = given.at("recorder").to_vector<double>();
  if (recorded.rank() != 2 || recorded.size(0) != 3 || recorded.size(1) > static_cast<int64_t>(kHistory) ||
      numbers.size() != 7 || ring.shape() != ring_.shape() || given.at("waiting").numel() > most_ ||
      numbers[0] < static_cast<double>(recorded.size(1))) {
    refuse();
  }
  ring_.copy_(ring);
  rates_waiting_ = given.at("waiting").to_vector<double>();
  size_t i = 0;
  for (std::vector<double>* all : {&losses_, &gradients_, &rates_}) {
    *all = recorded.select(0, static_cast<int64_t>(i++)).to_vector<double>();
  }
  count_ = static_cast<int64_t>(numbers[0]);
  now_ = {numbers[1], {numbers[2], numbers[3]}};
  before_ = {numbers[4], {numbers[5], numbers[6]}};
}

}  // namespace ashlar::nn
