#include "autograd/backward.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr const char* kName = "backward";

/// Nodes that `root` depends on, every node before its inputs' nodes. An explicit stack: graphs may be deep.
std::vector<std::shared_ptr<Node>> reverse_topological_order(const std::shared_ptr<Node>& root) {
  struct Visit {
    std::shared_ptr<Node> node;
    size_t next_edge = 0;
  };
  std::vector<std::shared_ptr<Node>> order;
  std::unordered_set<const Node*> seen{root.get()};
  std::vector<Visit> stack;
  stack.push_back({root});
  while (!stack.empty()) {
    Visit& visit = stack.back();
    if (visit.next_edge == visit.node->edges().size()) {
      order.push_back(std::move(visit.node));
      stack.pop_back();
      continue;
    }
    const std::shared_ptr<Node>& input = visit.node->edges()[visit.next_edge++].node;
    if (input != nullptr && seen.insert(input.get()).second) stack.push_back({input});
  }
  return {order.rbegin(), order.rend()};
}

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

Tensor checked_seed(const Tensor& value, const Tensor& seed) {
  if (!seed.defined()) {
    if (value.numel() != 1) {
      throw AutogradError(kName, "a root " + value.str() + " and no seed", "a root with one element, or a seed",
                          "Reduce the loss with sum() or mean(), or pass {.seed = dL/droot}");
    }
    return Tensor::ones(value.shape(), value.dtype(), value.device());
  }
  if (seed.shape() != value.shape()) {
    throw ShapeError(kName, "a seed " + seed.str(), "shape " + value.shape().str() + " of the root",
                     "Give the seed the root's shape");
  }
  if (seed.dtype() != value.dtype()) {
    throw DTypeError(kName, "a seed " + seed.str(), std::string(name_of(value.dtype())) + " as the root",
                     "Cast the seed with to()");
  }
  if (seed.device() != value.device()) {
    throw DeviceError(kName, "a seed " + seed.str(), "a tensor on " + value.device().str() + " as the root",
                      "Move the seed with to()");
  }
  return seed;
}

}  // namespace

void backward(const Var& root, const BackwardOptions& options) try {
  if (!root.requires_grad()) {
    throw AutogradError(kName, "a root that requires no gradient", "one computed from a leaf that requires one",
                        "Set requires_grad on a leaf, and compute the root outside of NoGrad");
  }
  const Tensor seed = checked_seed(root.value(), options.seed);
  const NoGrad no_grad;
  if (root.is_leaf()) {
    accumulate(*root.state(), owned(seed));
    return;
  }

  std::vector<std::shared_ptr<Node>> order = reverse_topological_order(root.state()->node);
  for (const std::shared_ptr<Node>& node : order) node->require_alive();
  std::unordered_map<const Node*, Tensor> gradients;  // dL/d(output of node), complete when the node's turn comes
  gradients[order.front().get()] = seed;
  for (std::shared_ptr<Node>& node : order) {
    auto found = gradients.find(node.get());
    if (found != gradients.end()) {  // else every consumer answered "none"
      const Tensor dy = std::move(found->second);
      gradients.erase(found);
      std::vector<Tensor> inputs = node->apply(dy);
      for (size_t i = 0; i < inputs.size(); i++) {
        const Node::Edge& edge = node->edges()[i];
        if (!edge.needed() || !inputs[i].defined()) continue;
        Tensor gradient = std::exchange(inputs[i], Tensor());
        if (edge.node != nullptr) {
          Tensor& sum = gradients[edge.node.get()];
          sum = sum.defined() ? add(sum, gradient) : std::move(gradient);
        } else if (edge.leaf->grad_slot.defined() || edge.leaf->grad.defined()) {
          accumulate(*edge.leaf, gradient);
        } else {
          accumulate(*edge.leaf, owned(gradient));
        }
      }
    }
    if (!options.retain_graph) node->free();
    node.reset();
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("backward");
}

}  // namespace ashlar
