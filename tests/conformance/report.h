// What a run found out, kept as JSON so that runs on several machines make one support table.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ashlar::conformance {

enum class Outcome : uint8_t { passed, failed, skipped };

/// The tests of one kernel in one element type, results or gradients.
struct Tally {
  int passed = 0;
  int failed = 0;
  uint64_t tests = 0;  ///< the sum of the fingerprints of those that ran, in whatever order

  bool operator==(const Tally&) const = default;
};

/// All that ran of one kernel's cases.
struct KernelRun {
  std::map<std::string, Tally> dtypes;     ///< results, by element type
  std::map<std::string, Tally> gradients;  ///< gradient checks; empty where there's none
  /// "sum_parts cuda" → TargetTable::code_hash of each kernel that these launched on the device, but for those that
  /// only move elements, where they aren't the kernel itself.
  std::map<std::string, uint64_t> ran;
  std::map<std::string, uint64_t> gradients_ran;
};

/// All results of one device (or one instruction set of the CPU) in one run.
struct DeviceRun {
  std::string revision;     ///< of the sources: "3c37c78"
  std::string date;         ///< when the run ended: "2026-11-21T14:03:00Z"
  std::string target;       ///< a code target: "cpu", "cpu_avx2", …
  std::string description;  ///< "NVIDIA H200"
  std::string driver;
  double seconds = 0;
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  std::map<std::string, int> skip_reasons;
  std::vector<std::string> failures;  ///< test names
  std::map<std::string, KernelRun> kernels;

  /// The tally of that kernel and element type, with the test counted in it and in the run's own numbers.
  void add(const std::string& kernel, const std::string& dtype, const std::string& test, uint64_t fingerprint,
           bool gradient, Outcome outcome, const std::string& reason);
};

/// Throws DataError when a file can't be written, or isn't what write_results() writes.
void write_results(const std::string& path, const std::vector<DeviceRun>& runs);
std::vector<DeviceRun> read_results(const std::string& path);

/// Parts of a run, split by kernel (--shard) or by test (GTEST_TOTAL_SHARDS), as one: those of one revision on one
/// device. `seconds` is the longest part's.
std::vector<DeviceRun> joined(const std::vector<DeviceRun>& parts);

class Expectation;

/// Markdown: kernels × targets, the dtypes whose cases all ran and passed, what the kernel has changed since, and
/// whether gradients are checked. Of several runs on a device, the newest of each kernel counts.
std::string support_table(const std::vector<DeviceRun>& runs, const Expectation& expected);
/// Markdown: per device the driver, the revision and the numbers of cases passed, failed and skipped with reasons, and
/// the kernels whose code or cases have changed since.
std::string status_table(const std::vector<DeviceRun>& runs, const Expectation& expected);

}  // namespace ashlar::conformance
