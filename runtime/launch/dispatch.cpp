#include "runtime/launch/dispatch.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "runtime/cpu/cpu_device.h"
#include "runtime/device/device_identity.h"
#include "runtime/launch/form.h"
#include "runtime/launch/launch.h"
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

const KernelInstance* find_in(const TargetTable& table, uint32_t key) {
  const KernelInstance* end = table.instances + table.count;
  const KernelInstance* found =
      std::lower_bound(table.instances, end, key, [](const KernelInstance& i, uint32_t k) { return i.key < k; });
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

/// One line for each distinct choice of the process.
void log_choice(const KernelInfo& kernel, const KernelInstance& chosen, Device device, const CanonicalSizes& sizes,
                const std::string& why) {
  std::string line = "dispatch: " + std::string(chosen.symbol) + " on " + device.str() + ", ";
  const FormSignature& form = kernel.form->signature;
  for (size_t i = 0; i < static_cast<size_t>(form.size_count()); ++i) {
    line += std::string(form.sizes[i]) + " " + std::to_string(sizes[i]) + ", ";
  }
  line += (*chosen.tunables ? chosen.tunables : "default tunables") + (" (" + why + ")");
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& said = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (said.insert(line).second) log(line);
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
  if (found.instance == nullptr || (found.table->grid_count == 0 && forced < 0 && !logs)) [[likely]]
    return found.instance;

  const CanonicalSizes sizes = kernel.form->sizes(inputs, outputs);
  const TunedGrid* grid = nullptr;
  int setting = std::max(forced, 0);
  if (forced < 0 && found.table->grid_count > 0) {
    grid = find_grid(*found.table, key.packed(), device_identity(device));
    if (grid) setting = setting_in(*grid, kernel.form->signature.size_count(), sizes);
  }
  const KernelInstance* chosen = nullptr;
  if (setting > 0 && setting != kNoneNear) chosen = find_in(*found.table, with_setting(key.packed(), setting));
  if (chosen == nullptr) chosen = found.instance;
  if (forced >= 0) {
    if (const KernelInstance* in_place = replaced(kernel, key)) chosen = in_place;
  }
  if (logs) {
    log_choice(kernel, *chosen, device, sizes,
               forced >= 0               ? "forced"
               : setting == kNoneNear    ? "no measured size is near, in the table of " + std::string(grid->device_name)
               : grid                    ? "table of " + std::string(grid->device_name)
               : found.table->grid_count ? "no table of this instance for a device like " + device_identity(device).name
                                         : "no table of this kernel");
  }
  return chosen;
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
