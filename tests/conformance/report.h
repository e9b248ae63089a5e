// What a run found out, kept as JSON so that runs on several machines make one support table.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ashlar::conformance {

enum class Outcome : uint8_t { passed, failed, skipped };

/// All results of one device (or one instruction set of the CPU) in one run.
struct DeviceRun {
  std::string target;       ///< a code target: "cpu", "cpu_avx2", …
  std::string description;  ///< "NVIDIA H200"
  std::string driver;
  double seconds = 0;
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  std::map<std::string, int> skip_reasons;
  std::vector<std::string> failures;  ///< test names
  /// kernel → dtype → all its cases passed
  std::map<std::string, std::map<std::string, bool>> kernels;
  /// kernel → all its gradient checks passed; absent where there's none
  std::map<std::string, bool> gradients;

  void add(const std::string& kernel, const std::string& dtype, const std::string& test, bool gradient, Outcome outcome,
           const std::string& reason);
};

/// Throws DataError when a file can't be written, or isn't what write_results() writes.
void write_results(const std::string& path, const std::vector<DeviceRun>& runs);
std::vector<DeviceRun> read_results(const std::string& path);

/// Markdown: kernels × targets, the dtypes whose cases all passed, and whether gradients are checked.
std::string support_table(const std::vector<DeviceRun>& runs);
/// Markdown: per device the driver and the numbers of cases passed, failed and skipped with reasons.
std::string status_table(const std::vector<DeviceRun>& runs);

}  // namespace ashlar::conformance
