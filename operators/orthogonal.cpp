// qr, svd and svd_lowrank: all of products, and of a few kernels for blocks of vectors (generators/linear_algebra.cpp).
// Vectors are rows here, so that a thread's neighbours read neighbouring elements.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/linear_algebra.h"
#include "ashlar/ops/matmul.h"
#include "ashlar/ops/random.h"
#include "generators/linear_algebra.h"
#include "operators/linear_algebra.h"
#include "runtime/forms/check.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr int64_t kPanel = kFactorPanel;  // vectors that are made orthogonal at once
constexpr int64_t kMostJacobi = 128;      // rows of a matrix whose eigenvectors Jacobi's rotations find

/// x = l q, q with orthonormal rows, l lower triangular with no negative element on its diagonal.
struct Orthogonal {
  Tensor l, q;
};
enum class Wanted : uint8_t { both, rows };  ///< of them: rows are q alone, l is left undefined

Tensor gram_of(const Tensor& x) {
  const int64_t rows = x.size(1);
  const Tensor g = Tensor::empty({x.size(0), rows * rows}, DType::f64, x.device());
  launch(kernels::gram, {.elements = {DType::f32}}, std::span(&x, 1), {}, std::span(&g, 1));
  return g.reshape({x.size(0), rows, rows});
}

/// Squares of lengths against which what is left of a row is small: `least` of them.
struct Rounding {
  Tensor whole;
  double least = 0;
};

/// Of at most kPanel rows: Cholesky's factor of x xᵀ, l of f64, and q = l⁻¹ x. What rounding alone leaves of a row that
/// depends on those before it (2^-22 of its length, without `left`) is 0 in l, and noise, by its seed, in its place in
/// q: x = l q still. The rows of q are orthogonal to within 2^-53 of the condition number's square, so a second time
/// makes them so to f32's last digits.
Orthogonal wide_factors(const Tensor& x, int64_t seed, const Rounding& left = {}) {
  const Tensor gram = gram_of(x), whole = left.whole.defined() ? left.whole : diagonal(gram);
  const auto square = [&] { return Tensor::empty(gram.shape(), DType::f64, x.device()); };
  const std::array factors{square(), square()};  // l and its inverse
  const std::array<Scalar, 2> dropped{left.whole.defined() ? left.least : 0x1p-44, 0};
  launch(kernels::cholesky_block, {.elements = {DType::f64}}, std::array{gram, whole}, dropped, factors);
  const Tensor q = Tensor::empty(x.shape(), DType::f32, x.device());
  const std::array<Scalar, 1> filled{seed};
  launch(kernels::filled_product, {.elements = {DType::f64, DType::f32}}, std::array{factors[1], x}, filled,
         std::span(&q, 1));
  return {factors[0], q};
}

Orthogonal orthogonal_once(const Tensor& x, int64_t seed, Wanted wanted, const Rounding& left = {}) {
  const auto [l, q] = wide_factors(x, seed, left);
  return {wanted == Wanted::both ? l.to(DType::f32) : Tensor(), q};
}

/// x's memory is free for what follows where the caller gives it away.
Orthogonal orthogonal_twice(Tensor x, int64_t seed, Wanted wanted) {
  const Orthogonal first = orthogonal_once(x, seed, wanted);
  x = Tensor();
  const Orthogonal second = orthogonal_once(first.q, seed + 1, wanted);
  return {wanted == Wanted::both ? matmul(first.l, second.l) : Tensor(), second.q};
}

