// Values of one element type as values of another, and bits of one read as the other's.
#pragma once

#include <cmath>
#include <limits>

#include "dsl/descriptor.h"
#include "dsl/element.h"

namespace ashlar::dsl {

namespace detail {
/// A float as the nearest integer towards zero that `Integer` can hold: saturated beyond its range; 0 for NaN.
template <class Integer>
Value saturated(const Value& x) {
  using Limits = std::numeric_limits<Integer>;
  // Powers of two, or 0: exact in x's type. The upper one is the first that doesn't fit.
  const auto bound = [&x](double value) { return Halide::Internal::make_const(x.type(), value); };
  const Expr above = (x >= Value(bound(std::ldexp(1.0, Limits::digits)))).expr();
  const Expr below = (x < Value(bound(static_cast<double>(Limits::min())))).expr();
  const Expr is_no_number = is_nan_bits(x);
  const Expr fitting = Halide::select(is_no_number || above || below, bound(0), x.expr());
  return Halide::select(is_no_number, Expr(Integer{0}), above, Expr(Limits::max()), below, Expr(Limits::min()),
                        Halide::cast<Integer>(fitting));
}
}  // namespace detail

/// `x` as a value of element type T: floats to integers towards zero, saturated, NaN as 0; integers to narrower ones
/// modulo 2^bits; to floats to nearest, rounded as stored in T, held as the type that T is computed in; to boolean
/// whether it differs from 0, as 1 or 0.
template <ElementType T>
Value cast(const Value& x) {
  using Storage = typename Element<T>::Storage;
  if constexpr (std::is_same_v<T, boolean>) {
    return Element<T>::store(x, Descriptor::target);
  } else if constexpr (Element<T>::dtype == DType::f16 || Element<T>::dtype == DType::bf16) {
    return Element<T>::load(Element<T>::store(x, Descriptor::target), Descriptor::target);
  } else if constexpr (std::is_integral_v<Storage>) {
    if (x.type().is_float() && !x.is_constant()) return detail::saturated<Storage>(x);
    return x.as(Halide::type_of<Storage>());
  } else {
    return x.as(Halide::type_of<Storage>());
  }
}

/// The bits of `x` as a T of the same width: bit_cast<u32>(x) of an f32.
template <ElementType T>
Value bit_cast(const Value& x) {
  const Halide::Type type = Halide::type_of<typename Element<T>::Storage>();
  if (type.bits() != x.type().bits()) {
    mistake("bit_cast of " + std::to_string(x.type().bits()) + " bits to " + std::to_string(type.bits()) +
            ": only types of one width share bits; cast<T>(x) converts values");
  }
  return Halide::reinterpret(type, x.expr());
}

}  // namespace ashlar::dsl
