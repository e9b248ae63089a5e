// The tape's link: one recorded operation, what it read, and how its gradient is computed.
//
// How a differentiable function is written (generated code does just this):
//
//   Var exp(const Var& x) {
//     Tensor y = ashlar::exp(x.value());
//     return record("exp", {x}, y, [y_ = save_output(0, y)](const auto& pass) {
//       return pass.gradients(ad::mul(pass.dy(), pass.get(y_)));
//     });
//   }
//
// `pass` is a Pass<Tensor>, or a Pass<Var> where gradients are to be differentiated again; so what is called has to be
// there for both, as operators, views and recipes are. With more than one input, leave out what nobody asked for:
//
//   [a_ = save_input(0, a), b_ = save_input(1, b)](const auto& pass) {
//     std::decay_t<decltype(pass.dy())> da, db;
//     if (pass.needs(0)) da = mul(pass.dy(), pass.get(b_));
//     if (pass.needs(1)) db = mul(pass.dy(), pass.get(a_));
//     return pass.gradients(da, db);
//   }
//
// A function of tensors alone will do for first gradients; asking for gradients of these is an AutogradError then:
//
//   [y_ = save(y)](const Tensor& dy) -> std::vector<Tensor> { return {ashlar::mul(dy, y_.get())}; }
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
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

/// A tensor kept for the backward pass, with its storage's version at the time of saving, and which of the operation's
/// inputs or outputs it is: that's where its history is found when gradients are differentiated.
class SavedTensor {
 public:
  enum class Of : uint8_t { nothing, input, output };
  SavedTensor() = default;
  explicit SavedTensor(Tensor tensor, Of of = Of::nothing, int index = 0);
  /// Throws AutogradError when the storage was written in place since saving.
  const Tensor& get() const;
  Of of() const { return of_; }
  int index() const { return index_; }

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
  Of of_ = Of::nothing;
  int index_ = 0;
};

/// Keeps `tensor` (which may be undefined: an absent optional input) for a backward function, as a constant.
inline SavedTensor save(const Tensor& tensor) { return SavedTensor(tensor); }
/// Keeps the value of `var`, if any, as a constant.
inline SavedTensor save(const Var& var) { return SavedTensor(var.defined() ? var.value() : Tensor()); }
/// Keeps the value of the operation's input number `index`, if any.
inline SavedTensor save_input(int index, const Var& var) {
  return SavedTensor(var.defined() ? var.value() : Tensor(), SavedTensor::Of::input, index);
}
/// Keeps the operation's output number `index`.
inline SavedTensor save_output(int index, const Tensor& tensor) {
  return SavedTensor(tensor, SavedTensor::Of::output, index);
}

/// What a backward function is given: the gradients of its operation's outputs. T is Tensor, or Var where gradients are
/// recorded in their turn.
template <class T>
class Pass {
 public:
  Pass(const std::shared_ptr<Node>& node, std::span<T> dys, Needs needs) : node_(node), dys_(dys), needs_(needs) {}

  /// dL/d(output); zeros where nothing came back to that output.
  const T& dy(int output = 0) const {
    T& dy = dys_[static_cast<size_t>(output)];
    if (!dy.defined()) dy = zeros(output);
    return dy;
  }
  bool has(int output) const { return dys_[static_cast<size_t>(output)].defined(); }
  bool needs(int input) const { return needs_(input); }
  Needs needs() const { return needs_; }
  const char* operation() const;
  int output_count() const { return static_cast<int>(dys_.size()); }

  /// A saved tensor: `const Tensor&`, or a Var with the history of the input or output that was saved. Throws
  /// AutogradError when it was written in place since.
  decltype(auto) get(const SavedTensor& saved) const {
    if constexpr (std::same_as<T, Tensor>) {
      return saved.get();
    } else {
      return with_history(saved);
    }
  }

  /// One for each input, as a backward function returns them; a default-constructed T stands for "none".
  template <class... G>
  std::vector<T> gradients(G&&... gradient) const {
    std::vector<T> list;
    list.reserve(sizeof...(G));
    (list.emplace_back(std::forward<G>(gradient)), ...);
    return list;
  }

 private:
  Tensor zeros(int output) const;
  Var with_history(const SavedTensor& saved) const;

  const std::shared_ptr<Node>& node_;
  std::span<T> dys_;
  Needs needs_;
};

namespace detail {

/// Throws AutogradError: what `operation` was recorded with computes first gradients only.
[[noreturn]] void throw_not_differentiable_twice(const char* operation);
/// Throws AutogradError: `operation` states no gradient, or none of `part`: "its input gate".
[[noreturn]] void throw_no_gradient(const char* operation, const std::string& part = {});

/// A joint gradient's list; or the results of an operator with several, in the order of declaration.
template <class T>
std::vector<T> as_list(std::vector<T> list) {
  return list;
}
template <class T, class Results>
requires(!std::convertible_to<Results, std::vector<T>>) std::vector<T> as_list(const Results& results) {
  constexpr size_t kCount = sizeof(Results) / sizeof(T);
  static_assert(kCount >= 1 && kCount <= 6, "a gradient of all inputs is a list, or a struct of one to six tensors");
  if constexpr (kCount == 1) {
    const auto& [a] = results;
    return {a};
  } else if constexpr (kCount == 2) {
    const auto& [a, b] = results;
    return {a, b};
  } else if constexpr (kCount == 3) {
    const auto& [a, b, c] = results;
    return {a, b, c};
  } else if constexpr (kCount == 4) {
    const auto& [a, b, c, d] = results;
    return {a, b, c, d};
  } else if constexpr (kCount == 5) {
    const auto& [a, b, c, d, e] = results;
    return {a, b, c, d, e};
  } else {
    const auto& [a, b, c, d, e, f] = results;
    return {a, b, c, d, e, f};
  }
}

}  // namespace detail

