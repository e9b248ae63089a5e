// One run of one case, compared with its reference.
#pragma once

#include <string>

#include "tests/conformance/case.h"

namespace ashlar::conformance {

/// Makes the inputs, calls the public function twice, and compares with the reference. Also checks that inputs of a
/// pure function are unchanged and that both calls gave the same bits. Empty when all is well, else a report.
std::string check_result(const Case& item, DType dtype, Device device);

/// The numbers alone, on tensors that the caller keeps: what a benchmark does before it measures.
std::string check_outputs(const Case& item, HostTensors inputs, Tensors outputs, DType dtype, Device device);

}  // namespace ashlar::conformance
