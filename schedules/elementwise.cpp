#include "schedules/elementwise.h"

#include "schedules/lowering/accesses.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tasks.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::Parameter;
using Halide::TailStrategy;

namespace {

// What element_of() reads of a tensor that is one dense row.
std::vector<Expr> values_of_dense(Func out, const Var& i, const Parameter& input) {
  std::vector<Expr> values = values_of(out);
  for (Expr& value : values) {
    value = replace_part(value, i / extent_of(input, 0), 0);
    value = replace_part(value, i % extent_of(input, 0), i);
  }
  return values;
}

// Whether neighbouring elements read neighbours of the input, of which a vector is one load, and not a table's place
// that whole runs of them have in common.
bool is_read_along(const std::vector<Expr>& values, const Var& i, const Parameter& input) {
  using namespace Halide::Internal;
  class Find : public IRVisitor {
   public:
    Find(const std::string& along, const std::string& input) : along_(along), input_(input) {}
    bool found = false;

   private:
    using IRVisitor::visit;
    void visit(const Call* call) override {
      const bool was_in_index = is_in_index_;
      is_in_index_ = is_in_index_ || is_of_input(call);
      IRVisitor::visit(call);
      is_in_index_ = was_in_index;
    }
    void visit(const Div*) override {}
    void visit(const Variable* variable) override { found = found || (is_in_index_ && variable->name == along_); }
    // An input is read through a function of its own.
    bool is_of_input(const Call* call) const {
      if (!call->func.defined()) return false;
      const auto is_it = [&](const Parameter& read) { return read.name() == input_; };
      return std::ranges::any_of(inputs_of(Func(Function(call->func))), is_it);
    }
    const std::string &along_, &input_;
    bool is_in_index_ = false;
  } find(i.name(), input.name());
  for (const Expr& value : values) value.accept(&find);
  return find.found;
}

void elementwise_gpu(Func out, const Var& i, const Intermediates& stages, const ElementwiseTunables* tunables) {
  constexpr int kFew = 1 << 16, kFewLanes = 4, kFewOfView = 1 << 17, kSome = 1 << 20;
  const int threads = tunables != nullptr ? tunables->threads.value() : 128;
  Var block("block"), thread("thread"), lane("lane"), step("step");
  const int lanes = lanes_of_access(out);
  // Elements of 64 bits, one for each thread, would need a block for every kilobyte. One load of 16 bytes a thread
  // keeps an H200's memory busy for three quarters of its rate: a tensor of its own is read by pairs of them.
  constexpr int kWideSteps = 4;
  const std::vector<Parameter> inputs = inputs_of(out);
  const bool is_in_pairs = stages.empty() && lanes > 1 && Descriptor::target.has_feature(Halide::Target::CUDA) &&
                           std::ranges::count_if(inputs, [](const Parameter& p) { return p.dimensions() > 0; }) == 1;
  const int tuned_vectors = tunables != nullptr ? tunables->vectors.value() : 1;
  const int vectors_of_thread = !stages.empty() ? 1
                                : lanes == 1    ? kWideSteps
                                : is_in_pairs   ? 2 * tuned_vectors
                                                : tuned_vectors;
  whole_vectors();
  vector_accesses();
  index_arithmetic();
  Expr dense = Halide::Internal::const_true(), aligned = dense;
  std::vector<Expr> values = values_of(out);
  for (const Parameter& input : inputs) {
    const bool is_along = input.dimensions() == 3 || !stages.empty() || is_read_along(values, i, input);
    if (input.dimensions() > 1 && is_along) aligned = aligned && hidden_min(input) % lanes == 0;
    if (input.dimensions() == 3) {
      dense = extent_of(input, 1) == 1 && stride_of(input, 0) == 1;
      values = values_of_dense(out, i, input);
    }
  }
  aligned = Halide::Internal::simplify(aligned);
  const auto vectors_of = [=](Halide::Stage branch, int count, int lanes, int threads) {
    branch.split(i, block, thread, threads * lanes * count, TailStrategy::GuardWithIf)
        .split(thread, step, thread, threads * lanes)
        .split(thread, thread, lane, lanes)
        .reorder(lane, step, thread, block)
        .unroll(step)
        .vectorize(lane)
        .gpu_blocks(block)
        .gpu_threads(thread)
        .partition(block, Halide::Partition::Never)
        .partition(thread, Halide::Partition::Never);
  };
  const auto vectors = [=](Halide::Stage branch) { vectors_of(branch, vectors_of_thread, lanes, threads); };
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
  const bool has_views = !Halide::Internal::is_const_one(dense), is_short = lanes > kFewLanes;
  const Expr size = out.output_buffers()[0].dim(0).extent();
  const Expr are_few = size < (!is_short ? threads * 4 : kFew);
  const auto one_each = [=](Halide::Stage branch) {
    branch.split(i, block, thread, threads, TailStrategy::GuardWithIf)
        .gpu_blocks(block)
        .gpu_threads(thread)
        .partition(block, Halide::Partition::Never);
  };
  // None is worked out twice: the output may be the input as well.
  const auto elements = [=](Halide::Stage branch) {
    branch.split(i, block, step, threads * 4, TailStrategy::GuardWithIf)
        .split(step, step, thread, threads)
        .reorder(step, thread, block)
        .unroll(step)
        .gpu_blocks(block)
        .gpu_threads(thread);
  };
  std::vector<Branch> branches;
  if (has_views || is_short) {
    const Expr of_run = is_short ? are_few : are_few && !aligned;
    branches.push_back({has_views ? (!dense && size < kFewOfView) || of_run : of_run, values_of(out), one_each});
  }
  if (has_views) branches.push_back({!dense, values_of(out), elements});
  // Of some elements in pairs of whole vectors each thread would have eight or sixteen, one after the other, and few
  // threads each multiprocessor.
  if (is_in_pairs) {
    branches.push_back({dense && aligned && size < kSome, values,
                        [=](Halide::Stage branch) { vectors_of(branch, 1, kFewLanes, 2 * threads); }});
  }
  branches.push_back({dense && aligned, values, vectors});
  // A run that begins anywhere: of 16 bits in words (lowering/accesses.h), else element by element.
  if (is_short)
    branches.push_back(
        {Expr(), values, [=](Halide::Stage branch) { vectors_of(branch, tuned_vectors, lanes, threads); }});
  else
    branches.push_back({Expr(), values, elements});
  for (Branch& branch : branches) {
    if (branch.condition.defined()) branch.condition = Halide::Internal::simplify(branch.condition);
  }
  if (Halide::Internal::is_const_one(branches[branches.size() - 2].condition)) {
    branches.pop_back();
    branches.back().condition = Expr();
  }
  choose(out, branches);
}

// elements_per_task(), where tasks are alike and, of few, an even number: of three, one thread of two would have twice
// the other's work.
Expr elements_per_even_task(const Expr& total) {
  constexpr int kMore = 64;  // so that tasks of whole vectors leave no last one of a few elements
  const Expr about = elements_per_task(total), tasks = (total / 2 + about / 2 - 1) / about * 2;
  return total / Halide::max(1, tasks) + kMore;
}

}  // namespace

void elementwise(Cpu, Func out, const Var& i, const Intermediates& stages, const ElementwiseTunables*) {
  Var vector("vector"), lane("lane"), chunk("chunk"), in_chunk("in_chunk");
  const int lanes = Descriptor::target.natural_vector_size<float>();
  for (Parameter input : inputs_of(out)) {
    if (input.dimensions() == 3) input.set_stride_constraint(0, 1);  // see element_of()
  }
  // Vectors first: a short tensor then runs its few vectors, not a whole chunk of masked ones.
  constexpr int kChunk = 16384;
  const Expr of_task = elements_per_even_task(out.output_buffers()[0].dim(0).extent()) / lanes;
  out.split(i, vector, lane, lanes, TailStrategy::GuardWithIf)
      .split(vector, chunk, in_chunk, stages.empty() ? of_task : Expr(kChunk / lanes), TailStrategy::GuardWithIf)
      .vectorize(lane)
      .parallel(chunk);
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
