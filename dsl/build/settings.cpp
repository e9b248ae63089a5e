#include "dsl/build/settings.h"

#include <algorithm>
#include <limits>
#include <map>

#include "runtime/support/error.h"

namespace ashlar::dsl {
namespace {

constexpr int kReach = 2;             // classes: a factor of 4
constexpr size_t kMostCells = 16384;  // of two bytes in every program that links the kernel

[[noreturn]] void refuse(const TunedTable& table, const std::string& came, const std::string& needed) {
  throw DataError("tuned table " + table.file.string(), came, needed,
                  "Tune the kernel again, or take these points out of the table");
}

/// A point's tunables in the kernel's order, those at their default left out.
Setting setting_of(const KernelSummary& kernel, const TunedTable& table, const std::string& where,
                   const TunedPoint& point, const std::vector<PlanDescription>& plans) {
  Setting setting;
  size_t known = 0;
  if (const auto plan = point.tunables.find(kPlanOfSetting); plan != point.tunables.end() && !plans.empty()) {
    if (std::ranges::find(plans, plan->second, &PlanDescription::name) == plans.end()) {
      std::string names;
      for (const PlanDescription& one : plans) names += (names.empty() ? "" : ", ") + one.name;
      refuse(table, where + ": plan " + plan->second, "one of its plans " + names);
    }
    setting.emplace_back(kPlanOfSetting, plan->second);
    known++;
  } else if (!plans.empty() && !point.tunables.empty()) {
    refuse(table, where + ": tunables without a plan", "the plan that they belong to, {\"plan\": \"NAME\", …}");
  }
  for (const ParameterDescription& parameter : kernel.descriptor.parameters) {
    if (parameter.is_comptime) continue;
    const auto found = point.tunables.find(parameter.name);
    if (found == point.tunables.end()) continue;
    known++;
    if (std::ranges::find(parameter.values, found->second) == parameter.values.end()) {
      std::string values;
      for (const std::string& value : parameter.values) values += (values.empty() ? "" : ", ") + value;
      refuse(table, where + ": " + parameter.name + " = " + found->second, "one of its values " + values);
    }
    if (found->second != parameter.values[0]) setting.emplace_back(parameter.name, found->second);
  }
  if (known != point.tunables.size()) {
    for (const auto& [name, value] : point.tunables) {
      const auto is_it = [&](const ParameterDescription& p) { return !p.is_comptime && p.name == name; };
      if (!plans.empty() && name == kPlanOfSetting) continue;
      if (std::ranges::none_of(kernel.descriptor.parameters, is_it)) {
        refuse(table, where + ": " + name, "a tunable of the kernel");
      }
    }
  }
  return setting;
}

}  // namespace

Grid grid_of(const TunedTable& table, const std::vector<TunedPoint>& points, const std::vector<int>& setting_of) {
  Grid grid{table.device, table.family, {}, {}, {}};
  const size_t axes = points[0].sizes.size();
  size_t cells = 1;
  for (size_t a = 0; a < axes; a++) {
    int least = std::numeric_limits<int>::max(), most = 0;
    for (const TunedPoint& point : points) {
      least = std::min(least, size_class(point.sizes[a]));
      most = std::max(most, size_class(point.sizes[a]));
    }
    grid.low.push_back(std::max(least - 1, 0));
    grid.count.push_back(most - grid.low.back() + 1);
    cells *= static_cast<size_t>(grid.count.back());
  }
  if (cells > kMostCells) {
    refuse(table, std::to_string(cells) + " classes between the smallest and the largest sizes",
           "at most " + std::to_string(kMostCells));
  }
  grid.settings.assign(cells, kNoneNear);
  std::vector<int> at(axes);
  for (size_t cell = 0; cell < cells; cell++) {
    for (size_t a = axes, rest = cell; a-- > 0;) {
      at[a] = grid.low[a] + static_cast<int>(rest % static_cast<size_t>(grid.count[a]));
      rest /= static_cast<size_t>(grid.count[a]);
    }
    int nearest = std::numeric_limits<int>::max();
    for (size_t p = 0; p < points.size(); p++) {
      int distance = 0, largest = 0;
      for (size_t a = 0; a < axes; a++) {
        const int difference = std::abs(size_class(points[p].sizes[a]) - at[a]);
        distance += difference * difference;
        largest = std::max(largest, difference);
      }
      if (largest > kReach || distance >= nearest) continue;
      nearest = distance;
      grid.settings[cell] = static_cast<uint16_t>(setting_of[p]);
    }
  }
  return grid;
}

BuildSettings settings_of(const KernelSummary& kernel, const Build& build, const std::vector<TunedTable>& tables,
                          const std::vector<PlanDescription>& plans) {
  BuildSettings result{{}, {}};
  if (plans.empty()) result.settings.emplace_back();
  for (size_t i = 0; i < plans.size(); i++) {
    result.settings.push_back({{kPlanOfSetting, plans[(i + plans.size() - 1) % plans.size()].name}});
  }
  const std::string where = kernel.entry->name + " " + build.name();
  const auto sizes = static_cast<size_t>(kernel.descriptor.form->size_count());
  for (const TunedTable& table : tables) {
    const auto instances = table.kernels.find(kernel.entry->name);
    if (instances == table.kernels.end()) continue;
    const auto points = instances->second.find(build.name());
    if (points == instances->second.end() || points->second.empty()) continue;
    std::vector<int> indices;
    for (const TunedPoint& point : points->second) {
      if (point.sizes.size() != sizes) {
        refuse(table, where + ": " + std::to_string(point.sizes.size()) + " sizes",
               std::to_string(sizes) + " for a kernel of this form");
      }
      const Setting setting = setting_of(kernel, table, where, point, plans);
      if (setting.empty() && !plans.empty()) {
        indices.push_back(kUntuned);
        continue;
      }
      auto found = std::ranges::find(result.settings, setting);
      if (found == result.settings.end()) found = result.settings.insert(found, setting);
      indices.push_back(static_cast<int>(found - result.settings.begin()));
    }
    if (result.settings.size() > kMostSettings) {
      refuse(table, where + ": " + std::to_string(result.settings.size()) + " settings",
             "at most " + std::to_string(kMostSettings) + " in all tables of a target");
    }
    result.grids.push_back(grid_of(table, points->second, indices));
  }
  return result;
}

std::vector<MeasuredPlans> measured_plans(const KernelSummary& kernel, const std::vector<TunedTable>& tables) {
  const FormSignature& form = *kernel.descriptor.form;
  const auto plan_of = [&](const TunedPoint& point) {
    return std::ranges::find(form.plans, point.tunables.begin()->second,
                             [](const char* one) { return std::string(one); });
  };
  std::vector<MeasuredPlans> all;
  for (const TunedTable& table : tables) {
    const auto instances = table.kernels.find(kernel.entry->name);
    if (instances == table.kernels.end() || !instances->second.contains(kAnyInstance)) continue;
    const std::vector<TunedPoint>& points = instances->second.at(kAnyInstance);
    for (const TunedPoint& point : points) {
      const std::string where = kernel.entry->name + " " + kAnyInstance;
      if (point.sizes.size() != form.plan_sizes.size()) {
        refuse(table, where + ": " + std::to_string(point.sizes.size()) + " sizes",
               std::to_string(form.plan_sizes.size()) + " for the plans of this operator");
      }
      if (point.tunables.empty()) continue;
      const auto& [name, plan] = *point.tunables.begin();
      if (point.tunables.size() > 1 || name != kPlanOfSetting || plan_of(point) == form.plans.end()) {
        std::string names;
        for (const char* one : form.plans) names += (names.empty() ? "" : ", ") + std::string(one);
        refuse(table, where + ": " + name + " " + plan, "one of its plans " + names);
      }
    }
    const std::map<uint64_t, const TunedPoint*> deciding = deciding_points(points);
    if (deciding.empty()) continue;
    MeasuredPlans& one = all.emplace_back(MeasuredPlans{table.device, table.family, {}, {}});
    for (const auto& [sizes, best] : deciding) {
      one.classes.push_back(sizes);
      one.plans.push_back(static_cast<uint8_t>(plan_of(*best) - form.plans.begin()));
    }
  }
  return all;
}

void check_instances(const std::vector<KernelSummary>& kernels, const std::vector<TunedTable>& tables) {
  for (const TunedTable& table : tables) {
    for (const KernelSummary& kernel : kernels) {
      const auto instances = table.kernels.find(kernel.entry->name);
      if (instances == table.kernels.end()) continue;
      for (const auto& [instance, points] : instances->second) {
        const bool is_of_form = instance == kAnyInstance && !kernel.descriptor.form->plans.empty();
        if (!is_of_form && std::ranges::none_of(kernel.builds, [&](const Build& b) { return b.name() == instance; })) {
          refuse(table, kernel.entry->name + " " + instance, "an instance of the kernel");
        }
      }
    }
  }
}

std::string tuned_text(const std::vector<TunedTable>& tables) {
  std::string text;
  for (const TunedTable& table : tables) {
    for (const KernelEntry& entry : kernels()) {
      const auto instances = table.kernels.find(entry.name);
      if (instances == table.kernels.end()) continue;
      for (const auto& [instance, points] : instances->second) {
        text += table.device + ", " + table.family + ": " + entry.name + " " + instance + "\n" + text_of(points) + "\n";
      }
    }
  }
  return text;
}

}  // namespace ashlar::dsl
