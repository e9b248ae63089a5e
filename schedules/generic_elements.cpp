// generic()'s schedules of elements that need no reduction.
#include <algorithm>
#include <optional>

#include "schedules/generic_output.h"
#include "schedules/lowering/accesses.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/tasks.h"

namespace ashlar::dsl::detail {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::MemoryType;
using Halide::Parameter;
using Halide::TailStrategy;
using Halide::VarOrRVar;
using Halide::Internal::const_true;
using Halide::Internal::is_const_one;
using Halide::Internal::simplify;

namespace {

// Looks for reads that aren't along the output's own innermost index: vectors of them are put together one by one.
class ReadsElsewhere : public Halide::Internal::IRGraphVisitor {
 public:
  explicit ReadsElsewhere(const std::string& innermost) : innermost_(innermost) {}
  bool found = false;

 private:
  using IRGraphVisitor::visit;
  void visit(const Halide::Internal::Call* call) override {
    IRGraphVisitor::visit(call);
    if (call->call_type != Halide::Internal::Call::Image && call->call_type != Halide::Internal::Call::Halide) return;
    for (size_t d = 0; d < call->args.size(); d++) {
      const auto* variable = call->args[d].as<Halide::Internal::Variable>();
      if (d == 0 && variable != nullptr && variable->name == innermost_) continue;
      found = found || Halide::Internal::expr_uses_var(call->args[d], innermost_);
    }
  }
  const std::string innermost_;
};

// True where each vector of `lanes` elements of the output, and of every input but `repeated`, begins at a multiple.
Expr is_aligned(const GenericOutput& o, int lanes, const std::string& repeated) {
  // A flat output's last vector may be shorter; others begin rows with one.
  Expr aligned = o.index.size() == 1 ? const_true() : o.extent[0] % lanes == 0;
  for (size_t d = 1; d < o.index.size(); d++) aligned = aligned && o.stride[d] % lanes == 0;
  for (const Parameter& input : inputs_of(o.out)) {
    if (input.dimensions() == 1 || input.name() == repeated) continue;
    aligned = aligned && hidden_min(input) % lanes == 0;
    for (int d = 1; d + 1 < input.dimensions(); d++) aligned = aligned && stride_of(input, d) % lanes == 0;
  }
  return simplify(aligned);
}

}  // namespace

void generic_elements_cpu(const GenericOutput& o) {
  Func out = o.out;
  if (o.index.empty()) return;
  const std::optional<Func> held = hold(out, values_of(out));
  const int lanes = (o.index.size() == 1 ? 1 : 2) * Descriptor::target.natural_vector_size<float>();
  const Expr per_task = elements_per_task(o.elements());
  Var vector("vector"), lane("lane"), task("task"), run("run"), element("element"), row("row");
  const auto nest = [&](Halide::Stage stage, bool vectors) {
    // Vectors first: a short row then runs its few vectors, not a whole run of masked ones.
    if (vectors) {
      stage.split(o.index[0], vector, lane, lanes, TailStrategy::GuardWithIf)
          .split(vector, run, element, per_task / lanes, TailStrategy::GuardWithIf)
          .vectorize(lane);
    } else {
      stage.split(o.index[0], run, element, per_task, TailStrategy::GuardWithIf);
    }
    if (o.index.size() == 1) {
      stage.parallel(run);
      return;
    }
    const Var rows = fused(stage, {o.index.begin() + 1, o.index.end()}, "rows");
    stage.split(rows, task, row, Halide::max(1, per_task / Halide::max(1, o.extent[0])), TailStrategy::GuardWithIf)
        .reorder(element, row, run, task)
        .fuse(run, task, task)
        .parallel(task);
  };
  if (strided_inputs(out).empty()) {
    nest(out, true);
  } else {
    for (const InnermostStrides& strides : known_strides(out)) nest(out.specialize(strides.hold), true);
    nest(out, false);
  }
  if (held) Func(*held).compute_at(out, element).vectorize(o.index[0], lanes, TailStrategy::GuardWithIf);
}

void generic_elements_gpu(const GenericOutput& o, const std::vector<Expr>& values) {
  constexpr int kEach = 4;  // elements of a thread, a block apart
  Func out = o.out;
  if (o.index.empty()) {
    out.gpu_single_thread();
    return;
  }
  Var block("block"), thread("thread"), lane("lane"), step("step"), vector("vector");
  ReadsElsewhere elsewhere(o.index[0].name());
  for (const Expr& value : values) value.accept(&elsewhere);
  const std::optional<Func> held = hold(out, values_of(out));
  const int lanes = held ? 1 : lanes_of_access(out);
  if (lanes > 1 && !elsewhere.found) {
    for (const InnermostStrides& strides : known_strides(out)) {
      Halide::Stage branch = out.specialize(strides.hold && is_aligned(o, lanes, strides.repeated));
      branch.split(o.index[0], vector, lane, lanes, TailStrategy::GuardWithIf).vectorize(lane);
      std::vector<Var> all = o.index;
      all[0] = vector;
      branch.split(fused(branch, all, "vectors"), block, thread, kThreadsOfGeneric, TailStrategy::GuardWithIf)
          .gpu_blocks(block)
          .gpu_threads(thread);
    }
  }
  const auto some_each = [&](Halide::Stage branch, const Var& run) {
    branch.split(run, block, step, kThreadsOfGeneric * kEach, TailStrategy::GuardWithIf)
        .split(step, step, thread, kThreadsOfGeneric);
  };
  if (o.index.size() == 1 && !held) {
    some_each(out, o.index[0]);
    out.reorder(step, thread, block).unroll(step).gpu_blocks(block).gpu_threads(thread);
    return;
  }
  if (!held) {
    // Long rows: only a block's number is divided.
    Halide::Stage rows = out.specialize(o.extent[0] >= 2 * kThreadsOfGeneric);
    some_each(rows, o.index[0]);
    const Var outer = fused(rows, {o.index.begin() + 1, o.index.end()}, "outer");
    rows.reorder(step, thread, block, outer)
        .unroll(step)
        .fuse(block, outer, block)
        .gpu_blocks(block)
        .gpu_threads(thread);
  }
  out.split(fused(out, o.index, "elements"), block, thread, kThreadsOfGeneric, TailStrategy::GuardWithIf)
      .gpu_blocks(block)
      .gpu_threads(thread);
  if (held) Func(*held).compute_at(out, thread);
}

}  // namespace ashlar::dsl::detail
