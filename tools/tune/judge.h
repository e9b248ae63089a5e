// What a tuned table makes of calls that it wasn't made from: operators' plans at calls that ashlar-tune-plans timed.
#pragma once

#include <iosfwd>

#include "dsl/build/tuned_table.h"
#include "tools/tune/results.h"

namespace ashlar::tune {

/// Of ratios: their geometric mean, the one that a tenth of them are below, and the least.
struct Spread {
  double mean = 1, tenth = 1, worst = 1;
};

/// Of one operator. Its own choice is that without tables.
struct Judgement {
  std::string operation;
  int calls = 0;
  int decided = 0;       ///< of them by the table: it names a plan that the call can take
  Spread gained;         ///< its own choice's time over the table's, of those that it decides
  Spread without, with;  ///< the quickest plan's time over the choice's, of all
};

/// In the order of their names. The table of `results`' device, else one of its family, else none decides. Throws
/// DataError where the results have no operator's plans.
std::vector<Judgement> judge(const Results& results, const std::vector<dsl::TunedTable>& tables);
void print(const std::vector<Judgement>& all, std::ostream& out);

}  // namespace ashlar::tune
