// Var's members that compute: here, above the kernels, and declared in autograd/var.h.
#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "autograd/views.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// Whether `x op= y` writes x's elements: a leaf's, under NoGrad. Otherwise x becomes the Var x op y.
bool writes_elements(const char* operation, const Var& x) {
  if (!x.is_leaf() || !x.requires_grad()) return false;
  if (!grad_enabled()) return true;
  throw AutogradError(operation, "a leaf that requires a gradient, " + x.value().str(), "a computed Var, or a constant",
                      "Write y = x + z, which makes a new Var, or change the leaf's elements under NoGrad");
}

}  // namespace

void Var::backward() const { ashlar::backward(*this); }
void Var::backward(const BackwardOptions& options) const { ashlar::backward(*this, options); }

Var Var::sum(const Shape& axes, bool keepdim) const { return ad::sum(*this, axes, keepdim); }
Var Var::mean(const Shape& axes, bool keepdim) const { return ad::mean(*this, axes, keepdim); }
Var Var::max(const Shape& axes, bool keepdim) const { return ad::max(*this, axes, keepdim); }
Var Var::softmax(int64_t axis) const { return ad::softmax(*this, axis); }
Var Var::matmul(const Var& b) const { return ad::matmul(*this, b); }
Var Var::exp() const { return ad::exp(*this); }
Var Var::log() const { return ad::log(*this); }
Var Var::sqrt() const { return ad::sqrt(*this); }
Var Var::tanh() const { return ad::tanh(*this); }
Var Var::sigmoid() const { return ad::sigmoid(*this); }
Var Var::relu() const { return ad::relu(*this); }
Var Var::operator[](int64_t index) const { return ad::select(*this, 0, index); }

Var& Var::operator+=(const Var& b) & {
  if (!writes_elements("operator+=", *this)) return *this = *this + b;
  value() += b.value();
  return *this;
}
Var& Var::operator+=(Number b) & {
  if (!writes_elements("operator+=", *this)) return *this = *this + b;
  value() += b;
  return *this;
}
Var& Var::operator-=(const Var& b) & {
  if (!writes_elements("operator-=", *this)) return *this = *this - b;
  value() -= b.value();
  return *this;
}
Var& Var::operator-=(Number b) & {
  if (!writes_elements("operator-=", *this)) return *this = *this - b;
  value() -= b;
  return *this;
}
Var& Var::operator*=(const Var& b) & {
  if (!writes_elements("operator*=", *this)) return *this = *this * b;
  value() *= b.value();
  return *this;
}
Var& Var::operator*=(Number b) & {
  if (!writes_elements("operator*=", *this)) return *this = *this * b;
  value() *= b;
  return *this;
}
Var& Var::operator/=(const Var& b) & {
  if (!writes_elements("operator/=", *this)) return *this = *this / b;
  value() /= b.value();
  return *this;
}
Var& Var::operator/=(Number b) & {
  if (!writes_elements("operator/=", *this)) return *this = *this / b;
  value() /= b;
  return *this;
}

}  // namespace ashlar
