#include "runtime/forms/promotion.h"

#include "runtime/forms/check.h"
#include "runtime/tensor/promotion.h"

namespace ashlar::forms {
namespace {

bool is_promoted(const KernelInfo& kernel, size_t input) {
  return argument_of(kernel, Argument::Role::input, static_cast<int>(input)).element == 0;
}

DType met_dtype(const KernelInfo& kernel, std::span<const Tensor> inputs) {
  std::vector<Tensor> promoted;
  for (size_t i = 0; i < inputs.size(); i++) {
    if (is_promoted(kernel, i)) promoted.push_back(inputs[i]);
  }
  return result_type(promoted);
}

}  // namespace

std::optional<Promotion> promotion_of(const KernelInfo& kernel, std::span<const Tensor> inputs) {
  if (static_cast<int>(inputs.size()) != kernel.count(Argument::Role::input)) return std::nullopt;
  const Tensor* first = nullptr;
  bool is_uniform = true;
  for (size_t i = 0; i < inputs.size(); i++) {
    // What can't be computed with is refused elsewhere.
    if (!inputs[i].defined() || inputs[i].device() != inputs[0].device()) return std::nullopt;
    if (!is_promoted(kernel, i)) continue;
    if (first == nullptr) first = &inputs[i];
    is_uniform = is_uniform && inputs[i].dtype() == first->dtype();
  }
  if (first == nullptr) return std::nullopt;
  const DeviceKind device = first->device().kind;
  const auto has = [&](DType dtype) { return has_instance(kernel, {.elements = {dtype}}, device); };
  const DType met = is_uniform ? first->dtype() : met_dtype(kernel, inputs);
  const Argument& output = argument_of(kernel, Argument::Role::output, 0);
  const auto with = [&](DType compute, DType result) {
    return Promotion{compute, output.element < 0 ? output.dtype : result};
  };
  if (!has(met)) {
    if (is_floating(met)) {
      if (size_of(met) == 2 && has(DType::f32)) return with(DType::f32, met);
    } else if (has(DType::i64)) {
      return with(DType::i64, met);
    } else if (has(DType::f32)) {
      return with(DType::f32, DType::f32);
    }
  }
  return is_uniform ? std::nullopt : std::optional(with(met, met));
}

std::vector<Tensor> converted(const KernelInfo& kernel, std::span<const Tensor> inputs, DType dtype) {
  std::vector<Tensor> result(inputs.begin(), inputs.end());
  for (size_t i = 0; i < result.size(); i++) {
    if (is_promoted(kernel, i)) result[i] = result[i].to(dtype);
  }
  return result;
}

}  // namespace ashlar::forms
