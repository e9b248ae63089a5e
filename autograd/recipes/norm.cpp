#include "autograd/recipes/norm.h"

#include "ashlar/ops.h"

namespace ashlar::recipes {

Tensor norm_weight_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd, int64_t axis) {
  return sum(norm_weight_sums(dy, x, rstd, mean, axis), {0, 1}).to(x.dtype());
}

Tensor sum_to_axis(const Tensor& dy, int64_t axis) {
  if (dy.rank() <= 1) return dy.reshape({dy.numel()});
  Shape others;
  for (int i = 0; i < dy.rank(); i++) {
    if (i != normalize_reduced_axis("sum_to_axis", axis, dy.rank())) others.push_back(i);
  }
  return sum(dy, others);
}

}  // namespace ashlar::recipes
