// cholesky and solve_triangular: the kernels of generators/linear_algebra.cpp on blocks of 64 columns, and products for
// what lies beside them.
#include "operators/linear_algebra.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/linear_algebra.h"
#include "ashlar/ops/matmul.h"
#include "generators/linear_algebra.h"
#include "runtime/forms/check.h"
#include "runtime/forms/promotion.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr int64_t kBlock = kFactorBlock;

/// Rows [first, last) and columns [left, right) of each matrix.
Tensor part(const Tensor& x, int64_t first, int64_t last, int64_t left, int64_t right) {
  return x.slice(1, first, last).slice(2, left, right);
}

/// Of at most kBlock columns.
Tensor factor_of_block(const Tensor& x) {
  const auto square = [&] { return Tensor::empty(x.shape(), DType::f32, x.device()); };
  const std::array factors{square(), square()};  // l and its inverse
  const std::array<Scalar, 2> scalars{0, std::numeric_limits<double>::quiet_NaN()};
  launch(kernels::cholesky_block, {.elements = {DType::f32}}, std::array{x, diagonal(x)}, scalars, factors);
  return factors[0];
}

Tensor solution_of_block(const Tensor& a, const Tensor& b, bool upper, bool unit) {
  const Tensor y = Tensor::empty(b.shape(), DType::f32, b.device());
  const std::array<Scalar, 2> scalars{static_cast<int>(upper), static_cast<int>(unit)};
  launch(kernels::triangular_block, {.elements = {DType::f32}}, std::array{a, b}, scalars, std::span(&y, 1));
  return y;
}

void check_square(const KernelInfo& operation, std::span<const Tensor> inputs, const Matrices& x) {
  if (x.rows == x.columns) return;
  throw forms::shape_error(operation, inputs, "a square matrix, or a batch of them", "Take as many rows as columns");
}

}  // namespace

Matrices::Matrices(const KernelInfo& operation, const Tensor& of) : batch(of.shape()), dtype(of.dtype()) {
  if (of.rank() < 2) {
    throw forms::shape_error(operation, std::span(&of, 1), "a matrix, or a batch of them", "Give it axes by reshape()");
  }
  rows = of.size(-2);
  columns = of.size(-1);
  for (int axis = 0; axis < 2; axis++) batch.erase(batch.rank() - 1);
  count = batch.numel();
  x = forms::as_f32(operation.name, of).reshape({count, rows, columns});
}

Tensor Matrices::unfolded(const Tensor& y) const {
  Shape shape = batch;
  for (int axis = 1; axis < y.rank(); axis++) shape.push_back(y.size(axis));
  return y.reshape(shape).to(dtype);
}

Tensor lower_factor(const Tensor& x) {
  const int64_t n = x.size(1);
  if (x.numel() == 0) return Tensor::empty(x.shape(), DType::f32, x.device());
  if (n <= kBlock) return factor_of_block(x);
  const Tensor l = Tensor::zeros(x.shape(), DType::f32, x.device());
  Tensor rest = x;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t size = std::min(kBlock, n - at), left = n - at;
    const Tensor corner = factor_of_block(part(rest, 0, size, 0, size));
    part(l, at, at + size, at, at + size).copy_(corner);
    if (left == size) break;
    // Below the corner: the rows of l times the corner's transpose are those of x.
    const Tensor below = triangular_solution(corner, transposed(part(rest, size, left, 0, size)), false, false);
    part(l, at + size, n, at, at + size).copy_(transposed(below));
    rest = sub(part(rest, size, left, size, left), matmul(below, below, {.transpose_a = true}));
  }
  return l;
}

Tensor triangular_solution(const Tensor& a, const Tensor& b, bool upper, bool unit) {
  const int64_t n = a.size(1);
  if (b.numel() == 0) return Tensor::empty(b.shape(), DType::f32, b.device());
  if (n <= kBlock) return solution_of_block(a, b, upper, unit);
  const Tensor y = Tensor::empty(b.shape(), DType::f32, b.device());
  Tensor rest = b;  // less what the rows that are known already take away
  for (int64_t done = 0; done < n; done += kBlock) {
    const int64_t size = std::min(kBlock, n - done), left = n - done;
    const int64_t first = upper ? left - size : done, here = upper ? left - size : 0;
    const Tensor known = solution_of_block(part(a, first, first + size, first, first + size),
                                           rest.slice(1, here, here + size), upper, unit);
    y.slice(1, first, first + size).copy_(known);
    if (left == size) break;
    const int64_t from = upper ? 0 : done + size, to = upper ? first : n;
    rest = sub(rest.slice(1, upper ? 0 : size, upper ? here : left),
               matmul(part(a, from, to, first, first + size), known));
  }
  return y;
}

Tensor cholesky(const Tensor& x, bool upper) try {
  forms::key_of(kernels::cholesky, {.inputs = std::span(&x, 1)});
  const Matrices matrices(kernels::cholesky, x);
  check_square(kernels::cholesky, std::span(&x, 1), matrices);
  if (!upper) return matrices.unfolded(lower_factor(matrices.x));
  return matrices.unfolded(transposed(lower_factor(transposed(matrices.x))).contiguous());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("cholesky");
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular,
                        bool transpose) try {
  const std::array inputs{a, b};
  forms::key_of(kernels::solve_triangular, {.inputs = inputs});
  const Matrices given(kernels::solve_triangular, a), sides(kernels::solve_triangular, b);
  check_square(kernels::solve_triangular, inputs, given);
  if (given.rows != (left ? sides.rows : sides.columns)) {
    throw forms::shape_error(
        kernels::solve_triangular, inputs, left ? "as many rows of b as a has" : "as many columns of b as a has",
        left ? "Give left = false where x stands before a" : "Leave left out where a stands before x");
  }
  const Shape batch = broadcast("solve_triangular", given.batch, sides.batch);
  const auto whole = [&](const Matrices& own) {
    Shape from = own.batch, to = batch;
    for (const int64_t size : {own.rows, own.columns}) from.push_back(size), to.push_back(size);
    Matrices all(kernels::solve_triangular, own.x.reshape(from).broadcast_to(to));
    all.dtype = own.dtype;
    return all;
  };
  const Matrices of = whole(given), right = whole(sides);
  // x a = b is aᵀ xᵀ = bᵀ, and an upper triangle's transpose is a lower one.
  const bool turned = transpose == left;
  const Tensor matrix = turned ? transposed(of.x) : of.x;
  const Tensor known = left ? right.x : transposed(right.x);
  const Tensor x = triangular_solution(matrix, known, upper != turned, unitriangular);
  return right.unfolded(left ? x : transposed(x).contiguous());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("solve_triangular");
}

}  // namespace ashlar
