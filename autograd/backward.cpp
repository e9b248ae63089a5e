#include "autograd/backward.h"

#include <utility>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr const char* kName = "backward";

/// leaf.grad += gradient, into the leaf's slot where it has one.
void accumulate(detail::VarState& leaf, const Tensor& gradient) {
  const Tensor& slot = leaf.grad_slot;
  if (slot.defined()) {
    slot.copy_(leaf.grad.defined() ? add(slot, gradient) : gradient);
    leaf.grad = slot;
  } else if (leaf.grad.defined()) {
    leaf.grad = add(leaf.grad, gradient);
  } else {
    leaf.grad = gradient;
  }
}

/// A gradient that a leaf keeps must not alias what somebody else may write: the seed, a view, another leaf's.
Tensor owned(const Tensor& gradient) {
  return gradient.storage().use_count() == 1 && gradient.is_contiguous() ? gradient : gradient.clone();
}

/// Every gradient there is goes to its leaf.
struct ToLeaves {
  static bool runs(const Node&) { return true; }
  static bool wants(const Node::Edge& edge) { return edge.needed(); }
  static void arrives(const Node*, std::span<Tensor>) {}
  static void leaf(detail::VarState& leaf, const Tensor& gradient) {
    accumulate(leaf, leaf.grad_slot.defined() || leaf.grad.defined() ? gradient : owned(gradient));
  }
};

}  // namespace

void backward(const Var& root, const BackwardOptions& options) try {
  if (!root.requires_grad()) {
    throw AutogradError(kName, "a root that requires no gradient", "one computed from a leaf that requires one",
                        "Set requires_grad on a leaf, and compute the root outside of NoGrad");
  }
  Tensor seed = detail::checked_seed(kName, "seed", root.value(), options.seed);
  const NoGrad no_grad;
  if (root.is_leaf()) {
    accumulate(*root.state(), owned(seed));
    return;
  }

  detail::Order order(std::span(&root, 1));
  for (const std::shared_ptr<Node>& node : order.nodes) node->require_alive();
  detail::Gradients<Tensor> gradients(order.slot_count());
  gradients.add(order.slot(root.state()->node.get(), root.state()->output), std::move(seed));
  ToLeaves sink;
  detail::walk(order, gradients, sink, options.retain_graph);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("backward");
}

}  // namespace ashlar
