// Gradients of factorisations and of what is solved with them: of 16-bit elements in f32, rounded at the end.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y = l of x = l lᵀ, or with `upper` lᵀ: with P(m) = m's lower triangle, its diagonal halved, and s = l⁻ᵀ P(lᵀ dl) l⁻¹
/// dx = (s + sᵀ) / 2, symmetric as x is (Murray 2016, "Differentiation of the Cholesky decomposition").
template <class T>
T cholesky_grad(const T& dy, const T& y, bool upper);

/// y = solve_triangular(a, b, …), b of `b_shape`: db solves the same with the transpose of a, and of what stands before
/// or behind it da = -db yᵀ or -yᵀ db, or its transpose where aᵀ stood there; a's triangle of it. Returns {da, db}.
template <class T>
std::vector<T> solve_triangular_grad(const T& dy, const T& a, const T& y, const Shape& b_shape, bool upper, bool left,
                                     bool unitriangular, bool transpose, Needs needs);

/// x = q r of at least as many rows as columns: with m = r drᵀ - dqᵀ q, whose lower triangle counts on both sides,
/// dx = (dq + q m) r⁻ᵀ (Walter and Lehmann 2010). Throws AutogradError where x is wider.
template <class T>
T qr_grad(const T& dq, const T& dr, const T& q, const T& r);

/// x = u diag(s) vh, v = vhᵀ: with skew(m) = m - mᵀ and e[i,j] = s[j]² - s[i]²
///   dx = u (skew(uᵀ du) / e diag(s) + diag(s) skew(vᵀ dv) / e + diag(ds)) vh
///        + (1 - u uᵀ) du / s vh + u / s dvh (1 - v vᵀ)
/// (Townsend 2016, "Differentiating the singular value decomposition"). 0 / 0 is 0 there, so what depends on singular
/// values alone has a gradient where some are equal or 0; what depends on their vectors then has none: infinities or
/// NaN.
template <class T>
T svd_grad(const T& du, const T& ds, const T& dvh, const T& u, const T& s, const T& vh);

/// u diag(s) vᵀ, the first singular values of x and their vectors, r = x - u diag(s) vᵀ what they leave: of these as
/// svd_grad() within both subspaces, and from outside of them the columns p[i], q[i] of
///   s[i] p[i] - r q[i] = (1 - u uᵀ) du[i],  s[i] q[i] - rᵀ p[i] = (1 - v vᵀ) dv[i],  as p vᵀ + u qᵀ
/// (Francuz, Schuch and Vanhecke 2023, "Stable and efficient differentiation of tensor network algorithms"), solved by
/// conjugate gradients. There is none where a value of r is as large as one of s.
template <class T>
T svd_lowrank_grad(const T& du, const T& ds, const T& dv, const T& x, const T& u, const T& s, const T& v);

}  // namespace ashlar::recipes
