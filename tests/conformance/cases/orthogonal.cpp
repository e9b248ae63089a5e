// qr, svd and svd_lowrank by what they promise: what the factors' product is, and that they are orthogonal, triangular
// and in order. So matrices without full rank, whose factors aren't unique, are checked like others. Singular values
// are compared with those of one-sided Jacobi (Hestenes 1958) in double.
#include <algorithm>
#include <cmath>
#include <functional>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/matrices.h"

namespace ashlar::conformance {
namespace {

Tensor gram(const Tensor& x) { return matmul(x, x, {.transpose_a = true}); }

Expected like(const Expected& y, double value, bool on_diagonal, double magnitude) {
  Expected result{y.shape, std::vector<double>(y.values.size(), on_diagonal ? 0 : value), {}};
  const int64_t columns = y.shape.back(), rows = y.shape[y.shape.rank() - 2];
  for (int64_t at = 0; on_diagonal && at < y.shape.numel(); at++) {
    if (at % columns == at / columns % rows) result.values[static_cast<size_t>(at)] = value;
  }
  result.magnitudes.assign(y.values.size(), magnitude);
  return result;
}

int64_t rank_of(const Shape& shape) { return std::min(shape.back(), shape[shape.rank() - 2]); }

/// Matrices of that size, one for each of a batch, filled with 0.
Expected square_of(const HostTensor& x, int64_t rows, int64_t columns) {
  Expected y{batch_of(x.shape), {}, {}};
  for (const int64_t size : {rows, columns}) y.shape.push_back(size);
  y.values.assign(static_cast<size_t>(y.shape.numel()), 0.0);
  return y;
}
Expected identity_of(const HostTensor& x, int64_t size) { return like(square_of(x, size, size), 1, true, 1); }

/// x itself, measured against its largest element and as many terms as a product for it has.
Expected itself(const HostTensor& x) {
  const int64_t terms = rank_of(x.shape);
  Expected y{x.shape, x.values, {}};
  const int64_t each = x.shape.back() * x.shape[x.shape.rank() - 2];
  for (size_t begin = 0; begin < x.values.size(); begin += static_cast<size_t>(each)) {
    double largest = 0;
    for (int64_t i = 0; i < each; i++) largest = std::max(largest, std::abs(x.values[begin + static_cast<size_t>(i)]));
    y.magnitudes.insert(y.magnitudes.end(), static_cast<size_t>(each),
                        largest * std::sqrt(static_cast<double>(std::max<int64_t>(terms, 1))));
  }
  return y;
}

struct Factors {
  Matrix u;
  std::vector<double> s;
  Matrix vh;
};

// x = u diag(s) vh: x's columns turned pairwise until they are orthogonal are u diag(s).
Factors factors_of(const Matrix& of) {
  if (of.rows < of.columns) {
    const Factors turned = factors_of(transposed(of));
    return {transposed(turned.vh), turned.s, transposed(turned.u)};
  }
  Matrix x = of;
  for (int sweep = 0; sweep < 40; sweep++) {
    double largest = 0;
    for (int64_t p = 0; p < x.columns; p++) {
      for (int64_t q = p + 1; q < x.columns; q++) {
        double pp = 0, qq = 0, pq = 0;
        for (int64_t i = 0; i < x.rows; i++) {
          pp += x(i, p) * x(i, p);
          qq += x(i, q) * x(i, q);
          pq += x(i, p) * x(i, q);
        }
        if (pq == 0 || std::abs(pq) < 1e-300) continue;
        largest = std::max(largest, std::abs(pq) / std::sqrt(pp * qq));
        const double theta = (qq - pp) / (2 * pq);
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(1 + theta * theta));
        const double cosine = 1 / std::sqrt(1 + t * t), sine = t * cosine;
        for (int64_t i = 0; i < x.rows; i++) {
          const double a = x(i, p), b = x(i, q);
          x(i, p) = cosine * a - sine * b;
          x(i, q) = sine * a + cosine * b;
        }
      }
    }
    if (largest < 1e-14) break;
  }
  std::vector<std::pair<double, int64_t>> order;
  for (int64_t j = 0; j < x.columns; j++) {
    double square = 0;
    for (int64_t i = 0; i < x.rows; i++) square += x(i, j) * x(i, j);
    order.emplace_back(std::sqrt(square), j);
  }
  std::ranges::sort(order, std::greater<>());
  Factors result{Matrix(x.rows, x.columns), {}, {}};
  Matrix inverse(x.columns, x.columns);
  for (int64_t k = 0; k < x.columns; k++) {
    const auto [value, from] = order[static_cast<size_t>(k)];
    result.s.push_back(value);
    inverse(k, k) = 1 / value;
    for (int64_t i = 0; i < x.rows; i++) result.u(i, k) = x(i, from) / value;
  }
  result.vh = product(inverse, product(transposed(result.u), of));
  return result;
}

/// The first `count` of each matrix. `relative`: each is measured against itself, else against the largest.
Expected singular_values_of(const HostTensor& x, int64_t count, bool relative) {
  Expected y{batch_of(x.shape), {}, {}};
  const int64_t matrices = y.shape.numel();
  y.shape.push_back(count);
  for (int64_t n = 0; n < matrices && count > 0; n++) {
    const std::vector<double> values = factors_of(matrix_of(x, n)).s;
    for (int64_t k = 0; k < count; k++) {
      y.values.push_back(values[static_cast<size_t>(k)]);
      y.magnitudes.push_back(relative ? values[static_cast<size_t>(k)] : values[0]);
    }
  }
  return y;
}

std::string name_of(const Input& x, const std::string& what) {
  return x.shape.str() + (what.empty() ? "" : ", " + what);
}

void add_qr(const Input& x, const std::string& what = {}) {
  add_case({.kernel = "qr",
            .name = name_of(x, what),
            .inputs = {x},
            .dtypes = {DType::f32},
            .call =
                [](Tensors in) {
                  const auto [q, r] = qr(in[0]);
                  const Tensor diagonal = mul(r, Tensor::eye(r.size(-2), r.size(-1), DType::f32, r.device()));
                  return std::vector{matmul(q, r), gram(q), tril(r, -1), relu(neg(diagonal))};
                },
            .reference =
                [](HostTensors in) {
                  const HostTensor& x = in[0];
                  const int64_t size = rank_of(x.shape);
                  const Expected none = like(square_of(x, size, x.shape.back()), 0, false, 0);
                  return std::vector{itself(x), identity_of(x, size), none, none};
                },
            .tolerance = terms(),
            .fixed_shapes = true,
            .vary =
                [](const Case& like, Random& random) {
                  Case other = like;
                  other.inputs[0].shape = drawn_matrices(random, 200, 200);
                  return other;
                }});
}

// q (r ∘ r) of x + 3, which has one value and gradients of both.
template <class T>
T shifted(const T& x) {
  using namespace ad;
  const Tensor eye = Tensor::eye(x.shape()[x.rank() - 2], x.shape().back(), DType::f32, x.device());
  return add(x, T(ashlar::affine(eye, 3.0, 0.0).to(x.dtype())));
}

template <class T>
T remade_of_factors(const T& x) {
  using namespace ad;
  const auto [q, r] = qr(shifted(x));
  const T wide = r.to(DType::f32);
  return matmul(q.to(DType::f32), mul(wide, wide));
}

// Gram and Schmidt's, in double.
Matrix factors_product(Matrix x) {
  Matrix squares(x.columns, x.columns);
  for (int64_t i = 0; i < std::min(x.rows, x.columns); i++) x(i, i) += 3;
  for (int64_t j = 0; j < x.columns; j++) {
    for (int64_t k = 0; k <= j; k++) {
      double along = 0;
      for (int64_t i = 0; i < x.rows; i++) along += x(i, k) * x(i, j);
      if (k == j) along = std::sqrt(along);
      for (int64_t i = 0; i < x.rows; i++) x(i, j) = k == j ? x(i, j) / along : x(i, j) - along * x(i, k);
      squares(k, j) = along * along;
    }
  }
  return product(x, squares);
}

void add_qr_gradient(const Shape& shape) {
  add_case({.kernel = "qr",
            .name = shape.str() + ", both factors",
            .inputs = {{.shape = shape, .values = {.low = -1, .high = 1}}},
            .dtypes = kFloats,
            .call = [](Tensors in) { return std::vector{remade_of_factors(in[0])}; },
            .reference =
                [](HostTensors in) {
                  const Shape batch = batch_of(in[0].shape);
                  std::vector<Matrix> results;
                  for (int64_t n = 0; n < batch.numel(); n++) results.push_back(factors_product(matrix_of(in[0], n)));
                  return loosened({stacked(batch, results, {0, 0})}, rounding_of(in[0].dtype));
                },
            .tolerance = terms(),
            .differentiable = [](Vars in) { return remade_of_factors(in[0]); },
            .fixed_shapes = true,
            .is_drawn = false});
}

void add_svd(const Input& x, const std::string& what = {}) {
  add_case({.kernel = "svd",
            .name = name_of(x, what),
            .inputs = {x},
            .dtypes = {DType::f32},
            .call =
                [](Tensors in) {
                  const auto [u, s, vh] = svd(in[0]);
                  return std::vector{matmul(mul(u, s.unsqueeze(-2)), vh), gram(u), gram(vh.transpose(-2, -1)), s};
                },
            .reference =
                [](HostTensors in) {
                  const HostTensor& x = in[0];
                  const int64_t size = rank_of(x.shape);
                  if (size > 128) throw ValueError("svd", "more than 128", "at most 128", "svd_lowrank()");
                  return std::vector{itself(x), identity_of(x, size), identity_of(x, size),
                                     singular_values_of(x, size, false)};
                },
            .tolerance = terms(),
            .fixed_shapes = true,
            .vary =
                [](const Case& like, Random& random) {
                  Case other = like;
                  other.inputs[0].shape = drawn_matrices(random, 100, 140);
                  return other;
                }});
}

// x + diag(3, 6, 9, …), whose singular values are apart.
template <class T>
T spread(const T& x) {
  using namespace ad;
  const int64_t columns = x.shape().back();
  const Tensor eye = Tensor::eye(x.shape()[x.rank() - 2], columns, DType::f32, x.device());
  return add(x, T(ashlar::mul(eye, Tensor::arange(3, 3 * columns + 1, 3, DType::f32, x.device())).to(x.dtype())));
}
Matrix spread(Matrix x) {
  for (int64_t i = 0; i < std::min(x.rows, x.columns); i++) x(i, i) += 3 * static_cast<double>(i + 1);
  return x;
}

template <class T>
struct WideFactors {
  T u, s, vh;
};
template <class T>
WideFactors<T> wide_factors(const T& x) {
  using namespace ad;
  const auto [u, s, vh] = svd(x);
  return {u.to(DType::f32), s.to(DType::f32), vh.to(DType::f32)};
}
template <class T>
WideFactors<T> first_factors(const Tensor& state, const T& x, int64_t rank) {
  using namespace ad;
  const auto [u, s, v] = svd_lowrank(state, x, rank);
  return {u.to(DType::f32), s.to(DType::f32), v.transpose(-2, -1).to(DType::f32)};
}

// Functions of a matrix's factors that don't depend on the signs of its singular vectors.
struct OfValues {
  static constexpr const char* name = "values";
  template <class T>
  static T of(const WideFactors<T>& x) {
    return x.s.unsqueeze(-2);
  }
  static Matrix of(const Factors& x) {
    Matrix y(1, static_cast<int64_t>(x.s.size()));
    y.values = x.s;
    return y;
  }
};

Matrix weighted(Matrix u, const std::vector<double>& weights) {
  for (int64_t i = 0; i < u.rows; i++) {
    for (int64_t k = 0; k < u.columns; k++) u(i, k) *= weights[static_cast<size_t>(k)];
  }
  return u;
}

struct OfLeftVectors {
  static constexpr const char* name = "left vectors";
  template <class T>
  static T of(const WideFactors<T>& x) {
    using namespace ad;
    const auto& [u, s, vh] = x;
    return matmul(mul(u, s.unsqueeze(-2)), u, {.transpose_b = true});
  }
  static Matrix of(const Factors& x) { return product(weighted(x.u, x.s), transposed(x.u)); }
};

struct OfRightVectors {
  static constexpr const char* name = "right vectors";
  template <class T>
  static T of(const WideFactors<T>& x) {
    using namespace ad;
    const auto& [u, s, vh] = x;
    return matmul(mul(vh, s.unsqueeze(-1)), vh, {.transpose_a = true});
  }
  static Matrix of(const Factors& x) { return product(weighted(transposed(x.vh), x.s), x.vh); }
};

struct OfAllFactors {
  static constexpr const char* name = "all factors";
  template <class T>
  static T of(const WideFactors<T>& x) {
    using namespace ad;
    const auto& [u, s, vh] = x;
    return matmul(mul(u, mul(s, s).unsqueeze(-2)), vh);
  }
  static Matrix of(const Factors& x) { return product(weighted(weighted(x.u, x.s), x.s), x.vh); }
};

template <class Function>
void add_svd_gradient(const Shape& shape) {
  add_case({.kernel = "svd",
            .name = shape.str() + ", " + Function::name,
            .inputs = {{.shape = shape, .values = {.low = -1, .high = 1}}},
            .dtypes = kFloats,
            .call = [](Tensors in) { return std::vector{Function::of(wide_factors(spread(in[0])))}; },
            .reference =
                [](HostTensors in) {
                  const Shape batch = batch_of(in[0].shape);
                  std::vector<Matrix> results;
                  for (int64_t n = 0; n < batch.numel(); n++) {
                    results.push_back(Function::of(factors_of(spread(matrix_of(in[0], n)))));
                  }
                  return loosened({stacked(batch, results, {0, 0})}, rounding_of(in[0].dtype));
                },
            .tolerance = terms(),
            .differentiable = [](Vars in) { return Function::of(wide_factors(spread(in[0]))); },
            .fixed_shapes = true,
            .is_drawn = false});
}

/// The first of them.
Factors first_of(const Factors& all, int64_t rank) {
  Factors first{Matrix(all.u.rows, rank), {all.s.begin(), all.s.begin() + rank}, Matrix(rank, all.vh.columns)};
  for (int64_t k = 0; k < rank; k++) {
    for (int64_t i = 0; i < all.u.rows; i++) first.u(i, k) = all.u(i, k);
    for (int64_t j = 0; j < all.vh.columns; j++) first.vh(k, j) = all.vh(k, j);
  }
  return first;
}

// Of as many samples as x has rows or columns, so that the factors are exact; what the first ones leave isn't small.
template <class Function>
void add_lowrank_gradient(const Shape& shape, int64_t rank) {
  add_case(
      {.kernel = "svd_lowrank",
       .name = std::to_string(rank) + " of " + shape.str() + ", " + Function::name,
       .inputs = {{.shape = shape, .values = {.low = -1, .high = 1}},
                  {.shape = {2}, .values = {Pattern::integers, 0, 0x1p40}, .dtype = DType::i64}},
       .dtypes = kFloats,
       .call = [=](Tensors in) { return std::vector{Function::of(first_factors(in[1].clone(), spread(in[0]), rank))}; },
       .reference =
           [=](HostTensors in) {
             const Shape batch = batch_of(in[0].shape);
             std::vector<Matrix> results;
             for (int64_t n = 0; n < batch.numel(); n++) {
               results.push_back(Function::of(first_of(factors_of(spread(matrix_of(in[0], n))), rank)));
             }
             return loosened({stacked(batch, results, {0, 0})}, rounding_of(in[0].dtype));
           },
       .tolerance = terms(),
       .differentiable =
           [=](Vars in) { return Function::of(first_factors(in[1].value().clone(), spread(in[0]), rank)); },
       .gradient_dtypes = {DType::f32},  // of factors in 16 bits, what they leave of x is off as far
       .fixed_shapes = true,
       .is_drawn = false});
}

struct Sampling {
  int64_t rank = 1, oversampling = 8, niter = 2;
};

// a diag(k^-power) b, k = 1, 2, …, rounded once
Tensor decaying(const Tensor& a, const Tensor& b, double power) {
  std::vector<float> weights;
  for (int64_t k = 1; k <= a.size(-1); k++) {
    weights.push_back(static_cast<float>(std::pow(static_cast<double>(k), -power)));
  }
  return matmul(mul(a, Tensor::from(weights, {a.size(-1)}, a.device())), b.to(DType::f32)).to(a.dtype());
}
HostTensor decaying(const HostTensor& a, const HostTensor& b, double power) {
  HostTensor x{batch_of(a.shape), {}, DType::f32};
  const int64_t count = x.shape.numel();
  for (const int64_t size : {a.shape[a.shape.rank() - 2], b.shape.back()}) x.shape.push_back(size);
  for (int64_t n = 0; n < count; n++) {
    Matrix left = matrix_of(a, n);
    for (int64_t i = 0; i < left.rows; i++) {
      for (int64_t k = 0; k < left.columns; k++) left(i, k) *= std::pow(static_cast<double>(k + 1), -power);
    }
    const Matrix y = product(left, matrix_of(b, n));
    x.values.insert(x.values.end(), y.values.begin(), y.values.end());
  }
  return x;
}

// Of [rows, terms] times [terms, columns], which is all there is where the samples are as many as the terms.
void add_lowrank(const Sampling& how, const Shape& batch, int64_t rows, int64_t terms_of, int64_t columns,
                 double power) {
  Shape left = batch, right = batch;
  for (const int64_t size : {rows, terms_of}) left.push_back(size);
  for (const int64_t size : {terms_of, columns}) right.push_back(size);
  const bool is_whole = how.rank == std::min({rows, terms_of, columns});
  add_case({.kernel = "svd_lowrank",
            .name = std::to_string(how.rank) + " of " + left.str() + " by " + right.str() + ", " +
                    std::to_string(how.oversampling) + " more, " + std::to_string(how.niter) + " turns, falling by " +
                    std::to_string(power),
            .inputs = {{.shape = {2}, .values = {Pattern::integers, 0, 0x1p40}, .dtype = DType::i64},
                       {.shape = left},
                       {.shape = right}},
            .dtypes = how.niter == 0 ? kFloats : std::vector{DType::f32},
            .call =
                [=](Tensors in) {
                  const Tensor x = decaying(in[1], in[2], power);
                  const auto factors = svd_lowrank(in[0], x, how.rank, how.oversampling, how.niter);
                  const Tensor u = factors.u.to(DType::f32), s = factors.s.to(DType::f32), v = factors.v.to(DType::f32);
                  const Tensor product = matmul(mul(u, s.unsqueeze(-2)), v, {.transpose_b = true});
                  std::vector<Tensor> results{gram(u), gram(v), s, in[0]};
                  if (is_whole) results.push_back(product);
                  return results;
                },
            .reference =
                [=](HostTensors in) {
                  const HostTensor x = decaying(in[1], in[2], power);
                  const int64_t samples = std::min({how.rank + how.oversampling, rows, columns});
                  const auto drawn = static_cast<double>((batch.numel() * samples * columns + 3) / 4);
                  const Expected state{{2}, {in[0].values[0], in[0].values[1] + drawn}, {}, DType::i64};
                  std::vector<Expected> results{identity_of(x, how.rank), identity_of(x, how.rank),
                                                singular_values_of(x, how.rank, true)};
                  // What the figure allows: 1e-3 of each.
                  for (double& magnitude : results[2].magnitudes) magnitude *= 100;
                  if (is_whole) results.push_back(itself(x));
                  results = loosened(results, rounding_of(in[1].dtype));
                  results.insert(results.begin() + 3, state);
                  return results;
                },
            .tolerance = terms(),
            .in_place = true,
            .fixed_shapes = true,
            .is_drawn = false});
}

}  // namespace

