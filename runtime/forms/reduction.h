// Form::reduction: axes of a tensor are reduced: strided [outer, reduced, inner] to dense [outer, parts, inner].
#pragma once

#include "runtime/launch/form.h"

namespace ashlar::forms {

/// Contiguous reductions of up to so many rows and elements are one pass, by a GPU function of their own
/// (schedules/reduction.cpp): a pass over parts would take longer than it saves.
inline constexpr int64_t kFewRows = 64, kElementsOfFewRows = 1 << 14;

struct Reduction : FormDefaults {
  static constexpr FormOption options[] = {{"axes", FormOption::Kind::integers},
                                           {"keepdim", FormOption::Kind::boolean, false}};
  static constexpr const char* own[] = {"chunk", "scale"};
  static constexpr FormSignature signature{.name = "reduction",
                                           .type = "ashlar::forms::Reduction",
                                           .header = "runtime/forms/reduction.h",
                                           .options = options,
                                           .own = own,
                                           .scalars_last = true,
                                           .sizes = {"outer", "reduced", "inner"}};
  static std::vector<Tensor> call(const KernelInfo& kernel, const FormCall& call);
  static CanonicalSizes sizes(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static std::vector<FormSample> samples(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> shape);
  static std::vector<std::vector<int64_t>> check_shapes(const KernelInfo& kernel);
};

}  // namespace ashlar::forms

namespace ashlar {
inline constexpr const FormSignature& Form::reduction = forms::Reduction::signature;
}
