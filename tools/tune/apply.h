// From results to a tuned table: which settings a device shall have, and where each is called.
#pragma once

#include "dsl/build/tuned_table.h"
#include "tools/tune/results.h"

namespace ashlar::tune {

struct ApplyOptions {
  /// At most so many of one instance beside the default: each is compiled into every program. Plans of operators are
  /// there anyway, and are taken however many.
  int settings = 3;
  double gain = 0.03;  ///< the least part of the default's time that a setting must save to be worth it
};

/// The table with the results' points in place of those of the same instances and sizes. Calls that are one to the
/// table count as the worst of them: of operators' plans, those of the same half octaves. Candidates that were wrong,
/// or out for another reason, at any sizes are never taken. Among those timed side by side with the default, the
/// settings are chosen one after the other, each the one that saves most over all shapes. Throws DataError when nothing
/// was timed beside its default.
dsl::TunedTable apply(const Results& results, dsl::TunedTable table, const ApplyOptions& options);

/// The space as an SVG picture: for each instance and shape, every candidate's speed relative to the default, sorted.
std::string plot(const Results& results);

}  // namespace ashlar::tune
