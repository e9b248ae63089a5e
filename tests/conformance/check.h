// One run of one case, compared with its reference.
#pragma once

#include <functional>
#include <string>

#include "tests/conformance/case.h"

namespace ashlar::conformance {

/// Makes the inputs, calls the public function twice, and compares with the reference. Also checks that inputs are
/// unchanged, with whatever lies between their elements (an in-place function may change those that it returns), that
/// both calls gave the same bits, and that nothing was written outside of any storage (with_guard_bands). Empty when
/// all is well, else a report.
std::string check_result(const Case& item, DType dtype, Device device);

/// The numbers alone, on tensors that the caller keeps: what a benchmark does before it measures.
std::string check_outputs(const Case& item, HostTensors inputs, Tensors outputs, DType dtype, Device device);

/// Whether two tensors of one shape and dtype have the same bits, but for NaN's payload.
bool same_elements(const Tensor& a, const Tensor& b);

/// Runs `check` while every storage, and every scratch buffer of a CPU kernel, lies between poisoned bytes and begins
/// as poison itself. Returns its report and a line for each band that was written to. `check` drops its tensors.
std::string with_guard_bands(const std::function<std::string()>& check);

}  // namespace ashlar::conformance
