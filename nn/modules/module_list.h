// Modules of one class in a list, for a module that calls them as it likes.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

/// Children are named "0", "1", …, as torch.nn.ModuleList names them. It has no forward: `for (Block& block : blocks)`.
/// M may be Module itself, to hold modules of several classes.
template <class M>
class ModuleList : public ModuleOf<ModuleList<M>> {
 public:
  ModuleList() = default;

  /// Appends a module and returns it. Throws ValueError on a null one.
  M& add(std::shared_ptr<M> module) {
    if (module == nullptr) throw ValueError("ModuleList::add", "a null module", "a module", "Make it first");
    return *modules_.emplace_back(std::move(module));
  }
  template <std::derived_from<M> Made = M, class... Arguments>
  requires(std::constructible_from<Made, Arguments...>) Made& emplace(Arguments&&... arguments) {
    return static_cast<Made&>(add(std::make_shared<Made>(std::forward<Arguments>(arguments)...)));
  }

  int size() const { return static_cast<int>(modules_.size()); }
  /// Throws IndexError.
  M& operator[](int index) const {
    if (index < 0 || index >= size()) {
      throw IndexError("ModuleList", "module " + std::to_string(index), "one of " + std::to_string(size()),
                       "Count from 0");
    }
    return *modules_[static_cast<size_t>(index)];
  }

  class Iterator {
   public:
    explicit Iterator(const std::shared_ptr<M>* at) : at_(at) {}
    M& operator*() const { return **at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const std::shared_ptr<M>* at_;
  };
  Iterator begin() const { return Iterator(modules_.data()); }
  Iterator end() const { return Iterator(modules_.data() + modules_.size()); }

 protected:
  void members(Members& members) override {
    for (size_t i = 0; i < modules_.size(); i++) members.child(std::to_string(i), modules_[i]);
  }

 private:
  std::vector<std::shared_ptr<M>> modules_;
};

}  // namespace ashlar::nn
