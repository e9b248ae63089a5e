// Does a result agree with its reference?
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/case.h"

namespace ashlar::conformance {

/// What an output must be, and how far off each of its elements may be, for as many results as come.
class Comparison {
 public:
  /// `dtype` where `expected` has none of its own.
  Comparison(Expected expected, Tolerance tolerance, DType dtype);

  /// Empty when every element of `got` lies between storage(reference − allowed) and storage(reference + allowed), else
  /// a report of the first few that don't. `flushed` is that of inputs whose subnormals became 0, on devices that may
  /// do that; elsewhere null. An f32 result below the smallest normal number may be 0 unless the tolerance is bits.
  std::string operator()(const HostTensor& got, const Comparison* flushed) const;

 private:
  bool agrees(size_t element, double got) const;
  double allowed_error(size_t element) const;

  Expected expected_;
  Tolerance tolerance_;
  DType dtype_;
  DType arithmetic_;
  bool zero_has_sign_;
  /// Between what the results lie; where one has to be NaN, both are.
  std::vector<double> low_, high_;
};

/// The same of a single result.
std::string compare(const HostTensor& got, const Expected& expected, const Expected* flushed, Tolerance tolerance,
                    DType dtype);

}  // namespace ashlar::conformance
