#include "runtime/forms/pointwise.h"

#include <algorithm>

#include "runtime/forms/check.h"
#include "runtime/forms/collapse.h"
#include "runtime/forms/forms.h"
#include "runtime/forms/memory_order.h"
#include "runtime/forms/promotion.h"
#include "runtime/launch/bind.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::forms {
namespace {

constexpr int kRank = 2;  // of what a kernel of one tensor reads: rows and columns of any strides

/// Whether such a kernel takes a view as it is.
bool is_read_as_it_is(const Tensor& x, const Loops& loops) {
  // The CPU's read a dense row: long ones are read one by one instead of being copied first.
  constexpr int64_t kLongRow = 1 << 14;
  if (loops.sizes.rank() > kRank) return false;
  if (x.device().kind == DeviceKind::cpu) {
    return loops.sizes.rank() == kRank && loops.sizes[1] >= kLongRow && loops.strides[0][1] == 1;
  }
  // Each element has a thread there, of which a copy reads several: of 16 bits two passes are no slower then.
  constexpr int64_t kMostOf16Bits = 1 << 20;
  const int64_t most = size_of(x.dtype()) > 2 ? kMaxElements : kMostOf16Bits;
  const bool steps_forward = std::ranges::all_of(loops.strides[0], [](int64_t stride) { return stride >= 0; });
  return x.numel() <= most && steps_forward && detail::span_of(x) <= kMaxElements;
}

/// Rows and columns of a view, or one dense row.
Tensor rows_of_view(const Tensor& x) {
  if (!x.is_contiguous()) {
    const Loops loops = collapse(x.shape(), {x.strides()});
    if (is_read_as_it_is(x, loops)) return piece_of(x, loops, 0, 0, kRank);
  }
  return dense_as(x, {1, x.numel()});
}

/// The elements from `start` to `stop`, of those tensors that have some.
std::vector<Tensor> part(std::vector<Tensor> tensors, int64_t start, int64_t stop) {
  for (Tensor& x : tensors) {
    if (x.rank() > 0) x = x.slice(x.rank() - 1, start, stop);
  }
  return tensors;
}

}  // namespace

std::vector<Tensor> Pointwise::call(const KernelInfo& kernel, const FormCall& call) try {
  if (const auto results = call_along_memory(kernel, call, Pointwise::call)) return *results;
  const std::span<const Tensor> inputs = call.inputs;
  const std::span<const Scalar> scalars = call.scalars;
  const KernelKey key = key_of(kernel, call);
  if (!inputs.empty()) {
    const auto to = substitute_of(kernel, key, inputs[0].device().kind);
    if (to) return call_promoted(kernel, call, *to);
  }
  // Inputs declared with rank 0 are parameters, not operands: one element for the whole call.
  std::vector<Tensor> flat;
  flat.reserve(inputs.size());
  const Tensor* first = nullptr;
  for (size_t i = 0; i < inputs.size(); i++) {
    const Tensor& x = inputs[i];
    if (argument_of(kernel, Argument::Role::input, static_cast<int>(i)).rank == 0) {
      if (x.numel() != 1) throw shape_error(kernel, inputs, "one element in each parameter", "Take one with select()");
      flat.push_back(dense_as(x, {}));
      continue;
    }
    if (first == nullptr) first = &x;
    if (x.shape() != first->shape()) {
      throw shape_error(kernel, inputs, "tensors of one shape", "Use broadcast_to() or reshape()");
    }
    flat.push_back(argument_of(kernel, Argument::Role::input, static_cast<int>(i)).rank == 2
                       ? rows_of_view(x)
                       : as_declared(kernel, static_cast<int>(i), x, {x.numel()}));
  }
  if (first == nullptr) throw ValueError(kernel.name, "no tensor", "at least one", "Give one tensor for each input");

  check_in_place(kernel, inputs, /*by_element=*/true);

  const int count = kernel.count(Argument::Role::output);
  const int64_t numel = first->numel();
  std::vector<Tensor> results, written;
  results.reserve(static_cast<size_t>(count));
  written.reserve(static_cast<size_t>(count));
  for (int o = 0; o < count; o++) {
    const Argument& argument = argument_of(kernel, Argument::Role::output, o);
    if (argument.in_place_of >= 0) {
      written.push_back(flat[static_cast<size_t>(argument.in_place_of)]);
      results.push_back(dense_as(written.back(), first->shape()));
    } else {
      results.push_back(Tensor::empty(first->shape(), dtype_in(argument, key), first->device()));
      written.push_back(dense_as(results.back(), {numel}));
    }
  }
  const auto rows = std::ranges::find_if(flat, [](const Tensor& x) { return x.rank() == kRank && x.size(0) > 1; });
  if (rows != flat.end() && rows->device().kind == DeviceKind::cpu) {
    const int64_t columns = rows->size(1);
    const Tensor all = *rows;
    for (int64_t row = 0; row < all.size(0); row++) {
      *rows = all.slice(0, row, row + 1);
      launch(kernel, key, flat, scalars, part(written, row * columns, (row + 1) * columns));
    }
  } else if (numel <= kMaxElements) {
    launch(kernel, key, flat, scalars, written);
  } else {
    for_each_piece({{numel}, {{1}}}, 1, [&](const Loops& piece, const std::vector<int64_t>& offsets) {
      const int64_t start = offsets[0], stop = start + piece.sizes[0];
      launch(kernel, key, part(flat, start, stop), scalars, part(written, start, stop));
    });
  }
  write_back(kernel, inputs, results);
  return results;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

}  // namespace ashlar::forms
