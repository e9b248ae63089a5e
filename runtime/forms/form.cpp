#include "runtime/launch/form.h"

#include "runtime/tensor/tensor.h"

namespace ashlar {

CanonicalSizes FormDefaults::sizes(std::span<const Tensor>, std::span<const Tensor> outputs) {
  return {outputs[0].numel(), 1, 1, 1};
}

std::vector<std::string> FormDefaults::shape_names(const KernelInfo& kernel) {
  const FormSignature& signature = kernel.form->signature;
  return {signature.sizes.begin(), signature.sizes.begin() + signature.size_count()};
}

std::vector<FormSample> FormDefaults::samples(const KernelInfo& kernel, KernelKey, std::span<const int64_t> shape) {
  FormSample sample{{}, default_options(kernel.form->signature)};
  for (const Argument& argument : kernel.arguments) {
    if (argument.role != Argument::Role::input) continue;
    Shape sizes = Shape::filled(argument.rank < 0 ? 1 : argument.rank, 1);
    if (!sizes.empty()) sizes[sizes.rank() - 1] = shape.back();
    sample.inputs.push_back(sizes);
  }
  return {sample};
}

std::vector<std::vector<int64_t>> FormDefaults::check_shapes(const KernelInfo& kernel) {
  std::vector<std::vector<int64_t>> shapes;
  for (const int64_t size : {1, 33, 1023, 1 << 14, 100003}) {
    shapes.emplace_back(static_cast<size_t>(kernel.form->signature.size_count()), 1);
    shapes.back().back() = size;
  }
  return shapes;
}

std::vector<OptionValue> FormDefaults::default_options(const FormSignature& signature) {
  std::vector<OptionValue> values;
  for (const FormOption& option : signature.options) {
    if (option.kind == FormOption::Kind::integers) {
      values.emplace_back(Shape{});
    } else {
      values.emplace_back(option.default_value);
    }
  }
  return values;
}

}  // namespace ashlar
