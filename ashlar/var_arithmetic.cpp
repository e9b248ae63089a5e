#include "ashlar/var_arithmetic.h"

#include <ostream>

#include "ashlar/ad.h"
#include "ashlar/numbers.h"
#include "autograd/node.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/values.h"
#include "autograd/views.h"

namespace ashlar {

using detail::exponent_of;
using detail::is_affine;
using detail::kNoShift;
using detail::tensor_of;

namespace {

/// `x` in `dtype`, recorded. Integers become floating point without a history, as they have none.
Var as(const Var& x, DType dtype) { return x.dtype() == dtype ? x : ad::to(x, dtype); }

Var with_promotion(Var (*operation)(const Var&, const Var&), const Var& a, const Var& b) {
  if (a.dtype() == b.dtype() || a.device() != b.device()) return operation(a, b);
  const DType dtype = result_type(a.value(), b.value());
  return operation(as(a, dtype), as(b, dtype));
}

Var affine_with(const Var& x, Number number, double scale, double shift) {
  return ad::affine(as(x, result_type(x.value(), number)), scale, shift);
}

std::vector<Tensor> values_of(std::span<const Var> vars) {
  std::vector<Tensor> values;
  for (const Var& var : vars) values.push_back(var.value());
  return values;
}

}  // namespace

namespace ad {

Var add(const Var& a, Number b) {
  return is_affine(a.value(), b) ? affine_with(a, b, 1, b.real()) : a + Var(tensor_of(b, a.value()));
}
Var add(Number a, const Var& b) { return add(b, a); }

Var sub(const Var& a, Number b) {
  return is_affine(a.value(), b) ? affine_with(a, b, 1, -b.real()) : a - Var(tensor_of(b, a.value()));
}
Var sub(Number a, const Var& b) {
  return is_affine(b.value(), a) ? affine_with(b, a, -1, a.real()) : Var(tensor_of(a, b.value())) - b;
}

Var mul(const Var& a, Number b) {
  return is_affine(a.value(), b) ? affine_with(a, b, b.real(), kNoShift) : a * Var(tensor_of(b, a.value()));
}
Var mul(Number a, const Var& b) { return mul(b, a); }

Var div(const Var& a, Number b) { return a / Var(tensor_of(b, a.value())); }
Var div(Number a, const Var& b) { return Var(tensor_of(a, b.value())) / b; }

Var pow(const Var& a, Number b) { return with_promotion(pow, a, Var(exponent_of(b, a.value()))); }
Var pow(Number a, const Var& b) { return with_promotion(pow, Var(tensor_of(a, b.value())), b); }
Var fmod(const Var& a, Number b) { return with_promotion(fmod, a, Var(tensor_of(b, a.value()))); }
Var remainder(const Var& a, Number b) { return with_promotion(remainder, a, Var(tensor_of(b, a.value()))); }
Var maximum(const Var& a, Number b) { return with_promotion(maximum, a, Var(tensor_of(b, a.value()))); }
Var maximum(Number a, const Var& b) { return maximum(b, a); }
Var minimum(const Var& a, Number b) { return with_promotion(minimum, a, Var(tensor_of(b, a.value()))); }
Var minimum(Number a, const Var& b) { return minimum(b, a); }
Var clamp(const Var& x, const Var& min, const Var& max) {
  const Tensor none;
  Tensor y = ashlar::clamp(x.value(), min.defined() ? min.value() : none, max.defined() ? max.value() : none);
  return record("clamp", {x, min, max}, std::move(y),
                [x_ = save_input(0, x), min_ = save_input(1, min), max_ = save_input(2, max)](const auto& pass) {
                  using recipes::value_of;
                  std::decay_t<decltype(pass.dy())> dx, dmin, dmax;
                  const auto dy = pass.dy();
                  const auto of_x = pass.get(x_), of_min = pass.get(min_), of_max = pass.get(max_);
                  const Tensor x = value_of(of_x);
                  const Tensor min = of_min.defined() ? value_of(of_min) : Tensor();
                  const Tensor max = of_max.defined() ? value_of(of_max) : Tensor();
                  // dy where it holds, in the shape and dtype of what had it.
                  const auto part = [&](const Tensor& holds, const Tensor& like) {
                    const std::decay_t<decltype(dy)> zero(Tensor::zeros({}, dy.dtype(), dy.device()));
                    return recipes::sum_to_shape(where(holds, dy, zero), like.shape()).to(like.dtype());
                  };
                  const Tensor crossed = min.defined() && max.defined() ? ashlar::lt(max, min) : Tensor();
                  if (pass.needs(0)) {
                    Tensor within = min.defined() ? ashlar::ge(x, min) : ashlar::le(x, max);
                    if (min.defined() && max.defined()) within = ashlar::logical_and(within, ashlar::le(x, max));
                    dx = part(within, x);
                  }
                  if (pass.needs(1)) {
                    Tensor below = ashlar::lt(x, min);
                    if (max.defined()) below = ashlar::logical_and(below, ashlar::lt(min, max));
                    dmin = part(below, min);
                  }
                  if (pass.needs(2)) {
                    Tensor above = ashlar::gt(x, max);
                    if (min.defined()) above = ashlar::logical_or(above, crossed);
                    dmax = part(above, max);
                  }
                  return pass.gradients(dx, dmin, dmax);
                });
}
Var clamp(const Var& x, Number min, Number max) {
  const DType dtype = result_type(x.value(), min.is_floating() ? min : max);
  if (is_floating(dtype) && dtype != DType::f64) return clamp(as(x, dtype), min.real(), max.real());
  return clamp(x, Var(tensor_of(min, x.value())), Var(tensor_of(max, x.value())));
}
Var clamp_min(const Var& x, const Var& min) { return clamp(x, min, Var()); }
Var clamp_min(const Var& x, Number min) { return clamp(x, Var(tensor_of(min, x.value())), Var()); }
Var clamp_max(const Var& x, const Var& max) { return clamp(x, Var(), max); }
Var clamp_max(const Var& x, Number max) { return clamp(x, Var(), Var(tensor_of(max, x.value()))); }
Var where(const Tensor& condition, const Var& a, Number b) {
  const Var other(tensor_of(b, a.value()));
  return where(condition, as(a, other.dtype()), other);
}
Var where(const Tensor& condition, Number a, const Var& b) {
  const Var other(tensor_of(a, b.value()));
  return where(condition, other, as(b, other.dtype()));
}

Var cat(std::span<const Var> vars, int64_t axis) {
  const std::vector<Tensor> values = values_of(vars);
  Tensor y = ashlar::cat(values, axis);
  std::vector<int64_t> sizes;
  std::vector<DType> dtypes;
  for (const Tensor& x : values) {
    sizes.push_back(x.size(axis));
    dtypes.push_back(x.dtype());
  }
  return record("cat", vars, std::move(y), [axis, sizes, dtypes](const auto& pass) {
    std::vector<std::decay_t<decltype(pass.dy())>> gradients;
    int64_t start = 0;
    for (size_t i = 0; i < sizes.size(); start += sizes[i++]) {
      gradients.push_back(pass.dy().slice(axis, start, start + sizes[i]).to(dtypes[i]));
    }
    return gradients;
  });
}

Var stack(std::span<const Var> vars, int64_t axis) {
  const std::vector<Tensor> values = values_of(vars);
  std::vector<DType> dtypes;
  for (const Tensor& x : values) dtypes.push_back(x.dtype());
  return record("stack", vars, ashlar::stack(values, axis), [axis, dtypes](const auto& pass) {
    std::vector<std::decay_t<decltype(pass.dy())>> gradients;
    for (size_t i = 0; i < dtypes.size(); i++) {
      gradients.push_back(pass.dy().select(axis, static_cast<int64_t>(i)).to(dtypes[i]));
    }
    return gradients;
  });
}

Var cat(std::initializer_list<Var> vars, int64_t axis) {
  return cat(std::span<const Var>(vars.begin(), vars.size()), axis);
}
Var stack(std::initializer_list<Var> vars, int64_t axis) {
  return stack(std::span<const Var>(vars.begin(), vars.size()), axis);
}

}  // namespace ad

Var operator+(const Var& a, const Var& b) { return with_promotion(ad::add, a, b); }
Var operator-(const Var& a, const Var& b) { return with_promotion(ad::sub, a, b); }
Var operator*(const Var& a, const Var& b) { return with_promotion(ad::mul, a, b); }
Var operator/(const Var& a, const Var& b) { return with_promotion(ad::div, a, b); }
Var operator-(const Var& x) { return is_affine(x.value(), 1) ? ad::neg(x) : ad::mul(x, -1); }

std::ostream& operator<<(std::ostream& out, const Var& x) {
  if (!x.defined()) return out << "undefined";
  out << x.value();
  return x.requires_grad() ? out << "\nrequires grad" : out;
}

}  // namespace ashlar
