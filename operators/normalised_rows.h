// The form of layer_norm and rms_norm: Form::rows, whose rows that begin inside of vectors a GPU has a kernel for.
#pragma once

#include "runtime/forms/rows.h"

namespace ashlar::forms {

/// Kernels of inputs x, weight and, where they take off a mean, bias, and of outputs y, that mean and 1/σ.
struct NormalisedRows : Rows {
  static constexpr FormSignature signature{.name = "rows",
                                           .type = "ashlar::forms::NormalisedRows",
                                           .header = "operators/normalised_rows.h",
                                           .options = Rows::options,
                                           .sizes = {"rows", "columns"}};
  static std::vector<Tensor> call(const KernelInfo& kernel, const FormCall& call);
};

}  // namespace ashlar::forms
