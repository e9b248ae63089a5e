// Family: contraction, y[b,m,n] = f(Σ_k left[b,m,k] · right[b,k,n]), operands with any strides.
//
// No single loop nest suits both a 64 × 10 product and a 4096 × 4096 one. The family writes the same sum down as
// several plans (dsl/plans.h), each with its own stages and compiled by itself; the shape and strides of a call choose
// between them before it. The files contraction_<target>.h say which plans a target has, when each applies and for what
// it is preferred.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
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
  /// An index that lies in [0, extent) by the plan's own loops, which Halide can't see.
  static Expr promised(const Expr& index, const Expr& extent) {
    return Halide::unsafe_promise_clamped(index, 0, extent - 1);
  }
};

/// yᵀ = rightᵀ · leftᵀ: the same sums with rows and columns in each other's place. The result's strides stay y's.
inline ContractionProblem transposed(const ContractionProblem& p) {
  const auto turned = [](const MatrixOperand& x) {
    return MatrixOperand{[at = x.at](Expr batch, Expr row, Expr column) { return at(batch, column, row); },
                         x.batch_stride, x.column_stride, x.row_stride, x.negative_offset};
  };
  ContractionProblem other = p;
  std::swap(other.rows, other.columns);
  std::swap(other.row, other.column);
  other.left = turned(p.right);
  other.right = turned(p.left);
  return other;
}

/// Whether both operands may lie along k or across it, as each call has them.
inline bool lies_either_way(const ContractionProblem& p) {
  return !Halide::Internal::is_const(p.left.column_stride) && !Halide::Internal::is_const(p.right.column_stride);
}

/// How many tiles of that size the results of all batches have.
inline Expr tiles_of_result(const ContractionProblem& p, int rows, int columns) {
  return (p.columns + columns - 1) / columns * ((p.rows + rows - 1) / rows) * p.batches;
}

/// The ways in which four neighbouring elements of an operand can be loaded at once, aligned.
struct QuadLoads {
  Expr left_along_k, left_along_rows, right_along_k, right_along_columns;
};

inline QuadLoads quad_loads(const ContractionProblem& p) {
  const auto quad = [](const MatrixOperand& x, const Expr& unit_stride, const Expr& other_stride, const Expr& extent) {
    // Written on the buffer's own fields: from them Halide proves the alignment of the vector load.
    return unit_stride == 1 && other_stride % 4 == 0 && x.batch_stride % 4 == 0 && x.negative_offset % 4 == 0 &&
           extent % 4 == 0;
  };
  return {quad(p.left, p.left.column_stride, p.left.row_stride, p.inner),
          quad(p.left, p.left.row_stride, p.left.column_stride, p.rows),
          quad(p.right, p.right.row_stride, p.right.column_stride, p.inner),
          quad(p.right, p.right.column_stride, p.right.row_stride, p.columns)};
}

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

/// A result's place and its sum, by the loops of the plan itself: over an RDom in place of the output's own
/// coordinates.
struct ScatteredResult {
  Expr sum, column, row, batch;
};

/// One way to compute the product. What it may build on stands in `when`; what makes it the quickest, which is a matter
/// of sizes and devices, in `preferred`.
struct ContractionPlan {
  std::string name = {};
  std::vector<Expr> when = {};  ///< the calls that it can serve, a loop nest each; empty: all
  Expr preferred = {};          ///< those of them that it is for; undefined: all
  Halide::Func product = {};    ///< product(column, row, batch); undefined: `scattered` stands for it
  std::optional<ScatteredResult> scattered = {};
  std::function<void(Halide::Stage)> schedule_output = {};  ///< the loops of the output that reads it
  /// A kernel of its own for each combination of one condition of every list, tried in order, or of none of it.
  std::vector<std::vector<Expr>> apart = {};
  std::function<void(Halide::Func)> schedule_stages = {};  ///< its own stages, inside those loops
  std::vector<std::string> tunables = {};                  ///< those that it reads
  Expr microseconds = {};                                  ///< by the model; of all plans of a target or of none
};

/// The product as a stage of a kernel: define() and write() in algorithm(), schedule() at the end. A member of the
/// kernel.
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

  /// y[batch,row,column] = finished(Σ_k left[batch,row,k] · right[batch,k,column], batch, row, column), where
  /// `finished` makes a Value of the sum and its place.
  template <ElementType Y>
  void write(const Out<Y, 3>& y, const Var& batch, const Var& row, const Var& column, const auto& finished) const {
    Halide::Func out = y.func();
    const auto stored = [&](const ScatteredResult& at) {
      return Element<Y>::store(finished(Value(at.sum), Value(at.batch), Value(at.row), Value(at.column)),
                               Descriptor::target);
    };
    if (!chosen_.scattered) {
      out(column, row, batch) = stored({chosen_.product(column, row, batch), column, row, batch});
      return;
    }
    const ScatteredResult& at = *chosen_.scattered;
    const Expr value = stored(at);
    out(column, row, batch) = Halide::undef(value.type());
    out(at.column, at.row, at.batch) = value;
  }

  void schedule(Halide::Func out) const {
    if (chosen_.scattered) {
      out.gpu_blocks(out.args().back());  // of nothing
      chosen_.schedule_output(out.update());
      chosen_.schedule_stages(out);
      return index_arithmetic();
    }
    for (const Expr& condition : chosen_.when) schedule_apart(out.specialize(condition), 0);
    if (chosen_.when.empty()) {
      schedule_apart(out, 0);
    } else {
      // Of what stands behind a specialize_fail() nothing is compiled, but it has to have loops for the stages.
      out.specialize_fail("the plan " + chosen_.name + " can't serve this call");
      chosen_.schedule_output(out);
    }
    chosen_.schedule_stages(out);
    if (Descriptor::target.has_feature(Halide::Target::OpenCL)) index_arithmetic();
  }

 private:
  void schedule_apart(Halide::Stage out, size_t list) const {
    if (list == chosen_.apart.size()) return chosen_.schedule_output(out);
    for (const Expr& one : chosen_.apart[list]) {
      const Expr condition = Halide::Internal::simplify(one);
      if (Halide::Internal::is_const_zero(condition)) continue;
      if (Halide::Internal::is_const_one(condition)) break;  // what is left is this
      schedule_apart(out.specialize(condition), list + 1);
    }
    schedule_apart(out, list + 1);
  }

  Plans plans_;
  ContractionPlan chosen_;
};

}  // namespace ashlar::dsl
