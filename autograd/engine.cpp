#include "autograd/engine.h"

#include <string>

#include "runtime/support/error.h"

namespace ashlar::detail {

// Depth first, with an explicit stack: graphs may be deep.
Order::Order(std::span<const Var> roots, std::span<const Var> ends) {
  struct Visit {
    std::shared_ptr<Node> node;
    size_t next_edge = 0;
  };
  std::vector<Visit> stack;
  const auto discover = [&](const std::shared_ptr<Node>& node) {
    if (node == nullptr || !slots_.emplace(node.get(), slot_count_).second) return;
    slot_count_ += static_cast<uint32_t>(node->output_count());
    const bool is_end =
        std::ranges::any_of(ends, [&](const Var& end) { return end.defined() && end.state()->node == node; });
    stack.push_back({node, is_end ? node->edges().size() : 0});
  };
  for (const Var& root : roots) {
    discover(root.state()->node);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next_edge == visit.node->edges().size()) {
        nodes.push_back(std::move(visit.node));
        stack.pop_back();
        continue;
      }
      discover(visit.node->edges()[visit.next_edge++].node);
    }
  }
  std::ranges::reverse(nodes);
}

Tensor checked_seed(const char* call, const char* what, const Tensor& output, const Tensor& given) {
  const std::string name(what);
  if (!given.defined()) {
    if (output.numel() != 1) {
      throw AutogradError(call, "a root " + output.str() + " and no " + name, "a root with one element, or a " + name,
                          "Reduce the loss with sum() or mean(), or pass a " + name + ", dL/droot");
    }
    return Tensor::ones(output.shape(), output.dtype(), output.device());
  }
  if (given.shape() != output.shape()) {
    throw ShapeError(call, "a " + name + " " + given.str(), "shape " + output.shape().str() + " of the root",
                     "Give the " + name + " the root's shape");
  }
  if (given.dtype() != output.dtype()) {
    throw DTypeError(call, "a " + name + " " + given.str(), std::string(name_of(output.dtype())) + " as the root",
                     "Cast the " + name + " with to()");
  }
  if (given.device() != output.device()) {
    throw DeviceError(call, "a " + name + " " + given.str(), "a tensor on " + output.device().str() + " as the root",
                      "Move the " + name + " with to()");
  }
  return given;
}

}  // namespace ashlar::detail
