#include "schedules/elementwise.h"

#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tasks.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;

namespace {

constexpr int kThreads = 256;

void elementwise_gpu(Func out, const Var& i, const Intermediates& stages, bool has_vectors) {
  Var block("block"), thread("thread"), lane("lane"), step("step");
  if (!stages.empty()) {
    out.gpu_tile(i, block, thread, kThreads, TailStrategy::GuardWithIf);
    for (Stage* stage : stages) stage->func().compute_at(out, thread);
    return;
  }

  const int lanes = has_vectors ? lanes_of_access(out) : 1;
  Expr aligned = Halide::Internal::const_true();
  for (const Halide::Parameter& input : inputs_of(out)) {
    if (input.dimensions() > 1) aligned = aligned && hidden_min(input) % lanes == 0;
  }
  aligned = Halide::Internal::simplify(aligned);
  const auto vectors = [&](auto&& branch) {
    branch.split(i, block, thread, kThreads * lanes, TailStrategy::GuardWithIf)
        .split(thread, thread, lane, lanes)
        .vectorize(lane)
        .gpu_blocks(block)
        .gpu_threads(thread);
  };
  if (has_vectors && Halide::Internal::is_const_one(aligned)) return vectors(out);
  if (has_vectors) vectors(out.specialize(aligned));
  out.split(i, block, step, kThreads * 4, TailStrategy::GuardWithIf)
      .split(step, step, thread, kThreads)
      .reorder(step, thread, block)
      .unroll(step)
      .gpu_blocks(block)
      .gpu_threads(thread);
}

}  // namespace

void elementwise(Cpu, Func out, const Var& i, const Intermediates& stages) {
  Var vector("vector"), lane("lane"), task("task"), chunk("chunk"), in_chunk("in_chunk");
  const int lanes = Descriptor::target.natural_vector_size<float>();
  // Vectors first: a short tensor then runs its few vectors, not a whole chunk of masked ones.
  constexpr int kChunk = 16384;
  out.split(i, vector, lane, lanes, TailStrategy::GuardWithIf)
      .split(vector, chunk, in_chunk, kChunk / lanes, TailStrategy::GuardWithIf)
      .vectorize(lane);
  if (stages.empty()) {
    const Expr chunks = elements_per_task(out.output_buffers()[0].dim(0).extent()) / kChunk;
    out.split(chunk, task, chunk, chunks, TailStrategy::GuardWithIf).parallel(task);
  } else {
    out.parallel(chunk);  // one loop more, and Halide no longer sees that the stages fit into registers
  }
  for (Stage* stage : stages) {
    stage->func().compute_at(out, in_chunk).vectorize(stage->func().args()[0], lanes, TailStrategy::GuardWithIf);
  }
}

// Halide 21 can't write a vector under a partial guard as OpenCL.
void elementwise(OpenCL, Func out, const Var& i, const Intermediates& stages) {
  elementwise_gpu(out, i, stages, false);
}
void elementwise(Cuda, Func out, const Var& i, const Intermediates& stages) { elementwise_gpu(out, i, stages, true); }

}  // namespace ashlar::dsl
