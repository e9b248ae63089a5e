#include "runtime/forms/promotion.h"

#include <algorithm>

#include "runtime/forms/check.h"
#include "runtime/support/error.h"
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

std::optional<Promotion> substitute_of(const KernelInfo& kernel, KernelKey key, DeviceKind device) {
  if (has_instance(kernel, key, device)) return std::nullopt;
  for (const Argument& argument : kernel.arguments) {
    if (argument.role == Argument::Role::output && argument.in_place_of >= 0) return std::nullopt;
  }
  const DType asked = key.elements[0];
  const auto has = [&](DType dtype) {
    KernelKey other = key;
    std::ranges::replace(other.elements, asked, dtype);
    return has_instance(kernel, other, device);
  };
  if (is_floating(asked)) {
    return size_of(asked) == 2 && has(DType::f32) ? std::optional(Promotion{DType::f32, asked}) : std::nullopt;
  }
  if (has(DType::i64)) return Promotion{DType::i64, asked};
  return has(DType::f32) ? std::optional(Promotion{DType::f32, DType::f32}) : std::nullopt;
}

std::optional<Promotion> promotion_of(const KernelInfo& kernel, std::span<const Tensor> inputs, uint16_t variant) {
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
  const DType met = is_uniform ? first->dtype() : met_dtype(kernel, inputs);
  if (const auto other = substitute_of(kernel, {{met, DType::f32}, variant}, first->device().kind)) return other;
  return is_uniform ? std::nullopt : std::optional(Promotion{met, met});
}

std::vector<Tensor> converted(const KernelInfo& kernel, std::span<const Tensor> inputs, DType dtype) {
  std::vector<Tensor> result(inputs.begin(), inputs.end());
  for (size_t i = 0; i < result.size(); i++) {
    if (result[i].defined() && is_promoted(kernel, i)) result[i] = result[i].to(dtype);
  }
  return result;
}

std::vector<Tensor> narrowed(const KernelInfo& kernel, std::vector<Tensor> results, DType dtype) {
  for (size_t o = 0; o < results.size(); o++) {
    const Argument& output = argument_of(kernel, Argument::Role::output, static_cast<int>(o));
    if (output.element >= 0) results[o] = results[o].to(dtype);
  }
  return results;
}

std::vector<Tensor> call_promoted(const KernelInfo& kernel, const FormCall& call, Promotion to) {
  const std::vector<Tensor> promoted = converted(kernel, call.inputs, to.compute);
  FormCall same = call;
  same.inputs = promoted;
  return narrowed(kernel, kernel.form->call(kernel, same), to.result);
}

Tensor as_f32(const char* operation, const Tensor& x) {
  if (!x.defined()) {
    throw ValueError(operation, "an undefined tensor", "tensors with elements", "Give one for each input");
  }
  if (x.dtype() != DType::f32 && x.dtype() != DType::f16 && x.dtype() != DType::bf16) {
    throw DTypeError(operation, x.str(), "f32, f16 or bf16", "Convert it with to(DType::f32)");
  }
  return x.to(DType::f32);
}

}  // namespace ashlar::forms
