#include "runtime/forms/plain.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "runtime/forms/check.h"
#include "runtime/forms/collapse.h"
#include "runtime/forms/forms.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::forms {

std::vector<Tensor> Plain::call(const KernelInfo& kernel, const FormCall& call) try {
  const std::span<const Tensor> inputs = call.inputs;
  const KernelKey key = key_of(kernel, call);
  const Device device = inputs.empty() ? call.device : inputs[0].device();
  std::vector<Tensor> canonical;
  for (size_t i = 0; i < inputs.size(); i++) {
    const Argument& argument = argument_of(kernel, Argument::Role::input, static_cast<int>(i));
    if (inputs[i].rank() != argument.rank) {
      throw shape_error(kernel, inputs, std::string(argument.name) + " of rank " + std::to_string(argument.rank),
                        "Use reshape(), squeeze() or unsqueeze()");
    }
    canonical.push_back(as_declared(kernel, static_cast<int>(i), inputs[i], inputs[i].shape()));
  }

  check_in_place(kernel, inputs, /*by_element=*/false);

  const int count = kernel.count(Argument::Role::output);
  std::vector<Shape> shapes;
  if (kernel.shape_rule != nullptr) shapes = output_shapes(kernel, inputs, canonical);
  std::vector<Tensor> written;
  for (int o = 0; o < count; o++) {
    const Argument& argument = argument_of(kernel, Argument::Role::output, o);
    if (argument.in_place_of >= 0) {
      written.push_back(canonical[static_cast<size_t>(argument.in_place_of)]);
    } else if (shapes.empty()) {
      throw ValueError(kernel.name, "a kernel without a shape rule", "a rule for every output that is not in place",
                       "State the output's shape in the kernel's definition");
    } else {
      written.push_back(Tensor::empty(shapes[static_cast<size_t>(o)], dtype_in(argument, key), device));
    }
  }
  launch(kernel, key, canonical, call.scalars, written);
  write_back(kernel, inputs, written);
  return written;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

namespace {

std::vector<const Argument*> inputs_of(const KernelInfo& kernel) {
  std::vector<const Argument*> inputs;
  for (const Argument& argument : kernel.arguments) {
    if (argument.role == Argument::Role::input) inputs.push_back(&argument);
  }
  return inputs;
}

int highest_rank(const KernelInfo& kernel) {
  int rank = 1;
  for (const Argument* input : inputs_of(kernel)) rank = std::max<int>(rank, input->rank);
  return rank;
}

}  // namespace

std::vector<std::string> Plain::shape_names(const KernelInfo& kernel) {
  const int rank = highest_rank(kernel);
  if (rank == 1) return FormDefaults::shape_names(kernel);
  std::vector<std::string> names;
  for (int axis = 0; axis < rank; axis++) names.push_back("axis " + std::to_string(axis));
  return names;
}

// An input of lower rank takes the last of the sizes, else others that stand together, as the kernel's own rule wants.
std::vector<FormSample> Plain::samples(const KernelInfo& kernel, KernelKey, std::span<const int64_t> sizes) {
  const std::vector<const Argument*> inputs = inputs_of(kernel);
  const int rank = static_cast<int>(sizes.size());
  std::vector<int> first;  // of each input's sizes
  for (const Argument* input : inputs) first.push_back(rank - input->rank);
  const auto scratch = static_cast<size_t>(kernel.count(Argument::Role::scratch));
  std::vector<Shape> results(static_cast<size_t>(kernel.count(Argument::Role::output)) + scratch);
  while (true) {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < inputs.size(); i++) {
      Shape shape = Shape::filled(inputs[i]->rank, 1);
      for (int axis = 0; axis < inputs[i]->rank; axis++) shape[axis] = sizes[static_cast<size_t>(first[i] + axis)];
      shapes.push_back(shape);
    }
    if (kernel.shape_rule == nullptr || kernel.shape_rule(shapes.data(), results.data()) == nullptr) {
      return {{shapes, {}}};
    }
    size_t i = 0;
    for (; i < inputs.size(); i++) {
      if (inputs[i]->rank > 0 && --first[i] >= 0) break;
      first[i] = rank - inputs[i]->rank;
    }
    if (i == inputs.size()) return {};
  }
}

std::vector<std::vector<int64_t>> Plain::check_shapes(const KernelInfo& kernel) {
  const int rank = highest_rank(kernel);
  if (rank == 1) return FormDefaults::check_shapes(kernel);
  std::vector<std::vector<int64_t>> shapes;
  for (const auto& [rows, columns] : std::initializer_list<std::pair<int64_t, int64_t>>{
           {1, 1}, {3, 33}, {33, 33}, {130, 65}, {5, 1031}, {1031, 7}, {128, 128}}) {
    std::vector<int64_t> shape(static_cast<size_t>(rank), shapes.size() % 2 ? 3 : 1);
    *(shape.end() - 2) = rows;
    shape.back() = columns;
    if (!samples(kernel, {}, shape).empty()) shapes.push_back(shape);  // not every rule accepts every shape
  }
  return shapes;
}

}  // namespace ashlar::forms
