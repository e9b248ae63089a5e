// Normalisation of rows, or of groups of channels, on GPUs: x is read once.
#include "generators/channels_of_rows.h"
#include "schedules/row_sums.h"

namespace ashlar::dsl {

// y[r,c] = (x[r,c] - mean[r]) rstd[r] weight[channel of c] + bias[channel of c],  rstd[r] = 1 / √(variance[r] + eps),
// variance[r] = Σ_k (x[r,k] - mean[r])² / n; without centring the mean is taken as 0
template <ElementType T>
class RowNormsInParts : public Kernel<RowNormsInParts<T>> {
 public:
  static constexpr bool on_gpus_alone = true;
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> x{"x", {rows, columns}};
  In<T, 1> weight{"weight", {any_size}}, bias{"bias", {any_size}};
  Scalar<float> eps{"eps"};
  Scalar<int32_t> is_centred{"is_centred"}, has_weight{"has_weight"}, has_bias{"has_bias"};
  ChannelsOfRows channels;
  Scalar<int32_t> rows_of_part{"rows_of_part"};
  Out<T, 2> y{"y", {rows, columns}};
  Out<f32, 1> mean{"mean", {rows}}, rstd{"rstd", {rows}}, variance{"variance", {rows}};
  Out<f32, 3> none{"none", {any_size, constant(1), any_size}};  // of each part one element: the loops are its

  RowNormsInParts() {
    this->formula("y = (x - mean) rstd weight + bias, rstd = 1 / √(variance + eps), of rows or groups of channels");
    this->form(Form::movement).internal();
  }
  void algorithm() {
    plans.declare(columns.extent(), begins_aligned(Halide::Func(x), 4));
    const Axis k = columns.reduce();
    average(r) = dsl::mean(k, x(r, k));
    const Value centre = select(Value(is_centred) != 0, Value(average(r)), 0.0);
    spread(r) = dsl::mean(k, square(x(r, k) - centre));
    scale = channels.each("scale", weight, has_weight, 1.0);
    shift = channels.each("shift", bias, has_bias, 0.0);
    const Value inverse = rsqrt(Value(spread(r)) + eps);
    y(r, c) = (x(r, c) - centre) * inverse * channels.at(scale, c, r) + channels.at(shift, c, r);
    mean(r) = centre;
    rstd(r) = inverse;
    variance(r) = Value(spread(r));
    none(p, q, c) = 0.0;
  }
  void schedule(auto) {
    plans.schedule({.reductions = {average, spread},
                    .inputs = {Halide::Func(x)},
                    .of_columns = {scale, shift},
                    .out = y.func(),
                    .of_rows = {mean.func(), rstd.func(), variance.func()},
                    .terms = {},
                    .sums = none.func(),
                    .row = r,
                    .column = c,
                    .which = q,
                    .part = p,
                    .rows = rows.extent(),
                    .columns = columns.extent(),
                    .classes = channels.classes(),
                    .rows_of_part = Expr(Value(rows_of_part))});
  }

 private:
  RowSumPlans plans;
  Var p{"p"}, q{"q"}, r{"r"}, c{"c"};
  Stage average{"average"}, spread{"spread"};
  Halide::Func scale, shift;
};

const bool registered = register_kernel<RowNormsInParts, f32>("row_norms_in_parts");

}  // namespace ashlar::dsl
