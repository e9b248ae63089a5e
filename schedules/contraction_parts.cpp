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

std::vector<ReductionStage> reductions_of(const SumsOfParts& sums) {
  std::vector<ReductionStage> stages;
  for (const Stage& sum : sums) stages.emplace_back(sum.func());
  return stages;
}

// What a thread sums by itself, and the plain values of `out` with it in place of the stages.
struct OwnShares {
  std::vector<Share> shares;
  Rewrite rewrite;

  OwnShares(std::span<const ReductionStage> stages, const std::string& suffix, int together) {
    for (const ReductionStage& stage : stages) {
      shares.push_back(make_share(stage, suffix, stage.index(), 0, 1, together, {}));
      rewrite.calls[stage.name()] = [f = shares.back().kept](const std::vector<Expr>& at) { return f(at); };
    }
  }
  std::vector<Func> funcs() const {
    std::vector<Func> all;
    for (const Share& share : shares) all.push_back(share.func);
    return all;
  }
};

// Few results, of which a thread each would leave most of the device waiting: `kAlong` threads share the parts of each
// of `kAcross` neighbours in a row. Results beyond the last repeat it.
Branch few_results(const Func& out, std::span<const ReductionStage> stages, const Var& row, const Var& column) {
  constexpr int kAcross = 32, kAlong = 8, kTogether = 2, kMostResults = 1 << 13;
  const Halide::OutputImageParam buffer = out.output_buffer();
  const Expr columns = buffer.dim(0).extent(), rows = buffer.dim(1).extent();
  const Var x("x"), member("member"), tile("tile"), of_row("of_row");
  const ReductionStage& parts_stage = stages.front();
  const std::vector<Var> index = parts_stage.index();
  const Rewrite rewrite{{{index[0].name(), Halide::min(tile * kAcross + x, columns - 1)}, {index[1].name(), of_row}},
                        {}};
  Share share = make_share(parts_stage, "_of_few", {x, member, tile, of_row}, member, kAlong, kTogether, rewrite);
  OwnShares others(stages.subspan(1), "_of_one", 1);
  others.rewrite.calls[parts_stage.name()] = [=](const std::vector<Expr>& at) {
    std::vector<std::vector<Expr>> parts;
    for (int m = 0; m < kAlong; m++) {
      parts.push_back(values_at(share.kept, {at[0] % kAcross, m, at[0] / kAcross, at[1]}));
    }
    return parts_stage.merge(parts)[0];
  };
  return {rows * columns <= kMostResults, {others.rewrite(values_of(out)[0])}, [=](Halide::Stage branch) mutable {
            const GroupShape group;
            Var block("block_of_few"), thread("thread"), beside("beside");
            branch.split(column, block, thread, kAcross, TailStrategy::GuardWithIf)
                .split(thread, beside, thread, kAcross)
                .reorder(thread, beside, block, row)
                .fuse(block, row, block)
                .gpu_blocks(block);
            const Var item = group.over_threads(branch, thread, beside);
            share.kept.bound(x, 0, kAcross).bound(member, 0, kAlong);
            share_in_block(group, share, Halide::LoopLevel(out, block), x, member);
            for (Func other : others.funcs()) other.compute_at(out, item);
          }};
}

void sum_of_parts_gpu(const Func& out, const SumsOfParts& sums, const Var& row, const Var& column) {
  whole_vectors();
  vector_accesses();
  index_arithmetic();
  const std::vector<ReductionStage> stages = reductions_of(sums);
  const int lanes = lanes_of_access(out);
  // Measured on an H200, 10^4 to 10^6 results of 2 to 40 parts: threads so many that every multiprocessor has some,
  // each with loads under way. What is stored in 16 bits is a vendor's whole sum.
  const bool is_whole = inputs_of(out)[0].type().bytes() < 4;
  const int threads = 256, threads_of_vectors = is_whole ? threads : 64;
  const OwnShares of_vector(stages, "_of_vector", is_whole ? 1 : 4), of_element(stages, "_of_element", 8);
  const Var vector("vector"), lane("lane"), place("place"), block("block"), thread("thread"), step("step");
  std::vector<Branch> branches;
  if (!is_whole) branches.push_back(few_results(out, stages, row, column));
  branches.push_back({lines_are_aligned(out, lanes), {of_vector.rewrite(values_of(out)[0])}, [=](Halide::Stage branch) {
                        branch.split(column, vector, lane, lanes)
                            .fuse(vector, row, place)
                            .split(place, block, thread, threads_of_vectors, TailStrategy::GuardWithIf)
                            .vectorize(lane)
                            .gpu_blocks(block)
                            .gpu_threads(thread);
                        for (Func share : of_vector.funcs()) {
                          const Var along = share.args()[0];
                          share.compute_at(out, thread).bound_storage(along, lanes).vectorize(along, lanes);
                          for (int update = 0; update < 2; update++) share.update(update).vectorize(along, lanes);
                        }
                      }});
  const auto add_elements = [&](const Expr& condition, const OwnShares& shares, int elements) {
    branches.push_back({condition, {shares.rewrite(values_of(out)[0])}, [=](Halide::Stage branch) {
                          branch.fuse(column, row, place)
                              .split(place, block, step, threads * elements, TailStrategy::GuardWithIf)
                              .split(step, step, thread, threads)
                              .reorder(step, thread, block)
                              .unroll(step)
                              .gpu_blocks(block)
                              .gpu_threads(thread);
                          for (Func share : shares.funcs()) share.compute_at(out, step);
                        }});
  };
  // A vendor's whole sum: a thread loads some elements at once.
  constexpr int kElementsOfWhole = 8;
  if (stages.size() == 1)
    add_elements(stages.front().extent() == 1, OwnShares(stages, "_of_one_part", 1), kElementsOfWhole);
  add_elements(Expr(), of_element, 1);
  choose(out, branches);
}

}  // namespace

void sum_of_parts(Cpu target, const Func& out, const SumsOfParts&, const Var&, const Var&) { generic(target, out); }
void sum_of_parts(OpenCL, const Func& out, const SumsOfParts& sums, const Var& row, const Var& column) {
  sum_of_parts_gpu(out, sums, row, column);
}
void sum_of_parts(Cuda, const Func& out, const SumsOfParts& sums, const Var& row, const Var& column) {
  sum_of_parts_gpu(out, sums, row, column);
}

}  // namespace ashlar::dsl
