#include "autograd/checkpoint.h"

#include <exception>
#include <string>
#include <unordered_set>
#include <utility>

#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "runtime/memory/host_memory.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::ad {
namespace {

constexpr const char* kName = "checkpoint";
constexpr size_t kMost = 64;  // inputs of an operation

using Function = std::function<std::vector<Var>(const std::vector<Var>&)>;

thread_local bool recomputing = false;

/// Random states as they were, and is_recomputing(), for a scope.
class Again {
 public:
  explicit Again(const std::vector<RandomStates::Kept>& states) : previous_(recomputing), states_(states) {
    for (const auto& [state, before] : states) now_.push_back(state.clone());
    for (const auto& [state, before] : states) state.copy_(before);
    recomputing = true;
  }
  ~Again() {
    recomputing = previous_;
    try {
      for (size_t i = 0; i < now_.size(); i++) states_[i].state.copy_(now_[i]);
    } catch (const std::exception&) {  // the device is lost, as whatever comes next will say
    }
  }
  Again(const Again&) = delete;
  Again& operator=(const Again&) = delete;

 private:
  bool previous_;
  const std::vector<RandomStates::Kept>& states_;
  std::vector<Tensor> now_;
};

/// New leaves of the same values.
std::vector<Var> leaves_like(const std::vector<Var>& inputs) {
  std::vector<Var> leaves;
  for (const Var& input : inputs) {
    leaves.push_back(input.defined() ? Var(input.value(), input.requires_grad()) : Var());
  }
  return leaves;
}

/// The leaves that `outputs` were computed from, but for `known` ones, in an order that the graph's structure gives.
std::vector<Var> other_leaves(const std::vector<Var>& outputs, const std::vector<Var>& known) {
  std::unordered_set<const void*> seen;
  for (const Var& var : known) seen.insert(var.state().get());
  std::vector<Var> leaves;
  std::vector<std::shared_ptr<Node>> stack;
  const auto meet = [&](const std::shared_ptr<Node>& node, const std::shared_ptr<detail::VarState>& leaf) {
    if (node != nullptr && seen.insert(node.get()).second) stack.push_back(node);
    if (leaf != nullptr && seen.insert(leaf.get()).second) leaves.push_back(Var::of(leaf));
  };
  for (const Var& output : outputs) {
    if (output.requires_grad()) meet(output.state()->node, output.is_leaf() ? output.state() : nullptr);
  }
  while (!stack.empty()) {
    const std::shared_ptr<Node> node = std::move(stack.back());
    stack.pop_back();
    for (const Node::Edge& edge : node->edges()) meet(edge.node, edge.leaf);
  }
  return leaves;
}

struct Recompute {
  Function function;
  std::vector<SavedTensor> inputs;
  std::vector<bool> requires_grad;  // of these
  std::vector<SavedTensor> leaf_values;
  std::vector<Var> leaves;
  std::vector<RandomStates::Kept> states;

  std::vector<Tensor> operator()(const Pass<Tensor>& pass) const {
    const EnableGrad recorded;
    std::vector<Var> given;
    for (size_t i = 0; i < inputs.size(); i++) {
      const Tensor& value = pass.get(inputs[i]);
      given.push_back(value.defined() ? Var(value, requires_grad[i]) : Var());
    }
    for (const SavedTensor& leaf : leaf_values) static_cast<void>(pass.get(leaf));  // throws where overwritten
    std::vector<Var> computed;
    {
      const Again again(states);
      computed = function(given);
    }
    std::vector<Var> outputs, dys, wanted;
    for (size_t i = 0; i < computed.size(); i++) {
      if (!computed[i].requires_grad() || !pass.has(static_cast<int>(i))) continue;
      outputs.push_back(computed[i]);
      dys.emplace_back(pass.dy(static_cast<int>(i)));
    }
    computed.clear();
    std::vector<size_t> places;
    for (size_t i = 0; i < inputs.size() + leaves.size(); i++) {
      if (!pass.needs(static_cast<int>(i))) continue;
      places.push_back(i);
      wanted.push_back(i < inputs.size() ? given[i] : leaves[i - inputs.size()]);
    }
    std::vector<Tensor> gradients(inputs.size() + leaves.size());
    if (outputs.empty() || wanted.empty()) return gradients;
    const std::vector<Var> found = grad(outputs, wanted, dys, {.allow_unused = true});
    for (size_t i = 0; i < places.size(); i++) {
      if (found[i].defined()) gradients[places[i]] = found[i].value();
    }
    return gradients;
  }
  std::vector<Var> operator()(const Pass<Var>& pass) const { detail::throw_not_differentiable_twice(pass.operation()); }
};

}  // namespace

bool is_recomputing() { return recomputing; }

std::vector<Var> checkpoint(Function function, const std::vector<Var>& inputs) try {
  if (!grad_enabled()) return function(inputs);
  std::vector<Tensor> values;
  uint64_t differentiable = 0;
  Recompute recompute;
  {
    // With a tape, to learn of the parameters; it goes at the end of this block.
    const RandomStates states;
    const std::vector<Var> given = leaves_like(inputs);
    const std::vector<Var> outputs = function(given);
    recompute.leaves = other_leaves(outputs, given);
    recompute.states = states.kept();
    for (const Var& output : outputs) {
      differentiable |= uint64_t{output.requires_grad()} << values.size() % kMost;
      values.push_back(output.value());
    }
  }
  std::vector<Var> all = inputs;
  all.insert(all.end(), recompute.leaves.begin(), recompute.leaves.end());
  if (all.size() > kMost) {
    throw ValueError(
        kName, std::to_string(inputs.size()) + " inputs and " + std::to_string(recompute.leaves.size()) + " parameters",
        "at most " + std::to_string(kMost) + " together", "Checkpoint fewer layers at a time");
  }
  recompute.function = std::move(function);
  for (size_t i = 0; i < all.size(); i++) {
    (i < inputs.size() ? recompute.inputs : recompute.leaf_values).push_back(save_input(static_cast<int>(i), all[i]));
    if (i < inputs.size()) recompute.requires_grad.push_back(all[i].defined() && all[i].requires_grad());
  }
  return record_outputs(kName, all, std::move(values), std::move(recompute), differentiable);
} catch (const std::bad_alloc&) {
  ashlar::detail::throw_out_of_host_memory(kName);
}

Var checkpoint(std::function<Var(const Var&)> function, const Var& input) {
  const auto several = [function = std::move(function)](const std::vector<Var>& inputs) {
    return std::vector<Var>{function(inputs[0])};
  };
  return checkpoint(Function(several), std::vector<Var>{input})[0];
}

}  // namespace ashlar::ad
