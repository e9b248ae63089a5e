#include "nn/modules/bilinear.h"

#include <string>

#include "ashlar/ad.h"
#include "operators/composed/products.h"
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
  return composed::bilinear_product("Bilinear", x1, x2, weight_, bias_, activation);
}

}  // namespace ashlar::nn
