// A tuner's candidate, judged by the cases: a function that isn't linked, in the place of one compiled instance.
#pragma once

#include <span>
#include <string>

#include "runtime/device/device.h"
#include "runtime/launch/kernel.h"

namespace ashlar::conformance {

/// What ashlar-tune calls a conformance program with: --judge KERNEL,KEY,LIBRARY,SYMBOL or, where the kernel
/// has plans, KERNEL,KEY,LIBRARY,SYMBOL,PLAN.
struct Candidate {
  std::string kernel;
  uint32_t key = 0;  ///< KernelKey::packed()
  std::string library, symbol, plan = {};
};

/// Throws ValueError on any other text.
Candidate parse_candidate(const std::string& text);

/// Exit statuses of judge() beside 0, all cases passed.
inline constexpr int kCandidateFails = 1, kCandidateUnreached = 4;

/// Runs the cases that reach the instance, with the candidate's function in its place, and prints the report of the
/// first that fails. Cases of a kernel's gradient are its gradient checks. Ends the process (SIGALRM) after `seconds`,
/// and when its parent ends. Throws DataError on a library or symbol that isn't there.
int judge(const Candidate& candidate, Device device, std::span<const KernelInfo* const> kernels, unsigned seconds);

}  // namespace ashlar::conformance
