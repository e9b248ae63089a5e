#include "tests/conformance/compare.h"

#include <cmath>
#include <cstdio>

namespace ashlar::conformance {
namespace {

constexpr int kReported = 5;

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

double allowed_error(double value, double magnitude, Tolerance tolerance, DType dtype) {
  const DType arithmetic = dtype == DType::f64 ? DType::f64 : DType::f32;
  if (!std::isfinite(magnitude)) magnitude = std::abs(value);  // terms that are infinite don't excuse a finite result
  double allowed = 0;
  switch (tolerance.kind) {
    case Tolerance::Kind::bits:
      return 0;
    case Tolerance::Kind::ulp:
      allowed = tolerance.bound * ulp(magnitude, arithmetic);
      break;
    case Tolerance::Kind::terms:
      // f64 has 29 bits more; of these 22, since its sums over hundreds of thousands of terms are long ones.
      allowed = tolerance.bound * magnitude * (arithmetic == DType::f64 ? 0x1p-22 : 1.0);
      break;
  }
  // Flushed, as what a result is made of may be, or rounded a few times where a subnormal has few digits.
  if (std::abs(value) < (tolerance.bound > 0 ? 4 : 1) * smallest_normal(arithmetic)) {
    allowed += std::abs(value) + (tolerance.bound > 0 ? 4 * ulp(0, arithmetic) : 0);
  }
  return allowed;
}

bool agrees(double got, double reference, double magnitude, Tolerance tolerance, DType dtype) {
  if (std::isnan(reference)) return std::isnan(got);
  if (std::isinf(reference)) return got == reference;
  if (tolerance.kind == Tolerance::Kind::bits) {
    const double stored = rounded(reference, dtype);
    return got == stored && (got != 0 || std::signbit(got) == std::signbit(stored));
  }
  const double allowed = allowed_error(reference, magnitude, tolerance, dtype);
  double low = rounded(reference - allowed, dtype);
  double high = rounded(reference + allowed, dtype);
  // A storage type may flush as well: bf16 has f32's subnormals.
  if (is_floating(dtype) && std::abs(reference) < smallest_normal(DType::f32)) {
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
  }
  // Where nothing is rounded, 0 has a sign, also the one that a subnormal was flushed to.
  if (tolerance.kind == Tolerance::Kind::ulp && tolerance.bound == 0 && got == 0 &&
      std::signbit(got) != std::signbit(reference)) {
    return false;
  }
  return low <= got && got <= high;
}

std::string index_text(const Shape& shape, int64_t position) {
  Shape index = shape;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = position % shape[i];
    position /= shape[i];
  }
  return index.str();
}

}  // namespace

std::string compare(const HostTensor& got, const Expected& expected, const Expected* flushed, Tolerance tolerance,
                    DType dtype) {
  dtype = expected.dtype.value_or(dtype);
  if (got.dtype != dtype) {
    return "dtype " + std::string(name_of(got.dtype)) + ", expected " + std::string(name_of(dtype));
  }
  if (!(got.shape == expected.shape)) return "shape " + got.shape.str() + ", expected " + expected.shape.str();
  const auto magnitude_of = [](const Expected& e, size_t i) {
    return e.magnitudes.empty() ? std::abs(e.values[i]) : e.magnitudes[i];
  };
  int64_t wrong = 0;
  std::string report;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const int64_t position = expected.positions.empty() ? static_cast<int64_t>(i) : expected.positions[i];
    const double value = got.values[position];
    const double reference = expected.values[i];
    if (agrees(value, reference, magnitude_of(expected, i), tolerance, dtype)) continue;
    if (flushed && agrees(value, flushed->values[i], magnitude_of(*flushed, i), tolerance, dtype)) continue;
    if (++wrong > kReported) continue;
    report += "\n  " + index_text(got.shape, position) + ": got " + number(value) + ", expected " + number(reference) +
              ", error " + number(std::abs(value - reference)) + ", allowed " +
              number(allowed_error(reference, magnitude_of(expected, i), tolerance, dtype));
  }
  if (!wrong) return {};
  return std::to_string(wrong) + " of " + std::to_string(expected.values.size()) + " elements are wrong:" + report;
}

}  // namespace ashlar::conformance
