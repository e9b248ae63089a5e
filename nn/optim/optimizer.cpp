#include "nn/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>
#include <utility>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

void check_learning_rate(double learning_rate) {
  if (learning_rate >= 0 && std::isfinite(learning_rate)) return;
  throw ValueError("Optimizer", "the learning rate " + std::to_string(learning_rate), "a finite number of 0 or more",
                   "Start with 1e-3 for Adam, 1e-1 for SGD");
}

}  // namespace

Optimizer::Optimizer(std::vector<Var> parameters, double learning_rate, size_t state_count) try
    : learning_rate_(learning_rate), state_count_(state_count) {
  check_learning_rate(learning_rate);
  std::unordered_set<const void*> seen;  // weights shared by two modules are updated once
  for (Var& parameter : parameters) {
    if (parameter.requires_grad() && seen.insert(parameter.state().get()).second) {
      parameters_.push_back(std::move(parameter));
    }
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
  std::vector<std::vector<Tensor>> old_states(parameters_.size());
  double steps = 0;
  if (!groups_.empty()) {
    steps = static_cast<double>(this->steps());
    for (size_t i = 0; i < parameters_.size(); i++) {
      for (size_t s = 0; s < state_count_; s++) old_states[i].push_back(state(i, s));
    }
  }
  std::vector<Group> groups;
  std::vector<bool> done(parameters_.size(), false);
  for (size_t first = 0; first < parameters_.size(); first++) {
    if (done[first]) continue;
    const Device device = parameters_[first].device();
    const DType dtype = parameters_[first].dtype();
    std::vector<Var> members;
    std::vector<size_t> indices;
    for (size_t i = first; i < parameters_.size(); i++) {
      if (parameters_[i].device() != device || parameters_[i].dtype() != dtype) continue;
      done[i] = true;
      members.push_back(parameters_[i]);
      indices.push_back(i);
    }
    Group group{ParameterArena(std::move(members)),
                {},
                Tensor::full({}, learning_rate_, DType::f32, device),
                Tensor::full({}, steps, DType::f32, device)};
    for (size_t s = 0; s < state_count_; s++) {
      // Moments of f16 and bf16 parameters stay in f32: squares of small gradients vanish in 16 bits.
      const Tensor flat = Tensor::zeros(group.arena.values().shape(), DType::f32, device);
      for (size_t i = 0; i < indices.size(); i++) {
        if (!old_states[indices[i]].empty()) group.arena.part(flat, i).copy_(old_states[indices[i]][s]);
      }
      group.states.push_back(flat);
    }
    groups.push_back(std::move(group));
  }
  groups_ = std::move(groups);
}

void Optimizer::step() try {
  const NoGrad no_grad;
  const auto in_place = [](const Group& group) { return group.arena.holds_parameters(); };
  if (!std::ranges::all_of(groups_, in_place)) gather();
  for (const Group& group : groups_) {
    if (!group.arena.complete_gradients()) continue;
    group.step.copy_(affine(group.step, 1.0, 1.0));  // counted on the device: a replay counts on by itself
    update(group);
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Optimizer::step");
}

void Optimizer::zero_grad() const {
  for (const Var& parameter : parameters_) parameter.clear_grad();
}

void Optimizer::set_learning_rate(double learning_rate) try {
  check_learning_rate(learning_rate);
  learning_rate_ = learning_rate;
  for (const Group& group : groups_) group.learning_rate.fill_(learning_rate);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Optimizer::set_learning_rate");
}

int64_t Optimizer::steps() const {
  double steps = 0;
  for (const Group& group : groups_) steps = std::max(steps, group.step.item());
  return static_cast<int64_t>(steps);
}

Tensor Optimizer::state(size_t parameter, size_t state) const try {
  const Var& wanted = parameters_.at(parameter);
  for (const Group& group : groups_) {
    const std::vector<Var>& members = group.arena.parameters();
    for (size_t i = 0; i < members.size(); i++) {
      if (members[i].state() == wanted.state()) return group.arena.part(group.states.at(state), i);
    }
  }
  throw IndexError("Optimizer::state", "parameter " + std::to_string(parameter), "one that the optimiser has",
                   "Count the parameters given to the constructor");
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Optimizer::state");
}

}  // namespace ashlar::nn
