// Var: a tensor that remembers how it was computed, so that backward() can find gradients.
#pragma once

#include <memory>

#include "runtime/tensor/tensor.h"

namespace ashlar {

class Node;
struct BackwardOptions;

namespace detail {

/// What copies of one Var share.
struct VarState {
  Tensor value;
  bool requires_grad = false;
  std::shared_ptr<Node> node;  ///< the operation that made the value; null for a leaf
  int output = 0;              ///< as which of its outputs
  Tensor grad;                 ///< leaf only; undefined until backward() reaches it
  Tensor grad_slot;            ///< leaf only; where its gradient must be stored (an arena's view), if anywhere
};

}  // namespace detail

/// A value in a computation that may be differentiated. Copies share value, gradient and history. A Var made from a
/// Tensor is a leaf; one made by an ashlar::ad function points to the operation that made it. A default-constructed
/// Var is undefined; every call on it but defined() throws ValueError.
///
/// Thread safety as for std::shared_ptr: different threads may use different Vars, and may read one Var together;
/// two threads must not run backward() into the same leaf at once.
class Var {
 public:
  Var() = default;
  /// A leaf. Throws AutogradError when requires_grad is asked of a tensor that isn't floating point.
  Var(Tensor value, bool requires_grad = false);  // NOLINT(google-explicit-constructor): constants mix with Vars

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const;
  const Shape& shape() const { return value().shape(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }
  int rank() const { return shape().rank(); }
  int64_t size(int64_t axis) const { return value().size(axis); }
  int64_t numel() const { return value().numel(); }

  /// True when backward() would propagate through (or into) this Var.
  bool requires_grad() const;
  bool is_leaf() const;
  /// Turns gradients of a leaf on or off. Throws AutogradError on a computed Var or a dtype that isn't floating.
  void set_requires_grad(bool requires_grad) const;

  /// The gradient collected by backward() since the last clear_grad(); undefined when there's none. Only leaves
  /// that require gradients collect one.
  const Tensor& grad() const;
  /// Forgets the gradient. Memory given by set_grad_slot stays reserved, its contents are stale.
  void clear_grad() const;

  /// Replaces a leaf's value (same meaning, other place or dtype: how a parameter moves into an arena or to another
  /// device). Forgets the gradient and its slot. Throws AutogradError on a computed Var.
  void set_value(Tensor value) const;
  /// Replaces the gradient: copied into the slot where there is one, else shared. Throws AutogradError unless it has
  /// the value's shape, dtype and device.
  void set_grad(Tensor grad) const;
  /// From now on the gradient is written into `slot`, a dense view of the value's shape and dtype. Forgets the
  /// gradient.
  void set_grad_slot(Tensor slot) const;
  const Tensor& grad_slot() const;

  /// The same value without history: a new leaf that requires no gradient and shares the storage.
  Var detach() const;

  // ---- Tensor's views and moves, recorded (autograd/views.h says what their gradients are) ------------------------
  Var reshape(const Shape& shape) const;
  Var permute(const Shape& axes) const;
  Var transpose(int64_t a, int64_t b) const;
  Var slice(int64_t axis, int64_t start, int64_t stop = Tensor::kEnd, int64_t step = 1) const;
  Var select(int64_t axis, int64_t index) const;
  Var squeeze(int64_t axis) const;
  Var unsqueeze(int64_t axis) const;
  Var broadcast_to(const Shape& shape) const;
  Var to(DType dtype) const;
  Var to(Device device) const;

  /// The only element as a double. Throws ShapeError unless there is one.
  double item() const { return value().item(); }

  // ---- computing: the functions of ashlar/ad.h and autograd/backward.h under the same names (library
  // ashlar_ops_gradients)
  void backward() const;
  void backward(const BackwardOptions& options) const;
  Var sum(const Shape& axes = {}, bool keepdim = false) const;  ///< no axes: all
  Var mean(const Shape& axes = {}, bool keepdim = false) const;
  Var max(const Shape& axes = {}, bool keepdim = false) const;
  Var softmax(int64_t axis = -1) const;
  Var matmul(const Var& b) const;
  Var exp() const;
  Var log() const;
  Var sqrt() const;
  Var tanh() const;
  Var sigmoid() const;
  Var relu() const;
  Var operator[](int64_t index) const;  ///< the index-th along axis 0
  /// x += y makes x the Var x + y: other copies of x stay what they were. A leaf that requires a gradient would lose
  /// its place in the graph: an AutogradError, except under NoGrad, where its elements are written.
  Var& operator+=(const Var& b) &;
  Var& operator-=(const Var& b) &;
  Var& operator*=(const Var& b) &;
  Var& operator/=(const Var& b) &;
  Var& operator+=(Number b) &;
  Var& operator-=(Number b) &;
  Var& operator*=(Number b) &;
  Var& operator/=(Number b) &;

  // ---- for the tape -------------------------------------------------------------------------------------------
  const std::shared_ptr<detail::VarState>& state() const { return state_; }
  static Var computed(Tensor value, std::shared_ptr<Node> node, int output = 0);
  static Var of(std::shared_ptr<detail::VarState> state);

 private:
  detail::VarState& checked(const char* call) const;
  std::shared_ptr<detail::VarState> state_;
};

}  // namespace ashlar
