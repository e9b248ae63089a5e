// Gradients, and gradients of gradients, against central finite differences of the case's double reference.
#pragma once

#include <memory>
#include <string>

#include "tests/conformance/inputs.h"

namespace ashlar::conformance {

struct GradientCheck {
  /// Of larger inputs only so many elements are looked at, half of them near edges of tiles.
  int64_t samples = 48;
  /// What rounding may add to an element's error: this part of the sum of its terms' sizes, times the dtype's relative
  /// tolerance. 0 suits inputs of few terms; sums of many that cancel leave 16-bit intermediates too few digits.
  double of_terms = 0;
  /// Whether gradients of gradients are compared, too.
  bool twice = true;
};

/// How a case's gradients of gradients compare.
struct SecondCheck {
  enum class Outcome : uint8_t {
    agrees,
    differs,
    refused,    ///< an AutogradError says that there are none
    too_large,  ///< nothing was compared
  };
  Outcome outcome;
  std::string report;  ///< what differs, or the error's message
};

/// Runs the case's recording function in f32 with weights w and create_graph, and compares the gradients of Σ v · dL/dx
/// by x and by w, at all elements or a sample of them, with differences of the case's reference in double; where
/// there's no kink.
SecondCheck check_second_gradient(const Case& item, Device device, const GradientCheck& how = {});

/// Checks the gradients of a case. Differences of its reference are worked out at first use, once for all devices and
/// all ways of calling.
class GradientsCheck {
 public:
  explicit GradientsCheck(DrawnCase& drawn, const GradientCheck& how = {});
  ~GradientsCheck();

  /// Runs the case's recording function, seeds backward() with random weights w, and compares each differentiated
  /// input's gradient with (L(x + h) − L(x − h)) / 2h, L = Σ w · reference(x), at all elements or a sample of them. At
  /// a kink (relu at 0, a tie of max) every slope between the ones on both sides will do. In f32, for tensors of up to
  /// 8192 elements, gradients of gradients are compared likewise, where the function can be differentiated twice. Also
  /// checks that inputs are unchanged, and that a second time gives the same bits. Empty when they agree, else a
  /// report.
  std::string operator()(Device device);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The same once.
std::string check_gradient(const Case& item, DType dtype, Device device, const GradientCheck& how = {});

}  // namespace ashlar::conformance
