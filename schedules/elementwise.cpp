#include "schedules/elementwise.h"

#include "schedules/lowering/accesses.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tasks.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;

namespace {

void elementwise_gpu(Func out, const Var& i, const Intermediates& stages, const ElementwiseTunables* tunables) {
  const int threads = tunables != nullptr ? tunables->threads.value() : 128;
  const int vectors_of_thread = tunables != nullptr && stages.empty() ? tunables->vectors.value() : 1;
  Var block("block"), thread("thread"), lane("lane"), step("step");
  const int lanes = lanes_of_access(out);
  vector_accesses();
  index_arithmetic();
  Expr aligned = Halide::Internal::const_true();
  for (const Halide::Parameter& input : inputs_of(out)) {
    if (input.dimensions() > 1) aligned = aligned && hidden_min(input) % lanes == 0;
  }
  aligned = Halide::Internal::simplify(aligned);
  const auto vectors = [&](auto&& branch) {
    branch.split(i, block, thread, threads * lanes * vectors_of_thread, TailStrategy::GuardWithIf)
        .split(thread, step, thread, threads * lanes)
        .split(thread, thread, lane, lanes)
        .reorder(lane, step, thread, block)
        .unroll(step)
        .vectorize(lane)
        .gpu_blocks(block)
        .gpu_threads(thread);
  };
  if (!stages.empty()) {
    // All loads of a thread's elements come before its first store.
    vectors(out.specialize(aligned));
    vectors(out);
    for (Stage* stage : stages) {
      Func f = stage->func();
      const Var element = f.args()[0];
      f.compute_at(out, thread).bound_storage(element, lanes).vectorize(element, lanes, TailStrategy::GuardWithIf);
    }
    return;
  }
  if (Halide::Internal::is_const_one(aligned)) return vectors(out);
  vectors(out.specialize(aligned));
  out.split(i, block, step, threads * 4, TailStrategy::GuardWithIf)
      .split(step, step, thread, threads)
      .reorder(step, thread, block)
      .unroll(step)
      .gpu_blocks(block)
      .gpu_threads(thread);
}

}  // namespace

void elementwise(Cpu, Func out, const Var& i, const Intermediates& stages, const ElementwiseTunables*) {
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

void elementwise(OpenCL, Func out, const Var& i, const Intermediates& stages, const ElementwiseTunables* tunables) {
  elementwise_gpu(out, i, stages, tunables);
}
void elementwise(Cuda, Func out, const Var& i, const Intermediates& stages, const ElementwiseTunables* tunables) {
  elementwise_gpu(out, i, stages, tunables);
}

}  // namespace ashlar::dsl
