#include "runtime/forms/memory_order.h"

#include <algorithm>

#include "runtime/forms/collapse.h"

namespace ashlar::forms {
namespace {

bool is_dense_in_other_order(const Tensor& x) {
  int64_t reach = 1;  // of dense elements: as far as there are elements
  for (int i = 0; i < x.rank(); i++) reach += (x.shape()[i] - 1) * x.strides()[i];
  if (reach != x.numel() || x.is_contiguous()) return false;
  Loops loops{x.shape(), {x.strides()}};
  sort_by_first(loops);
  int64_t next = 1;
  for (int i = loops.sizes.rank() - 1; i >= 0; i--) {
    if (loops.sizes[i] != 1 && loops.strides[0][i] != next) return false;
    next *= loops.sizes[i];
  }
  return true;
}

}  // namespace

std::optional<Shape> strides_in_other_order(const Shape& shape, std::span<const Tensor> operands) {
  const Tensor* first = nullptr;
  for (const Tensor& x : operands) {
    if (x.shape() != shape) continue;
    if (first == nullptr && !is_dense_in_other_order(x)) return {};
    if (first == nullptr) first = &x;
    if (x.strides() != first->strides()) return {};
  }
  if (first == nullptr) return {};
  return first->strides();
}

std::optional<std::vector<Tensor>> call_along_memory(const KernelInfo& kernel, const FormCall& call,
                                                     std::vector<Tensor> (*form)(const KernelInfo&, const FormCall&),
                                                     bool broadcasts) {
  const bool may_be =
      std::ranges::any_of(call.inputs, [](const Tensor& x) { return x.defined() && is_dense_in_other_order(x); });
  if (!may_be) [[likely]]
    return {};
  std::vector<Tensor> inputs(call.inputs.begin(), call.inputs.end());
  const Tensor* first = nullptr;
  int rank_of_elements = 0;
  size_t index = 0;
  for (const Argument& argument : kernel.arguments) {
    if (argument.in_place_of >= 0) return {};
    if (argument.role != Argument::Role::input || index == inputs.size()) continue;
    Tensor& x = inputs[index];
    const Tensor& given = call.inputs[index++];
    if (argument.rank == 0) continue;
    if (!given.defined()) return {};
    if (broadcasts && given.numel() == 1) {
      rank_of_elements = std::max(rank_of_elements, given.rank());
      // One of rank 0 stays so: it counts for less where dtypes meet.
      if (given.rank() > 0) x = Tensor(given.storage(), {1}, {1}, given.offset(), given.dtype());
      continue;
    }
    if (first == nullptr) {
      if (!is_dense_in_other_order(given)) return {};
      first = &given;
    }
    if (given.shape() != first->shape() || given.strides() != first->strides()) return {};
    x = Tensor(given.storage(), {given.numel()}, {1}, given.offset(), given.dtype());
  }
  if (first == nullptr || index != call.inputs.size() || rank_of_elements > first->rank()) return {};
  FormCall along = call;
  along.inputs = inputs;
  std::vector<Tensor> results = form(kernel, along);
  for (Tensor& y : results) y = Tensor(y.storage(), first->shape(), first->strides(), y.offset(), y.dtype());
  return results;
}

}  // namespace ashlar::forms
