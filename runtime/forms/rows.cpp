#include "runtime/forms/rows.h"

#include <algorithm>

#include "runtime/forms/check.h"
#include "runtime/forms/collapse.h"
#include "runtime/forms/forms.h"
#include "runtime/forms/promotion.h"
#include "runtime/launch/bind.h"
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

/// What one argument holds: something for each row, for each column, for each element, or neither.
enum class Per : uint8_t { call, row, column, element, other };
constexpr int kRows = 0, kColumns = 1;  // Argument::axes

Per per(const Argument& argument) {
  if (argument.rank == 0) return Per::call;
  if (argument.rank == 1 && argument.axes[0] == kRows) return Per::row;
  if (argument.rank == 1 && argument.axes[0] == kColumns) return Per::column;
  // Hand-made tables name no axes.
  if (argument.rank == 2 && argument.axes[0] == kRows) return Per::element;
  return Per::other;
}

/// "weight of shape [5] (columns)"
std::string needed(const KernelInfo& kernel, const Argument& argument, const Shape& shape) {
  std::string text = std::string(argument.name) + " of shape " + shape.str();
  const size_t axis = argument.axes[0] == kColumns ? kColumns : kRows;
  if (argument.rank == 1 && axis < kernel.axis_names.size() && *kernel.axis_names[axis] != 0) {
    text += std::string(" (") + kernel.axis_names[axis] + ")";
  }
  return text;
}

/// Rows as they lie, where a row's elements lie side by side and all rows at one distance; else dense. On the CPU, and
/// where they are written over, dense.
Tensor rows_in_place(const KernelInfo& kernel, int index, const Tensor& view, const Shape& shape) {
  const bool is_overwritten =
      std::ranges::any_of(kernel.arguments, [&](const Argument& argument) { return argument.in_place_of == index; });
  const bool lies_so = view.device().kind != DeviceKind::cpu && view.strides()[view.rank() - 1] == 1 &&
                       !is_overwritten && detail::span_of(view) <= kMaxElements;
  return lies_so ? without_negative_strides(view).reshape(shape) : as_declared(kernel, index, view, shape);
}

