// Layer normalisation (Ba, Kiros and Hinton 2016) along a row, with its gradients.
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// y[r,c] = z[r,c] weight[c] + bias[c],  z = (x - mean) rstd,  rstd[r] = 1 / √(Σ_k (x[r,k] - mean[r])² / n + eps)
template <ElementType T>
struct LayerNorm : Kernel<LayerNorm<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> x{"x", {rows, columns}};
  In<T, 1> weight{"weight", {columns}, absent_is(1)}, bias{"bias", {columns}, absent_is(0)};
  Scalar<float> eps{"eps", 1e-5F};
  RowTunables tunables;
  Out<T, 2> y{"y", {rows, columns}};
  Out<f32, 1> mean{"mean", {rows}}, rstd{"rstd", {rows}};
  Stage average{"average"}, variance{"variance"};
  Var r{"r"}, c{"c"};
  LayerNorm() {
    this->formula("layer_norm(x)[r,c] = (x[r,c] - mean[r]) rstd[r] weight[c] + bias[c], rstd = 1 / √(variance + eps)");
    this->flops("8.0 * shapes[0].numel()");
    this->form(Form::rows).of_none(OfNone::zero);
    this->gradient(kAllInputs, "layer_norm_gradients(dy, x, mean, rstd, weight, eps, axis, needs)");
  }
  void algorithm() {
    const Axis k = columns.reduce();
    average(r) = dsl::mean(k, x(r, k));
    variance(r) = dsl::mean(k, square(x(r, k) - average(r)));
    mean(r) = average(r);
    rstd(r) = rsqrt(variance(r) + eps);
    y(r, c) = (x(r, c) - average(r)) * rsqrt(variance(r) + eps) * weight(c) + bias(c);
  }
  void schedule(auto target) { row_reduction(target, {{average, variance}, y, r, c, tunables, {mean, rstd}}); }
};

// dx[r,c] = rstd[r] (g[r,c] - Σ_k g[r,k] / n - z[r,c] Σ_k g[r,k] z[r,k] / n),  g = dy weight
template <ElementType T>
struct LayerNormGradient : Kernel<LayerNormGradient<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> dy{"dy", {rows, columns}}, x{"x", {rows, columns}};
  In<f32, 1> mean{"mean", {rows}}, rstd{"rstd", {rows}};
  In<T, 1> weight{"weight", {columns}, absent_is(1)};
  RowTunables tunables;
  Out<T, 2> dx{"dx", {rows, columns}};
  Stage slope{"slope"}, dot{"dot"};
  Var r{"r"}, c{"c"};
  LayerNormGradient() { this->formula("dx = rstd (g - Σ_k g / n - z Σ_k g z / n), g = dy weight").form(Form::rows); }
  void algorithm() {
    const Axis k = columns.reduce();
    const auto z = [&](const auto& at) { return (x(r, at) - mean(r)) * rstd(r); };
    slope(r) = dsl::mean(k, dy(r, k) * weight(k));
    dot(r) = dsl::mean(k, dy(r, k) * weight(k) * z(k));
    dx(r, c) = rstd(r) * (dy(r, c) * weight(c) - slope(r) - z(c) * dot(r));
  }
  void schedule(auto target) { row_reduction(target, {{slope, dot}, dx, r, c, tunables}); }
};

const bool registered = register_kernel<LayerNorm, f32, f16, bf16>("layer_norm") &&
                        register_kernel<LayerNormGradient, f32, f16, bf16>("layer_norm_grad");

}  // namespace ashlar::dsl
