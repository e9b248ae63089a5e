#include "schedules/halves.h"

#include "schedules/lowering/accesses.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tasks.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;

namespace {

void in_halves_gpu(Func out, const std::array<Var, 3>& index) {
  constexpr int kThreads = 256;
  whole_vectors();
  vector_accesses();
  index_arithmetic();
  const auto& [outer, half, inner] = index;
  const int lanes = lanes_of_access(out);
  out.bound(half, 0, 2);
  Var vector("vector"), lane("lane"), place("place"), block("block"), thread("thread");
  out.specialize(lines_are_aligned(out, lanes))
      .split(inner, vector, lane, lanes)
      .fuse(vector, outer, place)
      .split(place, block, thread, kThreads, TailStrategy::GuardWithIf)
      .reorder(lane, half, thread, block)
      .vectorize(lane)
      .unroll(half)
      .gpu_blocks(block)
      .gpu_threads(thread);
  out.fuse(inner, outer, place)
      .split(place, block, thread, kThreads, TailStrategy::GuardWithIf)
      .reorder(half, thread, block)
      .unroll(half)
      .gpu_blocks(block)
      .gpu_threads(thread);
}

}  // namespace

void in_halves(Cpu, Func out, const std::array<Var, 3>& index) {
  const auto& [outer, half, inner] = index;
  const int lanes = Descriptor::target.natural_vector_size<float>();
  Var vector("vector"), lane("lane"), task("task"), row("row");
  out.bound(half, 0, 2);
  const Expr elements = out.output_buffer().dim(0).extent();
  const Expr rows = Halide::max(
      1, elements_per_task(2 * elements * out.output_buffer().dim(2).extent()) / Halide::max(1, 2 * elements));
  out.split(inner, vector, lane, lanes, TailStrategy::GuardWithIf)
      .split(outer, task, row, rows, TailStrategy::GuardWithIf)
      .reorder(lane, half, vector, row, task)
      .vectorize(lane)
      .unroll(half)
      .parallel(task);
}
void in_halves(OpenCL, Func out, const std::array<Var, 3>& index) { in_halves_gpu(out, index); }
void in_halves(Cuda, Func out, const std::array<Var, 3>& index) { in_halves_gpu(out, index); }

}  // namespace ashlar::dsl
