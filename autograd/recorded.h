// Recording functions of all operators in one form, for those who know an operator by its name.
#pragma once

#include <span>
#include <vector>

#include "autograd/var.h"
#include "runtime/launch/form.h"

namespace ashlar {

struct RecordedOperator {
  const KernelInfo* kernel;
  /// Its outputs, recorded on the tape. Inputs stand in the order of the kernel's; those that may be left out can be
  /// missing at the end, or undefined. `call` has the scalars, options and comptime values.
  std::vector<Var> (*call)(std::span<const Var> inputs, const FormCall& call);
};

/// Every operator of the library that has a recording function. Links them all (ashlar_all_gradients).
const std::vector<RecordedOperator>& all_recorded();

}  // namespace ashlar
