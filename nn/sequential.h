// Modules applied one after another.
#pragma once

#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include "nn/activations.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace ashlar::nn {

/// Children are named "0", "1", …, as torch.nn.Sequential names them. A Linear directly before a ReLU runs as one
/// kernel; names and results are the same.
class Sequential : public Module {
 public:
  Sequential() = default;

  /// Appends a module. Returns *this.
  Sequential& add(std::shared_ptr<Module> module);
  /// Makes a module of type M at the end: model.add<Linear>(784, 10, generator).
  template <std::derived_from<Module> M, class... Arguments>
  Sequential& add(Arguments&&... arguments) {
    return add(std::make_shared<M>(std::forward<Arguments>(arguments)...));
  }

  Var forward(const Var& x) override;
  int size() const { return static_cast<int>(steps_.size()); }

 private:
  struct Step {
    std::shared_ptr<Module> module;
    Linear* linear;  ///< the module, where it is one
    bool is_relu;
  };
  std::vector<Step> steps_;
};

}  // namespace ashlar::nn
