// What the normalisations' weights have in common: their gradient, a sum over all rows.
#include "schedules/reduction.h"

namespace ashlar::dsl {

namespace {
constexpr int kRowsOfPart = 256;
}

// sums[p,0,c] = Σ_r dy[r,c] (x[r,c] - mean[r]) rstd[r], r in part p of 256 rows; what is left to be summed is f32
template <ElementType T>
class NormWeightSums : public Kernel<NormWeightSums<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> dy{"dy", {rows, columns}}, x{"x", {rows, columns}};
  In<f32, 1> rstd{"rstd", {rows}}, mean{"mean", {rows}, absent_is(0)};
  ReductionTunables tunables;
  Out<f32, 3> sums{"sums", {(rows + constant(kRowsOfPart - 1)) / constant(kRowsOfPart), constant(1), columns}};

  NormWeightSums() {
    this->formula("norm_weight_sums(dy, x)[p,0,c] = Σ_r dy[r,c] (x[r,c] - mean[r]) rstd[r], r in part p of 256 rows");
    this->form(Form::rows).flops("3.0 * shapes[0].numel()");
  }
  void algorithm() {
    k = Axis(kRowsOfPart, "k");
    k.where(Value(part) * kRowsOfPart + k < Value(rows.extent()));
    // The axis' condition keeps it inside, which Halide can't see.
    const Expr row = Halide::unsafe_promise_clamped(Expr(Value(part) * kRowsOfPart + k), 0, rows.extent() - 1);
    total(part, one, c) = sum(k, dy(row, c) * ((x(row, c) - mean(row)) * rstd(row)));
    sums(part, one, c) = total(part, one, c);
  }
  void schedule(auto target) { reduction(target, {total, k.rvar(), sums.func(), part, one, c, tunables}); }

 private:
  Axis k;
  Stage total{"total"};
  Var part{"part"}, one{"one"}, c{"c"};
};

const bool registered = register_kernel<NormWeightSums, f32, f16, bf16>("norm_weight_sums");

}  // namespace ashlar::dsl
