// Family: contraction, y[b,m,n] = f(Σ_k left[b,m,k] · right[b,k,n]), operands with any strides.
//
// No single loop nest suits both a 64 × 10 product and a 4096 × 4096 one. The family writes the same sum down as
// several plans (dsl/plans.h), each with its own stages and compiled by itself; the shape and strides of a call choose
// between them before it. The files contraction_<target>.h say which plans a target has, when each applies and for what
// it is preferred.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "dsl/kernel.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

/// One operand of a contraction: batched matrices in row-major order of indices.
struct MatrixOperand {
  std::function<Expr(Expr batch, Expr row, Expr column)> at;  ///< the widened element; indices must be inside
  Expr batch_stride, row_stride, column_stride;               ///< in elements
  Expr negative_offset;                                       ///< of the first element, from an aligned base
};

/// The operand behind an input tensor [batch, row, column].
template <ElementType T>
MatrixOperand matrix_operand(const In<T, 3>& x) {
  const Expr stride = x.axis(2).stride();
  const auto* variable = stride.as<Halide::Internal::Variable>();
  const std::vector<ArgumentDescription>& arguments = Descriptor::current->arguments;
  const bool is_strided = std::ranges::any_of(arguments, [&](const ArgumentDescription& argument) {
    return argument.is_strided && variable != nullptr && variable->param.name() == argument.name;
  });
  return {[&x](Expr batch, Expr row, Expr column) { return x(Value(batch), Value(row), Value(column)).expr(); },
          x.axis(0).stride(), x.axis(1).stride(), is_strided ? stride : Expr(1), x.dim(3).min()};
}

/// Sizes, operands and the index variables of the output that reads the product.
struct ContractionProblem {
  Expr batches, rows, columns, inner;
  MatrixOperand left, right;
  Expr result_batch_stride, result_row_stride;  // of the output that reads the product, in elements
  Var batch, row, column;

  // Stages use Halide's order, innermost first. `left` is called (k, row, batch), `right` (column, k, batch).
  Expr left_at(const Expr& k, const Expr& m, const Expr& b) const { return left.at(b, m, k); }
  Expr right_at(const Expr& n, const Expr& k, const Expr& b) const { return right.at(b, k, n); }
  /// An index moved into [0, extent); what is read there instead has to be ignored.
  static Expr inside(const Expr& index, const Expr& extent) { return Halide::max(Halide::min(index, extent - 1), 0); }
};

/// y[batch,m,n] = f(Σ_k left[batch,m,k] · right[batch,k,n]): the problem behind three tensors of a kernel.
template <ElementType T, ElementType Y>
ContractionProblem contraction_problem(const In<T, 3>& left, const In<T, 3>& right, const Out<Y, 3>& y,
                                       const Var& batch, const Var& m, const Var& n) {
  return {.batches = left.extent(0),
          .rows = left.extent(1),
          .columns = right.extent(2),
          .inner = left.extent(2),
          .left = matrix_operand(left),
          .right = matrix_operand(right),
          .result_batch_stride = y.dim(2).stride(),
          .result_row_stride = y.dim(1).stride(),
          .batch = batch,
          .row = m,
          .column = n};
}

/// What a kernel computes of each sum. It stands unrolled in the code of every plan: a long one (an exponential, say)
/// is kept out of the largest plans.
enum class EpilogueLength { none, short_one, long_one };

/// One way to compute the product. What it may build on stands in `when`; what makes it the quickest, which is a matter
/// of sizes and devices, in `preferred`.
struct ContractionPlan {
  std::string name = {};
  std::vector<Expr> when = {};  ///< the calls that it can serve, a loop nest each; empty: all
  Expr preferred = {};          ///< those of them that it is for; undefined: all
  Halide::Func product;         ///< product(column, row, batch)
  std::function<void(Halide::Stage)> schedule_output = {};  ///< the loops of the output that reads it
  std::function<void(Halide::Func)> schedule_stages = {};   ///< its own stages, inside those loops
  std::vector<std::string> tunables = {};                   ///< those that it reads
  Expr microseconds = {};                                   ///< by the model; of all plans of a target or of none
};

/// The product as a stage of a kernel: define() in algorithm(), read like a Func, schedule() at the end. A member of
/// the kernel.
class Contraction {
 public:
  /// Plans in the order in which they are tried; the last one has no conditions. Those that can serve no call, by what
  /// the kernel says of its operands' strides, are left out.
  void define(const std::vector<ContractionPlan>& all) {
    std::vector<PlanDescription> described;
    std::vector<ContractionPlan> plans;
    for (const ContractionPlan& plan : all) {
      Expr applies;
      for (const Expr& one : plan.when) applies = applies.defined() ? applies || one : one;
      if (applies.defined() && Halide::Internal::is_const_zero(Halide::Internal::simplify(applies))) continue;
      plans.push_back(plan);
      described.push_back({.name = plan.name,
                           .applies = applies,
                           .preferred = plan.preferred,
                           .microseconds = plan.microseconds,
                           .tunables = plan.tunables});
    }
    plans_.declare(std::move(described));
    chosen_ = plans.at(plans_.chosen_index());
  }

  /// Σ_k left[batch,row,k] · right[batch,k,column]
  Value operator()(const Var& batch, const Var& row, const Var& column) const {
    return Value(Expr(chosen_.product(column, row, batch)));
  }

  void schedule(Halide::Func out) const {
    for (const Expr& condition : chosen_.when) chosen_.schedule_output(out.specialize(condition));
    // Of what stands behind a specialize_fail() nothing is compiled, but it has to have loops for the stages.
    if (!chosen_.when.empty()) out.specialize_fail("the plan " + chosen_.name + " can't serve this call");
    chosen_.schedule_output(out);
    chosen_.schedule_stages(out);
    if (Descriptor::target.has_feature(Halide::Target::OpenCL)) index_arithmetic();
  }

 private:
  Plans plans_;
  ContractionPlan chosen_;
};

}  // namespace ashlar::dsl
