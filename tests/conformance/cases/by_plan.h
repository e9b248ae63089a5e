// Cases of operators that choose among plans of their own.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/launch/plans.h"
#include "tests/conformance/case.h"

namespace ashlar::conformance {

/// The same case with that plan forced.
inline Case by_plan(Case item, const std::string& plan) {
  item.name += "_by_" + plan;
  item.call = [call = item.call, plan](Tensors in) {
    const std::string before = set_forced_plan(plan);
    if (!before.empty()) set_forced_plan(plan + "," + before);  // what the run forces is for the kernels below
    const auto restore = [&](const std::string*) { set_forced_plan(before); };
    const std::unique_ptr<const std::string, decltype(restore)> forced(&plan, restore);
    return call(in);
  };
  item.differentiable = nullptr;
  return item;
}

}  // namespace ashlar::conformance