/// A tensor of rank 0 is a row of one element.
std::vector<Tensor> rows_of_scalar(const KernelInfo& kernel, std::span<const Tensor> inputs,
                                   std::span<const Scalar> scalars, uint16_t variant) {
  const auto is_row = [&](Argument::Role role, size_t i) {
    return per(argument_of(kernel, role, static_cast<int>(i))) == Per::element;
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

/// The kernel's scalars in their order: the caller's, and whether its optional inputs are there.
std::vector<Scalar> all_scalars(const KernelInfo& kernel, std::span<const Tensor> inputs,
                                std::span<const Scalar> given) {
  std::vector<Scalar> all;
  size_t next = 0;
  for (const Argument& argument : kernel.arguments) {
    if (argument.role != Argument::Role::scalar) continue;
    if (argument.given_of >= 0) {
      all.push_back(Scalar(int64_t{inputs[static_cast<size_t>(argument.given_of)].defined()}));
    } else if (next < given.size()) {
      all.push_back(given[next++]);
    }
  }
  all.insert(all.end(), given.begin() + static_cast<std::ptrdiff_t>(next), given.end());  // too many: launch() says so
  return all;
}

}  // namespace

std::vector<Tensor> rows(const KernelInfo& kernel, std::span<const Tensor> inputs, int64_t axis,
                         std::span<const Scalar> scalars, uint16_t variant) try {
  const KernelKey key = key_of(kernel, inputs, variant);
  const Tensor& x = inputs[0];
  if (const auto to = substitute_of(kernel, key, x.device().kind); to && is_floating(x.dtype())) {
    const std::vector<Tensor> wide = converted(kernel, inputs, to->compute);
    return narrowed(kernel, rows(kernel, wide, axis, scalars, variant), to->result);
  }
  const int rank = x.rank();
  const int at = normalize_reduced_axis(kernel.name, axis, rank);
  if (rank == 0) return rows_of_scalar(kernel, inputs, scalars, variant);
  const auto [there, back] = to_last(at, rank);
  Shape row_shape = x.shape();
  row_shape.erase(at);
  const int64_t row_count = row_shape.numel(), column_count = x.shape()[at];

  std::vector<Tensor> canonical;
  for (size_t i = 0; i < inputs.size(); i++) {
    const Argument& argument = argument_of(kernel, Argument::Role::input, static_cast<int>(i));
    const Tensor& input = inputs[i];
    const auto require = [&](const Shape& shape, const char* remedy) {
      if (input.defined() && input.shape() != shape) {
        throw shape_error(kernel, inputs, needed(kernel, argument, shape), remedy);
      }
    };
    // What is absent is never looked at, but there has to be memory.
    const auto dense = [&](const Tensor& view, const Shape& shape) {
      return input.defined() ? as_declared(kernel, static_cast<int>(i), view, shape)
                             : Tensor::empty(shape, dtype_in(argument, key), x.device());
    };
    switch (per(argument)) {
      case Per::call:
        if (input.defined() && input.numel() != 1) {
          throw shape_error(kernel, inputs, std::string(argument.name) + " of one element", "Take one with select()");
        }
        canonical.push_back(dense(input, {}));
        break;
      case Per::row:
        require(row_shape, "Reshape it to one element per row");
        canonical.push_back(dense(input, {row_count}));
        break;
      case Per::column:
        require({column_count}, "Reshape it to one element per column");
        canonical.push_back(dense(input, {column_count}));
        break;
      case Per::element: {
        // The columns may differ only where the kernel has a rule of its own about them.
        Shape expected = x.shape();
        const bool has_own_columns = kernel.shape_rule != nullptr && argument.axes[1] != kColumns;
        if (has_own_columns && input.defined() && input.rank() == rank) expected[at] = input.shape()[at];
        require(expected, "Use reshape()");
        const Shape rows_and_columns{row_count, expected[at]};
        canonical.push_back(input.defined()
                                ? rows_in_place(kernel, static_cast<int>(i), input.permute(there), rows_and_columns)
                                : dense(input, rows_and_columns));
        break;
      }
      case Per::other:
        if (input.defined() && input.rank() != argument.rank) {
          throw shape_error(kernel, inputs, std::string(argument.name) + " of rank " + std::to_string(argument.rank),
                            "Use reshape()");
        }
        canonical.push_back(dense(input, input.defined() ? input.shape() : Shape::filled(argument.rank, 0)));
    }
  }

  check_in_place(kernel, inputs, /*by_element=*/false);

  const int count = kernel.count(Argument::Role::output);
  std::vector<Shape> shapes;
  if (kernel.shape_rule != nullptr) shapes = output_shapes(kernel, inputs, canonical);
  const bool is_empty = row_count > 0 && column_count == 0;
  std::vector<Tensor> written, results;
  for (int o = 0; o < count; o++) {
    const Argument& argument = argument_of(kernel, Argument::Role::output, o);
    const Per of = per(argument);
    Shape shape = of == Per::row ? Shape{row_count} : canonical[0].shape();
    if (!shapes.empty()) shape = shapes[static_cast<size_t>(o)];
    if (is_empty && kernel.of_none == OfNone::refused && shape.numel() > 0) {
      throw shape_error(kernel, inputs, "at least one column", "Skip the call for empty rows");
    }
    if (argument.in_place_of >= 0) {
      written.push_back(canonical[static_cast<size_t>(argument.in_place_of)]);
    } else if (is_empty) {
      written.push_back(Tensor::zeros(shape, dtype_in(argument, key), x.device()));
    } else {
      written.push_back(Tensor::empty(shape, dtype_in(argument, key), x.device()));
    }
    if (of == Per::row) {
      results.push_back(written.back().reshape(row_shape));
    } else if (of == Per::element) {
      Shape shown = row_shape;
      shown.push_back(shape[1]);
      results.push_back(written.back().reshape(shown).permute(back));
    } else {
      results.push_back(written.back());
    }
  }
  if (!is_empty) launch(kernel, key, canonical, all_scalars(kernel, inputs, scalars), written);
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
    const Shape shapes[] = {{}, {sizes[per(argument) == Per::column ? 1 : 0]}, {sizes[0], sizes[1]}};
    sample.inputs.push_back(shapes[argument.rank]);
  }
  return {sample};
}

std::vector<std::vector<int64_t>> Rows::check_shapes(const KernelInfo&) {
  return {{1, 1}, {3, 33}, {130, 65}, {5, 1031}, {2, 4096}, {2, 20001}};
}

}  // namespace ashlar::forms
