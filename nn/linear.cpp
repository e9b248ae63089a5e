#include "nn/linear.h"

#include <cmath>
#include <string>
#include <vector>

#include "ashlar/ad.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

Tensor uniform(const Shape& shape, float bound, Random& random) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (float& value : values) value = random.uniform(-bound, bound);
  return Tensor::from(values, shape);
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, Random& random, bool with_bias) try {
  if (in <= 0 || out <= 0) {
    throw ValueError("Linear", std::to_string(in) + " inputs and " + std::to_string(out) + " outputs",
                     "positive numbers of both", "Pass the last dimension of x as `in`");
  }
  const float bound = 1.0F / std::sqrt(static_cast<float>(in));
  weight_ = register_parameter("weight", uniform({out, in}, bound, random));
  if (with_bias) bias_ = register_parameter("bias", uniform({out}, bound, random));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Linear");
}

Var Linear::forward(const Var& x, Activation activation) const {
  return ad::matmul(x, weight_, {.transpose_b = true, .activation = activation}, bias_);
}

}  // namespace ashlar::nn
