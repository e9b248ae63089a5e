// Gradients against central finite differences of the case's double reference.
#pragma once

#include <string>

#include "tests/conformance/case.h"

namespace ashlar::conformance {

/// Runs the case's recording function, seeds backward() with random weights w, and compares each differentiated
/// input's gradient with (L(x + h) − L(x − h)) / 2h, L = Σ w · reference(x), at all elements or a sample of them.
/// Empty when they agree, else a report.
std::string check_gradient(const Case& item, DType dtype, Device device);

}  // namespace ashlar::conformance
