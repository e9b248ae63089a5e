#include "autograd/grad.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "autograd/composition.h"
#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr const char* kName = "grad";

/// The inputs' gradients, collected on the walk.
template <class T>
class ToInputs {
 public:
  ToInputs(const detail::Order& order, const std::vector<Var>& inputs) : order_(order), leads_(order.slot_count()) {
    for (const Var& input : inputs) {
      const detail::VarState& state = *input.state();
      if (state.node == nullptr) {
        leaves_.try_emplace(&state);
      } else if (order.has(state.node.get())) {
        computed_.try_emplace(order.slot(state.node.get(), state.output));
      }
    }
    for (size_t i = order.nodes.size(); i-- > 0;) {  // those that made its inputs first
      const Node& node = *order.nodes[i];
      bool leads = false;
      for (const Node::Edge& edge : node.edges()) leads = leads || wants(edge);
      leads_[order.slot(&node)] = leads;
    }
  }

  bool runs(const Node& node) const { return leads_[order_.slot(&node)]; }
  bool wants(const Node::Edge& edge) const {
    if (edge.node == nullptr) return edge.leaf != nullptr && wants(*edge.leaf);
    if (!order_.has(edge.node.get())) return false;  // beyond an end
    return leads_[order_.slot(edge.node.get())] || computed_.contains(order_.slot(edge.node.get(), edge.output));
  }
  bool wants(const detail::VarState& leaf) const { return leaves_.contains(&leaf); }
  void arrives(const Node* node, std::span<T> dys) {
    if (computed_.empty()) return;
    for (size_t i = 0; i < dys.size(); i++) {
      const auto found = computed_.find(order_.slot(node, static_cast<int>(i)));
      if (found != computed_.end()) found->second = dys[i];
    }
  }
  void leaf(const detail::VarState& leaf, T gradient) {
    T& sum = leaves_.at(&leaf);
    sum = sum.defined() ? detail::sum_of(sum, gradient) : std::move(gradient);
  }

  /// A freed operation says nothing about what it was computed from: only its own outputs may be asked for.
  void require_alive() const {
    for (const std::shared_ptr<Node>& node : order_.nodes) {
      bool is_input = false;
      for (int i = 0; i < node->output_count(); i++) {
        is_input = is_input || computed_.contains(order_.slot(node.get(), i));
      }
      if (!is_input) node->require_alive();
    }
  }

  /// Undefined where none has arrived.
  T of(const Var& input) const {
    const detail::VarState& state = *input.state();
    if (state.node == nullptr) return leaves_.at(&state);
    if (!order_.has(state.node.get())) return T();
    return computed_.at(order_.slot(state.node.get(), state.output));
  }

 private:
  const detail::Order& order_;
  std::vector<bool> leads_;  ///< by a node's first slot: to an input
  std::unordered_map<const detail::VarState*, T> leaves_;
  std::unordered_map<uint32_t, T> computed_;
};

void check(const std::vector<Var>& outputs, const std::vector<Var>& inputs, const std::vector<Var>& grad_outputs) {
  if (outputs.empty() || inputs.empty()) {
    throw ValueError(kName,
                     std::to_string(outputs.size()) + " outputs and " + std::to_string(inputs.size()) + " inputs",
                     "at least one of each", "Pass what to differentiate, and what by");
  }
  if (!grad_outputs.empty() && grad_outputs.size() != outputs.size()) {
    throw ValueError(
        kName, std::to_string(grad_outputs.size()) + " grad_outputs for " + std::to_string(outputs.size()) + " outputs",
        "one for each output, or none at all", "Pass Var() for an output of one element, whose own is 1");
  }
  for (size_t i = 0; i < outputs.size(); i++) {
    if (outputs[i].requires_grad()) continue;
    throw AutogradError(kName, "output " + std::to_string(i) + ", which requires no gradient",
                        "one computed from a leaf that requires one",
                        "Set requires_grad on a leaf, and compute the output outside of NoGrad");
  }
  for (size_t i = 0; i < inputs.size(); i++) {
    if (inputs[i].requires_grad()) continue;
    throw AutogradError(kName, "input " + std::to_string(i) + ", which requires no gradient",
                        "a leaf that requires one, or what was computed from it",
                        "Set requires_grad before the outputs are computed");
  }
}

/// The seed for `output`, as its T.
void seed_of(const Var& output, const Var& given, Tensor& seed) {
  seed = detail::checked_seed(kName, "grad_output", output.value(), given.defined() ? given.value() : Tensor());
}
void seed_of(const Var& output, const Var& given, Var& seed) {
  const Tensor value =
      detail::checked_seed(kName, "grad_output", output.value(), given.defined() ? given.value() : Tensor());
  seed = given.defined() ? given : Var(value);
}