/// The rows of x [count, rows, columns], rows <= columns: panels one after the other, each freed of those before it.
Orthogonal orthogonal(Tensor x, Wanted wanted) {
  const int64_t rows = x.size(1);
  const bool is_l_wanted = wanted == Wanted::both;
  if (rows <= kPanel) return orthogonal_twice(std::move(x), 1, wanted);
  const Orthogonal all{is_l_wanted ? Tensor::zeros({x.size(0), rows, rows}, DType::f32, x.device()) : Tensor(),
                       Tensor::empty(x.shape(), DType::f32, x.device())};
  for (int64_t at = 0; at < rows; at += kPanel) {
    const int64_t end = std::min(at + kPanel, rows);
    const Tensor panel = x.slice(1, at, end);
    const auto part_of_l = [&](int64_t from, int64_t to) { return all.l.slice(1, at, end).slice(2, from, to); };
    if (at == 0) {
      const Orthogonal first = orthogonal_twice(panel, 1, wanted);
      all.q.slice(1, at, end).copy_(first.q);
      if (is_l_wanted) part_of_l(at, end).copy_(first.l);
      continue;
    }
    // panel = a before + l q: what is left of it is orthogonal to digits of its own, of which there may be few; noise
    // that fills the last rows of a square matrix loses some, too. Three times are enough for both.
    const Tensor before = all.q.slice(1, 0, at);
    Tensor a, l, q = panel;
    const Tensor lengths = diagonal(gram_of(panel));  // 2^-19 of each is what f32's products leave of nothing
    for (int64_t round = 0; round < 3; round++) {
      const Tensor along = matmul(q, before, {.transpose_b = true});
      const Orthogonal next = orthogonal_once(sub(q, matmul(along, before)), at + round, wanted,
                                              round == 0 ? Rounding{lengths, 0x1p-38} : Rounding{});
      q = next.q;
      if (!is_l_wanted) continue;
      a = round == 0 ? along : add(a, matmul(l, along));
      l = round == 0 ? next.l : matmul(l, next.l);
    }
    all.q.slice(1, at, end).copy_(q);
    if (!is_l_wanted) continue;
    part_of_l(0, at).copy_(a);
    part_of_l(at, end).copy_(l);
  }
  return all;
}

/// What spans the same as the rows of x, well enough to go on with.
Tensor same_span(const Tensor& x) { return x.size(1) <= kPanel ? wide_factors(x, 1).q : orthogonal(x, Wanted::rows).q; }

/// x [count, rows, columns] = uᵀ… of its first `rank` singular values, rows <= columns: u [count, rows, rank],
/// s [count, rank], v [count, rank, columns].
struct Singular {
  Tensor u, s, v;
};
Singular singular(const Tensor& x, int64_t rank) {
  const int64_t count = x.size(0), n = x.size(1);
  const Tensor gram = gram_of(x), roots = Tensor::empty({count, n}, DType::f32, x.device());
  const Tensor vectors = Tensor::empty({count, n, n}, DType::f32, x.device());
  // Off the diagonal less is left than f32's last digits after log₂ n sweeps and a few; the kernel knows when earlier.
  int sweeps = 4;
  for (int64_t size = 1; size < n; size *= 2) sweeps++;
  const std::array<Scalar, 1> scalars{sweeps};
  const KernelInfo& kernel = n <= kFactorTurned ? kernels::jacobi_of_few : kernels::jacobi_of_many;
  launch(kernel, {.elements = {DType::f64}}, std::span(&gram, 1), scalars, std::array{roots, vectors});
  const Tensor u = vectors.slice(2, 0, rank);
  // uᵀ x = s v: rows that are orthogonal, the longest first.
  return {u.contiguous(), roots.slice(1, 0, rank).contiguous(),
          orthogonal(matmul(u, x, {.transpose_a = true}), Wanted::rows).q};
}

Tensor zeros(const Matrices& matrices, int64_t rows, int64_t columns) {
  return Tensor::zeros({matrices.count, rows, columns}, DType::f32, matrices.x.device());
}

void require(const char* operation, bool holds, const std::string& came, const std::string& needed,
             const char* remedy) {
  if (!holds) throw ValueError(operation, came, needed, remedy);
}

}  // namespace

