#include "nn/modules/bilinear.h"

#include <string>

#include "ashlar/ad.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Bilinear::Bilinear(int64_t in1, int64_t in2, int64_t out, const LinearOptions& options) {
  if (in1 <= 0 || in2 <= 0 || out <= 0) {
    throw ValueError(
        "Bilinear",
        std::to_string(in1) + " and " + std::to_string(in2) + " inputs, " + std::to_string(out) + " outputs",
        "positive numbers of all", "Pass the last dimensions of x1 and x2");
  }
  draw({out, in1, in2}, out, in1, options);
}

Var Bilinear::forward(const Var& x1, const Var& x2, Activation activation) const {
  const int64_t out = weight_.size(0), in1 = weight_.size(1), in2 = weight_.size(2);
  Shape wanted = x1.shape();
  if (x1.rank() > 0) wanted[x1.rank() - 1] = in2;
  if (x1.rank() < 1 || x1.size(-1) != in1 || x2.shape() != wanted) {
    throw ShapeError("Bilinear", x1.value().str() + " and " + x2.value().str(),
                     "[..., " + std::to_string(in1) + "] and [..., " + std::to_string(in2) + "], otherwise alike",
                     "Expand the one that is smaller with broadcast_to()");
  }
  const int64_t rows = x1.numel() / in1;
  const Var products = ad::mul(x1.reshape({rows, in1, 1}), x2.reshape({rows, 1, in2})).reshape({rows, in1 * in2});
  const Var y =
      ad::matmul(products, weight_.reshape({out, in1 * in2}), {.transpose_b = true, .activation = activation}, bias_);
  wanted[x1.rank() - 1] = out;
  return y.reshape(wanted);
}

}  // namespace ashlar::nn
