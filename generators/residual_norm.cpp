// A residual stream's next value and its normalisation, in one pass, with their gradients.
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// h[r,c] = x[r,c] + residual[r,c];  y[r,c] = h[r,c] rstd[r] weight[c],  rstd[r] = 1 / √(Σ_k h[r,k]² / n + eps)
template <ElementType T>
struct AddRmsNorm : Kernel<AddRmsNorm<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> x{"x", {rows, columns}}, residual{"residual", {rows, columns}};
  In<T, 1> weight{"weight", {columns}, absent_is(1)};
  Scalar<float> eps{"eps", 1e-5F};
  RowTunables tunables;
  Out<T, 2> y{"y", {rows, columns}}, h{"h", {rows, columns}};
  Out<f32, 1> rstd{"rstd", {rows}};
  Stage power{"power"};
  Var r{"r"}, c{"c"};

  AddRmsNorm() {
    this->formula("h = x + residual, y = rms_norm(h, weight)");
    this->form(Form::rows).of_none(OfNone::zero).flops("6.0 * shapes[0].numel()");
    this->gradient(kAllInputs, "add_rms_norm_gradients(dy, dh_or_none, h, rstd, weight, eps, axis, needs)");
  }
  void algorithm() {
    const Axis k = columns.reduce();
    const auto stream = [&](const auto& at) { return x(r, at) + residual(r, at); };
    power(r) = mean(k, square(stream(k)));
    rstd(r) = rsqrt(power(r) + eps);
    h(r, c) = stream(c);
    y(r, c) = stream(c) * rsqrt(power(r) + eps) * weight(c);
  }
  void schedule(auto target) { row_reduction(target, {{power}, y, r, c, tunables, {h, rstd}}); }
};

// h[r,c] = x[r,c] + residual[r,c];  y[r,c] = (h[r,c] - mean[r]) rstd[r] weight[c] + bias[c]
template <ElementType T>
struct AddLayerNorm : Kernel<AddLayerNorm<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> x{"x", {rows, columns}}, residual{"residual", {rows, columns}};
  In<T, 1> weight{"weight", {columns}, absent_is(1)}, bias{"bias", {columns}, absent_is(0)};
  Scalar<float> eps{"eps", 1e-5F};
  RowTunables tunables;
  Out<T, 2> y{"y", {rows, columns}}, h{"h", {rows, columns}};
  Out<f32, 1> mean{"mean", {rows}}, rstd{"rstd", {rows}};
  Stage average{"average"}, variance{"variance"};
  Var r{"r"}, c{"c"};

  AddLayerNorm() {
    this->formula("h = x + residual, y = layer_norm(h, weight, bias)");
    this->form(Form::rows).of_none(OfNone::zero).flops("9.0 * shapes[0].numel()");
    this->gradient(kAllInputs, "add_layer_norm_gradients(dy, dh_or_none, h, mean, rstd, weight, eps, axis, needs)");
  }
  void algorithm() {
    const Axis k = columns.reduce();
    const auto stream = [&](const auto& at) { return x(r, at) + residual(r, at); };
    average(r) = dsl::mean(k, stream(k));
    variance(r) = dsl::mean(k, square(stream(k) - average(r)));
    mean(r) = average(r);
    rstd(r) = rsqrt(variance(r) + eps);
    h(r, c) = stream(c);
    y(r, c) = (stream(c) - average(r)) * rsqrt(variance(r) + eps) * weight(c) + bias(c);
  }
  void schedule(auto target) { row_reduction(target, {{average, variance}, y, r, c, tunables, {h, mean, rstd}}); }
};

// d[r,c] = dh[r,c] + rstd[r] (g[r,c] - z[r,c] Σ_k g[r,k] z[r,k] / n),  g = dy weight, z = h rstd
template <ElementType T>
struct AddRmsNormGradient : Kernel<AddRmsNormGradient<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> dy{"dy", {rows, columns}}, dh{"dh", {rows, columns}}, h{"h", {rows, columns}};
  In<f32, 1> rstd{"rstd", {rows}};
  In<T, 1> weight{"weight", {columns}, absent_is(1)};
  RowTunables tunables;
  Out<T, 2> d{"d", {rows, columns}};
  Stage dot{"dot"};
  Var r{"r"}, c{"c"};

  AddRmsNormGradient() {
    this->formula("d = dh + rstd (g - z Σ_k g z / n), g = dy weight, z = h rstd").form(Form::rows);
  }
  void algorithm() {
    const Axis k = columns.reduce();
    const auto z = [&](const auto& at) { return h(r, at) * rstd(r); };
    dot(r) = mean(k, dy(r, k) * weight(k) * z(k));
    d(r, c) = dh(r, c) + rstd(r) * (dy(r, c) * weight(c) - z(c) * dot(r));
  }
  void schedule(auto target) { row_reduction(target, {{dot}, d, r, c, tunables}); }
};

// d[r,c] = dh[r,c] + rstd[r] (g[r,c] - Σ_k g[r,k] / n - z[r,c] Σ_k g[r,k] z[r,k] / n),  z = (h - mean) rstd
template <ElementType T>
struct AddLayerNormGradient : Kernel<AddLayerNormGradient<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> dy{"dy", {rows, columns}}, dh{"dh", {rows, columns}}, h{"h", {rows, columns}};
  In<f32, 1> mean{"mean", {rows}}, rstd{"rstd", {rows}};
  In<T, 1> weight{"weight", {columns}, absent_is(1)};
  RowTunables tunables;
  Out<T, 2> d{"d", {rows, columns}};
  Stage slope{"slope"}, dot{"dot"};
  Var r{"r"}, c{"c"};

  AddLayerNormGradient() {
    this->formula("d = dh + rstd (g - Σ_k g / n - z Σ_k g z / n), g = dy weight, z = (h - mean) rstd").form(Form::rows);
  }
  void algorithm() {
    const Axis k = columns.reduce();
    const auto z = [&](const auto& at) { return (h(r, at) - mean(r)) * rstd(r); };
    slope(r) = dsl::mean(k, dy(r, k) * weight(k));
    dot(r) = dsl::mean(k, dy(r, k) * weight(k) * z(k));
    d(r, c) = dh(r, c) + rstd(r) * (dy(r, c) * weight(c) - slope(r) - z(c) * dot(r));
  }
  void schedule(auto target) { row_reduction(target, {{slope, dot}, d, r, c, tunables}); }
};

const bool registered = register_kernel<AddRmsNorm, f32, f16, bf16>("add_rms_norm") &&
                        register_kernel<AddLayerNorm, f32, f16, bf16>("add_layer_norm") &&
                        register_kernel<AddRmsNormGradient, f32, f16, bf16>("add_rms_norm_grad") &&
                        register_kernel<AddLayerNormGradient, f32, f16, bf16>("add_layer_norm_grad");

}  // namespace ashlar::dsl
