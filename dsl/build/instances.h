// Everything that is compiled of one kernel: its element types times its comptime values, on each code target.
#pragma once

#include "dsl/registry.h"

namespace ashlar::dsl {

/// One function to compile.
struct Build {
  const Instance* instance;
  std::vector<std::pair<std::string, std::string>> comptimes;  ///< name and value
  KernelKey key;
  std::string suffix;  ///< "_f32", "_f16_f32", "_bf16_bias_relu"

  /// What a table calls it: "f32", "bf16_bias_relu".
  std::string name() const { return suffix.substr(1); }
};

/// The plan of a kernel that has several, as "plan", and tunables that aren't at their default, in the order of the
/// kernel's definition: name and value.
using Setting = std::vector<std::pair<std::string, std::string>>;

/// A kernel with what all its instances say together.
struct KernelSummary {
  const KernelEntry* entry;
  Descriptor descriptor;                       ///< of the first instance
  std::vector<ArgumentDescription> arguments;  ///< `element` resolved over all instances
  std::vector<Build> builds;                   ///< sorted by key
};

KernelSummary summarize(const KernelEntry& entry);
/// The same with those builds alone that exist for a code target. On the CPU that is up to the kernel's
/// widest_on_cpu(), and cpu_avx512 has f32 alone; the runtime takes what is missing from the next narrower target.
KernelSummary summarize(const KernelEntry& entry, const std::string& code_target);
/// Whether a code target has instances of a kernel: on_cpu_alone and on_gpus_alone.
bool is_on(const Descriptor& descriptor, const std::string& code_target);

/// What the plans of one build are, in their order; none where it has one way only.
std::vector<PlanDescription> plans_of(const Build& build, const std::string& code_target, int cuda_capability);
/// The name under which a Setting has its plan, before its tunables.
inline constexpr const char* kPlanOfSetting = "plan";
inline std::string plan_of(const Setting& setting) {
  return setting.empty() || setting[0].first != kPlanOfSetting ? "" : setting[0].second;
}

/// "x86-64-linux-…" for a code target; throws Halide::CompileError on an unknown name.
Halide::Target halide_target(const std::string& code_target, int cuda_capability);

/// "ashlar_softmax_f32_cuda"; with a setting, its plan and a hash of its tunables behind that.
std::string symbol_of(const KernelEntry& entry, const Build& build, const std::string& code_target,
                      const Setting& setting = {});
/// "tile_rows=128 tile_depth=16"
std::string text_of(const Setting& setting);
/// A new kernel object for one build, with its comptime values and tunables set.
std::unique_ptr<DescribedKernel> create(const Build& build, const Halide::Target& target, const Setting& setting = {});
/// The table's symbol: "ashlar_softmax_cuda"
std::string table_of(const KernelEntry& entry, const std::string& code_target);

}  // namespace ashlar::dsl
