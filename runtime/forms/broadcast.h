// Form::broadcast: inputs broadcast against each other, seen as strided rank 4.
#pragma once

#include "runtime/launch/form.h"

namespace ashlar::forms {

struct Broadcast : FormDefaults {
  static constexpr FormSignature signature{.name = "broadcast",
                                           .type = "ashlar::forms::Broadcast",
                                           .header = "runtime/forms/broadcast.h",
                                           .sums_gradients = true};
  static std::vector<Tensor> call(const KernelInfo& kernel, const FormCall& call);
};

}  // namespace ashlar::forms

namespace ashlar {
inline constexpr const FormSignature& Form::broadcast = forms::Broadcast::signature;
}
