// Form::plain: tensors of the declared ranks, made dense; shapes by the kernel's own rule.
#include "runtime/forms/check.h"
#include "runtime/forms/collapse.h"
#include "runtime/forms/forms.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::forms {

std::vector<Tensor> plain(const KernelInfo& kernel, std::span<const Tensor> inputs, std::span<const Scalar> scalars,
                          uint8_t variant) try {
  const KernelKey key = key_of(kernel, inputs, variant);
  std::vector<Tensor> dense;
  for (size_t i = 0; i < inputs.size(); i++) {
    const Argument& argument = argument_of(kernel, Argument::Role::input, static_cast<int>(i));
    if (inputs[i].rank() != argument.rank) {
      throw shape_error(kernel, inputs, std::string(argument.name) + " of rank " + std::to_string(argument.rank),
                        "Use reshape(), squeeze() or unsqueeze()");
    }
    dense.push_back(dense_as(inputs[i], inputs[i].shape()));
  }

  check_in_place(kernel, inputs, /*by_element=*/false);

  const int count = kernel.count(Argument::Role::output);
  std::vector<Shape> shapes;
  if (kernel.shape_rule != nullptr) shapes = output_shapes(kernel, inputs, dense);
  std::vector<Tensor> written;
  for (int o = 0; o < count; o++) {
    const Argument& argument = argument_of(kernel, Argument::Role::output, o);
    if (argument.in_place_of >= 0) {
      written.push_back(dense[static_cast<size_t>(argument.in_place_of)]);
    } else if (shapes.empty()) {
      throw ValueError(kernel.name, "a kernel without a shape rule", "a rule for every output that is not in place",
                       "State the output's shape in the kernel's definition");
    } else {
      written.push_back(Tensor::empty(shapes[static_cast<size_t>(o)], dtype_in(argument, key), inputs[0].device()));
    }
  }
  launch(kernel, key, dense, scalars, written);

  for (int o = 0; o < count; o++) {
    const int input = argument_of(kernel, Argument::Role::output, o).in_place_of;
    if (input < 0) continue;
    const Tensor& original = inputs[static_cast<size_t>(input)];
    Tensor& result = written[static_cast<size_t>(o)];
    if (!original.is_contiguous()) original.copy_(result);
    result = original;
  }
  return written;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

}  // namespace ashlar::forms
