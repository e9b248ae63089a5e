#include "runtime/forms/rows.h"

#include "runtime/forms/check.h"
#include "runtime/forms/collapse.h"
#include "runtime/forms/forms.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::forms {

namespace {

/// The permutation that moves `axis` to the end, and the one that moves it back.
std::pair<Shape, Shape> to_last(int axis, int rank) {
  Shape there, back;
  for (int i = 0; i < rank; i++) {
    if (i != axis) there.push_back(i);
  }
  there.push_back(axis);
  for (int i = 0; i < rank; i++) back.push_back(i < axis ? i : i == axis ? rank - 1 : i - 1);
  return {there, back};
}

/// A tensor of rank 0 is a row of one element.
std::vector<Tensor> rows_of_scalar(const KernelInfo& kernel, std::span<const Tensor> inputs,
                                   std::span<const Scalar> scalars, uint16_t variant) {
  const auto is_row = [&](Argument::Role role, size_t i) {
    return argument_of(kernel, role, static_cast<int>(i)).rank == 2;
  };
  std::vector<Tensor> unsqueezed(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); i++) {
    if (is_row(Argument::Role::input, i) && inputs[i].rank() == 0) unsqueezed[i] = inputs[i].unsqueeze(0);
  }
  std::vector<Tensor> results = rows(kernel, unsqueezed, 0, scalars, variant);
  for (size_t o = 0; o < results.size(); o++) {
    if (is_row(Argument::Role::output, o) && results[o].numel() == 1) results[o] = results[o].reshape({});
  }
  return results;
}

}  // namespace

std::vector<Tensor> rows(const KernelInfo& kernel, std::span<const Tensor> inputs, int64_t axis,
                         std::span<const Scalar> scalars, uint16_t variant) try {
  const KernelKey key = key_of(kernel, inputs, variant);
  const Tensor& x = inputs[0];
  const int rank = x.rank();
  const int at = normalize_reduced_axis(kernel.name, axis, rank);
  if (rank == 0) return rows_of_scalar(kernel, inputs, scalars, variant);
  const auto [there, back] = to_last(at, rank);
  Shape row_shape = x.shape();
  row_shape.erase(at);
  const int64_t row_count = row_shape.numel();

  std::vector<Tensor> canonical;
  for (size_t i = 0; i < inputs.size(); i++) {
    const Argument& argument = argument_of(kernel, Argument::Role::input, static_cast<int>(i));
    const Tensor& input = inputs[i];
    if (argument.rank == 0) {
      if (input.numel() != 1) {
        throw shape_error(kernel, inputs, std::string(argument.name) + " of one element", "Take one with select()");
      }
      canonical.push_back(dense_as(input, {}));
    } else if (argument.rank == 1) {
      if (input.shape() != row_shape) {
        throw shape_error(kernel, inputs, std::string(argument.name) + " of shape " + row_shape.str(),
                          "Reshape it to one element per row");
      }
      canonical.push_back(as_declared(kernel, static_cast<int>(i), input, {row_count}));
    } else {
      // The columns may differ only where the kernel has a rule of its own about them.
      Shape expected = x.shape();
      if (kernel.shape_rule != nullptr && input.rank() == rank) expected[at] = input.shape()[at];
      if (input.shape() != expected) {
        throw shape_error(kernel, inputs, std::string(argument.name) + " of shape " + expected.str(), "Use reshape()");
      }
      canonical.push_back(as_declared(kernel, static_cast<int>(i), input.permute(there), {row_count, expected[at]}));
    }
  }

  check_in_place(kernel, inputs, /*by_element=*/false);

  const int count = kernel.count(Argument::Role::output);
  std::vector<Shape> shapes;
  if (kernel.shape_rule != nullptr) shapes = output_shapes(kernel, inputs, canonical);
  std::vector<Tensor> written, results;
  for (int o = 0; o < count; o++) {
    const Argument& argument = argument_of(kernel, Argument::Role::output, o);
    const bool is_per_row = argument.rank == 1;
    Shape shape = is_per_row ? Shape{row_count} : canonical[0].shape();
    if (!shapes.empty()) shape = shapes[static_cast<size_t>(o)];
    if (row_count > 0 && x.shape()[at] == 0 && shape.numel() > 0) {
      throw shape_error(kernel, inputs, "at least one column", "Skip the call for empty rows");
    }
    written.push_back(argument.in_place_of >= 0 ? canonical[static_cast<size_t>(argument.in_place_of)]
                                                : Tensor::empty(shape, dtype_in(argument, key), x.device()));
    Shape shown = row_shape;
    if (!is_per_row) shown.push_back(shape[1]);
    const Tensor result = written.back().reshape(shown);
    results.push_back(is_per_row ? result : result.permute(back));
  }
  launch(kernel, key, canonical, scalars, written);
  write_back(kernel, inputs, results);
  return results;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

std::vector<Tensor> Rows::call(const KernelInfo& kernel, const FormCall& call) {
  return rows(kernel, call.inputs, call.integer(0), call.scalars, call.variant);
}

CanonicalSizes Rows::sizes(std::span<const Tensor> inputs, std::span<const Tensor>) {
  return {inputs[0].size(0), inputs[0].size(1), 1, 1};
}

std::vector<FormSample> Rows::samples(const KernelInfo& kernel, KernelKey, std::span<const int64_t> sizes) {
  FormSample sample{{}, default_options(signature)};
  for (const Argument& argument : kernel.arguments) {
    if (argument.role != Argument::Role::input) continue;
    const Shape shapes[] = {{}, {sizes[0]}, {sizes[0], sizes[1]}};
    sample.inputs.push_back(shapes[argument.rank]);
  }
  return {sample};
}

std::vector<std::vector<int64_t>> Rows::check_shapes(const KernelInfo&) {
  return {{1, 1}, {3, 33}, {130, 65}, {5, 1031}, {2, 4096}, {2, 20001}};
}

}  // namespace ashlar::forms
