// Ways to fail, and what a job is held to when one strikes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/support/fault.h"
#include "tests/faults/jobs.h"

namespace ashlar::testing {

struct Way {
  const char* name;
  std::optional<detail::FaultSite> site;  ///< none: operator new
  detail::FaultSpan span;
};
std::span<const Way> ways();

/// One try of a job with the n-th visit of a way failing.
struct Attempt {
  bool fired = false;   ///< there were n visits
  bool threw = false;   ///< an exception of the right type
  std::string problem;  ///< empty, or what is wrong: another exception, one without a fault, or another result
};
Attempt attempt(const Job& job, Device device, const Way& way, int64_t n, const std::vector<float>& expected);

}  // namespace ashlar::testing
