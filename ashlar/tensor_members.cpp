// Tensor's members that compute: here, above the kernels, and declared in runtime/tensor/tensor.h.
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "runtime/tensor/promotion.h"

namespace ashlar {
namespace {

/// result → x, for an operator that works in place.
const Tensor& write_over(const char* operation, const Tensor& x, const Tensor& result) {
  if (result.shape() != x.shape()) {
    throw ShapeError(operation, x.str() + " and a result " + result.shape().str(), "a result of the tensor's own shape",
                     "Write x = x + y, which makes a new tensor");
  }
  if (!can_cast(result.dtype(), x.dtype())) {
    throw DTypeError(operation, x.str() + " and a result of " + std::string(name_of(result.dtype())),
                     "a result that the tensor's dtype can stand for",
                     "Convert the tensor first, or write x = x + y, which makes a new one");
  }
  x.copy_(result.to(x.dtype()));
  return x;
}

}  // namespace

Tensor Tensor::sum(const Shape& axes, bool keepdim) const { return ashlar::sum(*this, axes, keepdim); }
Tensor Tensor::mean(const Shape& axes, bool keepdim) const { return ashlar::mean(*this, axes, keepdim); }
Tensor Tensor::max(const Shape& axes, bool keepdim) const { return ashlar::max(*this, axes, keepdim); }
Tensor Tensor::argmax(const Shape& axes, bool keepdim) const { return ashlar::argmax(*this, axes, keepdim); }
Tensor Tensor::softmax(int64_t axis) const { return ashlar::softmax(*this, axis); }
Tensor Tensor::matmul(const Tensor& b) const { return ashlar::matmul(*this, b); }
Tensor Tensor::exp() const { return ashlar::exp(*this); }
Tensor Tensor::log() const { return ashlar::log(*this); }
Tensor Tensor::sqrt() const { return ashlar::sqrt(*this); }
Tensor Tensor::tanh() const { return ashlar::tanh(*this); }
Tensor Tensor::sigmoid() const { return ashlar::sigmoid(*this); }
Tensor Tensor::relu() const { return ashlar::relu(*this); }

const Tensor& Tensor::operator+=(const Tensor& b) const { return write_over("operator+=", *this, add(*this, b)); }
const Tensor& Tensor::operator-=(const Tensor& b) const { return write_over("operator-=", *this, sub(*this, b)); }
const Tensor& Tensor::operator*=(const Tensor& b) const { return write_over("operator*=", *this, mul(*this, b)); }
const Tensor& Tensor::operator/=(const Tensor& b) const { return write_over("operator/=", *this, div(*this, b)); }
const Tensor& Tensor::operator+=(Number b) const { return write_over("operator+=", *this, add(*this, b)); }
const Tensor& Tensor::operator-=(Number b) const { return write_over("operator-=", *this, sub(*this, b)); }
const Tensor& Tensor::operator*=(Number b) const { return write_over("operator*=", *this, mul(*this, b)); }
const Tensor& Tensor::operator/=(Number b) const { return write_over("operator/=", *this, div(*this, b)); }

}  // namespace ashlar
