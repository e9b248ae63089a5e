// What results say about the kernels as they are compiled now: results keep a hash of the code that ran and one of the
// tests, and here they are compared with the kernels and cases of this program.
#pragma once

#include <optional>

#include "tests/conformance/jobs.h"
#include "tests/conformance/report.h"

namespace ashlar::conformance {

enum class Standing : uint8_t {
  passed,  ///< all tests that there are now have run on the code that there is now, and passed
  stale,   ///< the code has changed since
  partly,  ///< some tests haven't run
  failed,
};

/// What a complete run of this program's cases on its kernels would hold.
class Expectation {
 public:
  explicit Expectation(Kernels kernels);

  /// The tallies that a complete run on a target has: kernel → dtype → number and fingerprint of its tests.
  const std::map<std::string, KernelRun>& on(const std::string& target) const;

  /// True where a kernel that ran has other code now, or nothing says which code ran. A kernel that isn't linked here
  /// counts as unchanged.
  bool has_changed(const std::map<std::string, uint64_t>& ran) const;

  /// What `run`, which may be null, says about one element type of a kernel. No value where there's nothing to test.
  std::optional<Standing> results(const KernelRun* run, const std::string& target, const std::string& kernel,
                                  const std::string& dtype) const;
  /// The worst of the gradients in all element types.
  std::optional<Standing> gradients(const KernelRun* run, const std::string& target, const std::string& kernel) const;
  /// Has something to be run again there?
  bool needs_run(const KernelRun* run, const std::string& target, const std::string& kernel) const;

  /// The key of KernelRun::ran.
  static std::string code_key(const std::string& kernel, CodeTarget target);

 private:
  std::map<DeviceKind, std::map<std::string, KernelRun>> tests_;
  std::map<std::string, uint64_t> code_;
};

/// The same runs without those of kernels that a newer run on the same device has too.
std::vector<DeviceRun> newest(std::vector<DeviceRun> runs);

}  // namespace ashlar::conformance
