// Module: named parameters, buffers and other modules, as a tree.
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "autograd/var.h"

namespace ashlar::nn {

class Module;

using NamedVars = std::vector<std::pair<std::string, Var>>;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using NamedModules = std::vector<std::pair<std::string, const Module*>>;

/// Whether a buffer belongs to a module's weights (running statistics), or only to a training that is interrupted and
/// goes on (the state of random numbers).
enum class Saved : uint8_t { with_weights, with_checkpoints };

/// What a module tells its members to, one after the other: PyTorch's order is parameters, buffers, then modules.
/// Undefined Vars and null pointers are passed over.
class Members {
 public:
  virtual ~Members() = default;
  virtual void parameter(std::string_view name, Var& parameter) = 0;
  virtual void buffer(std::string_view name, Var& buffer, Saved saved = Saved::with_weights) = 0;
  virtual void child(std::string_view name, Module& module) = 0;
  template <std::derived_from<Module> M>
  void child(std::string_view name, std::shared_ptr<M>& module) {
    if (module != nullptr) module = std::static_pointer_cast<M>(shared_child(name, module));
  }

 protected:
  /// Returns what is to stand in its place: itself, or a copy.
  virtual std::shared_ptr<Module> shared_child(std::string_view name, std::shared_ptr<Module> module) = 0;
};

/// A class's name without namespaces: "Residual<Linear>".
std::string class_name(const std::type_info& type);

/// The base of all modules, with what needs no more than their members' names. What a module computes is its own
/// `forward`, with whatever arguments it takes: there is none here.
///
/// A module is a handle, as Var and Tensor are: copies share parameters and buffers, clone() has its own. Derive from
/// ModuleOf<Derived>, and say in members() what it has.
class Module {
 public:
  virtual ~Module() = default;

  /// Names are those given to Members, joined with dots as in PyTorch ("0.weight"). A parameter that stands at several
  /// places comes once, with its first name.
  NamedVars named_parameters() const;
  NamedVars named_buffers() const;
  std::vector<Var> parameters() const;
  /// This module, named "", and all below it.
  NamedModules named_modules() const;
  /// Number of elements of all parameters.
  int64_t parameter_count() const;

  /// Parameters and the buffers saved with weights, under all names that they have. The tensors share storage with the
  /// module. With Saved::with_checkpoints all buffers.
  NamedTensors state_dict(Saved what = Saved::with_weights) const;
  /// Copies tensors of the same names, shapes and dtypes (from any device) into parameters and buffers. Throws, before
  /// anything is written, ValueError that lists the names missing and unexpected, ShapeError or DTypeError when a
  /// tensor doesn't fit.
  void load_state_dict(const NamedTensors& state, Saved what = Saved::with_weights) const;

  /// Moves parameters and buffers. Gradients are forgotten; an optimiser notices at its next step.
  void to(Device device) const;
  /// Casts floating-point parameters and buffers.
  void to(DType dtype) const;
  /// Turns gradients of all parameters on or off, to train a part of a network.
  void requires_grad(bool on) const;
  /// Forgets the gradients of all parameters.
  void zero_grad() const;

  /// Training or evaluation mode of the whole tree (training at first).
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// The class's name without its namespace: "Linear".
  std::string kind() const { return class_name(typeid(*this)); }
  /// What summary() says of this module beside shapes: "p = 0.5".
  virtual std::string details() const { return {}; }
  /// A line for each module: name, class, shapes of parameters and buffers, number of elements; then the sums.
  std::string summary() const;

  /// For containers: a copy that shares nothing. ModuleOf has one of the module's own type.
  std::shared_ptr<Module> clone() const;

 protected:
  Module() = default;
  Module(const Module&) = default;
  Module(Module&&) = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) = default;

  virtual void members(Members& /*members*/) {}
  virtual std::shared_ptr<Module> copy() const = 0;
  /// Gives this module, a copy so far, tensors of its own.
  void unshare();

 private:
  friend struct MemberAccess;
  bool training_ = true;
};

/// The summary.
std::ostream& operator<<(std::ostream& out, const Module& module);

/// What a class that is a module derives from, for clone() and calls: `model(x, h)` is `model.forward(x, h)`.
template <class Derived>
class ModuleOf : public Module {
 public:
  /// A copy with parameters and buffers of its own, without gradients. What was shared inside of the module (tied
  /// weights, a module at two places) is shared inside of the copy.
  Derived clone() const {
    Derived twin(static_cast<const Derived&>(*this));
    static_cast<ModuleOf&>(twin).unshare();
    return twin;
  }

  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) {
    return static_cast<Derived&>(*this).forward(std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) const {
    return static_cast<const Derived&>(*this).forward(std::forward<Arguments>(arguments)...);
  }

 protected:
  std::shared_ptr<Module> copy() const override {
    return std::make_shared<Derived>(static_cast<const Derived&>(*this));
  }
};

/// A module from one Var to another, as containers take them.
template <class M>
concept LayerModule = std::derived_from<M, Module> && requires(M& module, const Var& x) {
  { module.forward(x) } -> std::convertible_to<Var>;
};

}  // namespace ashlar::nn
