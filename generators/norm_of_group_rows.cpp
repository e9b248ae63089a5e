// Normalisation of groups of channels as rows, on GPUs: x is read once.
#include "generators/channels_of_rows.h"
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// y[r,c] = (x[r,c] - mean[r]) rstd[r] weight[channel of c] + bias[channel of c],  rstd[r] = 1 / √(variance[r] + eps),
// variance[r] = Σ_k (x[r,k] - mean[r])² / n
template <ElementType T>
class NormOfGroupRows : public Kernel<NormOfGroupRows<T>> {
 public:
  static constexpr bool on_gpus_alone = true;
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> x{"x", {rows, columns}};
  In<T, 1> weight{"weight", {any_size}}, bias{"bias", {any_size}};
  Scalar<float> eps{"eps"};
  Scalar<int32_t> has_weight{"has_weight"}, has_bias{"has_bias"};
  ChannelsOfRows channels;
  RowTunables tunables;
  Out<T, 2> y{"y", {rows, columns}};
  Out<f32, 1> mean{"mean", {rows}}, rstd{"rstd", {rows}}, variance{"variance", {rows}};

  NormOfGroupRows() {
    this->formula(
        "y = (x - mean) rstd weight + bias, rstd = 1 / √(variance + eps), of rows that are groups of channels");
    this->form(Form::movement).internal();
  }
  void algorithm() {
    const Axis k = columns.reduce();
    average(r) = dsl::mean(k, x(r, k));
    spread(r) = dsl::mean(k, square(x(r, k) - average(r)));
    // An infinity leaves no mean, as where moments of parts are merged: the squares are NaN.
    mean(r) = select(spread(r) >= 0, Value(average(r)), Value(spread(r)));
    rstd(r) = rsqrt(spread(r) + eps);
    variance(r) = spread(r);
    const Value z = (x(r, c) - average(r)) * rsqrt(spread(r) + eps);
    y(r, c) = z * channels.of_row(weight, has_weight, 1.0, c, r) + channels.of_row(bias, has_bias, 0.0, c, r);
  }
  void schedule(auto target) { row_reduction(target, {{average, spread}, y, r, c, tunables, {mean, rstd, variance}}); }

 private:
  Var r{"r"}, c{"c"};
  Stage average{"average"}, spread{"spread"};
};

const bool registered = register_kernel<NormOfGroupRows, f32>("norm_of_group_rows");

}  // namespace ashlar::dsl
