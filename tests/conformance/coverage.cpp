#include "tests/conformance/coverage.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "runtime/launch/launch.h"
#include "runtime/vendor/vendor.h"
#include "tests/conformance/jobs.h"

namespace ashlar::conformance {
namespace {

struct Launches {
  std::mutex mutex;
  /// By the code that was picked (picked_code()).
  std::map<CodeTarget, std::set<std::tuple<const KernelInfo*, uint64_t, CodeTarget>>> seen;
  std::set<const KernelInfo*> by_vendor;
  Reached reached;
  std::set<std::string> plans;
};

// What the calling thread launches at the moment.
thread_local struct {
  const KernelInfo* kernel = nullptr;
  CodeTarget target{};
} current;

Launches& launches() {
  static Launches all;
  return all;
}

// A kernel's instances for one target; none where it wasn't linked.
std::span<const KernelInstance> instances(const KernelInfo& kernel, CodeTarget target) {
  const TargetTable* table = kernel.targets[static_cast<int>(target)];
  if (!table || !table->instances) return {};
  return {table->instances, static_cast<size_t>(table->count)};
}

void note(const KernelInfo& kernel, const KernelInstance& instance) {
  if (kernel.vendor && std::string_view(instance.symbol) == kernel.vendor->name) {
    Launches& all = launches();
    const std::lock_guard lock(all.mutex);
    all.by_vendor.insert(&kernel);
    return;
  }
  for (int i = 0; i < kCodeTargets; ++i) {
    const auto target = static_cast<CodeTarget>(i);
    const std::span<const KernelInstance> table = instances(kernel, target);
    if (table.empty() || std::less<>{}(&instance, table.data()) ||
        !std::less<>{}(&instance, table.data() + table.size()))
      continue;
    Launches& all = launches();
    const std::lock_guard lock(all.mutex);
    all.seen[picked_code(device_of(target))].emplace(&kernel, instance.key, target);
    all.reached.kernels.emplace(&kernel, target);
    if (*instance.plan) all.plans.insert(instance.plan);
    current = {&kernel, target};
  }
}

void note_function(const KernelInstance& instance, const char* function) noexcept {
  Launches& all = launches();
  const std::lock_guard lock(all.mutex);
  all.reached.functions.insert({current.kernel, instance.key, current.target, function});
}

std::string instance_text(const KernelInfo& kernel, uint64_t key, CodeTarget target) {
  std::string text = kernel.name;
  for (int i = 0; i < kernel.element_count; ++i)
    text += " " + std::string(name_of(KernelKey::unpacked(key).elements[static_cast<size_t>(i)]));
  uint32_t variant = KernelKey::unpacked(key).variant;
  for (const ComptimeInfo& comptime : kernel.comptimes) {
    text += std::string(" ") + comptime.name + "=" + comptime.values[variant % comptime.values.size()];
    variant /= static_cast<uint32_t>(comptime.values.size());
  }
  for (const KernelInstance& instance : instances(kernel, target)) {
    if (instance.key != key) continue;
    if (*instance.plan) text.append(" plan ").append(instance.plan);
    if (*instance.tunables || (instance.setting() > 0 && !*instance.plan))
      text.append(" setting ").append(std::to_string(instance.setting()));
  }
  return text.append(" (").append(name_of(target)).append(")");
}

}  // namespace

void watch_launches() {
  set_launch_observer(note);
  set_device_function_observer(note_function);
}

std::string DeviceFunction::str() const { return instance_text(*kernel, key, target) + " " + name; }

std::vector<DeviceFunction> device_functions(std::span<const KernelInfo* const> kernels, DeviceKind device) {
  std::vector<DeviceFunction> functions;
  for (const KernelInfo* kernel : kernels) {
    for (int i = 0; i < kCodeTargets; ++i) {
      const auto target = static_cast<CodeTarget>(i);
      if (device_of(target) != device) continue;
      for (const KernelInstance& instance : instances(*kernel, target)) {
        std::istringstream names(instance.device_functions);
        for (std::string name; names >> name;) functions.push_back({kernel, instance.key, target, name});
      }
    }
  }
  return functions;
}

Reached take_reached() {
  Launches& all = launches();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.reached, {});
}

std::set<std::string> take_plans() {
  Launches& all = launches();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.plans, {});
}

DeviceKind device_of(CodeTarget target) {
  if (target == CodeTarget::opencl) return DeviceKind::opencl;
  return target == CodeTarget::cuda ? DeviceKind::cuda : DeviceKind::cpu;
}

CodeTarget widest_launched(CodeTarget code) {
  if (device_of(code) != DeviceKind::cpu) return code;
  Launches& all = launches();
  const std::lock_guard lock(all.mutex);
  CodeTarget widest = CodeTarget::cpu;
  for (const auto& one : all.seen[code]) widest = std::max(widest, std::get<CodeTarget>(one));
  return widest;
}

std::vector<std::string> instances_not_launched(std::span<const KernelInfo* const> kernels, CodeTarget code) {
  const CodeTarget widest = widest_launched(code);
  Launches& all = launches();
  const std::lock_guard lock(all.mutex);
  const auto& seen = all.seen[code];
  std::vector<std::string> missed;
  for (const KernelInfo* kernel : kernels) {
    std::set<uint64_t> in_wider;
    for (int i = static_cast<int>(widest); i >= 0; --i) {
      const auto target = static_cast<CodeTarget>(i);
      if (device_of(target) != device_of(code)) break;
      for (const KernelInstance& instance : instances(*kernel, target)) {
        if (!in_wider.insert(instance.key).second || seen.contains({kernel, instance.key, target})) continue;
        missed.push_back(instance_text(*kernel, instance.key, target));
      }
    }
  }
  return missed;
}

std::vector<std::string> vendor_routines_not_reached(std::span<const KernelInfo* const> kernels, DeviceKind device) {
  Launches& all = launches();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> missed;
  for (const KernelInfo* kernel : kernels) {
    if (kernel->vendor && kernel->vendor->kind == device && !all.by_vendor.contains(kernel)) {
      missed.push_back(std::string(kernel->name) + " (" + kernel->vendor->name + ")");
    }
  }
  return missed;
}

}  // namespace ashlar::conformance
