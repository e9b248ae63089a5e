#include "ashlar/arithmetic.h"

#include "ashlar/numbers.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"

namespace ashlar {

using detail::exponent_of;
using detail::is_affine;
using detail::kNoShift;
using detail::tensor_of;

namespace {

/// scale x + shift in the dtype where x and the number meet.
Tensor affine_with(const Tensor& x, Number number, double scale, double shift) {
  return affine(x.to(result_type(x, number)), scale, shift);
}

}  // namespace

Tensor add(const Tensor& a, Number b) {
  return is_affine(a, b) ? affine_with(a, b, 1, b.real()) : add(a, tensor_of(b, a));
}
Tensor add(Number a, const Tensor& b) { return add(b, a); }

Tensor sub(const Tensor& a, Number b) {
  return is_affine(a, b) ? affine_with(a, b, 1, -b.real()) : sub(a, tensor_of(b, a));
}
Tensor sub(Number a, const Tensor& b) {
  return is_affine(b, a) ? affine_with(b, a, -1, a.real()) : sub(tensor_of(a, b), b);
}

Tensor mul(const Tensor& a, Number b) {
  return is_affine(a, b) ? affine_with(a, b, b.real(), kNoShift) : mul(a, tensor_of(b, a));
}
Tensor mul(Number a, const Tensor& b) { return mul(b, a); }

Tensor div(const Tensor& a, Number b) { return div(a, tensor_of(b, a)); }
Tensor div(Number a, const Tensor& b) { return div(tensor_of(a, b), b); }

Tensor pow(const Tensor& a, Number b) { return pow(a, exponent_of(b, a)); }
Tensor pow(Number a, const Tensor& b) { return pow(tensor_of(a, b), b); }
Tensor fmod(const Tensor& a, Number b) { return fmod(a, tensor_of(b, a)); }
Tensor remainder(const Tensor& a, Number b) { return remainder(a, tensor_of(b, a)); }
Tensor where(const Tensor& condition, const Tensor& a, Number b) { return where(condition, a, tensor_of(b, a)); }
Tensor where(const Tensor& condition, Number a, const Tensor& b) { return where(condition, tensor_of(a, b), b); }

Tensor maximum(const Tensor& a, Number b) { return maximum(a, tensor_of(b, a)); }
Tensor maximum(Number a, const Tensor& b) { return maximum(b, a); }
Tensor minimum(const Tensor& a, Number b) { return minimum(a, tensor_of(b, a)); }
Tensor minimum(Number a, const Tensor& b) { return minimum(b, a); }

Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max) {
  if (!min.defined() && !max.defined()) {
    throw ValueError("clamp", "no bound", "a smallest or a largest value", "Give one of them, or leave the call out");
  }
  const Tensor above = min.defined() ? maximum(x, min) : x;
  return max.defined() ? minimum(above, max) : above;
}
Tensor clamp(const Tensor& x, Number min, Number max) {
  // One kernel where it computes in f32 anyway.
  const DType dtype = result_type(x, min.is_floating() ? min : max);
  const bool is_f32 = is_floating(dtype) && dtype != DType::f64;
  return is_f32 ? clamp(x.to(dtype), min.real(), max.real()) : minimum(maximum(x, min), max);
}
Tensor clamp_min(const Tensor& x, const Tensor& min) { return maximum(x, min); }
Tensor clamp_min(const Tensor& x, Number min) { return maximum(x, min); }
Tensor clamp_max(const Tensor& x, const Tensor& max) { return minimum(x, max); }
Tensor clamp_max(const Tensor& x, Number max) { return minimum(x, max); }

Tensor eq(const Tensor& a, Number b) { return eq(a, tensor_of(b, a)); }
Tensor ne(const Tensor& a, Number b) { return ne(a, tensor_of(b, a)); }
Tensor lt(const Tensor& a, Number b) { return lt(a, tensor_of(b, a)); }
Tensor le(const Tensor& a, Number b) { return le(a, tensor_of(b, a)); }
Tensor gt(const Tensor& a, Number b) { return lt(tensor_of(b, a), a); }
Tensor ge(const Tensor& a, Number b) { return le(tensor_of(b, a), a); }

Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }

Tensor operator-(const Tensor& x) {
  if (x.defined() && x.dtype() == DType::boolean) {
    throw DTypeError("neg", x.str(), "a tensor of numbers", "Compare it with false: x == false");
  }
  // By its bits, or by a factor, which turns the sign of a zero, too.
  return x.defined() && !is_affine(x, 1) ? mul(x, -1) : neg(x);
}

}  // namespace ashlar
