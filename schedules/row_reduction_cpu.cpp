#include "schedules/lowering/beside.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/store_whole.h"
#include "schedules/lowering/tasks.h"
#include "schedules/lowering/tree.h"
#include "schedules/lowering/vector_rows.h"
#include "schedules/lowering/write_ahead.h"
#include "schedules/row_reduction.h"

#include <optional>

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;

namespace {

// A value of so many operations, reduced and then wanted again by the output, is kept: a row of them stays in cache.
constexpr int kOperationsWorthKeeping = 8;

struct Kept {
  Expr formula;  // at (column, row)
  Func values;
};

// The values that `stage` reduces, if one of `outputs` needs them too and they cost enough.
std::optional<Kept> keep(const ReductionStage& stage, const std::vector<Var>& index, const Rewrite& rewrite,
                         const std::vector<Expr>& outputs) {
  if (index.size() != 2 || stage.has_length()) return {};
  const Expr formula = stage.value(index[0], rewrite);
  if (operations_of(formula) < kOperationsWorthKeeping) return {};
  for (const Expr& output : outputs) {
    const Expr value = rewrite(output);
    if (replace_part(value, formula, Halide::Internal::make_zero(formula.type())).same_as(value)) continue;
    Func values(stage.name() + "_values");
    values(index) = formula;
    return Kept{formula, values};
  }
  return {};
}

// Rows of a few columns: a lane for each row, since a vector along one would be mostly empty.
Branch rows_in_lanes(const RowStages& stages) {
  constexpr int kMostColumns = 16, kUnroll = 4;
  Func out = stages.out;
  const int lanes = Descriptor::target.natural_vector_size<float>();
  const Expr rows = out.output_buffers()[0].dim(out.dimensions() - 1).extent();
  Expr condition = rows >= lanes;
  Rewrite rewrite;
  std::vector<Share> shares;
  for (const Stage& reduction : stages.reductions) {
    const ReductionStage stage(reduction.func());
    shares.push_back(make_share(stage, "_of_lane", {stage.index().at(0)}, 0, 1, kUnroll, rewrite));
    rewrite.calls[stage.name()] = [f = shares.back().func](const std::vector<Expr>& at) { return f(at); };
    condition = condition && stage.extent() <= kMostColumns;
  }
  std::vector<Expr> values = values_of(out);
  for (Expr& value : values) value = rewrite(value);
  return {condition, values, [=](Halide::Stage branch) mutable {
            Var task("task"), lane("lane"), vector("vector");
            branch.split(stages.row, vector, lane, lanes, TailStrategy::GuardWithIf)
                .split(vector, task, vector,
                       Halide::max(1, elements_per_task(rows * kMostColumns) / (kMostColumns * lanes)),
                       TailStrategy::GuardWithIf);
            if (stages.out_has_columns()) branch.reorder(lane, stages.column, vector, task);
            branch.vectorize(lane).parallel(task);
            for (Share& share : shares) {
              const Var row = share.func.args()[0];
              share.func.compute_at(out, vector).store_in(Halide::MemoryType::Stack).bound_storage(row, lanes);
              share.func.vectorize(row, lanes, TailStrategy::GuardWithIf);
              for (int i = 0; i < share.func.num_update_definitions(); i++)
                share.func.update(i).vectorize(row, lanes, TailStrategy::GuardWithIf);
            }
          }};
}

}  // namespace

void row_reduction(Cpu, const RowStages& stages) {
  compute_beside(stages.out, stages.beside, stages.row, stages.column);
  store_beside(stages.beside);
  stages.check_complete();
  Func out = stages.out;
  // What stands beside it is stored with the vectors of a row.
  if (Descriptor::target.has_feature(Halide::Target::AVX2) && stages.beside.empty())
    choose(out, {rows_in_lanes(stages)});
  const std::vector<Var> index = out.args();
  const Var row = index.back(), task("task");
  const Halide::OutputImageParam buffer = out.output_buffers()[0];
  const int lanes = 2 * Descriptor::target.natural_vector_size<float>();
  const Halide::LoopLevel each_row(out, row);
  Rewrite rewrite;
  std::vector<Expr> plain = values_of(out);
  std::vector<VectorReduction> reductions;
  std::vector<Kept> kept;
  Expr work = index.size() == 2 ? buffer.dim(0).extent() : Expr(1);
  for (const Stage& reduction : stages.reductions) {
    const ReductionStage stage(reduction.func());
    std::function<Expr(const Expr&)> value;
    if (const std::optional<Kept> one = keep(stage, index, rewrite, plain)) {
      kept.push_back(*one);
      value = [values = one->values, row](const Expr& k) { return values(k, row); };
    }
    reductions.emplace_back(stage, stage.index(), rewrite, value);
    rewrite.calls[stage.name()] = [total = reductions.back().total()](const std::vector<Expr>& at) {
      return total(at);
    };
    work = Halide::max(work, stage.extent());
  }
  for (Expr& value : values_of(out)) {
    value = rewrite(value);
    for (const Kept& one : kept) value = replace_part(value, one.formula, one.values(index[0], row));
  }

  const Expr rows = buffer.dim(static_cast<int>(index.size()) - 1).extent();
  work = Halide::max(1, work);
  out.split(row, task, row, Halide::max(1, elements_per_task(rows * work) / work), TailStrategy::GuardWithIf)
      .parallel(task);
  if (index.size() == 2) out.vectorize(index[0], lanes, TailStrategy::GuardWithIf);
  for (VectorReduction& reduction : reductions) reduction.compute_at(each_row);
  for (Kept& one : kept) {
    one.values.compute_at(each_row).store_at(out, task).vectorize(index[0], lanes, TailStrategy::GuardWithIf);
    one.values.align_storage(index[0], lanes);
    store_whole(one.values, true);
    write_ahead(one.values, out);
  }
  if (kept.empty() && index.size() == 2) write_ahead(reductions.back().main(), out);
}

}  // namespace ashlar::dsl
