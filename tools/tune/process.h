// Running other programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ashlar::tune {

struct Finished {
  int code;            ///< exit code, or 128 + signal
  std::string output;  ///< stdout and stderr
};

using Command = std::vector<std::string>;

/// Runs it to its end; throws DataError when it can't be started.
Finished run(const Command& command);

/// Runs `work(i)` for i in [0, count), `jobs` at a time, each on a thread of its own; rethrows the first exception.
void in_parallel(int count, int jobs, const std::function<void(int)>& work);

}  // namespace ashlar::tune
