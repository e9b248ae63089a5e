// Family: contraction, y[b,m,n] = f(Σ_k left[b,m,k] · right[b,k,n]), operands with any strides.
//
// No single loop nest suits both a 64 × 10 product and a 4096 × 4096 one. The family writes the same sum down as
// several plans, each with its own stages, and the shape and strides of a call choose between them at run time. The
// files contraction_<target>.h say which plans a target has and when each applies.
#pragma once

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
  return {[&x](Expr batch, Expr row, Expr column) { return x(Value(batch), Value(row), Value(column)).expr(); },
          x.axis(0).stride(), x.axis(1).stride(), x.axis(2).stride(), x.dim(3).min()};
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

/// One way to compute the product.
struct ContractionPlan {
  std::vector<Expr> when;                              ///< the calls it is for, a loop nest each; empty: all others
  Halide::Func product;                                ///< product(column, row, batch)
  std::function<void(Halide::Stage)> schedule_output;  ///< the loops of the output that reads it
  std::function<void(Halide::Func)> schedule_stages;   ///< its own stages, inside those loops
};

namespace detail {

/// Replaces every select between the kept plan and another by the side with the kept one.
class KeepPlan : public Halide::Internal::IRMutator {
 public:
  KeepPlan(std::string kept, std::vector<std::string> others) : kept_(std::move(kept)), others_(std::move(others)) {}

 private:
  using IRMutator::visit;
  struct Reads : Halide::Internal::IRGraphVisitor {
    using IRGraphVisitor::visit;
    const KeepPlan& plans;
    bool kept = false, other = false;
    explicit Reads(const KeepPlan& owner) : plans(owner) {}
    void visit(const Halide::Internal::Call* op) override {
      kept = kept || op->name == plans.kept_;
      other = other || std::find(plans.others_.begin(), plans.others_.end(), op->name) != plans.others_.end();
      IRGraphVisitor::visit(op);
    }
  };
  Expr visit(const Halide::Internal::Select* op) override {
    Reads yes(*this), no(*this);
    op->true_value.accept(&yes);
    op->false_value.accept(&no);
    const bool between_plans = (yes.kept || yes.other) && (no.kept || no.other);
    if (!between_plans || yes.kept == no.kept) return IRMutator::visit(op);
    return mutate(yes.kept ? op->true_value : op->false_value);
  }
  std::string kept_;
  std::vector<std::string> others_;
};

}  // namespace detail

/// The product as a stage of a kernel: define() in algorithm(), read like a Func, schedule() at the end.
class Contraction {
 public:
  /// Plans in the order in which they are tried; the last one has no conditions.
  void define(std::vector<ContractionPlan> plans) { plans_ = std::move(plans); }

  /// Σ_k left[batch,row,k] · right[batch,k,column]
  Value operator()(const Var& batch, const Var& row, const Var& column) const {
    Expr value = plans_.back().product(column, row, batch);
    for (size_t i = plans_.size() - 1; i-- > 0;) {
      Expr applies = plans_[i].when.front();
      for (size_t j = 1; j < plans_[i].when.size(); j++) applies = applies || plans_[i].when[j];
      value = Halide::select(applies, plans_[i].product(column, row, batch), value);
    }
    return value;
  }

  void schedule(Halide::Func out) const {
    Halide::Internal::Definition& all = out.function().definition();
    for (const ContractionPlan& plan : plans_) {
      for (const Expr& condition : plan.when) {
        plan.schedule_output(out.specialize(condition));
        keep(plan, all.specializations().back().definition);
      }
    }
    plans_.back().schedule_output(out);
    keep(plans_.back(), all);
    for (const ContractionPlan& plan : plans_) plan.schedule_stages(out);
    if (Descriptor::target.has_feature(Halide::Target::OpenCL)) index_arithmetic();
  }

 private:
  // A plan's stages are computed inside the loops of its own specialisations, so no other may read them. Halide drops
  // the selects whose outcome a specialisation decides only where the condition is simple; here it is done for certain.
  void keep(const ContractionPlan& plan, Halide::Internal::Definition& definition) const {
    std::vector<std::string> others;
    for (const ContractionPlan& p : plans_) {
      if (!p.product.function().same_as(plan.product.function())) others.push_back(p.product.name());
    }
    for (Expr& value : definition.values()) value = detail::KeepPlan(plan.product.name(), others).mutate(value);
  }

  std::vector<ContractionPlan> plans_;
};

}  // namespace ashlar::dsl