QrResult qr(const Tensor& x) try {
  forms::key_of(kernels::qr, {.inputs = std::span(&x, 1)});
  const Matrices matrices(kernels::qr, x);
  const int64_t size = std::min(matrices.rows, matrices.columns);
  if (x.numel() == 0) {
    return {matrices.unfolded(zeros(matrices, matrices.rows, size)),
            matrices.unfolded(zeros(matrices, size, matrices.columns))};
  }
  const Tensor columns = transposed(matrices.x).slice(1, 0, size).contiguous();
  const auto [l, q] = orthogonal(columns, Wanted::both);
  const Tensor r = zeros(matrices, size, matrices.columns);
  r.slice(2, 0, size).copy_(transposed(l));
  if (size < matrices.columns) r.slice(2, size).copy_(matmul(q, matrices.x.slice(2, size)));
  return {matrices.unfolded(transposed(q).contiguous()), matrices.unfolded(r)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("qr");
}

SvdResult svd(const Tensor& x) try {
  forms::key_of(kernels::svd, {.inputs = std::span(&x, 1)});
  const Matrices matrices(kernels::svd, x);
  const int64_t size = std::min(matrices.rows, matrices.columns);
  require("svd", size <= kMostJacobi, "x: " + x.str(),
          "at most " + std::to_string(kMostJacobi) + " rows or as many columns",
          "Call svd_lowrank() for the largest singular values");
  if (x.numel() == 0) {
    return {matrices.unfolded(zeros(matrices, matrices.rows, size)),
            matrices.unfolded(Tensor::zeros({matrices.count, size}, DType::f32, x.device())),
            matrices.unfolded(zeros(matrices, size, matrices.columns))};
  }
  const bool is_wide = matrices.rows <= matrices.columns;
  const auto [u, s, v] = singular((is_wide ? matrices.x : transposed(matrices.x)).contiguous(), size);
  const Tensor values = matrices.unfolded(s);
  if (is_wide) return {matrices.unfolded(u), values, matrices.unfolded(v)};
  return {matrices.unfolded(transposed(v).contiguous()), values, matrices.unfolded(transposed(u).contiguous())};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("svd");
}

SvdLowrankResult svd_lowrank(const Tensor& state, const Tensor& x, int64_t rank, int64_t oversampling,
                             int64_t niter) try {
  forms::key_of(kernels::svd_lowrank, {.inputs = std::array{state, x}});
  check_philox_state("svd_lowrank", state);
  const Matrices matrices(kernels::svd_lowrank, x);
  const int64_t size = std::min(matrices.rows, matrices.columns);
  const std::string came = "rank = " + std::to_string(rank) + ", oversampling = " + std::to_string(oversampling) +
                           ", niter = " + std::to_string(niter) + ", x: " + x.str();
  require("svd_lowrank", rank >= 1 && rank <= size, came, "a rank from 1 to the number of rows and of columns",
          "Lower the rank");
  require("svd_lowrank", oversampling >= 0 && niter >= 0, came, "an oversampling and a niter of 0 or more",
          "Leave them out");
  const int64_t samples = std::min(rank + std::min(oversampling, size), size);
  require("svd_lowrank", samples <= kMostJacobi, came,
          "a rank with oversampling of at most " + std::to_string(kMostJacobi), "Lower the rank");
  Tensor directions = normal(state, 0, 1, {matrices.count, samples, matrices.columns});
  if (x.numel() == 0) {
    return {matrices.unfolded(zeros(matrices, matrices.rows, rank)),
            matrices.unfolded(Tensor::zeros({matrices.count, rank}, DType::f32, x.device())),
            matrices.unfolded(zeros(matrices, matrices.columns, rank))};
  }
  // Halko, Martinsson and Tropp 2011, algorithms 4.4 and 5.1, of rows: seen by columns, y = (x xᵀ)^niter x directions.
  Tensor y = matmul(directions, matrices.x, {.transpose_b = true});
  directions = Tensor();
  for (int64_t turn = 0; turn < niter; turn++) {
    const Tensor back = matmul(same_span(y), matrices.x);
    y = matmul(same_span(back), matrices.x, {.transpose_b = true});
  }
  const Tensor q = orthogonal(std::move(y), Wanted::rows).q;
  const auto [u, s, v] = singular(matmul(q, matrices.x), rank);
  return {matrices.unfolded(matmul(q, u, {.transpose_a = true})), matrices.unfolded(s),
          matrices.unfolded(transposed(v).contiguous())};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("svd_lowrank");
}

}  // namespace ashlar
