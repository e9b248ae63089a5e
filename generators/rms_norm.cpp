// Root-mean-square normalisation (Zhang and Sennrich 2019) along a row, with its gradients.
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// y[r,c] = x[r,c] rstd[r] weight[c],  rstd[r] = 1 / √(Σ_k x[r,k]² / n + eps)
template <ElementType T>
struct RmsNorm : Kernel<RmsNorm<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> x{"x", {rows, columns}};
  In<T, 1> weight{"weight", {columns}, absent_is(1)};
  Scalar<float> eps{"eps", 1e-5F};
  RowTunables tunables;
  Out<T, 2> y{"y", {rows, columns}};
  Out<f32, 1> rstd{"rstd", {rows}};
  Stage power{"power"};
  Var r{"r"}, c{"c"};

  RmsNorm() {
    this->formula("rms_norm(x)[r,c] = x[r,c] rstd[r] weight[c], rstd[r] = 1 / √(Σ_k x[r,k]² / n + eps)");
    this->form(Form::rows).of_none(OfNone::zero).flops("5.0 * shapes[0].numel()");
    this->gradient(kAllInputs, "rms_norm_gradients(dy, x, rstd, weight, eps, axis, needs)");
  }
  void algorithm() {
    const Axis k = columns.reduce();
    power(r) = mean(k, square(x(r, k)));
    rstd(r) = rsqrt(power(r) + eps);
    y(r, c) = x(r, c) * rsqrt(power(r) + eps) * weight(c);
  }
  void schedule(auto target) { row_reduction(target, {{power}, y, r, c, tunables, {rstd}}); }
};

// dx[r,c] = rstd[r] (g[r,c] - z[r,c] Σ_k g[r,k] z[r,k] / n),  g = dy weight, z = x rstd
template <ElementType T>
struct RmsNormGradient : Kernel<RmsNormGradient<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> dy{"dy", {rows, columns}}, x{"x", {rows, columns}};
  In<f32, 1> rstd{"rstd", {rows}};
  In<T, 1> weight{"weight", {columns}, absent_is(1)};
  RowTunables tunables;
  Out<T, 2> dx{"dx", {rows, columns}};
  Stage dot{"dot"};
  Var r{"r"}, c{"c"};

  RmsNormGradient() { this->formula("dx = rstd (g - z Σ_k g z / n), g = dy weight, z = x rstd").form(Form::rows); }
  void algorithm() {
    const Axis k = columns.reduce();
    const auto z = [&](const auto& at) { return x(r, at) * rstd(r); };
    dot(r) = mean(k, dy(r, k) * weight(k) * z(k));
    dx(r, c) = rstd(r) * (dy(r, c) * weight(c) - z(c) * dot(r));
  }
  void schedule(auto target) { row_reduction(target, {{dot}, dx, r, c, tunables}); }
};

const bool registered = register_kernel<RmsNorm, f32, f16, bf16>("rms_norm") &&
                        register_kernel<RmsNormGradient, f32, f16, bf16>("rms_norm_grad");

}  // namespace ashlar::dsl
