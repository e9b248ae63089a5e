#include "nn/hybrid/forecast.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// A small square matrix, row-major.
struct Matrix {
  explicit Matrix(size_t size) : n(size), values(size * size) {}
  double& operator()(size_t i, size_t j) { return values[i * n + j]; }
  double operator()(size_t i, size_t j) const { return values[i * n + j]; }
  size_t n;
  std::vector<double> values;
};

struct Eigen {
  std::vector<double> values;
  Matrix vectors;  // columns
};

/// Of a symmetric matrix: Jacobi's cyclic rotations. A dozen rows at most, where a linear algebra library would be the
/// larger dependency.
Eigen eigen_of(Matrix a) {
  const size_t n = a.n;
  Matrix v(n);
  for (size_t i = 0; i < n; i++) v(i, i) = 1;
  for (int sweep = 0; sweep < 60; sweep++) {
    double off = 0, diagonal = 0;
    for (size_t i = 0; i < n; i++) {
      for (size_t j = 0; j < n; j++) (i == j ? diagonal : off) += a(i, j) * a(i, j);
    }
    if (off <= 1e-30 * diagonal) break;
    for (size_t p = 0; p < n; p++) {
      for (size_t q = p + 1; q < n; q++) {
        if (a(p, q) == 0) continue;
        // tan of the angle that makes a(p, q) vanish, the smaller root
        const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const double t = std::copysign(1 / (std::abs(theta) + std::hypot(theta, 1)), theta);
        const double c = 1 / std::hypot(t, 1), s = t * c;
        for (size_t k = 0; k < n; k++) {
          const double x = a(k, p), y = a(k, q);
          a(k, p) = c * x - s * y;
          a(k, q) = s * x + c * y;
        }
        for (size_t k = 0; k < n; k++) {
          const double x = a(p, k), y = a(q, k);
          a(p, k) = c * x - s * y;
          a(q, k) = s * x + c * y;
        }
        for (size_t k = 0; k < n; k++) {
          const double x = v(k, p), y = v(k, q);
          v(k, p) = c * x - s * y;
          v(k, q) = s * x + c * y;
        }
      }
    }
  }
  Eigen result{{}, v};
  for (size_t i = 0; i < n; i++) result.values.push_back(a(i, i));
  return result;
}

}  // namespace

std::vector<double> line_coefficients(Forecaster forecaster, int64_t snapshots, int64_t stride, int64_t horizon) {
  const auto count = static_cast<size_t>(snapshots);
  const double ahead = static_cast<double>(horizon) / static_cast<double>(stride);  // in strides
  const auto last = static_cast<double>(snapshots - 1);
  std::vector<double> result(count, 0.0);
  switch (forecaster) {
    case Forecaster::last_move:
      result[count - 1] = 1 + ahead;
      result[count - 2] = -ahead;
      return result;
    case Forecaster::direction:
      result[count - 1] = 1 + ahead / last;
      result[0] = -ahead / last;
      return result;
    case Forecaster::line: {
      // value at t: mean x + (t - mean j) Σ (j - mean j) x_j / Σ (j - mean j)²
      const double middle = last / 2, squares = static_cast<double>(snapshots) * (last + 2) * last / 12;
      for (size_t j = 0; j < count; j++) {
        result[j] = 1.0 / static_cast<double>(snapshots) +
                    (last + ahead - middle) * (static_cast<double>(j) - middle) / squares;
      }
      return result;
    }
    case Forecaster::none:
    case Forecaster::modes:
    case Forecaster::nowcast:
      break;
  }
  throw ValueError("line_coefficients", std::string(name_of(forecaster)), "last_move, direction or line",
                   "What modes and nowcast foretell depends on the weights: mode_coefficients, Nowcaster");
}

// With X = (v_0 … v_{n-2}), Y = (v_1 … v_{n-1}) as columns and XᵀX = V Λ Vᵀ: U = X V Λ^-½ has orthonormal columns,
// A = Uᵀ Y V Λ^-½ is the map from move to move in its coordinates, b = Uᵀ v_{n-1} the last move. All are products of
// the Gram matrix with V.
std::vector<double> mode_coefficients(std::span<const double> gram, int64_t rank, int64_t moves) {
  const auto n = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(gram.size()))));
  if (n < 2 || n * n != gram.size() || rank <= 0 || moves <= 0) {
    throw ValueError("mode_coefficients",
                     std::to_string(gram.size()) + " products, rank " + std::to_string(rank) + ", " +
                         std::to_string(moves) + " moves ahead",
                     "the products of two moves or more with each other, positive numbers", "Take more snapshots");
  }
  const auto g = [&](size_t i, size_t j) { return gram[i * n + j]; };
  const size_t pairs = n - 1;
  Matrix of_first(pairs);
  for (size_t i = 0; i < pairs; i++) {
    for (size_t j = 0; j < pairs; j++) of_first(i, j) = 0.5 * (g(i, j) + g(j, i));
  }
  const Eigen eigen = eigen_of(of_first);
  std::vector<size_t> order(pairs);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return eigen.values[a] > eigen.values[b]; });
  // Directions without length are rounding errors: products come in f32.
  size_t kept = 0;
  while (kept < std::min(pairs, static_cast<size_t>(rank)) && eigen.values[order[kept]] > 0 &&
         eigen.values[order[kept]] > 1e-7 * eigen.values[order[0]]) {
    kept++;
  }
  const auto basis = [&](size_t row, size_t k) {  // V Λ^-½
    return eigen.vectors(row, order[k]) / std::sqrt(eigen.values[order[k]]);
  };
  Matrix map(kept);
  std::vector<double> move(kept, 0.0), sum(kept, 0.0);
  for (size_t a = 0; a < kept; a++) {
    for (size_t i = 0; i < pairs; i++) {
      move[a] += basis(i, a) * g(i, n - 1);
      for (size_t b = 0; b < kept; b++) {
        for (size_t j = 0; j < pairs; j++) map(a, b) += basis(i, a) * g(i, j + 1) * basis(j, b);
      }
    }
  }
  for (int64_t step = 0; step < moves; step++) {
    std::vector<double> next(kept, 0.0);
    for (size_t a = 0; a < kept; a++) {
      for (size_t b = 0; b < kept; b++) next[a] += map(a, b) * move[b];
    }
    move = next;
    for (size_t a = 0; a < kept; a++) sum[a] += move[a];
  }
  const double length = std::sqrt(std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0));
  const double bound = static_cast<double>(moves) * std::sqrt(std::max(g(n - 1, n - 1), 0.0));
  const double scale = length > bound ? bound / length : 1;
  std::vector<double> result(n + 1, 0.0);
  result[n] = 1;
  for (size_t i = 0; i < pairs; i++) {
    double coefficient = 0;  // of v_i = x_{i+1} - x_i
    for (size_t a = 0; a < kept; a++) coefficient += basis(i, a) * sum[a] * scale;
    result[i + 1] += coefficient;
    result[i] -= coefficient;
  }
  return result;
}

}  // namespace ashlar::nn
