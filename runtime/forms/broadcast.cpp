// All dimensions collapse together to at most four.
#include "runtime/forms/broadcast.h"

#include <algorithm>

#include "runtime/forms/check.h"
#include "runtime/forms/collapse.h"
#include "runtime/forms/forms.h"
#include "runtime/forms/memory_order.h"
#include "runtime/forms/promotion.h"
#include "runtime/launch/launch_checks.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::forms {
namespace {

/// `x` itself, or a dense copy where a CPU would gather each of its elements for many results.
Tensor without_steps(const Tensor& x, const Shape& result) {
  constexpr int64_t kMany = 8;
  if (x.rank() == 0 || x.device().kind != DeviceKind::cpu) return x;
  const bool is_stepped = x.shape().back() > 1 && x.strides().back() > 1;
  return is_stepped && result.numel() / x.numel() >= kMany ? x.contiguous() : x;
}

}  // namespace

std::vector<Tensor> Broadcast::call(const KernelInfo& kernel, const FormCall& call) try {
  constexpr int kRank = 4;
  const std::span<const Tensor> inputs = call.inputs;
  const std::span<const Scalar> scalars = call.scalars;
  detail::check_version(kernel);
  if (inputs.empty()) throw ValueError(kernel.name, "no tensor", "at least one", "Give one tensor for each input");
  if (const auto results = call_along_memory(kernel, call, Broadcast::call, true)) return *results;
  if (const std::optional<Promotion> to = promotion_of(kernel, inputs, call.variant))
    return call_promoted(kernel, call, *to);
  const KernelKey key = key_of(kernel, call);
  Shape shape;
  for (const Tensor& x : inputs) shape = ashlar::broadcast(kernel.name, shape, x.shape());

  const DType dtype = dtype_in(argument_of(kernel, Argument::Role::output, 0), key);
  Tensor result = Tensor::empty(shape, dtype, inputs[0].device());
  if (result.numel() == 0) return {result};

  // Dense operands of one shape are one row.
  const int64_t numel = result.numel();
  const auto is_row = [&](const Tensor& x) { return x.shape() == shape && x.is_contiguous(); };
  if (numel <= kMaxElements && std::ranges::all_of(inputs, is_row)) {
    const auto row = [&](const Tensor& x) {
      return Tensor(x.storage(), {1, 1, 1, numel}, {numel, numel, numel, 1}, x.offset(), x.dtype());
    };
    std::vector<Tensor> rows;
    rows.reserve(inputs.size());
    for (const Tensor& x : inputs) rows.push_back(row(x));
    const Tensor output = row(result);
    launch(kernel, key, rows, scalars, std::span(&output, 1));
    return {result};
  }

  // The innermost loop goes along the result's memory, and with it along that of the operands of its size.
  const std::optional<Shape> in_order = strides_in_other_order(shape, inputs);
  if (in_order) result = Tensor(result.storage(), shape, *in_order, result.offset(), dtype);
  std::vector<Tensor> operands;
  operands.reserve(inputs.size() + 1);
  operands.push_back(result);
  for (const Tensor& x : inputs)
    operands.push_back(without_steps(without_negative_strides(x), shape).broadcast_to(shape));
  Loops whole{shape, {}};
  whole.strides.reserve(operands.size());
  for (const Tensor& x : operands) whole.strides.push_back(x.strides());
  if (in_order) sort_by_first(whole);
  Loops loops = collapse(whole.sizes, whole.strides);
  sort_for_few_pieces(loops, kRank);
  for_each_piece(loops, kRank, [&](const Loops& piece, const std::vector<int64_t>& offsets) {
    std::vector<Tensor> views;
    views.reserve(operands.size());
    for (size_t o = 0; o < operands.size(); o++) {
      views.push_back(piece_of(operands[o], piece, static_cast<int>(o), offsets[o], kRank));
    }
    launch(kernel, key, std::span(views).subspan(1), scalars, std::span(views).first(1));
  });
  return {result};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

}  // namespace ashlar::forms
