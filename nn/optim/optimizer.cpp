#include "nn/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "runtime/forms/forms.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

void check_learning_rate(double learning_rate) {
  if (learning_rate >= 0 && std::isfinite(learning_rate)) return;
  throw ValueError("Optimizer", "the learning rate " + std::to_string(learning_rate), "a finite number of 0 or more",
                   "Start with 1e-3 for Adam, 1e-1 for SGD");
}

Tensor number_on(Device device, double value) { return Tensor::full({}, value, DType::f32, device); }

/// Σ x², rank 0, f32: the reduction of norm(), squared as it goes; before the root, since arenas' sums are added.
Tensor sum_of_squares(const Tensor& x) {
  const Scalar power(2.0);
  return forms::reduction(kernels::sum_of_squares, x.to(DType::f32), {}, /*keepdim=*/false, std::span(&power, 1));
}

}  // namespace

Optimizer::Optimizer(std::vector<Group> groups) try : groups_(std::move(groups)) {
  std::unordered_set<const void*> seen;  // weights shared by two modules are updated once
  for (Group& group : groups_) {
    check_learning_rate(group.learning_rate);
    learning_rates_.push_back(group.learning_rate);
    group.numbers.insert(group.numbers.begin(), Kept{"step"});
    for (Var& parameter : group.parameters) {
      if (!parameter.requires_grad() || !seen.insert(parameter.state().get()).second) continue;
      parameters_.push_back(std::move(parameter));
      group_of_.push_back(learning_rates_.size() - 1);
    }
    group.parameters.clear();
  }
  if (parameters_.empty()) {
    throw ValueError("Optimizer", "no parameter that requires a gradient", "at least one", "Pass module.parameters()");
  }
  gather();
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Optimizer");
}

// Arenas for where the parameters are now; state found in the old ones moves along.
void Optimizer::gather() {
  const NoGrad no_grad;
  struct Old {
    std::vector<Tensor> moments;
    std::vector<Tensor> numbers;
  };
  std::vector<Old> old(arenas_.empty() ? 0 : parameters_.size());
  for (size_t i = 0; i < old.size(); i++) {
    const Place place = place_of(i);
    for (const Tensor& flat : place.arena->moments) {
      old[i].moments.push_back(place.arena->parameters.part(flat, place.index));
    }
    old[i].numbers = place.arena->numbers;
  }
  std::vector<Arena> arenas;
  std::vector<bool> done(parameters_.size(), false);
  for (size_t first = 0; first < parameters_.size(); first++) {
    if (done[first]) continue;
    const Device device = parameters_[first].device();
    const DType dtype = parameters_[first].dtype();
    std::vector<Var> members;
    std::vector<size_t> indices;
    for (size_t i = first; i < parameters_.size(); i++) {
      if (parameters_[i].device() != device || parameters_[i].dtype() != dtype || group_of_[i] != group_of_[first]) {
        continue;
      }
      done[i] = true;
      members.push_back(parameters_[i]);
      indices.push_back(i);
    }
    const Group& group = groups_[group_of_[first]];
    Arena arena{group_of_[first],
                ParameterArena(std::move(members)),
                {},
                {},
                number_on(device, learning_rates_[group_of_[first]]),
                number_on(device, group.maximize ? -gradient_scale_ : gradient_scale_)};
    for (size_t m = 0; m < group.moments.size(); m++) {
      // Moments of f16 and bf16 parameters stay in f32: squares of small gradients vanish in 16 bits.
      const Tensor flat = Tensor::full(arena.parameters.values().shape(), group.moments[m].first, DType::f32, device);
      for (size_t i = 0; i < indices.size() && !old.empty(); i++) {
        arena.parameters.part(flat, i).copy_(old[indices[i]].moments[m]);
      }
      arena.moments.push_back(flat);
    }
    for (size_t n = 0; n < group.numbers.size(); n++) {
      arena.numbers.push_back(number_on(device, group.numbers[n].first));
      if (!old.empty()) arena.numbers.back().copy_(old[first].numbers[n]);
    }
    arenas.push_back(std::move(arena));
  }
  arenas_ = std::move(arenas);
}

void Optimizer::gather_if_moved() {
  const auto in_place = [](const Arena& arena) { return arena.parameters.holds_parameters(); };
  if (!std::ranges::all_of(arenas_, in_place)) gather();
}

