// Which settings of its tunables an instance is compiled with, and which grid says when each is called: what the tuned
// tables mean for one build.
#pragma once

#include "dsl/build/instances.h"
#include "dsl/build/tuned_table.h"

namespace ashlar::dsl {

/// For one device, the box of runtime/launch/kernel.h's TunedGrid.
struct Grid {
  std::string device, family;
  std::vector<int> low, count;
  std::vector<uint16_t> settings;
};

struct BuildSettings {
  std::vector<Setting> settings;  ///< the first serves every call: without plans the default, which is empty
  std::vector<Grid> grids;        ///< one for each table that measured this build
};

/// Reads what `tables` say about one build, whose plans these are. The settings begin with the plans (the last one,
/// which serves every call, and then the others in their order). Throws DataError naming file and rule: a plan, a
/// tunable or a value that the kernel hasn't, tunables without a plan of a kernel with plans, a wrong number of sizes,
/// too many settings, sizes too far apart for a grid.
BuildSettings settings_of(const KernelSummary& kernel, const Build& build, const std::vector<TunedTable>& tables,
                          const std::vector<PlanDescription>& plans = {});

/// What a table says of the plans among which a form or an operator written by hand chooses itself, as the TunedPlans
/// of runtime/launch/kernel.h.
struct MeasuredPlans {
  std::string device, family;
  std::vector<uint64_t> classes;
  std::vector<uint8_t> plans;
};
/// Of each table that has any. Where the operator's own choice was the quickest, nothing; of points in one class the
/// one that saves most. Throws DataError naming file and rule: a plan that isn't one of the operator's, a wrong number
/// of sizes.
std::vector<MeasuredPlans> measured_plans(const KernelSummary& kernel, const std::vector<TunedTable>& tables);

/// Throws DataError where a table names an instance that a kernel of this executable hasn't.
void check_instances(const std::vector<KernelSummary>& kernels, const std::vector<TunedTable>& tables);

/// All that the tables say about the kernels of this executable, as text: part of a cache's key.
std::string tuned_text(const std::vector<TunedTable>& tables);

/// The dense grid of one table's points; `setting_of[i]` is the index of the i-th point's setting. Each class of sizes
/// gets the setting of the nearest point (by the squares of differences of classes), or 0 where no point is within two
/// classes along every size. The box reaches one class below the smallest point; sizes beyond the largest count as it.
Grid grid_of(const TunedTable& table, const std::vector<TunedPoint>& points, const std::vector<int>& setting_of);

}  // namespace ashlar::dsl
