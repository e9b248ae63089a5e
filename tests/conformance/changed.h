// What has to run again since some results were taken, and a program that carries nothing else.
#pragma once

#include <set>

#include "tests/conformance/standing.h"

namespace ashlar::conformance {

/// The kernels whose cases, or whose gradient kernels' cases, have to run again on a code target, as --kernels takes
/// them, by the newest of `runs` there: all where there's none.
std::set<std::string> to_run_again(const std::vector<DeviceRun>& runs, const std::string& target,
                                   const Expectation& expected);

/// C++ that, linked in front of the compiled kernels, empties the tables of what the cases of `again` (code target →
/// kernels) don't launch: on these targets, and on the CPU. Which kernels a case launches is what `runs` say, on
/// whatever device; where they don't, all are kept. What moves elements is always kept.
std::string tables_left_out(const std::map<std::string, std::set<std::string>>& again,
                            const std::vector<DeviceRun>& runs, Kernels kernels);

}  // namespace ashlar::conformance
