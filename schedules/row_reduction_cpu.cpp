#include "schedules/lowering/vector_rows.h"
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;

void row_reduction(Cpu, const RowStages& stages) {
  Func out = stages.out;
  const std::vector<Var> index = out.args();
  const Var row = index.back(), task("task");
  const Halide::OutputImageParam buffer = out.output_buffers()[0];
  Rewrite rewrite;
  std::vector<VectorReduction> reductions;
  Expr work = index.size() == 2 ? buffer.dim(0).extent() : Expr(1);
  for (const RowReduction& reduction : stages.reductions) {
    const ReductionStage stage(reduction.stage.func());
    reductions.emplace_back(stage, stage.index(), rewrite);
    rewrite.calls[stage.name()] = [total = reductions.back().total()](const std::vector<Expr>& at) {
      return total(at);
    };
    work = Halide::max(work, stage.extent());
  }
  for (Expr& value : values_of(out)) value = rewrite(value);

  constexpr int kElementsPerTask = 16384;
  out.split(row, task, row, Halide::max(1, kElementsPerTask / Halide::max(1, work)), TailStrategy::GuardWithIf)
      .parallel(task);
  if (index.size() == 2) {
    out.vectorize(index[0], 2 * Descriptor::target.natural_vector_size<float>(), TailStrategy::GuardWithIf);
  }
  for (VectorReduction& reduction : reductions) reduction.compute_at(Halide::LoopLevel(out, row));
}

}  // namespace ashlar::dsl