void add_orthogonal_cases() {
  const auto dense = [](Shape shape) { return Input{.shape = std::move(shape)}; };
  const Values zeros{.low = 0, .high = 0}, ones{Pattern::integers, 1, 1}, few{Pattern::integers, -1, 1};
  for (const int64_t n : {0, 1, 2, 7, 47, 48, 49, 96, 130}) {
    add_qr(dense({200, n}));
    add_qr(dense({n, n}));
  }
  add_qr(dense({5, 9}));
  add_qr(dense({60, 200}));
  add_qr(dense({2100, 3}));
  add_qr(dense({2, 3, 6, 4}));
  add_qr(dense({70, 3, 5}));
  add_qr(dense({0, 5}));
  add_qr({.shape = {3, 30, 20}, .layout = Layout::transposed}, "transposed");
  add_qr({.shape = {3, 30, 20}, .layout = Layout::broadcast_last}, "equal columns");
  add_qr({.shape = {300, 20}, .layout = Layout::broadcast_first}, "equal rows");
  add_qr({.shape = {100, 60}, .values = zeros}, "zeros");
  add_qr({.shape = {8, 8}, .values = ones}, "ones");
  add_qr({.shape = {2, 60, 60}, .values = few}, "few values");

  for (const Shape& shape : {Shape{5, 5}, Shape{9, 4}, Shape{2, 6, 3}}) add_qr_gradient(shape);

  for (const Shape& shape : {Shape{5, 5}, Shape{8, 4}, Shape{4, 7}, Shape{2, 6, 3}}) {
    add_svd_gradient<OfValues>(shape);
    add_svd_gradient<OfLeftVectors>(shape);
    add_svd_gradient<OfRightVectors>(shape);
    add_svd_gradient<OfAllFactors>(shape);
  }

  for (const Shape& shape : {Shape{5, 5}, Shape{8, 4}, Shape{4, 7}, Shape{2, 6, 3}}) {
    for (const int64_t rank : {1, 2, 3}) {
      add_lowrank_gradient<OfValues>(shape, rank);
      add_lowrank_gradient<OfLeftVectors>(shape, rank);
      add_lowrank_gradient<OfRightVectors>(shape, rank);
      add_lowrank_gradient<OfAllFactors>(shape, rank);
    }
  }

  for (const int64_t n : {0, 1, 2, 3, 8, 33, 40, 64}) {
    add_svd(dense({100, n}));
    add_svd(dense({n, n}));
  }
  add_svd(dense({128, 150}));
  add_svd(dense({20, 300}));
  add_svd(dense({2, 3, 6, 4}));
  add_svd(dense({40, 3, 5}));
  add_svd({.shape = {3, 12, 20}, .layout = Layout::transposed}, "transposed");
  add_svd({.shape = {30, 20}, .layout = Layout::broadcast_last}, "equal columns");
  add_svd({.shape = {20, 10}, .values = zeros}, "zeros");
  add_svd({.shape = {8, 8}, .values = ones}, "ones");
  add_svd({.shape = {2, 30, 30}, .values = few}, "few values");

  for (const double power : {1.0, 2.0}) {
    add_lowrank({.rank = 8}, {}, 60, 8, 50, power);
    add_lowrank({.rank = 6, .oversampling = 10, .niter = 4}, {}, 60, 40, 50, power);
    add_lowrank({.rank = 5, .oversampling = 8}, {2, 2}, 20, 20, 30, power);
  }
  add_lowrank({.rank = 3, .niter = 0}, {}, 40, 3, 20, 1);
  add_lowrank({.rank = 60}, {}, 100, 60, 80, 1);
  add_lowrank({.rank = 4, .oversampling = 0, .niter = 1}, {}, 4, 4, 9, 1);
}

}  // namespace ashlar::conformance
