#include "tests/conformance/jobs.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "autograd/backward.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/forms/movement.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/plans.h"
#include "runtime/support/error.h"
#include "tests/conformance/coverage.h"

namespace ashlar::conformance {

std::string Job::name() const {
  return item->name + (gradient ? "/gradient/" : "/") + std::string(name_of(dtype)) + "/" +
         std::string(name_of(device.kind)) + (way.is_usual() ? "" : "/" + way.name());
}

std::string Way::name() const {
  if (!plan.empty()) return "plan_" + plan;
  return setting > 0 ? "setting_" + std::to_string(setting) : "";
}

InWay::InWay(const Way& way, int usual_setting)
    : setting_(set_forced_setting(way.setting > 0 ? way.setting : usual_setting)), plan_(set_forced_plan(way.plan)) {}

InWay::~InWay() {
  set_forced_setting(setting_);
  set_forced_plan(plan_);
}

CodeTarget picked_code(DeviceKind device) {
  if (device == DeviceKind::opencl) return CodeTarget::opencl;
  return device == DeviceKind::cuda ? CodeTarget::cuda : detail::cpu_code_target();
}

InCode::InCode(CodeTarget code) : before_(detail::cpu_code_target()) {
  if (device_of(code) == DeviceKind::cpu) detail::set_cpu_code_target(code);
}

InCode::~InCode() { detail::set_cpu_code_target(before_); }

uint64_t Job::fingerprint() const {
  std::ostringstream text;
  text << std::hexfloat << test() << ' ' << static_cast<int>(item->tolerance.kind) << ' ' << item->tolerance.bound;
  for (const Input& input : item->inputs) {
    text << ' ' << input.shape.str() << ' ' << static_cast<int>(input.values.pattern) << ' ' << input.values.low << ' '
         << input.values.high << ' ' << static_cast<int>(input.layout);
  }
  return identity_hash(text.str());
}

std::vector<Job> jobs_on(Device device, Kernels kernels) {
  std::vector<Job> jobs;
  std::map<std::pair<std::string, DType>, std::vector<Way>> known;  // by stem
  for (const Case& item : cases()) {
    if (item.benchmark) continue;
    for (const DType dtype : item.dtypes) {
      const auto [found, is_new] = known.try_emplace({stem(item.kernel), dtype});
      if (is_new) found->second = ways_of(item.kernel, dtype, device.kind, kernels);
      const std::vector<Way>& ways = found->second;
      for (const bool gradient : {false, true}) {
        if (gradient && (!item.differentiable || std::ranges::count(item.gradient_dtypes, dtype) == 0)) continue;
        for (const Way& way : ways) jobs.push_back({&item, dtype, device, gradient, way});
      }
    }
  }
  return jobs;
}

void run_unchecked(const Job& job, Tensors inputs) try {
  const Case& item = *job.item;
  if (!job.gradient) {
    item.call(inputs);
    return;
  }
  std::vector<Var> variables;
  for (size_t i = 0; i < inputs.size(); ++i) {
    variables.emplace_back(inputs[i], std::ranges::count(item.differentiated, static_cast<int>(i)) > 0);
  }
  const Var result = item.differentiable(variables);
  backward(result, {.seed = Tensor::zeros(result.shape(), result.dtype(), job.device)});
} catch (const Error&) {
  if (!job.item->size_from_elements) throw;  // nothing has been computed, and any size may have come
}

std::string stem(const std::string& kernel) { return kernel.substr(0, kernel.find("_grad")); }

std::vector<const KernelInfo*> kernels_of(const KernelInfo& kernel) {
  std::vector<const KernelInfo*> all{&kernel};
  if (kernel.parts != nullptr) all.insert(all.end(), {kernel.parts, kernel.last});
  for (const KernelInfo* called : kernel.calls) {
    if (called->is_internal) all.push_back(called);
  }
  return all;
}

bool is_mover(const KernelInfo& kernel) { return kernel.form == &form_of<forms::Movement>; }

/// Other devices have no table of it, not even an empty one: an operator that calls it does without it there.
bool is_for(const KernelInfo& kernel, DeviceKind device) {
  if (kernel.is_by_hand) return true;
  for (int i = 0; i < kCodeTargets; ++i) {
    if (device_of(static_cast<CodeTarget>(i)) == device && kernel.targets[static_cast<size_t>(i)] != nullptr)
      return true;
  }
  return false;
}

bool is_built(const KernelInfo& kernel, DeviceKind device) {
  if (kernel.is_by_hand) {
    return std::ranges::all_of(
        kernel.calls, [&](const KernelInfo* called) { return is_built(*called, device) || !is_for(*called, device); });
  }
  for (int i = 0; i < kCodeTargets; ++i) {
    const TargetTable* table = kernel.targets[static_cast<size_t>(i)];
    if (device_of(static_cast<CodeTarget>(i)) == device && table && table->count > 0) return true;
  }
  return false;
}

std::vector<Way> ways_of(const std::string& kernel, DType dtype, DeviceKind device, Kernels kernels) {
  std::set<int> settings;
  std::vector<Way> ways{{}};
  const auto look_at = [&](const KernelInfo& info) {
    for (int i = 0; i < kCodeTargets; ++i) {
      const TargetTable* table = info.targets[static_cast<size_t>(i)];
      if (table == nullptr || device_of(static_cast<CodeTarget>(i)) != device) continue;
      for (const KernelInstance& instance : std::span(table->instances, static_cast<size_t>(table->count))) {
        if (KernelKey::unpacked(instance.key).elements[0] != dtype) continue;
        const std::string plan = instance.plan;
        if (!plan.empty() && !*instance.tunables) {
          if (std::ranges::find(ways, plan, &Way::plan) == ways.end()) ways.push_back({0, plan});
        } else if (instance.setting() > 0) {
          settings.insert(instance.setting());
        }
      }
    }
  };
  for (const KernelInfo* info : kernels) {
    if (stem(info->name) != stem(kernel)) continue;
    for (const KernelInfo* part : kernels_of(*info)) look_at(*part);
  }
  for (const int setting : settings) ways.push_back({setting});
  return ways;
}

}  // namespace ashlar::conformance
