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

// The reductions of a row in vector lanes, and what they are come by from.
struct VectorRows {
  explicit VectorRows(const RowStages& stages) : plain(values_of(stages.out)), index(Func(stages.out).args()) {
    for (const Stage& reduction : stages.reductions) {
      const ReductionStage stage(reduction.func());
      std::function<Expr(const Expr&)> value;
      if (const std::optional<Kept> one = keep(stage, index, rewrite, plain)) {
        kept.push_back(*one);
        value = [values = one->values, row = index.back()](const Expr& k) { return values(k, row); };
      }
      reductions.emplace_back(stage, stage.index(), rewrite, value);
      rewrite.calls[stage.name()] = [total = reductions.back().total()](const std::vector<Expr>& at) {
        return total(at);
      };
    }
  }
  // The output's values, from the results' Funcs.
  std::vector<Expr> values() const {
    std::vector<Expr> result;
    for (const Expr& one : plain) {
      Expr value = rewrite(one);
      for (const Kept& from : kept) value = replace_part(value, from.formula, from.values(index[0], index.back()));
      result.push_back(value);
    }
    return result;
  }
  void compute_at(const Halide::LoopLevel& each_row, const Halide::LoopLevel& stored_at, int lanes) {
    for (VectorReduction& reduction : reductions) reduction.compute_at(each_row);
    for (Kept& one : kept) {
      one.values.compute_at(each_row).store_at(stored_at).vectorize(index[0], lanes, TailStrategy::GuardWithIf);
      one.values.align_storage(index[0], lanes);
      store_whole(one.values, true);
    }
  }

  std::vector<Expr> plain;
  std::vector<Var> index;
  Rewrite rewrite;
  std::vector<VectorReduction> reductions;
  std::vector<Kept> kept;
};

Expr elements_of_row(const RowStages& stages) {
  Expr elements = stages.out_has_columns() ? stages.out.output_buffers()[0].dim(0).extent() : Expr(1);
  for (const Stage& reduction : stages.reductions)
    elements = Halide::max(elements, ReductionStage(reduction.func()).extent());
  return Halide::max(1, elements);
}

// Parts of an expression that are alike in all columns, and long: calls of `values` stand in their place.
class RowValues : public Halide::Internal::IRMutator {
 public:
  RowValues(const Var& column, const Var& row) : column_(column), row_(row) {}
  using Halide::Internal::IRMutator::mutate;
  Expr mutate(const Expr& e) override {
    if (operations_of(e) < kOperationsWorthKeeping) return e;
    if (Halide::Internal::expr_uses_var(e, column_.name())) return IRMutator::mutate(e);
    values.emplace_back("value_of_row");
    values.back()(row_) = e;
    return values.back()(row_);
  }
  std::vector<Func> values;

 private:
  Var column_, row_;
};

// Rows of a few vectors, for whose elements something long is made of the reductions' results, a logarithm: a vector of
// rows has it worked out at once.
std::optional<Branch> rows_in_groups(const RowStages& stages) {
  constexpr int kMostColumns = 256;
  if (!stages.out_has_columns()) return {};
  Func out = stages.out;
  VectorRows in_vectors(stages);
  Func totals("totals");
  std::vector<Expr> of_row;
  Rewrite reading;
  Expr condition = out.output_buffers()[0].dim(1).extent() >= Descriptor::target.natural_vector_size<float>();
  for (size_t i = 0; i < in_vectors.reductions.size(); i++) {
    const ReductionStage stage(stages.reductions[i].get().func());
    const Func total = in_vectors.reductions[i].total();
    of_row.push_back(total(stages.row));
    reading.calls[total.name()] = [=, of_several = in_vectors.reductions.size() > 1](const std::vector<Expr>& at) {
      return of_several ? Expr(totals(at)[static_cast<int>(i)]) : Expr(totals(at));
    };
    condition = condition && stage.extent() <= kMostColumns;
  }
  totals(stages.row) = Halide::Tuple(of_row);
  for (const Kept& one : in_vectors.kept) reading.kept.insert(one.values.name());
  RowValues long_ones(stages.column, stages.row);
  std::vector<Expr> values;
  for (const Expr& value : in_vectors.values()) values.push_back(long_ones.mutate(reading(value)));
  if (long_ones.values.empty()) return {};
  return Branch{condition, values, [=, of_rows = long_ones.values](Halide::Stage branch) mutable {
                  Var task("task"), group("group"), row_of_group("row_of_group");
                  const int lanes = Descriptor::target.natural_vector_size<float>();
                  const Expr rows = out.output_buffers()[0].dim(1).extent(), work = elements_of_row(stages);
                  branch.split(stages.row, group, row_of_group, lanes, TailStrategy::GuardWithIf)
                      .split(group, task, group, Halide::max(1, elements_per_task(rows * work) / (work * lanes)),
                             TailStrategy::GuardWithIf)
                      .parallel(task)
                      .vectorize(stages.column, 2 * lanes, TailStrategy::GuardWithIf);
                  const Halide::LoopLevel each_group(out, group);
                  totals.compute_at(each_group).store_in(Halide::MemoryType::Stack).bound_storage(stages.row, lanes);
                  for (Func& one : of_rows) {
                    one.compute_at(each_group).store_in(Halide::MemoryType::Stack).bound_storage(stages.row, lanes);
                    one.vectorize(stages.row, lanes, TailStrategy::RoundUp);
                  }
                  in_vectors.compute_at({totals, stages.row}, each_group, 2 * lanes);
                }};
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
  if (Descriptor::target.has_feature(Halide::Target::AVX2) && stages.beside.empty()) {
    std::vector<Branch> branches{rows_in_lanes(stages)};
    if (const std::optional<Branch> in_groups = rows_in_groups(stages)) branches.push_back(*in_groups);
    choose(out, branches);
  }
  const std::vector<Var> index = out.args();
  const Var row = index.back(), task("task");
  const Halide::OutputImageParam buffer = out.output_buffers()[0];
  const int lanes = 2 * Descriptor::target.natural_vector_size<float>();
  VectorRows in_vectors(stages);
  values_of(out) = in_vectors.values();

  const Expr rows = buffer.dim(static_cast<int>(index.size()) - 1).extent(), work = elements_of_row(stages);
  out.split(row, task, row, Halide::max(1, elements_per_task(rows * work) / work), TailStrategy::GuardWithIf)
      .parallel(task);
  if (index.size() == 2) out.vectorize(index[0], lanes, TailStrategy::GuardWithIf);
  in_vectors.compute_at({out, row}, {out, task}, lanes);
  for (const Kept& one : in_vectors.kept) write_ahead(one.values, out);
  if (in_vectors.kept.empty() && index.size() == 2) write_ahead(in_vectors.reductions.back().main(), out);
}

}  // namespace ashlar::dsl
