// Runs that were made, in a file that grows.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "tools/hybrid/run.h"

namespace ashlar::tools {

struct ResultsOptions {
  std::filesystem::path file;  ///< JSON, a line a run
  Device device = {};
  int jobs = 1;        ///< runs at a time, each by a thread with a stream of its own
  bool alone = false;  ///< test runs that weren't alone on the device are made again; with one job
  double limit = 1e9;  ///< seconds; no run begins after them
};

/// Results by key: those in the file, and those made since, which are appended as they come.
class Results {
 public:
  /// Throws DataError when the file can't be read or written, ValueError where `alone` comes with several jobs.
  explicit Results(const ResultsOptions& options);

  /// Makes what isn't there yet. False once the time was over before all were. Rethrows what a run threw.
  bool make(const Task& task, const std::vector<Run>& runs);
  /// Throws ValueError on a run that wasn't made.
  const Result& of(const Run& run) const;
  /// A line that isn't a run's, for the report; made once, by `measure`, which gives its numbers.
  void note(const std::string& key, const std::function<nlohmann::json()>& measure);

 private:
  bool is_known(const Run& run) const;
  bool is_over() const;
  void make_one(const Task& task, const Run& run);
  void make_at_once(const Task& task, const std::vector<Run>& runs);

  ResultsOptions options_;
  std::chrono::steady_clock::time_point start_;
  std::set<std::string> warm_;  // kinds, with their tasks
  std::set<std::string> notes_;
  std::mutex mutex_;
  std::map<std::string, Result> known_;  // guarded by mutex_ while runs are made, as out_
  std::ofstream out_;
};

}  // namespace ashlar::tools
