// Form::rows: one axis is reduced or normalised, the rest are rows: [rows, columns].
#pragma once

#include "runtime/launch/form.h"

namespace ashlar::forms {

struct Rows : FormDefaults {
  static constexpr FormOption options[] = {{"axis", FormOption::Kind::integer, -1}};
  static constexpr FormSignature signature{.name = "rows",
                                           .type = "ashlar::forms::Rows",
                                           .header = "runtime/forms/rows.h",
                                           .options = options,
                                           .sizes = {"rows", "columns"}};
  static std::vector<Tensor> call(const KernelInfo& kernel, const FormCall& call);
  static CanonicalSizes sizes(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static std::vector<FormSample> samples(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> shape);
  static std::vector<std::vector<int64_t>> check_shapes(const KernelInfo& kernel);
};

}  // namespace ashlar::forms

namespace ashlar {
inline constexpr const FormSignature& Form::rows = forms::Rows::signature;
}
