#include "dsl/build/space.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace ashlar::dsl {

bool means_something(On on, const std::string& code_target) {
  switch (on) {
    case On::everywhere:
      return true;
    case On::cpu:
      return code_target.starts_with("cpu");
    case On::opencl:
      return code_target == "opencl";
    case On::cuda:
      return code_target == "cuda";
    case On::gpu:
      return is_gpu(code_target);
  }
  return false;
}

namespace {

/// Every combination of the tunables; of a plan, of those that it reads.
void add_settings(const KernelSummary& kernel, const Build& build, const std::string& code_target,
                  const Halide::Target& target, const PlanDescription* plan, Space& space) {
  std::vector<ParameterDescription> tunables;
  int64_t combinations = 1;
  for (const ParameterDescription& parameter : kernel.descriptor.parameters) {
    if (parameter.is_comptime || !means_something(parameter.on, code_target)) continue;
    if (plan != nullptr && std::ranges::find(plan->tunables, parameter.name) == plan->tunables.end()) continue;
    tunables.push_back(parameter);
    combinations *= static_cast<int64_t>(parameter.values.size());
  }
  const Halide::Target before = std::exchange(Descriptor::target, target);  // rules may read it
  for (int64_t combination = 0; combination < combinations; combination++) {
    Setting setting;
    if (plan != nullptr) setting.emplace_back(kPlanOfSetting, plan->name);
    int64_t rest = combination;
    for (const ParameterDescription& parameter : tunables) {
      const auto count = static_cast<int64_t>(parameter.values.size());
      if (rest % count != 0) setting.emplace_back(parameter.name, parameter.values[static_cast<size_t>(rest % count)]);
      rest /= count;
    }
    const auto instance = create(build, target, setting);
    instance->generator().arginfos();  // parameters are readable once Halide has configured the generator, as here
    const SpaceRule* broken = nullptr;
    for (const SpaceRule& rule : instance->descriptor().space_rules) {
      if (broken == nullptr && !rule.holds()) broken = &rule;
    }
    if (broken == nullptr || combination == 0)
      space.settings.push_back(setting);
    else
      space.left_out[broken->text]++;
  }
  Descriptor::target = before;
}

}  // namespace

Space space_of(const KernelSummary& kernel, const Build& build, const std::string& code_target, int cuda_capability) {
  const Halide::Target target = halide_target(code_target, cuda_capability);
  const std::vector<PlanDescription> plans =
      kernel.descriptor.has_plans ? plans_of(build, code_target, cuda_capability) : std::vector<PlanDescription>{};
  Space space;
  if (plans.empty()) {
    add_settings(kernel, build, code_target, target, nullptr, space);
  } else {
    space.settings.emplace_back();  // every plan where it is chosen
    for (const PlanDescription& plan : plans) add_settings(kernel, build, code_target, target, &plan, space);
  }
  return space;
}
void write_spaces(std::ostream& out, const std::string& code_target, int cuda_capability) {
  using nlohmann::ordered_json;
  ordered_json all = ordered_json::array();
  for (const KernelEntry& entry : kernels()) {
    const KernelSummary kernel = summarize(entry, code_target);
    for (const Build& build : kernel.builds) {
      const Space space = space_of(kernel, build, code_target, cuda_capability);
      ordered_json settings = ordered_json::array();
      for (const Setting& setting : space.settings) {
        ordered_json one = ordered_json::object();
        for (const auto& [name, value] : setting) one[name] = value;
        settings.push_back({{"tunables", one}, {"symbol", symbol_of(entry, build, code_target, setting)}});
      }
      all.push_back({{"kernel", entry.name},
                     {"instance", build.name()},
                     {"key", build.key.packed()},
                     {"settings", settings},
                     {"left_out", space.left_out}});
    }
  }
  out << all.dump(1) << "\n";
}

}  // namespace ashlar::dsl
