#include "nn/sequential.h"
#include "runtime/memory/host_memory.h"

#include <string>

namespace ashlar::nn {

Sequential& Sequential::add(std::shared_ptr<Module> module) try {
  register_child(std::to_string(steps_.size()), module);
  auto* linear = dynamic_cast<Linear*>(module.get());
  const bool is_relu = dynamic_cast<ReLU*>(module.get()) != nullptr;
  steps_.push_back({std::move(module), linear, is_relu});
  return *this;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Sequential::add");
}

Var Sequential::forward(const Var& x) {
  Var y = x;
  for (size_t i = 0; i < steps_.size(); i++) {
    const Step& step = steps_[i];
    if (step.linear != nullptr && i + 1 < steps_.size() && steps_[i + 1].is_relu) {
      y = step.linear->forward(y, Activation::relu);
      i++;
    } else {
      y = step.module->forward(y);
    }
  }
  return y;
}

}  // namespace ashlar::nn
