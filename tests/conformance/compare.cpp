#include "tests/conformance/compare.h"

#include <cmath>
#include <cstdio>
#include <utility>

namespace ashlar::conformance {
namespace {

constexpr int kReported = 5;

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
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

Comparison::Comparison(Expected expected, Tolerance tolerance, DType dtype)
    : expected_(std::move(expected)),
      tolerance_(tolerance),
      dtype_(expected_.dtype.value_or(dtype)),
      arithmetic_(dtype_ == DType::f64 ? DType::f64 : DType::f32),
      // Where nothing is rounded, 0 has a sign, also the one that a subnormal was flushed to.
      zero_has_sign_(tolerance.kind == Tolerance::Kind::bits ||
                     (tolerance.kind == Tolerance::Kind::ulp && tolerance.bound == 0)),
      low_(expected_.values),
      high_(expected_.values) {
  for (size_t i = 0; i < low_.size() && tolerance.kind != Tolerance::Kind::bits; ++i) {
    if (!std::isfinite(low_[i])) continue;
    const double allowed = allowed_error(i);
    low_[i] -= allowed;
    high_[i] += allowed;
  }
  round_all(low_, dtype_);
  round_all(high_, dtype_);
  if (!is_floating(dtype_) || tolerance.kind == Tolerance::Kind::bits) return;
  // A storage type may flush as well: bf16 has f32's subnormals.
  const double normal = smallest_normal(DType::f32);
  for (size_t i = 0; i < low_.size(); ++i) {
    if (!(std::abs(expected_.values[i]) < normal)) continue;
    low_[i] = std::min(low_[i], 0.0);
    high_[i] = std::max(high_[i], 0.0);
  }
}

double Comparison::allowed_error(size_t element) const {
  const double value = expected_.values[element];
  double magnitude = expected_.magnitudes.empty() ? std::abs(value) : expected_.magnitudes[element];
  if (!std::isfinite(magnitude)) magnitude = std::abs(value);  // terms that are infinite don't excuse a finite result
  double allowed = 0;
  switch (tolerance_.kind) {
    case Tolerance::Kind::bits:
      return 0;
    case Tolerance::Kind::ulp:
      allowed = tolerance_.bound * ulp(magnitude, arithmetic_);
      break;
    case Tolerance::Kind::terms:
      // f64 has 29 bits more; of these 22, since its sums over hundreds of thousands of terms are long ones.
      allowed = tolerance_.bound * magnitude * (arithmetic_ == DType::f64 ? 0x1p-22 : 1.0);
      break;
  }
  // Flushed, as what a result is made of may be, or rounded a few times where a subnormal has few digits.
  if (std::abs(value) < (tolerance_.bound > 0 ? 4 : 1) * smallest_normal(arithmetic_)) {
    allowed += std::abs(value) + (tolerance_.bound > 0 ? 4 * ulp(0, arithmetic_) : 0);
  }
  return allowed;
}

bool Comparison::agrees(size_t element, double got) const {
  const double low = low_[element];
  if (std::isnan(low)) return std::isnan(got);
  if (!(low <= got && got <= high_[element])) return false;
  if (got != 0 || !zero_has_sign_) return true;
  // To -0 or 0, as rounding has it; a subnormal's sign is its own.
  return std::signbit(got) == std::signbit(tolerance_.kind == Tolerance::Kind::bits ? low : expected_.values[element]);
}

std::string Comparison::operator()(const HostTensor& got, const Comparison* flushed) const {
  if (got.dtype != dtype_) {
    return "dtype " + std::string(name_of(got.dtype)) + ", expected " + std::string(name_of(dtype_));
  }
  if (!(got.shape == expected_.shape)) return "shape " + got.shape.str() + ", expected " + expected_.shape.str();
  int64_t wrong = 0;
  std::string report;
  for (size_t i = 0; i < expected_.values.size(); ++i) {
    const int64_t position = expected_.positions.empty() ? static_cast<int64_t>(i) : expected_.positions[i];
    const double value = got.values[position];
    if (agrees(i, value) || (flushed && flushed->agrees(i, value)) || ++wrong > kReported) continue;
    const double reference = expected_.values[i];
    report += "\n  " + index_text(got.shape, position) + ": got " + number(value) + ", expected " + number(reference) +
              ", error " + number(std::abs(value - reference)) + ", allowed " + number(allowed_error(i));
  }
  if (!wrong) return {};
  return std::to_string(wrong) + " of " + std::to_string(expected_.values.size()) + " elements are wrong:" + report;
}

std::string compare(const HostTensor& got, const Expected& expected, const Expected* flushed, Tolerance tolerance,
                    DType dtype) {
  const Comparison of_expected(expected, tolerance, dtype);
  if (flushed == nullptr) return of_expected(got, nullptr);
  const Comparison of_flushed(*flushed, tolerance, dtype);
  return of_expected(got, &of_flushed);
}

}  // namespace ashlar::conformance
