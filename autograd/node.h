// The tape's link: one recorded operation, what it read, and how its gradient is computed.
//
// How a differentiable function is written (generated code does just this):
//
//   Var exp(const Var& x) {
//     Tensor y = ashlar::exp(x.value());
//     return record("exp", {x}, y, [y_ = save(y)](const Tensor& dy) -> std::vector<Tensor> {
//       return {ashlar::exp_grad(dy, y_.get())};
//     });
//   }
//
// With more than one input, take a `Needs` as second parameter and leave out what nobody asked for:
//
//   [a_ = save(a), b_ = save(b)](const Tensor& dy, Needs needs) -> std::vector<Tensor> {
//     return {needs(0) ? ashlar::mul(dy, b_.get()) : Tensor(), needs(1) ? ashlar::mul(dy, a_.get()) : Tensor()};
//   }
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "autograd/var.h"
#include "runtime/memory/host_memory.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// Which inputs of an operation need a gradient: needs(i) for the i-th one given to record().
class Needs {
 public:
  Needs() = default;
  explicit Needs(uint64_t mask) : mask_(mask) {}
  bool operator()(int input) const { return (mask_ >> input & 1) != 0; }

 private:
  uint64_t mask_ = 0;
};

/// A tensor kept for the backward pass, with its storage's version at the time of saving.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(Tensor tensor);
  /// Throws AutogradError when the storage was written in place since saving.
  const Tensor& get() const;

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
};

/// Keeps `tensor` (which may be undefined: an absent optional input) for a backward function.
inline SavedTensor save(const Tensor& tensor) { return SavedTensor(tensor); }
/// Keeps the value of `var`, if any.
inline SavedTensor save(const Var& var) { return SavedTensor(var.defined() ? var.value() : Tensor()); }

/// dL/dy to dL/dinputs, one tensor per input of record(); an undefined one stands for "none". Made from a callable
/// taking (const Tensor& dy) or (const Tensor& dy, Needs needs).
class BackwardFn {
 public:
  BackwardFn() = default;
  template <class F>
  requires std::invocable<const F&, const Tensor&, Needs> BackwardFn(F function)
  try : function_(std::move(function)) {
  } catch (const std::bad_alloc&) {
    detail::throw_out_of_host_memory("record");
  }
  template <class F>
  requires(std::invocable<const F&, const Tensor&> && !std::invocable<const F&, const Tensor&, Needs>)
      BackwardFn(F function)
  try : function_([f = std::move(function)](const Tensor& dy, Needs) -> std::vector<Tensor> { return f(dy); }) {
  } catch (const std::bad_alloc&) {
    detail::throw_out_of_host_memory("record");
  }

  std::vector<Tensor> operator()(const Tensor& dy, Needs needs) const { return function_(dy, needs); }
  explicit operator bool() const { return static_cast<bool>(function_); }

 private:
  std::function<std::vector<Tensor>(const Tensor&, Needs)> function_;
};

/// Wraps `value` into a Var. When gradients are on for this thread and an input requires one, the Var remembers
/// `operation`, its inputs and `backward`; otherwise `backward` (and all that it saved) is dropped at once.
/// `operation` must outlive the graph (a literal). At most 64 inputs, else ValueError.
Var record(const char* operation, std::span<const Var> inputs, Tensor value, BackwardFn backward);
inline Var record(const char* operation, std::initializer_list<Var> inputs, Tensor value, BackwardFn backward) {
  return record(operation, std::span<const Var>(inputs.begin(), inputs.size()), std::move(value), std::move(backward));
}

/// One recorded operation. Made by record(), walked by backward().
class Node {
 public:
  /// Where the gradient of one input goes, and what it must look like.
  struct Edge {
    std::shared_ptr<Node> node;              ///< the operation that made the input, or
    std::shared_ptr<detail::VarState> leaf;  ///< the leaf that it is; both null when no gradient is needed
    Shape shape;
    DType dtype = DType::f32;
    Device device;
    bool needed() const { return node != nullptr || leaf != nullptr; }
  };

  Node(const char* operation, std::span<const Var> inputs, BackwardFn backward);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const char* operation() const { return operation_; }
  const std::vector<Edge>& edges() const { return edges_; }
  /// Throws AutogradError when free() was called.
  void require_alive() const;

  /// One gradient per edge; checks count, shapes, dtypes and devices. Throws AutogradError when freed or when a check
  /// fails.
  std::vector<Tensor> apply(const Tensor& dy) const;
  /// Drops edges and saved tensors.
  void free();

 private:
  void release_edges() noexcept;

  const char* operation_;
  std::vector<Edge> edges_;
  BackwardFn backward_;
  bool freed_ = false;
  std::shared_ptr<Node> next_released_;  ///< while release_edges() takes a graph apart
};

}  // namespace ashlar
