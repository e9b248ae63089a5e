// Form::pointwise: all tensors of one shape, seen as rank 1; an input of rank 2 is a view of rows and columns.
#pragma once

#include "runtime/launch/form.h"

namespace ashlar::forms {

struct Pointwise : FormDefaults {
  static constexpr FormSignature signature{
      .name = "pointwise", .type = "ashlar::forms::Pointwise", .header = "runtime/forms/pointwise.h"};
  static std::vector<Tensor> call(const KernelInfo& kernel, const FormCall& call);
};

}  // namespace ashlar::forms

namespace ashlar {
inline constexpr const FormSignature& Form::pointwise = forms::Pointwise::signature;
}