template <class T>
std::vector<Var> differentiate(const std::vector<Var>& outputs, const std::vector<Var>& inputs,
                               const std::vector<Var>& grad_outputs, bool retain_graph, bool allow_unused,
                               std::span<const Var> ends = {}) {
  detail::Order order(outputs, ends);
  ToInputs<T> sink(order, inputs);
  sink.require_alive();
  detail::Gradients<T> gradients(order.slot_count());
  for (size_t i = 0; i < outputs.size(); i++) {
    T seed;
    seed_of(outputs[i], grad_outputs.empty() ? Var() : grad_outputs[i], seed);
    const detail::VarState& state = *outputs[i].state();
    if (state.node != nullptr) {
      gradients.add(order.slot(state.node.get(), state.output), std::move(seed));
    } else if (sink.wants(state)) {
      sink.leaf(state, std::move(seed));
    }
  }
  detail::walk(order, gradients, sink, retain_graph);

  std::vector<Var> results;
  results.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); i++) {
    T gradient = sink.of(inputs[i]);
    if (gradient.defined()) {
      results.emplace_back(std::move(gradient));
      continue;
    }
    if (!allow_unused) {
      throw AutogradError(kName, "input " + std::to_string(i) + ", which no output depends on",
                          "inputs that the outputs were computed from",
                          "Pass {.allow_unused = true} to get an undefined Var for it");
    }
    results.emplace_back();
  }
  return results;
}

}  // namespace

std::vector<Var> grad(const std::vector<Var>& outputs, const std::vector<Var>& inputs,
                      const std::vector<Var>& grad_outputs, const GradOptions& options) try {
  check(outputs, inputs, grad_outputs);
  const bool retain_graph = options.retain_graph.value_or(options.create_graph);
  if (options.create_graph) {
    const EnableGrad recorded;
    return differentiate<Var>(outputs, inputs, grad_outputs, retain_graph, options.allow_unused);
  }
  const NoGrad unrecorded;
  return differentiate<Tensor>(outputs, inputs, grad_outputs, retain_graph, options.allow_unused);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kName);
}

std::vector<Var> gradients_of_composition(const Composition& forward, const std::vector<Var>& inputs,
                                          const std::vector<Var>& grad_outputs, Needs needs) try {
  const EnableGrad recorded;
  // Where the composition begins: walks over it end here, and don't see what the inputs were computed from.
  std::vector<Var> begins = inputs, wanted, outputs, seeds;
  for (size_t i = 0; i < inputs.size(); i++) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    begins[i] =
        record("input", {inputs[i]}, inputs[i].value(), [](const auto& pass) { return pass.gradients(pass.dy()); });
    if (needs(static_cast<int>(i))) wanted.push_back(begins[i]);
  }
  const std::vector<Var> computed = forward(begins);
  for (size_t i = 0; i < computed.size() && i < grad_outputs.size(); i++) {
    if (!grad_outputs[i].defined() || !computed[i].requires_grad()) continue;
    outputs.push_back(computed[i]);
    seeds.push_back(grad_outputs[i]);
  }
  std::vector<Var> gradients(inputs.size());
  if (outputs.empty() || wanted.empty()) return gradients;
  std::vector<Var> found =
      differentiate<Var>(outputs, wanted, seeds, /*retain_graph=*/true, /*allow_unused=*/true, begins);
  for (size_t i = 0, next = 0; i < inputs.size(); i++) {
    const bool is_wanted = inputs[i].defined() && inputs[i].requires_grad() && needs(static_cast<int>(i));
    if (is_wanted) gradients[i] = std::move(found[next++]);
  }
  return gradients;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("gradients_of_composition");
}

std::vector<Tensor> first_gradients_of_composition(const Composition& forward, const std::vector<Tensor>& inputs,
                                                   const std::vector<Tensor>& grad_outputs, Needs needs) try {
  std::vector<Var> leaves, wanted, outputs, seeds;
  for (size_t i = 0; i < inputs.size(); i++) {
    const bool is_wanted = inputs[i].defined() && needs(static_cast<int>(i));
    leaves.push_back(inputs[i].defined() ? Var(inputs[i], is_wanted) : Var());
    if (is_wanted) wanted.push_back(leaves.back());
  }
  {
    const EnableGrad recorded;
    outputs = forward(leaves);
  }
  for (const Tensor& dy : grad_outputs) seeds.emplace_back(dy);
  std::vector<Tensor> gradients(inputs.size());
  if (wanted.empty()) return gradients;
  const std::vector<Var> found = grad(outputs, wanted, seeds, {.allow_unused = true});
  for (size_t i = 0, next = 0; i < inputs.size(); i++) {
    if (!leaves[i].defined() || !leaves[i].requires_grad()) continue;
    const Var& gradient = found[next++];
    if (gradient.defined()) gradients[i] = gradient.value();
  }
  return gradients;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("gradients_of_composition");
}

}  // namespace ashlar
