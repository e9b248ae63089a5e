// Form::plain: tensors of the declared ranks; shapes by the kernel's own rule.
#pragma once

#include "runtime/launch/form.h"

namespace ashlar::forms {

struct Plain : FormDefaults {
  static constexpr FormSignature signature{
      .name = "plain", .type = "ashlar::forms::Plain", .header = "runtime/forms/plain.h"};
  static std::vector<Tensor> call(const KernelInfo& kernel, const FormCall& call);
  /// One size for each axis of the input with the most.
  static std::vector<std::string> shape_names(const KernelInfo& kernel);
  static std::vector<FormSample> samples(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> shape);
  static std::vector<std::vector<int64_t>> check_shapes(const KernelInfo& kernel);
};

}  // namespace ashlar::forms

namespace ashlar {
inline constexpr const FormSignature& Form::plain = forms::Plain::signature;
}
