// Triangular factors and systems: sizes around a kernel's block of 64 columns, batches, matrices that aren't positive
// definite, and all ways to give a triangle. References are the textbook's loops in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/matrices.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

// x xᵀ / k + diagonal I, of x [n, k], rounded once: positive definite, and well-conditioned, where `diagonal` is 1.
template <class T>
T from_square(const T& given, double diagonal) {
  using namespace ad;
  const T x = given.to(DType::f32);
  const double scale = 1 / static_cast<double>(std::max<int64_t>(x.shape().back(), 1));
  const int64_t n = x.shape()[x.rank() - 2];
  const T identity = T(ashlar::affine(Tensor::eye(n, {}, DType::f32, x.device()), diagonal, 0.0));
  return add(affine(matmul(x, x, {.transpose_b = true}), scale, 0.0), identity).to(given.dtype());
}
Matrix from_square(const Matrix& x, double diagonal) {
  Matrix y = product(x, transposed(x));
  for (double& value : y.values) value /= static_cast<double>(std::max<int64_t>(x.columns, 1));
  for (int64_t i = 0; i < y.rows; i++) y(i, i) += diagonal;
  return y;
}

// The lower factor; NaN from the first column on whose pivot isn't positive.
Matrix factor(const Matrix& x) {
  Matrix l(x.rows, x.rows);
  for (int64_t j = 0; j < x.rows; j++) {
    for (int64_t i = j; i < x.rows; i++) {
      double rest = x(i, j);
      for (int64_t k = 0; k < j; k++) rest -= l(i, k) * l(j, k);
      if (i == j) {
        l(j, j) = rest > 0 ? std::sqrt(rest) : std::numeric_limits<double>::quiet_NaN();
      } else {
        l(i, j) = rest / l(j, j);
      }
    }
  }
  return l;
}

struct Factoring {
  bool upper = false;
  double diagonal = 1;
};

void add_factors(const Factoring& how, const Shape& shape, Layout layout = Layout::dense) {
  const bool fails = how.diagonal <= 0;
  Case item{.kernel = "cholesky",
            .name = shape.str() + (how.upper ? ", upper" : "") + (fails ? ", indefinite" : "") +
                    (layout == Layout::dense ? "" : ", a view"),
            .inputs = {{.shape = shape, .layout = layout}},
            .dtypes = {DType::f32},
            .call =
                [how](Tensors in) {
                  return std::vector{cholesky(from_square(in[0], how.diagonal), how.upper).to(DType::f32)};
                },
            .reference =
                [how](HostTensors in) {
                  const Expected y = each_matrix(in[0], [&](const Matrix& x) {
                    const Matrix l = factor(from_square(x, how.diagonal));
                    return how.upper ? transposed(l) : l;
                  });
                  return loosened({y}, rounding_of(in[0].dtype));
                },
            .tolerance = fails ? terms(1e-3) : terms(),  // the last pivots before one below 0 are small
            .fixed_shapes = true,
            .is_drawn = !fails};
  if (!fails && shape.numel() > 0 && shape.back() < 8) {
    item.dtypes = kFloats;
    item.differentiable = [how](Vars in) { return ad::cholesky(from_square(in[0], how.diagonal), how.upper); };
  } else {
    item.vary = [](const Case& like, Random& random) {
      Case other = like;
      other.inputs[0].shape = drawn_matrices(random, 200, 60);
      return other;
    };
  }
  add_case(item);
}

// A triangle whose inverse is of moderate size: 2 + x[i,i] / n on the diagonal, x[i,j] / n beside it. What lies in the
// other triangle isn't read.
template <class T>
T tame(const T& x) {
  using namespace ad;
  const int64_t n = x.shape().back();
  const T twice = T(ashlar::affine(Tensor::eye(n, {}, DType::f32, x.device()), 2.0, 0.0));
  return add(affine(x.to(DType::f32), 1 / static_cast<double>(std::max<int64_t>(n, 1)), 0.0), twice).to(x.dtype());
}
Matrix tame(const Matrix& x) {
  Matrix y = x;
  for (double& value : y.values) value /= static_cast<double>(x.rows);
  for (int64_t i = 0; i < y.rows; i++) y(i, i) += 2;
  return y;
}

struct Solving {
  bool upper = false, left = true, unitriangular = false, transpose = false;
};

