#include "schedules/contraction_parts.h"

#include "schedules/lowering/accesses.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/tree.h"

namespace ashlar::dsl {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;

constexpr int kThreads = 256, kUnroll = 4;

// Few results, of which a thread each would leave most of the device waiting: `kAlong` threads share the parts of each
// of `kAcross` neighbours in a row. Results beyond the last repeat it.
Branch few_results(const Func& out, const ReductionStage& stage, const Var& row, const Var& column) {
  constexpr int kAcross = 32, kAlong = 8, kTogether = 2, kMostResults = 1 << 16;
  const Halide::OutputImageParam buffer = out.output_buffer();
  const Expr columns = buffer.dim(0).extent(), rows = buffer.dim(1).extent();
  const Var x("x"), member("member"), tile("tile"), of_row("of_row");
  const std::vector<Var> index = stage.index();
  const Rewrite rewrite{{{index[0].name(), Halide::min(tile * kAcross + x, columns - 1)}, {index[1].name(), of_row}},
                        {}};
  Share share = make_share(stage, "_of_few", {x, member, tile, of_row}, member, kAlong, kTogether, rewrite);
  const auto combined = [=](const std::vector<Expr>& at) {
    std::vector<std::vector<Expr>> parts;
    for (int m = 0; m < kAlong; m++) {
      parts.push_back(values_at(share.kept, {at[0] % kAcross, m, at[0] / kAcross, at[1]}));
    }
    return stage.merge(parts)[0];
  };
  return {rows * columns <= kMostResults,
          {Rewrite{{}, {{stage.name(), combined}}}(values_of(out)[0])},
          [=](Halide::Stage branch) mutable {
            const GroupShape group;
            Var block("block_of_few"), thread("thread"), beside("beside");
            branch.split(column, block, thread, kAcross, TailStrategy::GuardWithIf)
                .split(thread, beside, thread, kAcross)
                .reorder(thread, beside, block, row)
                .fuse(block, row, block)
                .gpu_blocks(block);
            group.over_threads(branch, thread, beside);
            share.kept.bound(x, 0, kAcross).bound(member, 0, kAlong);
            share_in_block(group, share, Halide::LoopLevel(out, block), x, member);
          }};
}

// The plain values of `out`, with a thread's own sum in place of the stage.
Branch with_share(const Func& out, const ReductionStage& stage, const Share& share, const Expr& condition,
                  const std::function<void(Halide::Stage, Func)>& schedule) {
  const Rewrite rewrite{{}, {{stage.name(), [f = share.kept](const std::vector<Expr>& at) { return f(at); }}}};
  return {condition, {rewrite(values_of(out)[0])}, [=, f = share.func](Halide::Stage branch) {
            schedule(std::move(branch), f);
          }};
}

void sum_of_parts_gpu(const Func& out, const Stage& total, const Var& row, const Var& column) {
  whole_vectors();
  vector_accesses();
  index_arithmetic();
  const ReductionStage stage(total.func());
  const int lanes = lanes_of_access(out);
  // Loads under way; what is stored in 16 bits is a vendor's whole sum.
  const int together = inputs_of(out)[0].type().bytes() < 4 ? 1 : 4;
  const Share of_vector = make_share(stage, "_of_vector", stage.index(), 0, 1, together, {}),
              of_element = make_share(stage, "_of_element", stage.index(), 0, 1, together, {});
  const Var vector("vector"), lane("lane"), place("place"), block("block"), thread("thread"), step("step");
  std::vector<Branch> branches{
      with_share(out, stage, of_vector, lines_are_aligned(out, lanes),
                 [=](Halide::Stage branch, Func share) {
                   branch.split(column, vector, lane, lanes)
                       .fuse(vector, row, place)
                       .split(place, block, thread, kThreads, TailStrategy::GuardWithIf)
                       .vectorize(lane)
                       .gpu_blocks(block)
                       .gpu_threads(thread);
                   const Var along = share.args()[0];
                   share.compute_at(out, thread).bound_storage(along, lanes).vectorize(along, lanes);
                   for (int update = 0; update < 2; update++) share.update(update).vectorize(along, lanes);
                 }),
      with_share(out, stage, of_element, Expr(), [=](Halide::Stage branch, Func share) {
        branch.fuse(column, row, place)
            .split(place, block, step, kThreads * kUnroll, TailStrategy::GuardWithIf)
            .split(step, step, thread, kThreads)
            .reorder(step, thread, block)
            .unroll(step)
            .gpu_blocks(block)
            .gpu_threads(thread);
        share.compute_at(out, step);
      })};
  if (together > 1) branches.insert(branches.begin(), few_results(out, stage, row, column));
  choose(out, branches);
}

}  // namespace

void sum_of_parts(Cpu target, const Func& out, const Stage&, const Var&, const Var&) { generic(target, out); }
void sum_of_parts(OpenCL, const Func& out, const Stage& total, const Var& row, const Var& column) {
  sum_of_parts_gpu(out, total, row, column);
}
void sum_of_parts(Cuda, const Func& out, const Stage& total, const Var& row, const Var& column) {
  sum_of_parts_gpu(out, total, row, column);
}

}  // namespace ashlar::dsl
