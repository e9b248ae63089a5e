// The conditions and models of a kernel's plans as C++ of its table, which the runtime evaluates before a call: an
// expression of the schedule's language, written down once by the kernel's author, is both what the compiled code is
// specialised for and what the host asks.
#pragma once

#include <string>

#include "dsl/build/instances.h"

namespace ashlar::dsl {

/// Definitions without headers, in the layout of runtime/launch/kernel.h's PlanSet.
struct PlanCode {
  std::string text;  ///< the functions and arrays, but for `settings`
  std::string name;  ///< the suffix of their names; alike plans of two instances share them
  int features = 0;
  bool has_model = false;
};
/// Throws a mistake of the kernel where an expression asks for what the host doesn't have.
PlanCode plan_code(const KernelSummary& kernel, const std::vector<PlanDescription>& plans);

/// What every table needs before such code.
extern const char* const kPlanHelpers;

}  // namespace ashlar::dsl
