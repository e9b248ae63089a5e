#include "dsl/operator.h"

#include <algorithm>

namespace ashlar::dsl {
namespace {

/// A form's signature with the strings that it refers to.
struct OwnedSignature {
  OperatorDescription description;
  std::vector<std::vector<const char*>> choices;
  std::vector<FormOption> options;
  std::vector<const char*> plans, plan_sizes;
  FormSignature signature{};
};

std::shared_ptr<const OwnedSignature> signature_of(const OperatorDescription& description) {
  auto owned = std::make_shared<OwnedSignature>();
  owned->description = description;
  owned->choices.reserve(description.options.size());
  for (const OperatorOption& option : owned->description.options) {
    std::vector<const char*>& choices = owned->choices.emplace_back();
    for (const std::string& choice : option.choices) choices.push_back(choice.c_str());
    owned->options.push_back({option.name.c_str(), option.kind, option.default_value, "", choices});
  }
  for (const std::string& plan : owned->description.plans) owned->plans.push_back(plan.c_str());
  for (const std::string& size : owned->description.plan_sizes) owned->plan_sizes.push_back(size.c_str());
  int needed = -1;
  if (description.optional_last) {
    needed = static_cast<int>(std::ranges::count(description.inputs, false, &OperatorTensor::is_optional));
  }
  owned->signature = {.name = owned->description.name.c_str(),
                      .type = "",
                      .header = "",
                      .options = owned->options,
                      .needed_inputs = needed,
                      .scalars_last = description.scalars_last,
                      .plans = owned->plans,
                      .plan_sizes = owned->plan_sizes};
  return owned;
}

}  // namespace

bool register_operator(const OperatorDescription& description) {
  const auto owned = signature_of(description);
  auto descriptor = std::make_shared<Descriptor>();
  descriptor->kernel = description.name;
  descriptor->formula = description.formula;
  descriptor->form = &owned->signature;
  descriptor->gradients = description.gradients;
  descriptor->saved_when = description.saved_when;
  descriptor->flops = description.flops;
  descriptor->calls = description.calls;
  descriptor->vendor = description.vendor;
  descriptor->composed = description.composed;
  descriptor->recorded_parts = description.recorded_parts;
  const DType first = description.dtypes.empty() ? DType::f32 : description.dtypes[0];
  descriptor->elements = {first};
  constexpr int kAnyRank = -1;
  const auto add = [&](const OperatorTensor& tensor, Argument::Role role) {
    const int element = tensor.is_of_any_dtype ? kAnyElement : tensor.dtype ? -1 : 0;
    descriptor->arguments.push_back({tensor.name, role, tensor.dtype.value_or(first), element, kAnyRank});
    descriptor->arguments.back().is_optional = tensor.is_optional;
  };
  for (const OperatorTensor& input : description.inputs) add(input, Argument::Role::input);
  for (const OperatorScalar& scalar : description.scalars) {
    descriptor->arguments.push_back({scalar.name, Argument::Role::scalar, scalar.dtype, -1, 0});
    descriptor->arguments.back().default_value = scalar.default_value;
  }
  for (const OperatorTensor& output : description.outputs) add(output, Argument::Role::output);

  KernelEntry entry{description.name, {}, {descriptor, owned}};
  for (const DType dtype : description.dtypes) entry.instances.push_back({{dtype}, {}});
  return add_kernel(std::move(entry));
}

}  // namespace ashlar::dsl
