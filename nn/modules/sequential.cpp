#include "nn/modules/sequential.h"

#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

void Sequential::append(std::shared_ptr<Module> module, const LayerDescriptor& layer) try {
  if (module == nullptr) throw ValueError("Sequential::add", "a null module", "a module", "Make it first");
  steps_.push_back({std::move(module), layer});
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Sequential::add");
}

Module& Sequential::operator[](int index) const {
  if (index < 0 || index >= size()) {
    throw IndexError("Sequential", "module " + std::to_string(index), "one of " + std::to_string(size()),
                     "Count from 0");
  }
  return *steps_[static_cast<size_t>(index)].module;
}

Var Sequential::forward(const Var& x) const {
  Var y = x;
  for (size_t i = 0; i < steps_.size(); i++) {
    const Step& step = steps_[i];
    const Activation next = i + 1 < steps_.size() ? steps_[i + 1].layer.epilogue : Activation::none;
    if (step.layer.forward_with != nullptr && next != Activation::none) {
      y = step.layer.forward_with(*step.module, y, next);
      i++;
    } else {
      y = step.layer.forward(*step.module, y);
    }
  }
  return y;
}

}  // namespace ashlar::nn
