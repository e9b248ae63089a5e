#include "autograd/node.h"

#include <string>

#include "autograd/grad_mode.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr size_t kMaxInputs = 64;  // bits of Needs

/// The operation whose backward function runs on this thread, for messages of SavedTensor::get().
thread_local const char* running_operation = nullptr;

class RunningOperation {
 public:
  explicit RunningOperation(const char* operation) : previous_(running_operation) { running_operation = operation; }
  ~RunningOperation() { running_operation = previous_; }
  RunningOperation(const RunningOperation&) = delete;
  RunningOperation& operator=(const RunningOperation&) = delete;

 private:
  const char* previous_;
};

std::string backward_of(const char* operation) {
  return operation == nullptr ? std::string("SavedTensor::get") : std::string("backward of ") + operation;
}

}  // namespace

SavedTensor::SavedTensor(Tensor tensor) : tensor_(std::move(tensor)) {
  if (tensor_.defined()) version_ = tensor_.version();
}

const Tensor& SavedTensor::get() const {
  if (tensor_.defined() && tensor_.version() != version_) {
    throw AutogradError(backward_of(running_operation),
                        "a saved " + tensor_.str() + " at version " + std::to_string(tensor_.version()),
                        "it unchanged at version " + std::to_string(version_),
                        "Write in place only after backward(), or give the operation a clone()");
  }
  return tensor_;
}

Var record(const char* operation, std::span<const Var> inputs, Tensor value, BackwardFn backward) try {
  if (inputs.size() > kMaxInputs) {
    throw ValueError(operation, std::to_string(inputs.size()) + " differentiable inputs",
                     "at most " + std::to_string(kMaxInputs), "Split the operation");
  }
  bool any = false;
  if (grad_enabled() && is_floating(value.dtype())) {
    for (const Var& input : inputs) any = any || (input.defined() && input.requires_grad());
  }
  if (!any) return Var(std::move(value));
  return Var::computed(std::move(value), std::make_shared<Node>(operation, inputs, std::move(backward)));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(operation);
}

Node::Node(const char* operation, std::span<const Var> inputs, BackwardFn backward)
    : operation_(operation), backward_(std::move(backward)) {
  edges_.reserve(inputs.size());
  for (const Var& input : inputs) {
    Edge& edge = edges_.emplace_back();
    if (!input.defined()) continue;
    edge.shape = input.shape();
    edge.dtype = input.dtype();
    edge.device = input.device();
    if (!input.requires_grad()) continue;
    edge.node = input.state()->node;
    if (edge.node == nullptr) edge.leaf = input.state();
  }
}

Node::~Node() { release_edges(); }

void Node::free() {
  backward_ = BackwardFn();
  release_edges();
  freed_ = true;
}

// A chain of a million operations must not become a million nested destructors: nodes that only this one keeps alive
// are emptied in a loop, as a list, for which a destructor needs no memory.
void Node::release_edges() noexcept {
  std::shared_ptr<Node> pending;
  const auto take = [&pending](std::vector<Edge>& edges) noexcept {
    for (Edge& edge : edges) {
      if (edge.node.use_count() == 1) {
        edge.node->next_released_ = std::move(pending);
        pending = std::move(edge.node);
      }
      edge.node.reset();  // one that is an input twice is let go by its second edge
    }
    edges.clear();
  };
  take(edges_);
  while (pending != nullptr) {
    const std::shared_ptr<Node> node = std::exchange(pending, std::move(pending->next_released_));
    take(node->edges_);
  }
}

void Node::require_alive() const {
  if (!freed_) return;
  throw AutogradError(backward_of(operation_), "a graph that an earlier backward() freed",
                      "a graph that is still there",
                      "Compute the loss again, or pass {.retain_graph = true} to the first backward()");
}

std::vector<Tensor> Node::apply(const Tensor& dy) const {
  require_alive();
  uint64_t mask = 0;
  for (size_t i = 0; i < edges_.size(); i++) mask |= uint64_t{edges_[i].needed()} << i;

  const RunningOperation running(operation_);
  std::vector<Tensor> gradients = backward_(dy, Needs(mask));
  // More than one per input is fine where the rest is undefined: an optional input that wasn't given.
  bool surplus = false;
  for (size_t i = edges_.size(); i < gradients.size(); i++) surplus = surplus || gradients[i].defined();
  if (gradients.size() < edges_.size() || surplus) {
    throw AutogradError(backward_of(operation_), std::to_string(gradients.size()) + " gradients",
                        "one for each of " + std::to_string(edges_.size()) + " inputs",
                        "Return an undefined Tensor for an input without gradient");
  }
  for (size_t i = 0; i < edges_.size(); i++) {
    const Tensor& gradient = gradients[i];
    if (!edges_[i].needed() || !gradient.defined()) continue;
    const Edge& edge = edges_[i];
    if (gradient.shape() != edge.shape || gradient.dtype() != edge.dtype || gradient.device() != edge.device) {
      throw AutogradError(
          backward_of(operation_), gradient.str() + " as gradient of input " + std::to_string(i),
          std::string(name_of(edge.dtype)) + edge.shape.str() + " on " + edge.device.str() + ", as the input",
          "Correct the gradient that this operation was recorded with");
    }
  }
  return gradients;
}

}  // namespace ashlar
