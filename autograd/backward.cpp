#include "autograd/backward.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "runtime/forms/movement.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr const char* kName = "backward";

/// A gradient that a leaf keeps must not alias what somebody else may write: the seed, a view, another leaf's.
Tensor owned(const Tensor& gradient) {
  return gradient.storage().use_count() == 1 && gradient.is_contiguous() ? gradient : gradient.clone();
}

/// Every gradient there is goes to its leaf: leaf.grad += gradient. Those of leaves with a slot are brought there in
/// the end, together.
class ToLeaves {
 public:
  static bool runs(const Node&) { return true; }
  static bool wants(const Node::Edge& edge) { return edge.needed(); }
  static void arrives(const Node*, std::span<Tensor>) {}
  void leaf(detail::VarState& leaf, const Tensor& gradient) {
    if (!leaf.grad_slot.defined()) {
      leaf.grad = leaf.grad.defined() ? add(leaf.grad, gradient) : owned(gradient);
      return;
    }
    const auto [waiting, is_first] = places_.try_emplace(&leaf, leaves_.size());
    if (is_first) {
      leaves_.push_back(&leaf);
      gradients_.push_back(leaf.grad.defined() ? add(leaf.grad, gradient) : gradient);
    } else {
      Tensor& sum = gradients_[waiting->second];
      sum = add(sum, gradient);
    }
  }
  void fill_slots() {
    std::vector<Tensor> slots;
    for (const detail::VarState* leaf : leaves_) slots.push_back(leaf->grad_slot);
    forms::copy_each(gradients_, slots);
    for (detail::VarState* leaf : leaves_) leaf->grad = leaf->grad_slot;
  }

 private:
  std::unordered_map<const detail::VarState*, size_t> places_;
  std::vector<detail::VarState*> leaves_;
  std::vector<Tensor> gradients_;
};

}  // namespace

void backward(const Var& root, const BackwardOptions& options) try {
  if (!root.requires_grad()) {
    throw AutogradError(kName, "a root that requires no gradient", "one computed from a leaf that requires one",
                        "Set requires_grad on a leaf, and compute the root outside of NoGrad");
  }
  Tensor seed = detail::checked_seed(kName, "seed", root.value(), options.seed);
  const NoGrad no_grad;
  ToLeaves sink;
  if (root.is_leaf()) {
    sink.leaf(*root.state(), seed);
    sink.fill_slots();
    return;
  }

  detail::Order order(std::span(&root, 1));
  for (const std::shared_ptr<Node>& node : order.nodes) node->require_alive();
  detail::Gradients<Tensor> gradients(order.slot_count());
  gradients.add(order.slot(root.state()->node.get(), root.state()->output), std::move(seed));
  detail::walk(order, gradients, sink, options.retain_graph);
  sink.fill_slots();
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("backward");
}

}  // namespace ashlar
