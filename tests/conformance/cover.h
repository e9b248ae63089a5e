// The cheapest tests that reach every GPU function: what a sanitizer, under which everything is slow, has to run.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/coverage.h"

namespace ashlar::conformance {

/// What one test has reached, and how long it took.
struct Reach {
  std::string test;
  double seconds = 0;
  std::set<DeviceFunction> functions;
};

struct Cover {
  std::vector<Reach> tests;            ///< the longest first
  std::vector<DeviceFunction> missed;  ///< reached by no test
};

/// Tests, cheap together, that reach each of `functions` `times` times, or as often as there are tests that do.
Cover cheapest_cover(const std::vector<Reach>& reaches, const std::vector<DeviceFunction>& functions, int times);

/// Writes `folder`/tests.txt (seconds, a tab, the test; one a line) and `folder`/missed.txt, and returns a summary of
/// one line. Throws DataError.
std::string write_cover(const std::string& folder, const std::vector<Reach>& reaches,
                        const std::vector<DeviceFunction>& functions, int times);

}  // namespace ashlar::conformance
