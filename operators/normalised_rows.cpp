#include "operators/normalised_rows.h"

#include <algorithm>

#include "operators/norm_passes.h"
#include "runtime/forms/check.h"

namespace ashlar::forms {
namespace {

/// The results for rows that aren't whole vectors, whose elements Form::rows would load one by one.
std::optional<std::vector<Tensor>> at_once(const KernelInfo& kernel, const FormCall& call) {
  constexpr int64_t kVector = 4, kLeastColumns = 64;
  const Tensor& x = call.inputs[0];
  const int64_t axis = call.integer(0);
  if (!x.defined() || x.dtype() != DType::f32 || x.device().kind == DeviceKind::cpu || !x.is_contiguous()) return {};
  if (x.rank() == 0 || x.numel() == 0 || (axis != -1 && axis != x.rank() - 1)) return {};
  const int64_t columns = x.size(-1);
  if (columns % kVector == 0 || columns < kLeastColumns) return {};
  const auto is_of_columns = [&](const Tensor& t) {
    return !t.defined() || (t.dtype() == DType::f32 && t.device() == x.device() && t.shape() == Shape{columns});
  };
  if (!std::ranges::all_of(call.inputs.subspan(1), is_of_columns)) return {};
  const auto input = [&](size_t i) {
    return i < call.inputs.size() && call.inputs[i].defined() ? call.inputs[i].contiguous() : Tensor();
  };
  constexpr int kWithMean = 3;
  const bool is_centred = kernel.count(Argument::Role::output) == kWithMean;
  const Shape rows{x.numel() / columns, columns};
  const auto own = normalised_rows_at_once(x.reshape(rows), input(1), input(2), {.groups = 1, .in_group = columns},
                                           is_centred, call.scalars[0].real);
  if (!own) return {};
  Shape each = x.shape();
  each.erase(x.rank() - 1);
  std::vector<Tensor> results{own->y.reshape(x.shape())};
  if (is_centred) results.push_back(own->moments.mean.reshape(each));
  results.push_back(own->moments.rstd.reshape(each));
  return results;
}

}  // namespace

std::vector<Tensor> NormalisedRows::call(const KernelInfo& kernel, const FormCall& call) {
  if (const auto results = at_once(kernel, call)) return *results;
  return Rows::call(kernel, call);
}

}  // namespace ashlar::forms
