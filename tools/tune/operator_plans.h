// Which of their own plans (FormSignature::plans) operators run quickest, at calls that are given by name.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "tools/tune/results.h"

namespace ashlar::tune {

struct PlanOptions {
  std::vector<std::string> operators;  ///< whose choices are measured; none: all but those of products
  double seconds = 1e9;                ///< begins no call after so many
  int rounds = 5;
};

/// Makes the call (tools/named_call.h) with each plan that each of its choices could take, on random numbers, or
/// zeros of whole ones. Each plan's results are compared with those of the operator's own choice, as it is without a
/// table, then all are timed in turns, short calls in graphs where there are any. One line of JSON is added for each;
/// choices that the file has are passed over. Throws what the call throws, and ValueError on a call that isn't one.
void measure_plans(const nlohmann::json& call, Device device, const PlanOptions& options, ResultsFile& results,
                   std::ostream& log);

}  // namespace ashlar::tune
