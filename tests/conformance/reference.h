// References in double: straight loops over row-major arrays.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/forms/forms.h"
#include "tests/conformance/case.h"
#include "tests/conformance/inputs.h"

namespace ashlar::conformance {

/// y[i] = f(x1[i], …), all of one shape.
template <class Function, class... Others>
Expected pointwise(const HostTensor& x, const Others&... others, Function f) {
  Expected y{x.shape, std::vector<double>(x.values.size())};
  for (size_t i = 0; i < x.values.size(); ++i) y.values[i] = f(x.values[i], others.values[i]...);
  return y;
}

/// Strides that read `shape` at indices of the broadcast shape `target`: 0 along stretched and missing axes.
Shape broadcast_strides(const Shape& shape, const Shape& target);

/// x with one of its axes at another place among them; both may count from the end.
HostTensor with_axis_moved(const HostTensor& x, int64_t from, int64_t to);

/// y = f(a, b) with NumPy's broadcasting.
template <class Function>
Expected broadcasted(const HostTensor& a, const HostTensor& b, Function f) {
  Expected y{broadcast("reference", a.shape, b.shape), {}};
  const Shape strides = broadcast_strides(b.shape, y.shape);
  std::vector<double> right;
  right.reserve(static_cast<size_t>(y.shape.numel()));
  for_each_index(y.shape, strides, [&](const Shape&, int64_t at) { right.push_back(b.values[at]); });
  y.values.reserve(right.size());
  for_each_index(y.shape, broadcast_strides(a.shape, y.shape),
                 [&](const Shape&, int64_t at) { y.values.push_back(f(a.values[at], right[y.values.size()])); });
  return y;
}

/// One result of a reduction and what its error is measured against.
struct Reduced {
  double value;
  double magnitude;
};

/// Reduces `axes` (all when empty): f gets each group's elements in row-major order.
Expected reduced(const HostTensor& x, const Shape& axes, bool keepdim,
                 const std::function<Reduced(const std::vector<double>&)>& f);

/// Rows along `axis`, each replaced: f(row, y, magnitude) fills the two vectors, which have the row's length.
Expected row_wise(const HostTensor& x, int64_t axis,
                  const std::function<void(const std::vector<double>&, double*, double*)>& f);

/// c[…, m, n] = Σ_k a[…, m, k] · b[…, k, n] + bias[n], then `activation`; batch axes broadcast. Magnitudes are
/// Σ|terms|. `bias` may be null.
Expected contracted(const HostTensor& a, const HostTensor& b, bool transpose_a, bool transpose_b,
                    const HostTensor* bias, Activation activation);

/// `count` elements, spread over the result, of a·b for matrices too large for all of it.
Expected contracted_sample(const HostTensor& a, const HostTensor& b, int64_t count);

/// Of a sum that `steps` additions follow each other for: how many times its bound the error may be. Each may round by
/// half a last digit of f32, of equal numbers all to the same side.
inline double one_sided_rounding(double steps, double bound) { return std::max(1.0, steps * 0x1p-24 / bound); }

/// A sum whose terms an f32 kernel may add one after the other, in this order. Each addition rounds by half a last
/// digit of what it gives: little where signs alternate, much where all terms are equal (Higham, SIAM J. Sci. Comput.
/// 14, 1993).
struct SequentialSum {
  double total = 0, terms = 0, partial_sums = 0;
  void add(double term) {
    total += term;
    terms += std::abs(term);
    partial_sums += std::abs(total);
  }
  /// For Expected::magnitudes, where the tolerance is `bound` of Σ|terms|.
  double magnitude(double bound) const { return std::max(terms, partial_sums * 0x1p-24 / bound); }
};

/// max and min that keep NaN.
inline double max_of(double a, double b) { return std::isnan(a) || a > b ? a : b; }
inline double min_of(double a, double b) { return std::isnan(a) || a < b ? a : b; }

}  // namespace ashlar::conformance
