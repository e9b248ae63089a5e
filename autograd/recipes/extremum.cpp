#include "autograd/recipes/extremum.h"

#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/reduce.h"

namespace ashlar::recipes {

Tensor max_grad(const Tensor& dy, const Tensor& x, const Tensor& y, const Shape& axes, bool keepdim) {
  const Tensor hit = equal(x, unreduce(y, axes, keepdim, x.shape()));  // 1 at the maxima, 0 elsewhere
  const Tensor share = div(dy, sum(hit, axes, keepdim));
  return mul(hit, unreduce(share, axes, keepdim, x.shape()));
}

std::vector<Tensor> extremum_of_two_grad(const Tensor& dy, const Tensor& a, const Tensor& b, const Tensor& y,
                                         Needs needs) {
  // share of a = [a = y] · (1 - [b = y] / 2): 1 alone, 1/2 in a tie. Likewise for b.
  const Tensor hit_a = equal(a, y), hit_b = equal(b, y);
  auto gradient = [&](const Tensor& hit, const Tensor& other_hit, const Shape& shape) {
    return sum_to_shape(mul(dy, mul(hit, affine(other_hit, -0.5, 1.0))), shape);
  };
  return {needs(0) ? gradient(hit_a, hit_b, a.shape()) : Tensor(),
          needs(1) ? gradient(hit_b, hit_a, b.shape()) : Tensor()};
}

}  // namespace ashlar::recipes
