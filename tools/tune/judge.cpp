#include "tools/tune/judge.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <ostream>

#include "runtime/launch/kernel.h"
#include "runtime/support/error.h"

namespace ashlar::tune {
namespace {

using dsl::TunedPoint;
using dsl::TunedTable;

Spread spread_of(std::vector<double> ratios) {
  if (ratios.empty()) return {};
  std::ranges::sort(ratios);
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return {std::exp(sum / static_cast<double>(ratios.size())), ratios[ratios.size() / 10], ratios[0]};
}

const TunedTable* table_of(const Where& where, const std::vector<TunedTable>& tables) {
  const auto own = std::ranges::find(tables, where.device, &TunedTable::device);
  const auto like = own == tables.end() ? std::ranges::find(tables, where.family, &TunedTable::family) : own;
  return like == tables.end() ? nullptr : &*like;
}

/// The tunables that a build takes for such a call; none: the table doesn't decide.
Tunables tuned(const TunedTable& table, const std::string& operation, const std::vector<int64_t>& sizes) {
  const auto instances = table.kernels.find(operation);
  if (instances == table.kernels.end() || !instances->second.contains(dsl::kAnyInstance)) return {};
  const std::map<uint64_t, const TunedPoint*> deciding = dsl::deciding_points(instances->second.at(dsl::kAnyInstance));
  const auto found = deciding.find(half_octaves(sizes));
  return found == deciding.end() ? Tunables{} : found->second->tunables;
}

std::ostream& operator<<(std::ostream& out, const Spread& spread) {
  return out << spread.mean << " / " << spread.tenth << " / " << spread.worst;
}

}  // namespace

std::vector<Judgement> judge(const Results& results, const std::vector<TunedTable>& tables) {
  const TunedTable* table = table_of(results.where, tables);
  std::map<std::string, std::map<std::vector<int64_t>, std::map<Tunables, double>>> measured;
  for (const Outcome& one : results.outcomes) {
    if (one.status == "final" && one.instance == dsl::kAnyInstance)
      measured[one.kernel][one.sizes][one.tunables] = one.of_default;
  }
  if (measured.empty()) {
    throw DataError("ashlar-tune judge", "results without plans of operators", "what ashlar-tune-plans wrote",
                    "A table of kernels is judged by the finals of ashlar-tune run");
  }
  std::vector<Judgement> all;
  for (const auto& [operation, calls] : measured) {
    Judgement& judgement = all.emplace_back();
    judgement.operation = operation;
    std::vector<double> gained, without, with;
    for (const auto& [sizes, plans] : calls) {
      if (!plans.contains(Tunables{})) continue;  // cut short
      const Tunables chosen = table == nullptr ? Tunables{} : tuned(*table, operation, sizes);
      const auto found = chosen.empty() ? plans.end() : plans.find(chosen);
      const double ratio = found == plans.end() ? 1 : found->second;
      if (found != plans.end()) gained.push_back(1 / ratio);
      double quickest = 1;
      for (const auto& [tunables, of_default] : plans) quickest = std::min(quickest, of_default);
      without.push_back(quickest);
      with.push_back(quickest / ratio);
    }
    judgement.calls = static_cast<int>(without.size());
    judgement.decided = static_cast<int>(gained.size());
    judgement.gained = spread_of(std::move(gained));
    judgement.without = spread_of(std::move(without));
    judgement.with = spread_of(std::move(with));
  }
  return all;
}

void print(const std::vector<Judgement>& all, std::ostream& out) {
  const std::ios::fmtflags flags = out.flags();
  out << std::fixed << std::setprecision(2) << "geometric mean / tenth percentile / worst\n";
  for (const Judgement& one : all) {
    out << one.operation << ": of " << one.calls << " calls the table decides " << one.decided;
    if (one.decided > 0) out << ", the operator's own choice takes " << one.gained << " of its time there";
    out << "; the quickest plan takes " << one.without << " of the own choice's, " << one.with << " of the table's\n";
  }
  out.flags(flags);
}

}  // namespace ashlar::tune
