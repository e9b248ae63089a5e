// Modules applied one after another.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "nn/modules/residual_stream.h"
#include "runtime/forms/forms.h"

namespace ashlar::nn {

/// What a container knows of a module's class.
struct LayerDescriptor {
  Var (*forward)(Module& module, const Var& x);
  /// The same with an activation in the same launch, `forward(x, Activation)`; null where the class doesn't say
  /// `kTakesEpilogue`.
  Var (*forward_with)(Module& module, const Var& x, Activation activation) = nullptr;
  /// Which activation it is, by the class's `kEpilogue`; none where it says nothing.
  Activation epilogue = Activation::none;
  /// Of a class whose result is a sum (Residual), the terms; and those for an x that is itself a sum. Else null.
  Terms (*terms)(Module& module, const Var& x) = nullptr;
  Terms (*terms_of_sum)(Module& module, const Var& x, const Var& residual) = nullptr;
  /// Of a class that adds in its own pass (LayerNorm, RMSNorm): its result for x + residual. Else null.
  ResultOfSum (*of_sum)(Module& module, const Var& x, const Var& residual) = nullptr;
};

template <LayerModule M>
constexpr LayerDescriptor layer_descriptor() {
  LayerDescriptor result{
      .forward = [](Module& module, const Var& x) -> Var { return static_cast<M&>(module).forward(x); }};
  if constexpr (requires { requires M::kTakesEpilogue; }) {
    result.forward_with = [](Module& module, const Var& x, Activation activation) -> Var {
      return static_cast<M&>(module).forward(x, activation);
    };
  }
  if constexpr (requires {
                  { M::kEpilogue } -> std::convertible_to<Activation>;
                })
    result.epilogue = M::kEpilogue;
  if constexpr (requires(M & m, const Var& x) {
                  { m.terms(x) } -> std::convertible_to<Terms>;
                }) {
    result.terms = [](Module& module, const Var& x) -> Terms { return static_cast<M&>(module).terms(x); };
  }
  if constexpr (requires(M & m, const Var& x) {
                  { m.terms_of_sum(x, x) } -> std::convertible_to<Terms>;
                }) {
    result.terms_of_sum = [](Module& module, const Var& x, const Var& residual) -> Terms {
      return static_cast<M&>(module).terms_of_sum(x, residual);
    };
  }
  if constexpr (requires(M & m, const Var& x) {
                  { m.of_sum(x, x) } -> std::convertible_to<ResultOfSum>;
                }) {
    result.of_sum = [](Module& module, const Var& x, const Var& residual) -> ResultOfSum {
      return static_cast<M&>(module).of_sum(x, residual);
    };
  }
  return result;
}

/// Children are named "0", "1", …, as torch.nn.Sequential names them. A module that takes an activation with it
/// (Linear), directly before one that is such (ReLU, GELU), runs as one kernel, and so do the addition at the end of a
/// Residual, or of a transformer's layer, and the normalisation that comes next, first in another of these or a
/// Sequential, too. Names and results are the same.
class Sequential : public ModuleOf<Sequential> {
 public:
  Sequential() = default;
  /// Modules are moved in: Sequential(Linear(784, 10), ReLU()).
  template <LayerModule... M>
  requires(sizeof...(M) > 0 &&
           !(sizeof...(M) == 1 && (std::same_as<M, Sequential> && ...))) explicit Sequential(M... m) {
    (add(std::make_shared<M>(std::move(m))), ...);
  }

  /// Appends a module. Returns *this. Throws ValueError on a null one.
  template <LayerModule M>
  Sequential& add(std::shared_ptr<M> module) {
    append(std::move(module), layer_descriptor<M>());
    return *this;
  }
  /// Makes a module of type M at the end: model.add<Linear>(784, 10, random).
  template <LayerModule M, class... Arguments>
  Sequential& add(Arguments&&... arguments) {
    return add(std::make_shared<M>(std::forward<Arguments>(arguments)...));
  }

  Var forward(const Var& x) const;
  /// {forward(x + residual), x + residual}: in one pass where a normalisation comes first. Both are of one shape and
  /// dtype.
  ResultOfSum of_sum(const Var& x, const Var& residual) const;
  int size() const { return static_cast<int>(steps_.size()); }
  /// Throws IndexError.
  Module& operator[](int index) const;

 protected:
  void members(Members& members) override {
    for (size_t i = 0; i < steps_.size(); i++) members.child(std::to_string(i), steps_[i].module);
  }

 private:
  struct Step {
    std::shared_ptr<Module> module;
    LayerDescriptor layer;
  };
  Var forward_from(size_t first, Terms x) const;
  void append(std::shared_ptr<Module> module, const LayerDescriptor& layer);
  std::vector<Step> steps_;
};

}  // namespace ashlar::nn