void Optimizer::step() try {
  const NoGrad no_grad;
  gather_if_moved();
  std::vector<const Arena*> reached;
  for (const Arena& arena : arenas_) {
    if (arena.parameters.complete_gradients()) reached.push_back(&arena);
  }
  if (!reached.empty() && std::isfinite(clipping_.norm)) scale_gradients();
  for (const Arena* arena : reached) {
    arena->step().copy_(affine(arena->step(), 1.0, 1.0));  // counted on the device: a replay counts on by itself
    update(*arena);
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Optimizer::step");
}

Tensor Optimizer::norm_of_gradients() const {
  const Device device = arenas_[0].parameters.values().device();
  Tensor total;
  for (const Arena& arena : arenas_) {
    const bool has_gradient = std::ranges::any_of(arena.parameters.parameters(),
                                                  [](const Var& parameter) { return parameter.grad().defined(); });
    if (!has_gradient) continue;  // what lies in the arena is of an earlier step
    const Tensor squares = sum_of_squares(arena.parameters.gradients()).to(device);
    total = total.defined() ? add(total, squares) : squares;
  }
  return total.defined() ? sqrt(total) : Tensor::zeros({}, DType::f32, device);
}

// norm = scale · √Σ gradient²;  the kernels' scale = scale · min(1, most / (norm + 1e-6)), as clip_grad_norm_
void Optimizer::scale_gradients() {
  const Device device = arenas_[0].parameters.values().device();
  const Tensor norm = affine(norm_of_gradients(), gradient_scale_, 0.0);
  if (!norm_.defined() || norm_.device() != device) norm_ = Tensor::empty({}, DType::f32, device);
  norm_.copy_(norm);
  const Tensor scale = affine(minimum(div(clipping_.norm, affine(norm, 1.0, 1e-6)), 1.0), gradient_scale_, 0.0);
  for (const Arena& arena : arenas_) {
    arena.gradient_scale.copy_(affine(scale, sign(arena), 0.0).to(arena.gradient_scale.device()));
  }
}

void Optimizer::zero_grad() const {
  for (const Var& parameter : parameters_) parameter.clear_grad();
}

double Optimizer::learning_rate(size_t group) const {
  if (group < group_count()) return learning_rates_[group];
  throw IndexError("Optimizer::learning_rate", "group " + std::to_string(group),
                   "one of " + std::to_string(group_count()), "Count the groups given to the constructor from 0");
}

void Optimizer::set_learning_rate(double learning_rate) {
  for (size_t group = 0; group < group_count(); group++) set_learning_rate(learning_rate, group);
}

void Optimizer::set_learning_rate(double learning_rate, size_t group) {
  check_learning_rate(learning_rate);
  static_cast<void>(this->learning_rate(group));  // throws
  learning_rates_[group] = learning_rate;
  for (const Arena& arena : arenas_) {
    if (arena.group == group) arena.learning_rate.fill_(learning_rate);
  }
}

void Optimizer::set_clipping(const Clipping& clipping) {
  if (!(clipping.norm > 0) || !(clipping.value > 0)) {
    throw ValueError("Optimizer::set_clipping",
                     "norm " + std::to_string(clipping.norm) + ", value " + std::to_string(clipping.value),
                     "positive bounds", "Leave out what shall not be bounded");
  }
  clipping_ = clipping;
  set_gradient_scale(gradient_scale_);
}

void Optimizer::set_gradient_scale(double scale) {
  if (!std::isfinite(scale)) {
    throw ValueError("Optimizer::set_gradient_scale", std::to_string(scale), "a finite number", "1 changes nothing");
  }
  gradient_scale_ = scale;
  for (const Arena& arena : arenas_) arena.gradient_scale.fill_(sign(arena) * scale);
}

int64_t Optimizer::steps() const {
  double steps = 0;
  for (const Arena& arena : arenas_) steps = std::max(steps, arena.step().item());
  return static_cast<int64_t>(steps);
}

std::vector<Tensor> Optimizer::arena_values() const {
  std::vector<Tensor> all;
  for (const Arena& arena : arenas_) all.push_back(arena.parameters.values());
  return all;
}

std::vector<const ParameterArena*> Optimizer::parameter_arenas() {
  gather_if_moved();
  std::vector<const ParameterArena*> all;
  for (const Arena& arena : arenas_) all.push_back(&arena.parameters);
  return all;
}

std::vector<Tensor> Optimizer::arena_state() const {
  std::vector<Tensor> all;
  for (const Arena& arena : arenas_) {
    all.push_back(arena.parameters.values());
    all.insert(all.end(), arena.moments.begin(), arena.moments.end());
    all.insert(all.end(), arena.numbers.begin(), arena.numbers.end());
  }
  return all;
}

std::vector<Tensor> Optimizer::arena_moments(size_t state) const {
  std::vector<Tensor> all;
  for (const Arena& arena : arenas_) {
    if (state < arena.moments.size()) all.push_back(arena.moments[state]);
  }
  return all;
}

Optimizer::Place Optimizer::place_of(size_t parameter) const {
  for (const Arena& arena : arenas_) {
    const std::vector<Var>& members = arena.parameters.parameters();
    for (size_t i = 0; i < members.size(); i++) {
      if (parameter < parameters_.size() && members[i].state() == parameters_[parameter].state()) return {&arena, i};
    }
  }
  throw IndexError("Optimizer::state", "parameter " + std::to_string(parameter),
                   "one of " + std::to_string(parameters_.size()), "Count the parameters given to the constructor");
}

Tensor Optimizer::state(size_t parameter, size_t state) const {
  const Place place = place_of(parameter);
  if (state < place.arena->moments.size()) {
    return place.arena->parameters.part(place.arena->moments[state], place.index);
  }
  throw IndexError("Optimizer::state", "state " + std::to_string(state),
                   "one of " + std::to_string(place.arena->moments.size()), "Count from 0");
}

/// What is saved and loaded but for the learning rates. The tensors are the arenas' own.
NamedTensors Optimizer::tensors() const {
  NamedTensors result;
  for (size_t i = 0; i < parameters_.size(); i++) {
    const Place place = place_of(i);
    const Group& group = groups_[place.arena->group];
    const std::string prefix = "state." + std::to_string(i) + ".";
    for (size_t n = 0; n < group.numbers.size(); n++) {
      result.emplace_back(prefix + group.numbers[n].name, place.arena->numbers[n]);
    }
    for (size_t m = 0; m < group.moments.size(); m++) {
      result.emplace_back(prefix + group.moments[m].name,
                          place.arena->parameters.part(place.arena->moments[m], place.index));
    }
  }
  return result;
}

NamedTensors Optimizer::state_dict() const try {
  NamedTensors result = tensors();
  result.emplace_back("learning_rates", Tensor::from(learning_rates_, {static_cast<int64_t>(learning_rates_.size())}));
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Optimizer::state_dict");
}

void Optimizer::load_state_dict(const NamedTensors& state) try {
  constexpr const char* kName = "Optimizer::load_state_dict";
  constexpr const char* kRemedy = "Load what was saved from an optimiser of the same kind and parameters";
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  NamedTensors targets = tensors();
  targets.emplace_back("learning_rates", Tensor::empty({static_cast<int64_t>(learning_rates_.size())}, DType::f64));
  for (const auto& [name, tensor] : targets) {
    const auto found = given.find(name);
    if (found == given.end()) throw ValueError(kName, "no tensor \"" + name + "\"", "all of its own", kRemedy);
    const Tensor& from = found->second;
    if (from.shape() != tensor.shape()) {
      throw ShapeError(kName, "\"" + name + "\" as " + from.str(), tensor.shape().str(), kRemedy);
    }
    if (from.dtype() != tensor.dtype()) {
      throw DTypeError(kName, "\"" + name + "\" as " + from.str(), std::string(name_of(tensor.dtype())), kRemedy);
    }
  }
  if (given.size() != targets.size() || state.size() != targets.size()) {
    throw ValueError(kName, std::to_string(state.size()) + " tensors", std::to_string(targets.size()), kRemedy);
  }
  const std::vector<double> rates = given.at("learning_rates").to_vector<double>();
  for (const double rate : rates) check_learning_rate(rate);
  for (const auto& [name, tensor] : targets) tensor.copy_(given.at(name));
  for (size_t group = 0; group < rates.size(); group++) set_learning_rate(rates[group], group);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Optimizer::load_state_dict");
}

}  // namespace ashlar::nn
