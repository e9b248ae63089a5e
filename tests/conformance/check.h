// One run of one case, compared with its reference.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/compare.h"
#include "tests/conformance/inputs.h"

namespace ashlar::conformance {

/// Checks the results of a case. Its reference is worked out at first use, once for all devices and all ways of
/// calling.
class ResultCheck {
 public:
  explicit ResultCheck(DrawnCase& drawn) : drawn_(drawn) {}

  /// Calls the public function twice, and compares with the reference. Also checks that inputs are unchanged, with
  /// whatever lies between their elements (an in-place function may change those that it returns), that both calls gave
  /// the same bits, and that nothing was written outside of any storage (with_guard_bands). Empty when all is well,
  /// else a report.
  std::string operator()(Device device);

 private:
  std::string check_calls(Device device);
  std::string compare_with_reference(Tensors outputs, Device device);

  DrawnCase& drawn_;
  std::optional<std::vector<Comparison>> expected_;
  std::optional<std::vector<Comparison>> flushed_;  ///< of inputs without subnormals; empty where they have none
};

/// The same once.
std::string check_result(const Case& item, DType dtype, Device device);

/// The numbers alone, on tensors that the caller keeps: what a benchmark does before it measures.
std::string check_outputs(const Case& item, HostTensors inputs, Tensors outputs, DType dtype, Device device);

/// Whether two tensors of one shape and dtype have the same bits, but for NaN's payload.
bool same_elements(const Tensor& a, const Tensor& b);

/// Runs `check` while every storage, and every scratch buffer of a CPU kernel, lies between poisoned bytes and begins
/// as poison itself. Returns its report and a line for each band that was written to. `check` drops its tensors.
std::string with_guard_bands(const std::function<std::string()>& check);

}  // namespace ashlar::conformance
