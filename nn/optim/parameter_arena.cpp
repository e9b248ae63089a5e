#include "nn/optim/parameter_arena.h"

#include <algorithm>
#include <utility>

#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "ParameterArena";
constexpr int64_t kAlignment = 512;  // bytes

}  // namespace

ParameterArena::ParameterArena(std::vector<Var> parameters) try : parameters_(std::move(parameters)) {
  if (parameters_.empty()) throw ValueError(kName, "no parameters", "at least one", "Pass module.parameters()");
  const Device device = parameters_[0].device();
  const DType dtype = parameters_[0].dtype();
  const int64_t step = kAlignment / size_of(dtype);
  int64_t total = 0;
  for (const Var& parameter : parameters_) {
    if (!parameter.requires_grad() || parameter.device() != device || parameter.dtype() != dtype) {
      throw ValueError(kName, "a parameter " + parameter.value().str() + " beside " + parameters_[0].value().str(),
                       "leaves that require gradients, of one device and dtype", "Make one arena for each kind");
    }
    offsets_.push_back(total);
    shapes_.push_back(parameter.shape());
    total += detail::round_up(parameter.value().numel(), step);
  }
  values_ = Tensor::zeros({total}, dtype, device);
  gradients_ = Tensor::zeros({total}, dtype, device);
  // First all that can fail: an arena that couldn't be made leaves the parameters as they were.
  for (size_t i = 0; i < parameters_.size(); i++) {
    part(values_, i).copy_(parameters_[i].value());
    const Tensor& gradient = parameters_[i].grad();
    if (gradient.defined()) part(gradients_, i).copy_(gradient);
  }
  for (size_t i = 0; i < parameters_.size(); i++) {
    const bool has_gradient = parameters_[i].grad().defined();
    parameters_[i].set_value(part(values_, i));
    parameters_[i].set_grad_slot(part(gradients_, i));
    if (has_gradient) parameters_[i].state()->grad = parameters_[i].grad_slot();
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kName);
}

Tensor ParameterArena::part(const Tensor& flat, size_t i) const {
  return flat.slice(0, offsets_[i], offsets_[i] + shapes_[i].numel()).reshape(shapes_[i]);
}

bool ParameterArena::holds_parameters() const {
  return std::ranges::all_of(parameters_, [this](const Var& parameter) {
    return parameter.value().storage() == values_.storage() && parameter.grad_slot().defined() &&
           parameter.grad_slot().storage() == gradients_.storage();
  });
}

bool ParameterArena::complete_gradients() const {
  const auto reached = [](const Var& parameter) { return parameter.grad().defined(); };
  if (std::ranges::none_of(parameters_, reached)) return false;
  for (const Var& parameter : parameters_) {
    if (!reached(parameter)) parameter.grad_slot().fill_(0);
  }
  return true;
}

}  // namespace ashlar::nn
