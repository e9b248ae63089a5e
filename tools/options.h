// Validators of numbers on command lines. CLI11's own let NaN through and print the limits of double in 300 digits.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>

namespace ashlar::tools {

namespace detail {
/// The whole text as a number, or NaN.
inline double number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : std::nan("");
}
}  // namespace detail

/// A finite number above 0.
inline CLI::Validator positive_number() {
  return {[](std::string& text) {
            const double value = detail::number_of(text);
            return std::isfinite(value) && value > 0 ? "" : "got " + text + "; needed a finite number above 0";
          },
          "NUMBER above 0"};
}

/// A number of [low, high].
inline CLI::Validator number_between(double low, double high) {
  std::ostringstream range;
  range << low << " to " << high;
  return {[low, high, words = range.str()](std::string& text) {
            const double value = detail::number_of(text);
            return value >= low && value <= high ? "" : "got " + text + "; needed a number from " + words;
          },
          "NUMBER in [" + range.str() + "]"};
}

/// A whole number of [0, 2^64), written in digits alone.
inline CLI::Validator whole_number() {
  return {[](std::string& text) {
            uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            return error == std::errc() && end == text.data() + text.size()
                       ? ""
                       : "got " + text + "; needed a whole number from 0 to 18446744073709551615";
          },
          "NUMBER from 0"};
}

}  // namespace ashlar::tools