/// The backward function of an operation without one: an AutogradError that names it.
struct NoGradient {
  template <class T>
  std::vector<T> operator()(const Pass<T>& pass) const {
    detail::throw_no_gradient(pass.operation());
  }
};

/// dL/d(outputs) to dL/d(inputs), one per input of record(); an undefined one stands for "none". Made from a callable
/// taking `const auto& pass` (a Pass<Tensor> or Pass<Var>), or (const Tensor& dy), or (const Tensor& dy, Needs needs).
class BackwardFn {
 public:
  BackwardFn() = default;
  template <class F>
  requires(!std::same_as<F, BackwardFn>) BackwardFn(F function)  // NOLINT(google-explicit-constructor)
  try : function_(std::make_unique<Of<F>>(std::move(function))) {
  } catch (const std::bad_alloc&) {
    detail::throw_out_of_host_memory("record");
  }

  template <class T>
  std::vector<T> operator()(const Pass<T>& pass) const {
    return function_->run(pass);
  }
  explicit operator bool() const { return function_ != nullptr; }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual std::vector<Tensor> run(const Pass<Tensor>& pass) const = 0;
    virtual std::vector<Var> run(const Pass<Var>& pass) const = 0;
  };
  template <class F>
  struct Of final : Any {
    explicit Of(F f) : function(std::move(f)) {}
    std::vector<Tensor> run(const Pass<Tensor>& pass) const override {
      if constexpr (std::invocable<const F&, const Pass<Tensor>&>) {
        return function(pass);
      } else if constexpr (std::invocable<const F&, const Tensor&, Needs>) {
        return function(pass.dy(), pass.needs());
      } else {
        return function(pass.dy());
      }
    }
    std::vector<Var> run(const Pass<Var>& pass) const override {
      if constexpr (std::invocable<const F&, const Pass<Tensor>&>) {
        return function(pass);
      } else {
        detail::throw_not_differentiable_twice(pass.operation());
      }
    }
    F function;
  };

  std::unique_ptr<const Any> function_;
};

/// Wraps `value` into a Var. When gradients are on for this thread and an input requires one, the Var remembers
/// `operation`, its inputs and `backward`; otherwise `backward` (and all that it saved) is dropped at once.
/// `operation` must outlive the graph (a literal). At most 64 inputs, else ValueError.
Var record(const char* operation, std::span<const Var> inputs, Tensor value, BackwardFn backward);
inline Var record(const char* operation, std::initializer_list<Var> inputs, Tensor value, BackwardFn backward) {
  return record(operation, std::span<const Var>(inputs.begin(), inputs.size()), std::move(value), std::move(backward));
}

/// The same for an operation with several outputs. Those that `differentiable` has no bit for, and those that aren't
/// floating point, require no gradient. At most 64 outputs, else ValueError.
std::vector<Var> record_outputs(const char* operation, std::span<const Var> inputs, std::vector<Tensor> values,
                                BackwardFn backward, uint64_t differentiable = ~uint64_t{0});
inline std::vector<Var> record_outputs(const char* operation, std::initializer_list<Var> inputs,
                                       std::vector<Tensor> values, BackwardFn backward,
                                       uint64_t differentiable = ~uint64_t{0}) {
  return record_outputs(operation, std::span<const Var>(inputs.begin(), inputs.size()), std::move(values),
                        std::move(backward), differentiable);
}

/// One recorded operation. Made by record(), walked by backward() and grad().
class Node {
 public:
  /// Where the gradient of one input goes, and what it must look like.
  struct Edge {
    std::shared_ptr<Node> node;              ///< the operation that made the input, as its output number
    int output = 0;                          ///< this one, or
    std::shared_ptr<detail::VarState> leaf;  ///< the leaf that it is; both null when no gradient is needed
    Shape shape;
    DType dtype = DType::f32;
    Device device;
    bool needed() const { return node != nullptr || leaf != nullptr; }
  };
  /// What an output looks like.
  struct Output {
    Shape shape;
    DType dtype = DType::f32;
    Device device;
  };

  /// `outputs` may be empty where there's one; `differentiable` has a bit for each that a gradient may come back to.
  Node(const char* operation, std::span<const Var> inputs, std::vector<Output> outputs, uint64_t differentiable,
       BackwardFn backward);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const char* operation() const { return operation_; }
  const std::vector<Edge>& edges() const { return edges_; }
  int output_count() const { return outputs_.empty() ? 1 : static_cast<int>(outputs_.size()); }
  /// Empty where there's one.
  const std::vector<Output>& outputs() const { return outputs_; }
  bool alive() const { return !freed_; }
  /// Throws AutogradError when free() was called.
  void require_alive() const;

  /// `node`'s gradients, one per edge, from those of its outputs; checks count, shapes, dtypes and devices. Throws
  /// AutogradError when freed or when a check fails. T is Tensor or Var.
  template <class T>
  static std::vector<T> apply(const std::shared_ptr<Node>& node, std::span<T> dys, Needs needs);
  /// Drops edges and saved tensors.
  void free();

 private:
  void release_edges() noexcept;

  const char* operation_;
  std::vector<Edge> edges_;
  std::vector<Output> outputs_;
  uint64_t differentiable_;
  BackwardFn backward_;
  bool freed_ = false;
  std::shared_ptr<Node> next_released_;  ///< while release_edges() takes a graph apart
};

template <class T>
const char* Pass<T>::operation() const {
  return node_->operation();
}

}  // namespace ashlar
