// Number: a plain C++ number beside tensors.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "runtime/tensor/dtype.h"

namespace ashlar {

/// A bool, an integer or a floating-point number, as it was written: `x + 1` keeps an integer tensor's dtype, `x + 1.0`
/// doesn't (promotion.h). Integers are held exactly in 64 bits; unsigned ones above 2^63 - 1 as floating point.
class Number {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Number(T value) : real_(static_cast<double>(value)) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::same_as<T, bool>) {
      integer_ = value;
      kind_ = Kind::boolean;
    } else if constexpr (std::integral<T>) {
      if (std::is_signed_v<T> || static_cast<uint64_t>(value) <= static_cast<uint64_t>(INT64_MAX)) {
        integer_ = static_cast<int64_t>(value);
        kind_ = Kind::integer;
      }
    }
  }

  constexpr double real() const { return real_; }
  /// Exact where is_integer(); 0 or 1 for a bool; 0 for a floating-point number.
  constexpr int64_t integer() const { return integer_; }
  constexpr bool is_boolean() const { return kind_ == Kind::boolean; }
  constexpr bool is_integer() const { return kind_ == Kind::integer; }
  constexpr bool is_floating() const { return kind_ == Kind::floating; }
  /// What it counts as among tensors: boolean, i64 or f32.
  constexpr DType dtype() const { return is_boolean() ? DType::boolean : is_integer() ? DType::i64 : DType::f32; }

 private:
  enum class Kind : uint8_t { boolean, integer, floating };
  double real_;
  int64_t integer_ = 0;
  Kind kind_ = Kind::floating;
};

}  // namespace ashlar
