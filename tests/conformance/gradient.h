// Gradients, and gradients of gradients, against central finite differences of the case's double reference.
#pragma once

#include <string>

#include "tests/conformance/case.h"

namespace ashlar::conformance {

struct GradientCheck {
  /// Of larger inputs only so many elements are looked at, half of them near edges of tiles.
  int64_t samples = 48;
  /// What rounding may add to an element's error: this part of the sum of its terms' sizes, times the dtype's relative
  /// tolerance. 0 suits inputs of few terms; sums of many that cancel leave 16-bit intermediates too few digits.
  double of_terms = 0;
};

/// Runs the case's recording function, seeds backward() with random weights w, and compares each differentiated
/// input's gradient with (L(x + h) − L(x − h)) / 2h, L = Σ w · reference(x), at all elements or a sample of them. At a
/// kink (relu at 0, a tie of max) every slope between the ones on both sides will do. In f32, for tensors of up to 8192
/// elements, the gradients of Σ v · dL/dx by x and by w are compared likewise, where there's no kink. Empty when they
/// agree, else a report.
std::string check_gradient(const Case& item, DType dtype, Device device, const GradientCheck& how = {});

}  // namespace ashlar::conformance
