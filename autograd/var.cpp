#include "autograd/var.h"

#include <string>
#include <utility>

#include "autograd/node.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

void require_floating(const char* call, DType dtype) {
  if (is_floating(dtype)) return;
  throw AutogradError(call, "a tensor of dtype " + std::string(name_of(dtype)), "a floating-point tensor",
                      "Cast it with to(DType::f32) first");
}

void require_like(const char* call, const Tensor& given, const Tensor& value) {
  if (given.shape() == value.shape() && given.dtype() == value.dtype() && given.device() == value.device()) return;
  throw AutogradError(call, given.str(), value.str() + ", like the value",
                      "Match shape, dtype and device of the value");
}

}  // namespace

Var::Var(Tensor value, bool requires_grad) try {
  if (!value.defined()) {
    throw ValueError("Var", "an undefined tensor", "a tensor with storage", "Make it with Tensor::empty or similar");
  }
  if (requires_grad) require_floating("Var", value.dtype());
  state_ = std::make_shared<detail::VarState>();
  state_->value = std::move(value);
  state_->requires_grad = requires_grad;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Var");
}

Var Var::computed(Tensor value, std::shared_ptr<Node> node, int output) {
  Var result(std::move(value));
  result.state_->requires_grad = node != nullptr;
  result.state_->node = std::move(node);
  result.state_->output = output;
  return result;
}

Var Var::of(std::shared_ptr<detail::VarState> state) {
  Var result;
  result.state_ = std::move(state);
  return result;
}

detail::VarState& Var::checked(const char* call) const {
  if (state_ == nullptr) throw ValueError(call, "an undefined Var", "a Var made from a tensor", "Initialise it first");
  return *state_;
}

const Tensor& Var::value() const { return checked("Var::value").value; }
bool Var::requires_grad() const { return checked("Var::requires_grad").requires_grad; }
bool Var::is_leaf() const { return checked("Var::is_leaf").node == nullptr; }
const Tensor& Var::grad() const { return checked("Var::grad").grad; }
const Tensor& Var::grad_slot() const { return checked("Var::grad_slot").grad_slot; }

void Var::set_requires_grad(bool requires_grad) const {
  detail::VarState& state = checked("Var::set_requires_grad");
  if (state.node != nullptr) {
    throw AutogradError("Var::set_requires_grad", std::string("the result of ") + state.node->operation(), "a leaf",
                        "Call detach() for a leaf with the same value");
  }
  if (requires_grad) require_floating("Var::set_requires_grad", state.value.dtype());
  state.requires_grad = requires_grad;
  if (!requires_grad) state.grad = Tensor();
}

void Var::clear_grad() const { checked("Var::clear_grad").grad = Tensor(); }

void Var::set_value(Tensor value) const {
  detail::VarState& state = checked("Var::set_value");
  if (state.node != nullptr) {
    throw AutogradError("Var::set_value", std::string("the result of ") + state.node->operation(), "a leaf",
                        "Only leaves (parameters, inputs) can be given another value");
  }
  if (!value.defined()) {
    throw ValueError("Var::set_value", "an undefined tensor", "a tensor with storage", "Pass a tensor that was made");
  }
  if (state.requires_grad) require_floating("Var::set_value", value.dtype());
  state.value = std::move(value);
  state.grad = Tensor();
  state.grad_slot = Tensor();
}

void Var::set_grad(Tensor grad) const {
  detail::VarState& state = checked("Var::set_grad");
  require_like("Var::set_grad", grad, state.value);
  if (state.grad_slot.defined()) {
    state.grad_slot.copy_(grad);
    state.grad = state.grad_slot;
  } else {
    state.grad = std::move(grad);
  }
}

void Var::set_grad_slot(Tensor slot) const {
  detail::VarState& state = checked("Var::set_grad_slot");
  require_like("Var::set_grad_slot", slot, state.value);
  if (!slot.is_contiguous()) {
    throw AutogradError("Var::set_grad_slot", "a strided " + slot.str(), "a dense tensor", "Pass a dense view");
  }
  state.grad = Tensor();
  state.grad_slot = std::move(slot);
}

Var Var::detach() const { return Var(checked("Var::detach").value); }

}  // namespace ashlar
