#include "nn/optim/weight_average.h"

#include <string>
#include <unordered_map>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

WeightAverage::WeightAverage(const Optimizer& optimizer, std::optional<double> decay)
    : optimizer_(optimizer), decay_(decay), values_(optimizer.arena_values()) {
  if (decay && !(*decay >= 0 && *decay < 1)) {
    throw ValueError("WeightAverage", "a decay of " + std::to_string(*decay), "a number in [0, 1)", "Start with 0.999");
  }
  for (const Tensor& values : values_) {
    averages_.push_back(Tensor::zeros(values.shape(), DType::f32, values.device()));
    counts_.push_back(Tensor::zeros({}, DType::f32, values.device()));
  }
}

void WeightAverage::check() const {
  const std::vector<Tensor> now = optimizer_.arena_values();
  bool same = now.size() == values_.size();
  for (size_t i = 0; same && i < now.size(); i++) same = now[i].storage() == values_[i].storage();
  if (same) return;
  throw ValueError("WeightAverage", "parameters that have moved since", "those that it was made with",
                   "Move the module first, step the optimiser once, then make the average");
}

void WeightAverage::update() {
  check();
  const NoGrad no_grad;
  for (size_t i = 0; i < values_.size(); i++) {
    counts_[i].copy_(affine(counts_[i], 1.0, 1.0));
    // 1 at first, then 1 - decay; or 1 / n
    const Tensor weight = decay_ ? maximum(eq(counts_[i], 1.0).to(DType::f32), 1 - *decay_) : div(1.0, counts_[i]);
    average_step(averages_[i], values_[i], weight);
  }
}

void WeightAverage::apply() {
  check();
  if (!trained_.empty() || counts_[0].item() == 0) {
    throw ValueError("WeightAverage::apply", trained_.empty() ? "no update() before" : "a second apply()",
                     "an average that isn't applied yet",
                     "Call update() after steps, and restore() before more of them");
  }
  for (size_t i = 0; i < values_.size(); i++) {
    trained_.push_back(values_[i].clone());
    values_[i].copy_(averages_[i].to(values_[i].dtype()));
  }
}

void WeightAverage::restore() {
  for (size_t i = 0; i < trained_.size(); i++) values_[i].copy_(trained_[i]);
  trained_.clear();
}

NamedTensors WeightAverage::state_dict() const {
  NamedTensors result;
  for (size_t i = 0; i < values_.size(); i++) {
    result.emplace_back("count." + std::to_string(i), counts_[i]);
    result.emplace_back("average." + std::to_string(i), averages_[i]);
  }
  return result;
}

void WeightAverage::load_state_dict(const NamedTensors& state) const {
  constexpr const char* kName = "WeightAverage::load_state_dict";
  constexpr const char* kRemedy = "Load what was saved from an average of the same network";
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  const NamedTensors targets = state_dict();
  for (const auto& [name, tensor] : targets) {
    const auto found = given.find(name);
    if (found == given.end()) throw ValueError(kName, "no tensor \"" + name + "\"", "all of its own", kRemedy);
    if (found->second.shape() != tensor.shape() || found->second.dtype() != tensor.dtype()) {
      throw ShapeError(kName, "\"" + name + "\" as " + found->second.str(), tensor.str(), kRemedy);
    }
  }
  for (const auto& [name, tensor] : targets) tensor.copy_(given.at(name));
}

}  // namespace ashlar::nn
