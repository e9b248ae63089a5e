#include "runtime/launch/dispatch.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "runtime/cpu/cpu_device.h"
#include "runtime/device/device_identity.h"
#include "runtime/launch/form.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/plans.h"
#include "runtime/support/environment.h"

namespace ashlar {
namespace detail {
namespace {

std::atomic<int> forced_setting{-1};
std::atomic<const Replacement*> replacement{nullptr};

const KernelInstance* replaced(const KernelInfo& kernel, KernelKey key) {
  const Replacement* in_place = replacement.load(std::memory_order_acquire);
  const bool meant = in_place != nullptr && in_place->key == key.packed() && in_place->kernel == kernel.name;
  return meant ? &in_place->instance : nullptr;
}

const KernelInstance* find_in(const TargetTable& table, uint64_t key) {
  const KernelInstance* end = table.instances + table.count;
  const KernelInstance* found =
      std::lower_bound(table.instances, end, key, [](const KernelInstance& i, uint64_t k) { return i.key < k; });
  // Of a dtype that the program leaves out (ASHLAR_DTYPES) there's no function.
  return found != end && found->key == key && found->function != nullptr ? found : nullptr;
}

/// A table and its instance with default tunables.
struct Found {
  const TargetTable* table = nullptr;
  const KernelInstance* instance = nullptr;
};

Found find(const KernelInfo& kernel, KernelKey key, DeviceKind kind) {
  const auto in = [&](CodeTarget target) -> Found {
    const TargetTable* table = kernel.targets[static_cast<size_t>(target)];
    if (table == nullptr || table->count == 0) return {};
    return {table, find_in(*table, key.packed())};
  };
  switch (kind) {
    case DeviceKind::cpu: {
      for (auto code = static_cast<uint8_t>(cpu_code_target()); code > 0; --code) {
        if (const Found found = in(static_cast<CodeTarget>(code)); found.instance) return found;
      }
      return in(CodeTarget::cpu);
    }
    case DeviceKind::opencl:
      return in(CodeTarget::opencl);
    case DeviceKind::cuda:
      return in(CodeTarget::cuda);
  }
  return {};
}

/// The grid of this device, else one of its family, else nullptr.
const TunedGrid* find_grid(const TargetTable& table, uint32_t key, const DeviceIdentity& device) {
  const TunedGrid* end = table.grids + table.grid_count;
  const TunedGrid* like = nullptr;
  for (const TunedGrid *grid =
           std::lower_bound(table.grids, end, key, [](const TunedGrid&g, uint32_t k) { return g.key < k; });
       grid != end && grid->key == key; ++grid) {
    if (grid->device == device.name_hash) return grid;
    if (like == nullptr && grid->family == device.family_hash) like = grid;
  }
  return like;
}

/// kNoneNear where nothing near was measured.
int setting_in(const TunedGrid& grid, int size_count, const CanonicalSizes& sizes) {
  int at = 0;
  for (int i = 0; i < size_count; ++i) {
    const auto axis = static_cast<size_t>(i);
    const int position = std::min(size_class(sizes[axis]) - grid.low[axis], grid.count[axis] - 1);
    if (position < 0) return kNoneNear;
    at = at * grid.count[axis] + position;
  }
  return grid.settings[at];
}

/// The plans of an instance, or nullptr.
const PlanSet* find_plans(const TargetTable& table, uint32_t key) {
  const PlanSet* end = table.plans + table.plan_count;
  const PlanSet* found =
      std::lower_bound(table.plans, end, key, [](const PlanSet& p, uint32_t k) { return p.key < k; });
  return found != end && found->key == key ? found : nullptr;
}

/// One line for each distinct choice of the process.
void log_choice(const KernelInfo& kernel, const KernelInstance& chosen, Device device, const CanonicalSizes& sizes,
                const std::string& why) {
  std::string line = "dispatch: " + std::string(chosen.symbol) + " on " + device.str() + ", ";
  const FormSignature& form = kernel.form->signature;
  for (size_t i = 0; i < static_cast<size_t>(form.size_count()); ++i) {
    line += std::string(form.sizes[i]) + " " + std::to_string(sizes[i]) + ", ";
  }
  if (*chosen.plan) line += "plan " + std::string(chosen.plan) + ", ";
  log_once(line + (*chosen.tunables ? chosen.tunables : "default tunables") + " (" + why + ")");
}

/// What is chosen among the plans of an instance.
struct ChosenPlan {
  const KernelInstance* instance;
  const char* why;
  double microseconds = -1;  ///< by the model
};

/// `wanted` is the setting that is forced or that a table names; nullptr: neither.
ChosenPlan choose_plan(const KernelInfo& kernel, const TargetTable& table, const PlanSet& plans,
                       const KernelInstance* wanted, Device device, std::span<const Tensor> inputs,
                       std::span<const Tensor> outputs) {
  const PlanJudgement judged = judge_plans(kernel, plans, inputs, outputs);
  const auto row = [&](int plan) { return find_in(table, with_setting(plans.key, plans.settings[plan])); };
  if (any_plan_forced()) [[unlikely]] {
    const KernelInstance* first = nullptr;
    int best = -1;
    for (int plan = 0; plan < plans.count; ++plan) {
      if ((judged.applies >> plan & 1) == 0) continue;
      const KernelInstance* one = row(plan);
      const int rank = forced_rank(one->plan);
      if (rank >= 0 && (best < 0 || rank < best)) {
        best = rank;
        first = one;
      }
    }
    if (first != nullptr) return {first, "forced by name"};
  }
  if (wanted != nullptr && (judged.applies >> wanted->plan_index & 1) != 0) return {wanted, nullptr};
  double microseconds = 0;
  const int plan = choose_among(plans, judged, device, microseconds);
  return {row(plan), microseconds < 0 ? "in the order of its plans" : "by the model", microseconds};
}

}  // namespace

const KernelInstance* find_instance(const KernelInfo& kernel, KernelKey key, DeviceKind kind) {
  return find(kernel, key, kind).instance;
}

const KernelInstance* choose_instance(const KernelInfo& kernel, KernelKey key, Device device,
                                      std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Found found = find(kernel, key, device.kind);
  const int forced = forced_setting.load(std::memory_order_relaxed);
  const bool logs = environment().log_dispatch;
  if (found.instance == nullptr ||
      (found.table->grid_count == 0 && found.table->plan_count == 0 && forced < 0 && !logs)) [[likely]]
    return found.instance;

  const uint32_t packed = key.packed();
  const bool needs_sizes = found.table->grid_count > 0 || logs;
  const CanonicalSizes sizes = needs_sizes ? kernel.form->sizes(inputs, outputs) : CanonicalSizes{};
  const TunedGrid* grid = nullptr;
  int setting = forced > 0 ? forced : kUntuned;
  const bool asks_tables = environment().tables;
  if (forced < 0 && found.table->grid_count > 0 && asks_tables) {
    grid = find_grid(*found.table, packed, device_identity(device));
    if (grid) setting = setting_in(*grid, kernel.form->signature.size_count(), sizes);
  }
  const KernelInstance* wanted = setting < kUntuned ? find_in(*found.table, with_setting(packed, setting)) : nullptr;
  const KernelInstance* in_place = forced >= 0 ? replaced(kernel, key) : nullptr;
  if (in_place != nullptr && in_place->plan_index >= 0) wanted = in_place;
  const KernelInstance* chosen = wanted ? wanted : found.instance;
  std::string why;
  if (const PlanSet* plans = found.table->plan_count > 0 ? find_plans(*found.table, packed) : nullptr) {
    const ChosenPlan plan = choose_plan(kernel, *found.table, *plans, wanted, device, inputs, outputs);
    chosen = plan.instance;
    if (logs && plan.why != nullptr) why = plan.why;
    if (logs && plan.microseconds >= 0) why += ": " + std::to_string(plan.microseconds) + " us";
  }
  if (in_place != nullptr && in_place->plan_index < 0) chosen = in_place;
  if (logs) {
    const std::string table =
        setting == kNoneNear      ? "no measured size is near, in the table of " + std::string(grid->device_name)
        : grid                    ? "table of " + std::string(grid->device_name)
        : !asks_tables            ? "tables decide nothing"
        : found.table->grid_count ? "no table of this instance for a device like " + device_identity(device).name
                                  : "no table of this kernel";
    log_choice(kernel, *chosen, device, sizes,
               !why.empty()  ? why + (forced >= 0 ? "" : "; " + table)
               : forced >= 0 ? "forced"
                             : table);
  }
  return chosen;
}

int64_t state_of_choices() {
  const bool is_free = forced_setting.load(std::memory_order_relaxed) < 0 && !any_plan_forced() &&
                       replacement.load(std::memory_order_relaxed) == nullptr && !environment().log_dispatch;
  if (!is_free) [[unlikely]]
    return -1;
  return static_cast<int64_t>(plan_choice()) << 8 | static_cast<int64_t>(cpu_code_target());
}

double modelled_microseconds(const KernelInfo& kernel, KernelKey key, Device device, std::span<const Tensor> inputs,
                             std::span<const Tensor> outputs) {
  double microseconds = -1;
  const Found found = find(kernel, key, device.kind);
  if (found.instance == nullptr || found.table->plan_count == 0) return microseconds;
  if (const PlanSet* plans = find_plans(*found.table, key.packed())) {
    choose_among(*plans, judge_plans(kernel, *plans, inputs, outputs), device, microseconds);
  }
  return microseconds;
}

}  // namespace detail

bool has_instance(const KernelInfo& kernel, KernelKey key, DeviceKind kind) {
  return detail::find_instance(kernel, key, kind) != nullptr;
}

int set_forced_setting(int setting) { return detail::forced_setting.exchange(setting); }

void set_replacement(const Replacement* replacement) {
  detail::replacement.store(replacement, std::memory_order_release);
}

}  // namespace ashlar
