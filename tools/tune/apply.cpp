#include "tools/tune/apply.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "runtime/launch/kernel.h"
#include "runtime/support/error.h"

namespace ashlar::tune {
namespace {

using Name = std::pair<std::string, std::string>;  // kernel and instance
using Sizes = std::vector<int64_t>;

/// Times of one instance over the default's, by shape and setting.
struct Measured {
  std::map<Sizes, std::map<Tunables, const Outcome*>> finals;
};

bool is_of_operator(const Name& name) { return name.second == dsl::kAnyInstance; }

/// Whether a table takes calls of these sizes for one.
bool are_one(const Name& name, const Sizes& a, const Sizes& b) {
  return is_of_operator(name) ? half_octaves(a) == half_octaves(b) : a == b;
}

/// The same by the sizes that a table has: of an operator's plans those in `of_class`, by their half octaves. Shapes
/// that are one to it count as one: of each setting that was timed at all of them, the worst.
std::map<Sizes, std::map<Tunables, const Outcome*>> by_table_sizes(
    const std::map<Sizes, std::map<Tunables, const Outcome*>>& of_shapes, const std::map<uint64_t, Sizes>& of_class) {
  std::map<Sizes, std::map<Tunables, const Outcome*>> merged;
  for (const auto& [shape, finals] : of_shapes) {
    const Sizes& known = finals.at(Tunables{})->table_sizes;
    const Sizes& own = !of_class.empty() ? of_class.at(half_octaves(shape)) : known.empty() ? shape : known;
    const auto [place, is_first] = merged.try_emplace(own, finals);
    if (is_first) continue;
    std::erase_if(place->second, [&](const auto& one) { return !finals.contains(one.first); });
    for (auto& [tunables, outcome] : place->second) {
      if (finals.at(tunables)->of_default > outcome->of_default) outcome = finals.at(tunables);
    }
  }
  return merged;
}

std::map<Name, Measured> measured(const Results& results) {
  std::set<std::pair<Name, Tunables>> out;
  for (const Outcome& outcome : results.outcomes) {
    if (outcome.is_out()) out.insert({{outcome.kernel, outcome.instance}, outcome.tunables});
  }
  std::map<Name, Measured> all;
  std::map<Name, std::map<uint64_t, Sizes>> of_class;  // the first that were measured
  for (const Outcome& outcome : results.outcomes) {
    const Name name{outcome.kernel, outcome.instance};
    if (outcome.status != "final" || out.contains({name, outcome.tunables})) continue;
    all[name].finals[outcome.sizes][outcome.tunables] = &outcome;
    if (is_of_operator(name)) of_class[name].try_emplace(half_octaves(outcome.sizes), outcome.sizes);
  }
  // A shape counts once its default is timed; it is the last of the finals.
  for (auto& [name, instance] : all) {
    std::erase_if(instance.finals, [](const auto& shape) { return !shape.second.contains(Tunables{}); });
    instance.finals = by_table_sizes(instance.finals, of_class[name]);
  }
  return all;
}

/// Σ over shapes of the logarithm of the best ratio that `chosen` settings reach.
double cost(const Measured& instance, const std::set<Tunables>& chosen, double gain) {
  double sum = 0;
  for (const auto& [sizes, finals] : instance.finals) {
    double best = 1;
    for (const auto& [tunables, outcome] : finals) {
      if (chosen.contains(tunables) && outcome->of_default < 1 - gain) best = std::min(best, outcome->of_default);
    }
    sum += std::log(best);
  }
  return sum;
}

std::set<Tunables> choose(const Measured& instance, int most, double gain) {
  std::set<Tunables> candidates, chosen;
  for (const auto& [sizes, finals] : instance.finals) {
    for (const auto& [tunables, outcome] : finals) {
      if (!tunables.empty()) candidates.insert(tunables);
    }
  }
  while (static_cast<int>(chosen.size()) < most) {
    double least = cost(instance, chosen, gain) - 1e-9;
    const Tunables* best = nullptr;
    for (const Tunables& candidate : candidates) {
      std::set<Tunables> with = chosen;
      with.insert(candidate);
      if (const double c = cost(instance, with, gain); c < least) {
        least = c;
        best = &candidate;
      }
    }
    if (best == nullptr) break;
    chosen.insert(*best);
  }
  return chosen;
}

}  // namespace

dsl::TunedTable apply(const Results& results, dsl::TunedTable table, const ApplyOptions& options) {
  table.device = results.where.device;
  table.family = results.where.family;
  bool has_times = false;
  for (const auto& [name, instance] : measured(results)) {
    if (instance.finals.empty()) continue;
    has_times = true;
    const int most = is_of_operator(name) ? std::numeric_limits<int>::max() : options.settings;
    const std::set<Tunables> chosen = choose(instance, most, options.gain);
    std::vector<dsl::TunedPoint>& points = table.kernels[name.first][name.second];
    for (const auto& [sizes, finals] : instance.finals) {
      const Outcome* best = finals.at(Tunables{});
      double least = 1 - options.gain;
      for (const auto& [tunables, outcome] : finals) {
        if (!chosen.contains(tunables) || outcome->of_default >= least) continue;
        best = outcome;
        least = outcome->of_default;
      }
      std::erase_if(points, [&](const dsl::TunedPoint& point) { return are_one(name, point.sizes, sizes); });
      points.push_back({sizes, best->tunables, best->microseconds, best->tunables.empty() ? 1 : best->of_default});
    }
    std::ranges::sort(points, {}, &dsl::TunedPoint::sizes);
  }
  if (!has_times) {
    throw DataError("ashlar-tune apply", "results in which no setting was timed beside its default",
                    "at least one shape of one instance that ran to its end",
                    "Run the bundle to its end; look in the results for why candidates are out");
  }
  return table;
}

}  // namespace ashlar::tune
