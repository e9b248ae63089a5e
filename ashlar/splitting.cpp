#include "ashlar/splitting.h"

#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/node.h"
#include "runtime/forms/memory_order.h"

namespace ashlar::detail {
namespace {

constexpr size_t kMostOutputs = 64;  // of one recorded operation

/// Parts that lie side by side already are taken as they are: gradients aren't written to.
Tensor joined(std::span<const Tensor> parts, int64_t axis) {
  const std::optional<Tensor> whole = forms::whole_of(parts, normalize_axis("split", axis, parts[0].rank()));
  return whole ? *whole : ashlar::cat(parts, axis);
}
Var joined(std::span<const Var> parts, int64_t axis) { return ad::cat(parts, axis); }

}  // namespace

std::vector<Var> parts_of(const Var& x, std::span<const int64_t> sizes, int64_t axis) {
  if (sizes.size() > kMostOutputs) return slices_of(x, sizes, axis);
  return record_outputs("split", {x}, slices_of(x.value(), sizes, axis), [axis](const auto& pass) {
    std::vector<std::decay_t<decltype(pass.dy())>> dys;
    for (int i = 0; i < pass.output_count(); i++) dys.push_back(pass.dy(i));
    return pass.gradients(joined(dys, axis));
  });
}

}  // namespace ashlar::detail
