#include "autograd/recipes/extremum.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/reduce.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

template <class T>
T max_grad(const T& dy, const T& x, const T& y, const Shape& axes, bool keepdim) {
  const T hit = equal(x, unreduce(y, axes, keepdim, x.shape()));  // 1 at the maxima, 0 elsewhere
  const T share = div(dy, sum(hit, axes, keepdim));
  return mul(hit, unreduce(share, axes, keepdim, x.shape()));
}

template <class T>
std::vector<T> extremum_of_two_grad(const T& dy, const T& a, const T& b, const T& y, Needs needs) {
  // share of a = [a = y] · (1 - [b = y] / 2): 1 alone, 1/2 in a tie. Likewise for b.
  const T hit_a = equal(a, y), hit_b = equal(b, y);
  auto gradient = [&](const T& hit, const T& other_hit, const Shape& shape) -> T {
    return sum_to_shape(mul(dy, mul(hit, affine(other_hit, -0.5, 1.0))), shape);
  };
  return {needs(0) ? gradient(hit_a, hit_b, a.shape()) : T(), needs(1) ? gradient(hit_b, hit_a, b.shape()) : T()};
}

template Tensor max_grad(const Tensor&, const Tensor&, const Tensor&, const Shape&, bool);
template Var max_grad(const Var&, const Var&, const Var&, const Shape&, bool);
template std::vector<Tensor> extremum_of_two_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, Needs);
template std::vector<Var> extremum_of_two_grad(const Var&, const Var&, const Var&, const Var&, Needs);

}  // namespace ashlar::recipes
