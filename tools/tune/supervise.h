// The parent process of a run: it starts workers, writes down what they tell, kills one that hangs, goes on after one
// that crashed, and shows a line of progress.
#pragma once

#include <iosfwd>

#include "tools/tune/worker.h"

namespace ashlar::tune {

struct Summary {
  int timed = 0, out = 0, todo = 0;
  bool interrupted = false;
};

/// What a worker process does: work() but for tests.
using WorkFunction = bool (*)(const Bundle&, ResultsFile&, const RunOptions&, const Teller&);

/// Runs what `results` doesn't have yet, in child processes. Returns early on SIGINT, SIGTERM and at the end of
/// options.seconds; the file then has everything that was finished, and the next call goes on. This process must not
/// have opened a device. Throws DataError.
Summary supervise(const Bundle& bundle, ResultsFile& results, const RunOptions& options, std::ostream& progress,
                  bool is_terminal, WorkFunction worker = work);

}  // namespace ashlar::tune
