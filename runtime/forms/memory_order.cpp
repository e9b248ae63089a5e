#include "runtime/forms/memory_order.h"

#include <algorithm>

#include "runtime/forms/collapse.h"
#include "runtime/launch/bind.h"

namespace ashlar::forms {
namespace {

bool is_dense(const Tensor& x) {
  int64_t reach = 1;  // of dense elements: as far as there are elements
  for (int i = 0; i < x.rank(); i++) reach += (x.shape()[i] - 1) * x.strides()[i];
  if (reach != x.numel()) return false;
  Loops loops{x.shape(), {x.strides()}};
  sort_by_first(loops);
  int64_t next = 1;
  for (int i = loops.sizes.rank() - 1; i >= 0; i--) {
    if (loops.sizes[i] != 1 && loops.strides[0][i] != next) return false;
    next *= loops.sizes[i];
  }
  return true;
}

bool is_dense_in_other_order(const Tensor& x) { return !x.is_contiguous() && is_dense(x); }

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

Shape axes_in_memory(const Tensor& x, int count) {
  Shape axes;
  for (int i = 0; i < x.rank(); i++) axes.push_back(i);
  std::stable_sort(axes.begin(), axes.begin() + std::max(count, 0), [&](int64_t a, int64_t b) {
    return x.strides()[static_cast<int>(a)] > x.strides()[static_cast<int>(b)];
  });
  return axes;
}

Shape inverse_of(const Shape& axes) {
  Shape back = axes;
  for (int i = 0; i < axes.rank(); i++) back[static_cast<int>(axes[i])] = i;
  return back;
}

Tensor empty_in_order_of(const Tensor& x, const Shape& shape) {
  const Shape axes = axes_in_memory(x, x.rank() - 1);
  Shape lying;
  for (int i = 0; i < axes.rank(); i++) lying.push_back(shape[static_cast<int>(axes[i])]);
  return Tensor::empty(lying, x.dtype(), x.device()).permute(inverse_of(axes));
}

std::optional<Tensor> whole_of(std::span<const Tensor> parts, int axis) {
  if (parts.size() < 2 || !parts[0].defined() || parts[0].numel() == 0) return {};
  const Tensor& first = parts[0];
  const int64_t step = first.shape()[axis] * first.strides()[axis];
  int64_t offset = first.offset();
  for (const Tensor& part : parts) {
    const bool is_next = part.storage() == first.storage() && part.dtype() == first.dtype() &&
                         part.shape() == first.shape() && part.strides() == first.strides() && part.offset() == offset;
    if (!is_next) return {};
    offset += step;
  }
  Shape shape = first.shape();
  shape[axis] *= static_cast<int64_t>(parts.size());
  Tensor whole(first.storage(), shape, first.strides(), first.offset(), first.dtype());
  return is_dense(whole) ? std::optional(std::move(whole)) : std::nullopt;
}

std::vector<Tensor> empty_as(std::span<const Tensor> like) {
  std::vector<Tensor> result;
  // What stores through overlapping parts of a buffer do, OpenCL leaves open.
  const bool may_share = like[0].device().kind != DeviceKind::opencl;
  for (int axis = 0; may_share && axis < like[0].rank(); axis++) {
    const std::optional<Tensor> whole = whole_of(like, axis);
    if (!whole) continue;
    const Tensor memory = Tensor::empty({whole->numel()}, whole->dtype(), whole->device());
    const Tensor again(memory.storage(), whole->shape(), whole->strides(), memory.offset(), memory.dtype());
    const int64_t size = like[0].size(axis);
    for (int64_t start = 0; start < whole->size(axis); start += size) {
      result.push_back(again.slice(axis, start, start + size));
    }
    // Elsewhere a device couldn't store in place.
    if (std::ranges::all_of(result, detail::output_is_aligned)) return result;
    result.clear();
    break;
  }
  for (const Tensor& x : like) result.push_back(empty_in_order_of(x, x.shape()));
  return result;
}

}  // namespace ashlar::forms
