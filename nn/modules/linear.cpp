#include "nn/modules/linear.h"

#include <cmath>
#include <string>

#include "ashlar/ad.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options) {
  if (in <= 0 || out <= 0) {
    throw ValueError("Linear", std::to_string(in) + " inputs and " + std::to_string(out) + " outputs",
                     "positive numbers of both", "Pass the last dimension of x as `in`");
  }
  const float bound = 1.0F / std::sqrt(static_cast<float>(in));
  const Placement placement = placement_of(options);
  weight_ = Var(initial_uniform({out, in}, -bound, bound, placement), true);
  if (options.bias) bias_ = Var(initial_uniform({out}, -bound, bound, placement), true);
}

Var Linear::forward(const Var& x, Activation activation) const {
  return ad::matmul(x, weight_, {.transpose_b = true, .activation = activation}, bias_);
}

}  // namespace ashlar::nn
