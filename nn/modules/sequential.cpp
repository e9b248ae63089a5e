#include "nn/modules/sequential.h"

#include "ashlar/ad.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// Broadcasting and promotion are add()'s.
bool can_be_added_later(const Terms& x) {
  return x.branch.defined() && x.stream.shape() == x.branch.shape() && x.stream.dtype() == x.branch.dtype();
}

}  // namespace

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

Var Sequential::forward(const Var& x) const { return forward_from(0, {x, {}}); }

ResultOfSum Sequential::of_sum(const Var& x, const Var& residual) const {
  if (steps_.empty() || steps_[0].layer.of_sum == nullptr) {
    const Var h = ad::add(x, residual);
    return {forward(h), h};
  }
  const auto [y, h] = steps_[0].layer.of_sum(*steps_[0].module, x, residual);
  return {forward_from(1, {y, {}}), h};
}

// What steps `first` and later make of x.
Var Sequential::forward_from(size_t first, Terms x) const {
  for (size_t i = first; i < steps_.size(); i++) {
    Module& module = *steps_[i].module;
    const LayerDescriptor& layer = steps_[i].layer;
    const Activation next = i + 1 < steps_.size() ? steps_[i + 1].layer.epilogue : Activation::none;
    const bool is_sum = can_be_added_later(x);
    if (is_sum && layer.terms_of_sum != nullptr) {
      x = layer.terms_of_sum(module, x.branch, x.stream);
    } else if (is_sum && layer.of_sum != nullptr) {
      x = {layer.of_sum(module, x.branch, x.stream).y, {}};
    } else if (layer.terms != nullptr) {
      x = layer.terms(module, added(x));
    } else if (layer.forward_with != nullptr && next != Activation::none) {
      x = {layer.forward_with(module, added(x), next), {}};
      i++;
    } else {
      x = {layer.forward(module, added(x)), {}};
    }
  }
  return added(x);
}

}  // namespace ashlar::nn
