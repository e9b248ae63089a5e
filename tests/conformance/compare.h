// Does a result agree with its reference?
#pragma once

#include <string>

#include "tests/conformance/case.h"

namespace ashlar::conformance {

/// Empty when every element of `got` lies between storage(reference − allowed) and storage(reference + allowed), else
/// a report of the first few that don't. `flushed` is the reference of inputs whose subnormals became 0, on devices
/// that may do that; elsewhere null. An f32 result below the smallest normal number may be 0 unless kind is bits.
std::string compare(const HostTensor& got, const Expected& expected, const Expected* flushed, Tolerance tolerance,
                    DType dtype);

}  // namespace ashlar::conformance
