#include "autograd/node.h"

#include <algorithm>
#include <string>

#include "autograd/anomaly_mode.h"
#include "autograd/grad_mode.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr size_t kMaxInputs = 64;  // bits of Needs, and of the outputs that are differentiable

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

const Tensor& value_of(const Tensor& tensor) { return tensor; }
const Tensor& value_of(const Var& var) { return var.value(); }

}  // namespace

SavedTensor::SavedTensor(Tensor tensor, Of of, int index) : tensor_(std::move(tensor)), of_(of), index_(index) {
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

namespace detail {

void throw_not_differentiable_twice(const char* operation) {
  throw AutogradError(backward_of(operation), std::string("gradients of gradients through ") + operation,
                      "an operation whose gradient is computed by recorded operators",
                      "Leave out create_graph, or record it with a backward function that takes `const auto& pass` and "
                      "calls operators that take Vars (autograd/node.h)");
}

void throw_no_gradient(const char* operation, const std::string& part) {
  throw AutogradError(backward_of(operation),
                      std::string("a gradient through ") + operation + (part.empty() ? "" : " and ") + part,
                      "an operator that states that gradient",
                      "detach() what is computed without a gradient, or state it in the kernel: this->gradient(…)");
}

}  // namespace detail

namespace {

void check_count(const char* operation, size_t count, const char* what) {
  if (count <= kMaxInputs) return;
  throw ValueError(operation, std::to_string(count) + " differentiable " + what,
                   "at most " + std::to_string(kMaxInputs), "Split the operation");
}

bool any_requires_grad(std::span<const Var> inputs) {
  if (!grad_enabled()) return false;
  return std::ranges::any_of(inputs, [](const Var& input) { return input.defined() && input.requires_grad(); });
}

}  // namespace

Var record(const char* operation, std::span<const Var> inputs, Tensor value, BackwardFn backward) try {
  check_count(operation, inputs.size(), "inputs");
  if (anomaly_mode()) [[unlikely]]
    detail::check_forward(operation, inputs, std::span(&value, 1));
  if (!is_floating(value.dtype()) || !any_requires_grad(inputs)) return Var(std::move(value));
  return Var::computed(std::move(value),
                       std::make_shared<Node>(operation, inputs, std::vector<Node::Output>(), 1, std::move(backward)));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(operation);
}

std::vector<Var> record_outputs(const char* operation, std::span<const Var> inputs, std::vector<Tensor> values,
                                BackwardFn backward, uint64_t differentiable) try {
  check_count(operation, inputs.size(), "inputs");
  check_count(operation, values.size(), "outputs");
  if (anomaly_mode()) [[unlikely]]
    detail::check_forward(operation, inputs, values);
  bool any = false;
  for (size_t i = 0; i < values.size(); i++) {
    if (!is_floating(values[i].dtype())) differentiable &= ~(uint64_t{1} << i);
    any = any || (differentiable >> i & 1) != 0;
  }
  std::shared_ptr<Node> node;
  if (any && any_requires_grad(inputs)) {
    std::vector<Node::Output> outputs;
    for (const Tensor& value : values) outputs.push_back({value.shape(), value.dtype(), value.device()});
    node = std::make_shared<Node>(operation, inputs, std::move(outputs), differentiable, std::move(backward));
  }
  std::vector<Var> results;
  results.reserve(values.size());
  for (size_t i = 0; i < values.size(); i++) {
    const bool is_recorded = node != nullptr && (differentiable >> i & 1) != 0;
    results.push_back(is_recorded ? Var::computed(std::move(values[i]), node, static_cast<int>(i))
                                  : Var(std::move(values[i])));
  }
  return results;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(operation);
}

Node::Node(const char* operation, std::span<const Var> inputs, std::vector<Output> outputs, uint64_t differentiable,
           BackwardFn backward)
    : operation_(operation),
      outputs_(std::move(outputs)),
      differentiable_(differentiable),
      backward_(std::move(backward)) {
  edges_.reserve(inputs.size());
  for (const Var& input : inputs) {
    Edge& edge = edges_.emplace_back();
    if (!input.defined()) continue;
    edge.shape = input.shape();
    edge.dtype = input.dtype();
    edge.device = input.device();
    if (!input.requires_grad()) continue;
    edge.node = input.state()->node;
    edge.output = input.state()->output;
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

template <class T>
std::vector<T> Node::apply(const std::shared_ptr<Node>& node, std::span<T> dys, Needs needs) {
  node->require_alive();
  const char* operation = node->operation_;
  const std::vector<Edge>& edges = node->edges_;
  const RunningOperation running(operation);
  for (size_t i = 0; i < dys.size(); i++) {
    // One that was saved, and on which a gradient depends that is differentiated now.
    if (dys[i].defined() && (node->differentiable_ >> i & 1) == 0) {
      detail::throw_no_gradient(operation, "its output " + std::to_string(i));
    }
  }
  const bool looks = anomaly_mode();
  for (size_t i = 0; looks && i < dys.size(); i++) {
    if (dys[i].defined()) detail::check_arrived(operation, static_cast<int>(i), value_of(dys[i]));
  }
  std::vector<T> gradients = node->backward_(Pass<T>(node, dys, needs));
  // More than one per input is fine where the rest is undefined: an optional input that wasn't given.
  bool surplus = false;
  for (size_t i = edges.size(); i < gradients.size(); i++) surplus = surplus || gradients[i].defined();
  if (gradients.size() < edges.size() || surplus) {
    throw AutogradError(backward_of(operation), std::to_string(gradients.size()) + " gradients",
                        "one for each of " + std::to_string(edges.size()) + " inputs",
                        "Return an undefined Tensor for an input without gradient");
  }
  for (size_t i = 0; i < edges.size(); i++) {
    if (!needs(static_cast<int>(i)) || !gradients[i].defined()) continue;
    const Tensor& gradient = value_of(gradients[i]);
    if (looks) detail::check_backward(operation, static_cast<int>(i), gradient);
    const Edge& edge = edges[i];
    if (gradient.shape() != edge.shape || gradient.dtype() != edge.dtype || gradient.device() != edge.device) {
      throw AutogradError(
          backward_of(operation), gradient.str() + " as gradient of input " + std::to_string(i),
          std::string(name_of(edge.dtype)) + edge.shape.str() + " on " + edge.device.str() + ", as the input",
          "Correct the gradient that this operation was recorded with");
    }
  }
  return gradients;
}

template std::vector<Tensor> Node::apply(const std::shared_ptr<Node>&, std::span<Tensor>, Needs);
template std::vector<Var> Node::apply(const std::shared_ptr<Node>&, std::span<Var>, Needs);

template <class T>
Tensor Pass<T>::zeros(int output) const {
  const Node::Output& like = node_->outputs().at(static_cast<size_t>(output));
  return Tensor::zeros(like.shape, like.dtype, like.device);
}

template <class T>
Var Pass<T>::with_history(const SavedTensor& saved) const {
  const Tensor& value = saved.get();
  if (!value.defined()) return Var();
  if (saved.of() == SavedTensor::Of::output) return Var::computed(value, node_, saved.index());
  if (saved.of() == SavedTensor::Of::nothing) return Var(value);
  const Node::Edge& edge = node_->edges().at(static_cast<size_t>(saved.index()));
  if (edge.node != nullptr) return Var::computed(value, edge.node, edge.output);
  if (edge.leaf == nullptr) return Var(value);
  const Tensor& now = edge.leaf->value;
  if (now.storage() != value.storage() || now.offset() != value.offset() || now.shape() != value.shape()) {
    throw AutogradError(backward_of(node_->operation()), "a leaf that was given another value since, " + now.str(),
                        "the one it had, " + value.str(),
                        "Call set_value() (or move a module) only after all gradients are computed");
  }
  return Var::of(edge.leaf);
}

template class Pass<Tensor>;
template class Pass<Var>;

}  // namespace ashlar
