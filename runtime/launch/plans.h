// Which of a kernel's plans a call gets. A plan is one way of computing what a kernel computes, compiled by itself; the
// kernel's author says which calls it can serve, for which it is preferred, and, if anybody has a model, what a call
// takes (dsl/plans.h). The order of choice: what is forced; a tuned table's (dispatch.h); then, where there is a model,
// the quickest by it among those that can serve the call, and else the first plan in the author's order that can serve
// the call and is preferred for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/launch/kernel.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// Makes every call of the process use the plans of these names, separated by commas, where a kernel has one that can
/// serve the call: the first of them that does. Empty: none is forced, as at the start, unless ASHLAR_PLAN says
/// otherwise. Returns what held before. Each distinct text is kept as long as the process lives. For tests and tuners.
std::string set_forced_plan(const std::string& names);

/// What decides among plans where no table does.
enum class PlanChoice : uint8_t {
  order,  ///< the author's order and preferences
  model,  ///< the author's model of the device, where the kernel has one; else the order
};
/// At the start by ASHLAR_PLAN_MODEL (0: order; else model). Returns what held before. For all threads.
PlanChoice set_plan_choice(PlanChoice choice);

/// One way of a form, or of an operator that is written by hand; one of FormSignature::plans.
struct Plan {
  const char* name;
  bool applies = true;       ///< to this very call; the last one's has to be true
  bool preferred = true;     ///< by the author's order
  double microseconds = -1;  ///< by the author's model; less than 0: there's none
};
/// The index of the plan that a call of such an operator shall run, chosen and logged (ASHLAR_LOG=dispatch) as kernels'
/// plans are. `sizes` are those of FormSignature::plan_sizes, by which tables know the call. Throws KernelError where
/// no plan applies.
size_t choose_plan(const KernelInfo& operation, Device device, std::span<const Plan> plans,
                   std::span<const int64_t> sizes);

/// Sees each choice of choose_plan() before it is made; what it returns is chosen. Nothing: the choice goes on, and of
/// kWithoutTables as if there were no table. For tuners; called by any thread that calls operators.
inline constexpr size_t kWithoutTables = static_cast<size_t>(-1);
using PlanChooser = std::optional<size_t> (*)(const KernelInfo& operation, std::span<const Plan> plans,
                                              std::span<const int64_t> sizes);
void set_plan_chooser(PlanChooser chooser);

namespace detail {

PlanChoice plan_choice();

/// The numbers of a device that models ask for, by PlanDevice. A CPU's clock and memory are taken as 3 GHz and 20 GB/s,
/// since nothing tells them.
const double* plan_device_numbers(Device device);
inline double plan_device_number(Device device, PlanDevice which) {
  return plan_device_numbers(device)[static_cast<size_t>(which)];
}

/// Which plans a call can get, judged once.
struct PlanJudgement {
  int features[kMostPlanFeatures];
  uint64_t applies = 0, preferred = 0;
};
PlanJudgement judge_plans(const KernelInfo& kernel, const PlanSet& plans, std::span<const Tensor> inputs,
                          std::span<const Tensor> outputs);
/// The plan of these (an index into PlanSet::settings) that runs where nothing is forced and no table decides;
/// `microseconds` is what the model says of it, or -1.
int choose_among(const PlanSet& plans, const PlanJudgement& judged, Device device, double& microseconds);
/// Whether a plan of this name is forced, and its rank among those that are (0 the first); -1: it isn't.
int forced_rank(const char* plan);
/// Whether any plan is forced.
bool any_plan_forced();

}  // namespace detail
}  // namespace ashlar
