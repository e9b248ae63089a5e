// Convolution by 1 × 1 taps on the CPU: a product of matrices, whose right-hand one is the images where they lie.
#include "schedules/contraction_plans.h"

namespace ashlar::dsl {

// y[b,o,q] = max(low, bias[g,o] + Σ_c weight[g,o,c] x[b,c,q]), g = b mod groups
template <ElementType T>
class PointwiseConvolution : public Kernel<PointwiseConvolution<T>> {
 public:
  static constexpr bool on_cpu_alone = true;
  In<T, 3> x{"x"};                     // [images · groups, channels, places]
  In<T, 3> weight{"weight", strided};  // [groups, rows, channels]
  In<T, 1> bias{"bias"};               // [groups · rows], if has_bias
  Scalar<int32_t> has_bias{"has_bias"};
  Scalar<float> low{"low"};
  ContractionTunables<T> tunables;
  Out<T, 3> y{"y", {x.size(0), weight.size(1), x.size(2)}};

  PointwiseConvolution() {
    this->formula("y[b,o,q] = max(low, bias[g,o] + Σ_c weight[g,o,c] x[b,c,q]), g = b mod groups").internal();
    this->flops("2.0 * static_cast<double>(shapes[3].numel()) * static_cast<double>(shapes[0][1])");
  }
  void algorithm() {
    const Expr groups = weight.extent(0), rows = weight.extent(1);
    const auto weight_at = [this, groups](const Expr& batch, const Expr& row, const Expr& c) {
      return weight(Value(batch % groups), Value(row), Value(c)).expr();
    };
    ContractionProblem problem{.batches = x.extent(0),
                               .rows = rows,
                               .columns = x.extent(2),
                               .inner = x.extent(1),
                               .left = {weight_at, weight.axis(0).stride(), weight.axis(1).stride(),
                                        weight.axis(2).stride(), weight.dim(3).min()},
                               .right = matrix_operand(x),
                               .result_batch_stride = y.dim(2).stride(),
                               .result_row_stride = y.dim(1).stride(),
                               .batch = b,
                               .row = o,
                               .column = q};
    // Bias and bound are soon applied, and its products as those of matrices without: filters may lie across their
    // rows.
    product.define(contraction_plans(problem, tunables, EpilogueLength::none));
    product.write(y, b, o, q, [&](const Value& sum, const Expr& batch, const Expr& row, const Value&) {
      const Expr of_row =
          Halide::unsafe_promise_clamped(batch % groups * rows + Halide::min(row, rows - 1), 0, bias.extent(0) - 1);
      return max(sum + select(Value(has_bias) != 0, bias(Value(of_row)), 0.0f), low);
    });
  }
  void schedule(Cpu) { product.schedule(y.func()); }

 private:
  Contraction product;
  Var b{"b"}, o{"o"}, q{"q"};
};

const bool registered = register_kernel<PointwiseConvolution, f32>("pointwise_convolution");

}  // namespace ashlar::dsl
