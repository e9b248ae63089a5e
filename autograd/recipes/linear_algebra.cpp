#include "autograd/recipes/linear_algebra.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/values.h"
#include "runtime/support/error.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

template <class T>
bool is_narrow(const T& x) {
  return size_of(x.dtype()) == 2;
}
template <class T>
T wide(const T& x) {
  return x.to(DType::f32);
}

/// a / b of a's shape, 0 where both are 0.
template <class T>
T quotient(const T& a, const T& b) {
  const auto is_zero = [](const T& x) { return eq(value_of(x), number(0, value_of(x))); };
  return div(a, masked_fill(b, logical_and(is_zero(a), is_zero(b)), 1));
}

template <class T>
T skew(const T& m) {
  return sub(m, m.transpose(-2, -1));
}

}  // namespace

template <class T>
T cholesky_grad(const T& dy, const T& y, bool upper) {
  if (is_narrow(y)) return cholesky_grad(wide(dy), wide(y), upper).to(y.dtype());
  const T l = upper ? y.transpose(-2, -1) : y, dl = tril(upper ? dy.transpose(-2, -1) : dy, 0);
  const T product = matmul(l, dl, {.transpose_a = true});
  const T halved = add(tril(product, 0), tril(product, -1));  // twice P of it
  const T before = solve_triangular(l, halved, /*upper=*/false, /*left=*/true, false, /*transpose=*/true);
  const T s = solve_triangular(l, before, false, /*left=*/false, false, false);
  return affine(add(s, s.transpose(-2, -1)), 0.25, 0.0);
}

template <class T>
std::vector<T> solve_triangular_grad(const T& dy, const T& a, const T& y, const Shape& b_shape, bool upper, bool left,
                                     bool unitriangular, bool transpose, Needs needs) {
  if (is_narrow(y)) {
    std::vector<T> gradients =
        solve_triangular_grad(wide(dy), wide(a), wide(y), b_shape, upper, left, unitriangular, transpose, needs);
    for (T& gradient : gradients) {
      if (gradient.defined()) gradient = gradient.to(y.dtype());
    }
    return gradients;
  }
  const T db = solve_triangular(a, dy, upper, left, unitriangular, !transpose);
  std::vector<T> gradients(2);
  if (needs(0)) {
    // Of what stood there as it is or transposed: left -db yᵀ or -y dbᵀ, right -yᵀ db or -dbᵀ y.
    const T &first = left == transpose ? y : db, &second = left == transpose ? db : y;
    const T product =
        left ? matmul(first, second, {.transpose_b = true}) : matmul(first, second, {.transpose_a = true});
    const int64_t beside = unitriangular ? 1 : 0;
    const T triangle = upper ? triu(product, beside) : tril(product, -beside);
    gradients[0] = neg(sum_to_shape(triangle, a.shape()));
  }
  if (needs(1)) gradients[1] = sum_to_shape(db, b_shape);
  return gradients;
}

template <class T>
T qr_grad(const T& dq, const T& dr, const T& q, const T& r) {
  if (is_narrow(q)) return qr_grad(wide(dq), wide(dr), wide(q), wide(r)).to(q.dtype());
  const Shape& shape = r.shape();
  if (shape[shape.rank() - 2] < shape.back()) {
    throw AutogradError("qr", "r of shape " + shape.str(), "at least as many rows of x as columns for a gradient",
                        "Take qr of as many columns as x has rows, and q's transpose times the others");
  }
  const T m = sub(matmul(r, dr, {.transpose_b = true}), matmul(dq, q, {.transpose_a = true}));
  const T both = add(tril(m, 0), tril(m, -1).transpose(-2, -1));
  return solve_triangular(r, add(dq, matmul(q, both)), /*upper=*/true, /*left=*/false, false, /*transpose=*/true);
}

template <class T>
T svd_grad(const T& du, const T& ds, const T& dvh, const T& u, const T& s, const T& vh) {
  if (is_narrow(s)) return svd_grad(wide(du), wide(ds), wide(dvh), wide(u), wide(s), wide(vh)).to(s.dtype());
  const int64_t rank = s.shape().back(), rows = u.shape()[u.rank() - 2], columns = vh.shape().back();
  const T along = s.unsqueeze(-2), across = s.unsqueeze(-1);
  const T apart = mul(sub(along, across), add(along, across));
  const T of_u = matmul(u, du, {.transpose_a = true}), of_v = matmul(vh, dvh, {.transpose_b = true});
  const T turned = add(mul(quotient(skew(of_u), apart), along), mul(across, quotient(skew(of_v), apart)));
  if (columns > rank) {
    const T within = add(matmul(turned, vh), mul(ds.unsqueeze(-1), vh));
    const T beside = sub(dvh, matmul(of_v, vh, {.transpose_a = true}));
    return matmul(u, add(within, quotient(beside, across)));
  }
  T left = add(matmul(u, turned), mul(u, ds.unsqueeze(-2)));
  if (rows > rank) left = add(left, quotient(sub(du, matmul(u, of_u)), along));
  return matmul(left, vh);
}

template Tensor svd_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
template Var svd_grad(const Var&, const Var&, const Var&, const Var&, const Var&, const Var&);
template Tensor qr_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&);
template Var qr_grad(const Var&, const Var&, const Var&, const Var&);
template Tensor cholesky_grad(const Tensor&, const Tensor&, bool);
template Var cholesky_grad(const Var&, const Var&, bool);
template std::vector<Tensor> solve_triangular_grad(const Tensor&, const Tensor&, const Tensor&, const Shape&, bool,
                                                   bool, bool, bool, Needs);
template std::vector<Var> solve_triangular_grad(const Var&, const Var&, const Var&, const Shape&, bool, bool, bool,
                                                bool, Needs);

}  // namespace ashlar::recipes
