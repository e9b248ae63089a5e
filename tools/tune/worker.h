// The child process of a run: it opens the device, loads candidates, compares and times them. Whatever happens to it,
// the parent has every finished outcome and knows what it was about.
#pragma once

#include <functional>

#include "runtime/device/device.h"
#include "tools/tune/results.h"

namespace ashlar::tune {

struct RunOptions {
  int device_index = 0;
  double seconds_per_candidate = 20;  ///< until it counts as hung, at one shape
  double seconds = 0;                 ///< for the whole run; 0: no limit
  double memory_gb = 0;               ///< of the device, for all tensors; 0: no limit
  double slow = 1.5;                  ///< a candidate this many times slower than the best so far isn't timed further
  int finalists = 4;                  ///< of each shape, timed side by side with the default at the end
  double timing_seconds = 0.05;       ///< for each candidate and shape
};

/// The device that runs code of a code target.
Device device_of(const std::string& code_target, int index);

/// What the worker tells: "begin" before a candidate is touched, then its outcome.
struct Teller {
  std::function<void(const Where&)> where;
  std::function<void(const Outcome& about)> begin;
  std::function<void(const Outcome&)> done;
};

/// Does what `results` doesn't have yet. Returns when all is done, or after a failure that makes this process
/// unusable (a device error): false then. Outcomes are remembered in `results` and told, not written.
bool work(const Bundle& bundle, ResultsFile& results, const RunOptions& options, const Teller& tell);

}  // namespace ashlar::tune
