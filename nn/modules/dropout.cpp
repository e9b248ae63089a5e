#include "nn/modules/dropout.h"

#include <sstream>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "autograd/node.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// 1 / (1 - p) where the stream's next number is at least p, else 0. Advances `state`.
Tensor mask_of(const Tensor& state, double p, const Shape& shape, DType dtype) {
  return affine(ge(philox_uniform(state, shape), p).to(DType::f32), p < 1 ? 1 / (1 - p) : 0.0, 0.0).to(dtype);
}

Tensor masked(const Tensor& x, const Tensor& mask) { return mul(x, mask); }
Var masked(const Var& x, const Tensor& mask) { return ad::mul(x, mask); }

}  // namespace

Dropout::Dropout(double p, const DropoutOptions& options) : p_(p) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError("Dropout", "p = " + std::to_string(p), "a probability from 0 to 1",
                     "p is the part of elements that become 0");
  }
  random_ = Var(philox_state(initial_seed(options.random), options.device));
}

Var Dropout::forward(const Var& x) const {
  if (!training() || p_ == 0) return x;
  if (x.device() != random_.device()) {
    throw DeviceError("Dropout", x.value().str(), "a tensor on " + random_.device().str(), "Move the module with to()");
  }
  const Tensor begin = random_.value().clone();  // where this call's numbers begin
  Tensor y = masked(x.value(), mask_of(random_.value(), p_, x.shape(), x.dtype()));
  return record("dropout", {x}, std::move(y), [begin, p = p_](const auto& pass) {
    const auto& dy = pass.dy();
    return pass.gradients(masked(dy, mask_of(begin.clone(), p, dy.shape(), dy.dtype())));
  });
}

std::string Dropout::details() const {
  std::ostringstream text;
  text << "p = " << p_;
  return text.str();
}

}  // namespace ashlar::nn
