// Parameters in a list or by names, and modules by names, for a module that uses them as it likes.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace detail {

/// What has names in the order in which they came. Names have no dot: that joins them.
template <class Value>
class NamedValues {
 public:
  /// Throws ValueError on an empty name, one with a dot or one that is there.
  Value& add(const char* operation, std::string name, Value value) {
    if (name.empty() || name.find('.') != std::string::npos || contains(name)) {
      throw ValueError(operation, "the name \"" + name + "\"", "a new one, without a dot", "Choose another name");
    }
    return values_.emplace_back(std::move(name), std::move(value)).second;
  }
  bool contains(std::string_view name) const {
    for (const auto& [known, value] : values_) {
      if (known == name) return true;
    }
    return false;
  }
  /// Throws IndexError that lists the names.
  const Value& at(const char* operation, std::string_view name) const {
    std::string all;
    for (const auto& [known, value] : values_) {
      if (known == name) return value;
      all += (all.empty() ? "" : ", ") + known;
    }
    throw IndexError(operation, "\"" + std::string(name) + "\"", "one of: " + all, "Add it first");
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& [name, value] : values_) result.push_back(name);
    return result;
  }
  std::vector<std::pair<std::string, Value>>& all() { return values_; }
  int size() const { return static_cast<int>(values_.size()); }

 private:
  std::vector<std::pair<std::string, Value>> values_;
};

}  // namespace detail

/// Parameters named "0", "1", …, as torch.nn.ParameterList names them.
class ParameterList : public ModuleOf<ParameterList> {
 public:
  ParameterList() = default;

  /// Appends a parameter, which is one whether it asked for a gradient or not, and returns it. Throws ValueError on an
  /// undefined one.
  const Var& add(const Var& parameter) {
    if (!parameter.defined()) throw ValueError("ParameterList::add", "an undefined Var", "a tensor", "Make it first");
    return parameters_.emplace_back(parameter.requires_grad() ? parameter : Var(parameter.value(), true));
  }
  int size() const { return static_cast<int>(parameters_.size()); }
  /// Throws IndexError.
  const Var& operator[](int index) const {
    if (index < 0 || index >= size()) {
      throw IndexError("ParameterList", "parameter " + std::to_string(index), "one of " + std::to_string(size()),
                       "Count from 0");
    }
    return parameters_[static_cast<size_t>(index)];
  }
  std::vector<Var>::const_iterator begin() const { return parameters_.begin(); }
  std::vector<Var>::const_iterator end() const { return parameters_.end(); }

 protected:
  void members(Members& members) override {
    for (size_t i = 0; i < parameters_.size(); i++) members.parameter(std::to_string(i), parameters_[i]);
  }

 private:
  std::vector<Var> parameters_;
};

/// Parameters by names, in the order in which they came, as torch.nn.ParameterDict.
class ParameterDict : public ModuleOf<ParameterDict> {
 public:
  ParameterDict() = default;

  /// Throws ValueError on an undefined parameter, and on a name that is there, empty or has a dot.
  const Var& add(std::string name, const Var& parameter) {
    if (!parameter.defined()) throw ValueError("ParameterDict::add", "an undefined Var", "a tensor", "Make it first");
    const Var own = parameter.requires_grad() ? parameter : Var(parameter.value(), true);
    return parameters_.add("ParameterDict::add", std::move(name), own);
  }
  int size() const { return parameters_.size(); }
  bool contains(std::string_view name) const { return parameters_.contains(name); }
  std::vector<std::string> names() const { return parameters_.names(); }
  /// Throws IndexError that lists the names.
  const Var& operator[](std::string_view name) const { return parameters_.at("ParameterDict", name); }

 protected:
  void members(Members& members) override {
    for (auto& [name, parameter] : parameters_.all()) members.parameter(name, parameter);
  }

 private:
  detail::NamedValues<Var> parameters_;
};

/// Modules by names, in the order in which they came, as torch.nn.ModuleDict. It has no forward. M may be Module
/// itself, to hold modules of several classes.
template <class M>
class ModuleDict : public ModuleOf<ModuleDict<M>> {
 public:
  ModuleDict() = default;

  /// Throws ValueError on a null module, and on a name that is there, empty or has a dot.
  M& add(std::string name, std::shared_ptr<M> module) {
    if (module == nullptr) throw ValueError("ModuleDict::add", "a null module", "a module", "Make it first");
    return *modules_.add("ModuleDict::add", std::move(name), std::move(module));
  }
  template <std::derived_from<M> Made = M, class... Arguments>
  requires(std::constructible_from<Made, Arguments...>) Made& emplace(std::string name, Arguments&&... arguments) {
    return static_cast<Made&>(add(std::move(name), std::make_shared<Made>(std::forward<Arguments>(arguments)...)));
  }
  int size() const { return modules_.size(); }
  bool contains(std::string_view name) const { return modules_.contains(name); }
  std::vector<std::string> names() const { return modules_.names(); }
  /// Throws IndexError that lists the names.
  M& operator[](std::string_view name) const { return *modules_.at("ModuleDict", name); }

 protected:
  void members(Members& members) override {
    for (auto& [name, module] : modules_.all()) members.child(name, module);
  }

 private:
  detail::NamedValues<std::shared_ptr<M>> modules_;
};

}  // namespace ashlar::nn
