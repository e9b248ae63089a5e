#include "autograd/recipes/linear_algebra.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/composition.h"
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

namespace {

/// What of y's columns lies outside of the span of these orthonormal vectors.
template <class T>
T beside(const T& y, const T& vectors) {
  return sub(y, matmul(vectors, matmul(vectors, y, {.transpose_a = true})));
}

// r q and rᵀ p, r = x - u diag(s) vᵀ, of q orthogonal to v and p orthogonal to u: r itself isn't needed.
template <class T>
T times_rest(const T& x, const T& u, const T& q) {
  return beside(T(matmul(x, q)), u);
}
template <class T>
T rest_times(const T& x, const T& v, const T& p) {
  return beside(T(matmul(x, p, {.transpose_a = true})), v);
}
/// q[i] - rᵀ r q[i] / squares[i]
template <class T>
T without_rest(const T& x, const T& u, const T& v, const T& squares, const T& q) {
  return sub(q, quotient(rest_times(x, v, times_rest(x, u, q)), squares));
}

/// The q of without_rest(x, u, v, squares, q) = c, columns orthogonal to v, all at once (Hestenes and Stiefel 1952). A
/// column counts by its length; what is left of it is small against 1 before its square is as small as kNothing.
Tensor solved(const Tensor& x, const Tensor& u, const Tensor& v, const Tensor& squares, const Tensor& c) {
  constexpr int kTurns = 16;
  constexpr double kNothing = 1e-20;
  const auto dots = [](const Tensor& a, const Tensor& b) { return ashlar::sum(ashlar::mul(a, b), {-2}, true); };
  const auto share = [](const Tensor& a, const Tensor& b) { return ashlar::div(a, ashlar::affine(b, 1, kNothing)); };
  const Tensor lengths = ashlar::sqrt(dots(c, c));
  Tensor q = Tensor::zeros(c.shape(), c.dtype(), c.device()), left = quotient(c, lengths), way = left;
  Tensor square = dots(left, left);
  for (int turn = 0; turn < kTurns; turn++) {
    const Tensor turned = without_rest(x, u, v, squares, way), step = share(square, dots(way, turned));
    q = ashlar::add(q, ashlar::mul(way, step));
    left = ashlar::sub(left, ashlar::mul(turned, step));
    const Tensor next = dots(left, left);
    way = ashlar::add(left, ashlar::mul(way, share(next, square)));
    square = next;
  }
  return ashlar::mul(q, lengths);
}

// With a(x, …) q = c and y of a y = dq, since a is symmetric: dc = y, and of what a is made of those of -y·(a q).
Var solved(const Var& x, const Var& u, const Var& v, const Var& squares, const Var& c) {
  const Tensor q = solved(x.value(), u.value(), v.value(), squares.value(), c.value());
  const auto back = [x_ = save(x), u_ = save(u), v_ = save(v), squares_ = save(squares), q](const Tensor& dq) {
    const std::vector<Tensor> of{x_.get(), u_.get(), v_.get(), squares_.get()};
    const Composition applied = [q](const std::vector<Var>& in) {
      return std::vector<Var>{without_rest(in[0], in[1], in[2], in[3], Var(q))};
    };
    const Tensor y = solved(of[0], of[1], of[2], of[3], dq);
    std::vector<Tensor> all = first_gradients_of_composition(applied, of, {ashlar::neg(y)}, Needs(0b1111));
    all.push_back(y);
    return all;
  };
  return record("svd_lowrank", {x, u, v, squares, c}, q, back);
}

}  // namespace

template <class T>
T svd_lowrank_grad(const T& du, const T& ds, const T& dv, const T& x, const T& u, const T& s, const T& v) {
  if (is_narrow(s)) {
    return svd_lowrank_grad(wide(du), wide(ds), wide(dv), wide(x), wide(u), wide(s), wide(v)).to(s.dtype());
  }
  const T along = s.unsqueeze(-2), across = s.unsqueeze(-1), squares = mul(along, along);
  const T apart = mul(sub(along, across), add(along, across));
  const T of_u = matmul(u, du, {.transpose_a = true}), of_v = matmul(v, dv, {.transpose_a = true});
  const T turned = add(mul(quotient(skew(of_u), apart), along), mul(across, quotient(skew(of_v), apart)));
  // p and q: by q's equation alone, (1 - rᵀ r / s²) q = dv / s + rᵀ du / s² of what lies outside.
  const T a = sub(du, matmul(u, of_u)), b = sub(dv, matmul(v, of_v));
  const T q = solved(x, u, v, squares, add(quotient(b, along), quotient(rest_times(x, v, a), squares)));
  const T p = quotient(add(a, times_rest(x, u, q)), along);
  const T left = add(add(matmul(u, turned), mul(u, ds.unsqueeze(-2))), p);
  return add(matmul(left, v, {.transpose_b = true}), matmul(u, q, {.transpose_b = true}));
}

template Tensor svd_lowrank_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                 const Tensor&, const Tensor&);
template Var svd_lowrank_grad(const Var&, const Var&, const Var&, const Var&, const Var&, const Var&, const Var&);
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