Matrix solution(const Solving& how, const Matrix& of, const Matrix& b) {
  Matrix a = of;
  for (int64_t i = 0; i < a.rows; i++) {
    for (int64_t j = 0; j < a.columns; j++) {
      if (how.upper ? j < i : j > i) a(i, j) = 0;
    }
    if (how.unitriangular) a(i, i) = 1;
  }
  if (how.transpose) a = transposed(a);
  const bool is_upper = how.upper != how.transpose;
  if (!how.left) return transposed(solution({.upper = !is_upper}, transposed(a), transposed(b)));
  Matrix x = b;
  for (int64_t step = 0; step < a.rows; step++) {
    const int64_t i = is_upper ? a.rows - 1 - step : step;
    for (int64_t c = 0; c < b.columns; c++) {
      for (int64_t k = is_upper ? i + 1 : 0; k < (is_upper ? a.rows : i); k++) x(i, c) -= a(i, k) * x(k, c);
      x(i, c) /= a(i, i);
    }
  }
  return x;
}

void add_solutions(const Solving& how, const Shape& a, const Shape& b, Layout layout = Layout::dense) {
  const std::string name = a.str() + " and " + b.str() + (how.upper ? ", upper" : "") + (how.left ? "" : ", right") +
                           (how.unitriangular ? ", unit" : "") + (how.transpose ? ", transposed" : "") +
                           (layout == Layout::dense ? "" : ", views");
  Case item{.kernel = "solve_triangular",
            .name = name,
            .inputs = {{.shape = a, .layout = layout}, {.shape = b, .layout = layout}},
            .dtypes = {DType::f32},
            .call =
                [how](Tensors in) {
                  return std::vector{
                      solve_triangular(tame(in[0]), in[1], how.upper, how.left, how.unitriangular, how.transpose)
                          .to(DType::f32)};
                },
            .reference =
                [how](HostTensors in) {
                  const Expected y = each_pair(
                      in[0], in[1], [&](const Matrix& a, const Matrix& b) { return solution(how, tame(a), b); });
                  return loosened({y}, rounding_of(in[0].dtype));
                },
            .tolerance = terms(),
            .fixed_shapes = true};
  if (a.numel() > 0 && b.numel() > 0 && a.back() < 8) {
    item.dtypes = kFloats;
    item.differentiable = [how](Vars in) {
      return ad::solve_triangular(tame(in[0]), in[1], how.upper, how.left, how.unitriangular, how.transpose);
    };
    item.differentiated = {0, 1};
  } else {
    item.vary = [how](const Case& like, Random& random) {
      Case other = like;
      Shape& sides = other.inputs[1].shape = drawn_matrices(random, how.left ? 200 : 100, how.left ? 100 : 200);
      const int last = sides.rank() - 1, n = static_cast<int>(sides[how.left ? last - 1 : last]);
      Shape& square = other.inputs[0].shape = sides;
      square[last] = square[last - 1] = n;
      if (random.chance(0.3)) square = {n, n};
      return other;
    };
  }
  add_case(item);
}

}  // namespace

void add_linear_algebra_cases() {
  for (const bool upper : {false, true}) {
    add_factors({.upper = upper}, {5, 5});
    add_factors({.upper = upper}, {2, 3, 4, 7});
    add_factors({.upper = upper}, {2, 100, 100});
  }
  for (const int64_t n : {0, 1, 2, 31, 63, 64, 65, 128, 200}) add_factors({}, {n, 40});
  add_factors({}, {0, 4, 4});
  add_factors({}, {70, 4, 3});
  add_factors({}, {3, 20, 20}, Layout::transposed);
  add_factors({}, {3, 70, 20}, Layout::stepped);
  // Of rank 2 and less than nothing beside it: two columns are there, or none.
  add_factors({.diagonal = -0.05}, {5, 2});
  add_factors({.diagonal = -0.05}, {3, 80, 66});
  add_factors({.diagonal = -100}, {2, 7, 7});

  for (int ways = 0; ways < 16; ways++) {
    const Solving how{(ways & 1) != 0, (ways & 2) == 0, (ways & 4) != 0, (ways & 8) != 0};
    const auto sides = [&](int64_t n, int64_t columns) { return how.left ? Shape{n, columns} : Shape{columns, n}; };
    add_solutions(how, {6, 6}, sides(6, 3));
    add_solutions(how, {150, 150}, sides(150, 5));
  }
  for (const int64_t n : {0, 1, 31, 64, 65, 129}) add_solutions({}, {n, n}, {n, 40});
  for (const int64_t columns : {0, 1, 31, 33, 300}) add_solutions({}, {20, 20}, {20, columns});
  add_solutions({}, {2, 3, 4, 4}, {2, 3, 4, 5});
  add_solutions({.upper = true}, {2, 1, 4, 4}, {3, 4, 5});
  add_solutions({.left = false}, {4, 4}, {3, 2, 4});
  add_solutions({}, {0, 4, 4}, {0, 4, 2});
  add_solutions({.upper = true, .left = false}, {3, 20, 20}, {3, 5, 20}, Layout::transposed);
  add_solutions({}, {3, 70, 70}, {3, 70, 9}, Layout::offset);
}

}  // namespace ashlar::conformance
