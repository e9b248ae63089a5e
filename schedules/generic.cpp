#include "schedules/generic.h"

#include <algorithm>
#include <optional>

#include "schedules/lowering/accesses.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/own_reductions.h"
#include "schedules/lowering/tasks.h"
#include "schedules/lowering/tree.h"
#include "schedules/lowering/vector_rows.h"

namespace ashlar::dsl {

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

constexpr int kThreads = 256;

// A Func that lives in memory.
struct Output {
  explicit Output(const Func& func) : out(func), index(func.args()) {
    for (int d = 0; d < func.dimensions(); d++) {
      extent.push_back(func.output_buffers()[0].dim(d).extent());
      stride.push_back(func.output_buffers()[0].dim(d).stride());
    }
  }
  Expr elements() const {
    Expr all = 1;
    for (const Expr& e : extent) all = all * e;
    return all;
  }
  Func out;
  std::vector<Var> index;            ///< innermost first
  std::vector<Expr> extent, stride;  ///< likewise
};

std::set<std::string> names_in_memory() {
  std::set<std::string> names;
  for (const DefinedTensor& tensor : Descriptor::current->definitions) names.insert(tensor.func().name());
  return names;
}

// Several values may overwrite what others are made of, element by element: all are there before the first is stored.
std::optional<Func> hold(const Func& out, std::vector<Expr>& values) {
  if (values.size() == 1) return {};
  Func held(plain_name(out.name()) + "_values");
  const std::vector<Var> index = out.args();
  held(index) = Halide::Tuple(values);
  for (size_t i = 0; i < values.size(); i++)
    values[i] = held(std::vector<Expr>(index.begin(), index.end()))[static_cast<int>(i)];
  return held;
}

// All of `vars` as one loop.
Var fused(Halide::Stage stage, const std::vector<Var>& vars, const std::string& name) {
  Var all = vars[0];
  for (size_t d = 1; d < vars.size(); d++) {
    const Var next(name + std::to_string(d));
    stage.fuse(all, vars[d], next);
    all = next;
  }
  return all;
}

// ---- the strides of what is read
// ---------------------------------------------------------------------------------------

// Inputs whose innermost stride isn't known to be 1.
std::vector<Parameter> strided_inputs(const Func& out) {
  std::vector<Parameter> inputs;
  for (const Parameter& input : inputs_of(out)) {
    if (input.dimensions() > 1 && !input.stride_constraint(0).defined()) inputs.push_back(input);
  }
  return inputs;
}

// Innermost strides that get a branch of their own: all 1, and of two such inputs each in turn 0.
struct Strides {
  Expr hold;
  std::string repeated;  ///< the input whose stride is 0, or none
};
std::vector<Strides> known_strides(const Func& out) {
  const std::vector<Parameter> inputs = strided_inputs(out);
  std::vector<Strides> all;
  for (size_t repeated = 0; repeated <= (inputs.size() == 2 ? 2 : 0); repeated++) {
    Strides strides{const_true(), {}};
    for (size_t i = 0; i < inputs.size(); i++) {
      strides.hold = strides.hold && stride_of(inputs[i], 0) == (i + 1 == repeated ? 0 : 1);
      if (i + 1 == repeated) strides.repeated = inputs[i].name();
    }
    strides.hold = simplify(strides.hold);
    all.push_back(strides);
  }
  return all;
}

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

// ---- elements that need no reduction
// -----------------------------------------------------------------------------------

void elements_cpu(const Output& o) {
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
    for (const Strides& strides : known_strides(out)) nest(out.specialize(strides.hold), true);
    nest(out, false);
  }
  if (held) Func(*held).compute_at(out, element).vectorize(o.index[0], lanes, TailStrategy::GuardWithIf);
}

// True where each vector of `lanes` elements of the output, and of every input but `repeated`, begins at a multiple.
Expr is_aligned(const Output& o, int lanes, const std::string& repeated) {
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

void elements_gpu(const Output& o, const std::vector<Expr>& values) {
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
    for (const Strides& strides : known_strides(out)) {
      Halide::Stage branch = out.specialize(strides.hold && is_aligned(o, lanes, strides.repeated));
      branch.split(o.index[0], vector, lane, lanes, TailStrategy::GuardWithIf).vectorize(lane);
      std::vector<Var> all = o.index;
      all[0] = vector;
      branch.split(fused(branch, all, "vectors"), block, thread, kThreads, TailStrategy::GuardWithIf)
          .gpu_blocks(block)
          .gpu_threads(thread);
    }
  }
  const auto some_each = [&](Halide::Stage branch, const Var& run) {
    branch.split(run, block, step, kThreads * kEach, TailStrategy::GuardWithIf).split(step, step, thread, kThreads);
  };
  if (o.index.size() == 1 && !held) {
    some_each(out, o.index[0]);
    out.reorder(step, thread, block).unroll(step).gpu_blocks(block).gpu_threads(thread);
    return;
  }
  if (!held) {
    // Long rows: only a block's number is divided.
    Halide::Stage rows = out.specialize(o.extent[0] >= 2 * kThreads);
    some_each(rows, o.index[0]);
    const Var outer = fused(rows, {o.index.begin() + 1, o.index.end()}, "outer");
    rows.reorder(step, thread, block, outer)
        .unroll(step)
        .fuse(block, outer, block)
        .gpu_blocks(block)
        .gpu_threads(thread);
  }
  out.split(fused(out, o.index, "elements"), block, thread, kThreads, TailStrategy::GuardWithIf)
      .gpu_blocks(block)
      .gpu_threads(thread);
  if (held) Func(*held).compute_at(out, thread);
}

// ---- reductions
// -----------------------------------------------------------------------------------------------------------

// An output that reads reductions: `own` are the indices that these have, `shared` those along which elements share
// them.
struct Reducing {
  Output o;
  OwnReductions reductions;
  std::vector<Var> own, shared;
  bool is_contiguous = false;  ///< an axis of some reduction runs along memory

  Expr length() const {
    Expr longest = 1;
    for (const OwnReduction& one : reductions.all) {
      for (const Halide::Internal::Definition& step : one.func.function().updates()) {
        Expr all = 1;
        for (const Halide::Internal::ReductionVariable& axis : step.schedule().rvars()) all = all * axis.extent;
        longest = Halide::max(longest, all);
      }
    }
    return simplify(longest);
  }
};

Reducing reducing(const Func& out, OwnReductions reductions) {
  Reducing r{Output(out), std::move(reductions), {}, {}};
  std::set<std::string> used;
  for (const OwnReduction& one : r.reductions.all) {
    for (const Var& v : one.index) used.insert(v.name());
    r.is_contiguous = r.is_contiguous || is_along_innermost(one);
  }
  for (const Var& v : r.o.index) (used.contains(v.name()) ? r.own : r.shared).push_back(v);
  for (const OwnReduction& one : r.reductions.all) {
    const std::string name = plain_name(one.stage);
    if (one.index.size() == used.size() && (!used.empty() || r.o.index.empty())) continue;
    mistake("the reduction " + name + " is read by elements all over " + plain_name(out.name()) +
            " and would be worked out again for each of them: keep it in memory, as Scratch<f32, " +
            std::to_string(one.coordinates.size()) + "> " + name + "{\"" + name +
            "\", {…}}, which generic() computes before what reads it");
  }
  return r;
}

// What one loop nest reads in place of the reductions.
struct Results {
  std::map<std::string, Func> of;  ///< by the name of OwnReduction::func
  std::vector<Expr> values(const OwnReductions& reductions) const { return redirected(reductions.values, of); }
  /// Leaves calls of them alone, and of what lies in memory.
  Rewrite rewrite() const {
    Rewrite kept{{}, {}, names_in_memory()};
    for (const auto& [name, func] : of) kept.kept.insert(func.name());
    return kept;
  }
};

// The reduction as one that a schedule may split, if it is.
std::optional<ReductionStage> splittable(const Func& func) {
  try {
    return ReductionStage(func);
  } catch (const Halide::CompileError&) {
    return {};
  }
}

// `rows` as tasks; the loop over those of one. There are `count` of them, each of that much `work`.
Var task_loop(Halide::Stage stage, const std::vector<Var>& rows, const Expr& count, const Expr& work) {
  Var task("task"), row("row");
  const Expr each = Halide::max(1, elements_per_task(count * work) / work);
  stage.split(fused(stage, rows, "rows"), task, row, each, TailStrategy::GuardWithIf).parallel(task);
  return row;
}

Expr product(const Output& o, const std::vector<Var>& vars) {
  Expr all = 1;
  for (size_t d = 0; d < o.index.size(); d++) {
    for (const Var& v : vars) {
      if (v.name() == o.index[d].name()) all = all * o.extent[d];
    }
  }
  return all;
}

// A row of elements, or one, at a time, whose reductions run in vector lanes.
Branch cpu_rows(const Reducing& r, const Expr& condition) {
  Func out = r.o.out;
  Results results;
  std::vector<VectorReduction> vectors;
  std::vector<Func> serial;
  for (const OwnReduction& one : r.reductions.all) {
    const Func copy = copy_of(one, "_row", results.of);
    if (const std::optional<ReductionStage> stage = splittable(copy)) {
      vectors.emplace_back(*stage, one.index, results.rewrite());
      results.of[one.func.name()] = vectors.back().total();
    } else {
      serial.push_back(copy);
      results.of[one.func.name()] = copy;
    }
  }
  std::vector<Expr> values = results.values(r.reductions);
  const std::optional<Func> held = hold(out, values);
  return {condition, values, [=](Halide::Stage branch) mutable {
            const int lanes = Descriptor::target.natural_vector_size<float>();
            VarOrRVar level = Var::outermost();
            std::vector<VarOrRVar> order(r.shared.begin(), r.shared.end());
            order.insert(order.end(), r.own.begin(), r.own.end());
            if (!r.own.empty()) {
              if (order.size() > 1) branch.reorder(order);
              level = task_loop(branch, r.own, product(r.o, r.own),
                                Halide::max(1, Halide::max(r.length(), product(r.o, r.shared))));
            }
            Var vector("vector"), lane("lane");
            const bool is_row = !r.shared.empty() && r.shared[0].name() == r.o.index[0].name();
            if (is_row) branch.split(r.o.index[0], vector, lane, lanes, TailStrategy::GuardWithIf).vectorize(lane);
            for (VectorReduction& vector : vectors) vector.compute_at(LoopLevel(out, level));
            for (Func f : serial) f.compute_at(LoopLevel(out, level)).store_in(MemoryType::Stack);
            if (held) {
              Func f = *held;
              f.compute_at(LoopLevel(out, is_row ? VarOrRVar(vector) : r.shared.empty() ? level : r.shared[0]));
              if (is_row) f.vectorize(f.args()[0], lanes, TailStrategy::GuardWithIf);
            }
          }};
}

// A run of neighbouring elements at a time, in vector lanes; the reductions' axes in order.
Branch cpu_columns(const Reducing& r, const Expr& condition) {
  constexpr int kRun = 64;
  Func out = r.o.out;
  Results results;
  std::vector<Func> runs;
  for (const OwnReduction& one : r.reductions.all) {
    runs.push_back(copy_of(one, "_run", results.of));
    results.of[one.func.name()] = runs.back();
  }
  std::vector<Expr> values = results.values(r.reductions);
  if (const std::optional<Func> held = hold(out, values)) runs.push_back(*held);
  return {condition, values, [=](Halide::Stage branch) mutable {
            const int lanes = Descriptor::target.natural_vector_size<float>();
            const Var i = r.o.index[0], tile("tile"), vectors("vectors"), lane("lane");
            branch.split(i, tile, i, kRun, TailStrategy::GuardWithIf).vectorize(i, lanes, TailStrategy::GuardWithIf);
            std::vector<Var> rows = r.o.index;
            rows[0] = tile;
            const VarOrRVar level = task_loop(
                branch, rows, (r.o.extent[0] + kRun - 1) / kRun * product(r.o, {rows.begin() + 1, rows.end()}),
                Halide::max(1, r.length() * kRun));
            for (Func f : runs) {
              f.compute_at(LoopLevel(out, level)).store_in(MemoryType::Stack).bound_storage(i, kRun);
              f.vectorize(i, lanes, TailStrategy::GuardWithIf);
              for (int u = 0; u < f.num_update_definitions(); u++) {
                std::vector<VarOrRVar> order{lane, vectors};
                for (const Halide::RVar& axis : f.rvars(u)) order.emplace_back(axis);
                f.update(u).split(i, vectors, lane, lanes, TailStrategy::GuardWithIf).reorder(order).vectorize(lane);
              }
            }
          }};
}

void reductions_cpu(const Reducing& r) {
  const bool columns = !r.is_contiguous && r.shared.empty() && !r.o.index.empty();
  const auto branch = [&](const Expr& condition) {
    return columns ? cpu_columns(r, condition) : cpu_rows(r, condition);
  };
  const std::vector<Parameter> strided = strided_inputs(r.o.out);
  std::vector<Branch> branches;
  if (!strided.empty()) branches.push_back(branch(known_strides(r.o.out)[0].hold));
  branches.push_back(branch(Expr()));
  choose(r.o.out, branches);
}

// A thread for each element, which works its reductions out by itself.
Branch gpu_threads_alone(const Reducing& r, const Expr& condition) {
  constexpr int kFew = 128, kUnroll = 4;
  Func out = r.o.out;
  Results results;
  std::vector<Func> computed;
  for (const OwnReduction& one : r.reductions.all) {
    const Func copy = copy_of(one, "_thread", results.of);
    if (const std::optional<ReductionStage> stage = splittable(copy)) {
      const Share share = make_share(*stage, "_share", one.index, 0, 1, kUnroll, results.rewrite());
      computed.push_back(share.func);
      results.of[one.func.name()] = share.kept;
    } else {
      computed.push_back(copy);
      results.of[one.func.name()] = copy;
    }
  }
  std::vector<Expr> values = results.values(r.reductions);
  if (const std::optional<Func> held = hold(out, values)) computed.push_back(*held);
  return {condition, values, [=](Halide::Stage branch) mutable {
            Var block("block_of_threads"), thread("thread_alone");
            if (r.o.index.empty()) {
              branch.split(Var::outermost(), Var::outermost(), thread, 1);
              branch.split(Var::outermost(), Var::outermost(), block, 1);
            } else {
              branch.split(fused(branch, r.o.index, "alone"), block, thread, kFew, TailStrategy::GuardWithIf);
            }
            branch.gpu_blocks(block).gpu_threads(thread);
            for (Func f : computed) f.compute_at(out, thread);
          }};
}

// A block for `rows` neighbouring rows of elements, or elements: `members` threads share each one's reductions, with
// trees in shared memory. A reduction that can't be split is one thread's.
Branch gpu_groups(const Reducing& r, const Expr& condition, int members, int rows) {
  constexpr int kUnroll = 4;
  Func out = r.o.out;
  const GroupShape group;
  const Var member("member");
  const std::string suffix = "_of" + std::to_string(members);
  std::map<std::string, Expr> repeat_last;
  Var row;
  if (!r.own.empty()) {
    row = r.own[0];
    repeat_last[row.name()] = group.read_row(row, product(r.o, {row}));
  }
  Results results;
  struct Grouped {
    std::optional<Share> share;
    std::vector<Func> tree;
    Func kept, alone;  ///< of what can't be split
  };
  std::vector<Grouped> all;
  for (const OwnReduction& one : r.reductions.all) {
    const Func copy = copy_of(one, suffix, results.of);
    if (const std::optional<ReductionStage> stage = splittable(copy)) {
      std::vector<Var> index = one.index;
      index.insert(index.begin(), member);
      Rewrite rewrite = results.rewrite();
      rewrite.variables = repeat_last;
      Share share = make_share(*stage, "_share", index, member, members, kUnroll, rewrite);
      const std::vector<Func> tree = make_tree(*stage, share.kept, members, one.index);
      all.push_back({share, tree, {}, {}});
      results.of[one.func.name()] = tree.back();
    } else {
      Func kept(copy.name() + "_kept");
      std::vector<Expr> at(one.index.begin(), one.index.end()), values;
      for (Expr& e : at) e = Halide::Internal::substitute(repeat_last, e);
      for (int i = 0; i < copy.outputs(); i++)
        values.push_back(Halide::Internal::Call::make(Func(copy).function(), at, i));
      if (values.size() == 1)
        kept(one.index) = values[0];
      else
        kept(one.index) = Halide::Tuple(values);
      all.push_back({{}, {}, kept, copy});
      results.of[one.func.name()] = kept;
    }
  }
  std::vector<Expr> values = results.values(r.reductions);
  const std::optional<Func> held = hold(out, values);
  return {condition, values, [=](Halide::Stage branch) mutable {
            Var block("block" + suffix), thread("thread"), in_block("row_in_block"), step("step");
            std::vector<VarOrRVar> order;
            if (!r.shared.empty()) {
              branch.split(r.shared[0], step, thread, members, TailStrategy::GuardWithIf);
              order.push_back(step);
              for (size_t d = 1; d < r.shared.size(); d++) order.push_back(r.shared[d]);
              order.push_back(thread);
            }
            if (r.own.empty()) {
              branch.split(Var::outermost(), Var::outermost(), thread, 1);
              branch.split(Var::outermost(), Var::outermost(), block, 1);
              branch.gpu_blocks(block).gpu_threads(thread);
            } else {
              branch.split(row, block, in_block, rows, TailStrategy::GuardWithIf);
              order.push_back(in_block);
              order.push_back(block);
              for (size_t d = 1; d < r.own.size(); d++) order.push_back(r.own[d]);
              branch.reorder(order);
              for (size_t d = 1; d < r.own.size(); d++) branch.fuse(block, r.own[d], block);
              branch.gpu_blocks(block);
              if (r.shared.empty())
                branch.gpu_threads(in_block);
              else
                thread = group.over_threads(branch, thread, in_block);
            }
            const LoopLevel level(out, block);
            for (Grouped& one : all) {
              if (!one.share) {
                one.kept.compute_at(level).store_in(MemoryType::GPUShared);
                group.bound_rows(one.kept, row, rows);
                one.kept.gpu_threads(row);
                one.alone.compute_at(one.kept, row);
                continue;
              }
              one.share->kept.bound(member, 0, members);
              if (r.own.empty()) {
                one.share->kept.compute_at(level).store_in(MemoryType::GPUShared).gpu_threads(member);
                one.share->func.compute_at(one.share->kept, member);
              } else {
                group.bound_rows(one.share->kept, row, rows);
                share_in_block(group, *one.share, level, member, row);
              }
              for (Func f : one.tree) {
                f.compute_at(level).store_in(MemoryType::GPUShared);
                if (!r.own.empty()) group.bound_rows(f, row, rows);
                if (f.args().size() > r.own.size()) {
                  if (r.own.empty())
                    f.gpu_threads(f.args()[0]);
                  else
                    group.over_threads(f, f.args()[0], row);
                } else if (!r.own.empty()) {
                  f.gpu_threads(row);
                }
              }
            }
            if (held) Func(*held).compute_at(out, r.shared.empty() && !r.own.empty() ? in_block : thread);
          }};
}

void reductions_gpu(const Reducing& r) {
  constexpr int kGroup = 32, kRows = kThreads / kGroup, kShort = 16, kLong = 2048, kFewElements = 8192, kDeep = 64;
  bool is_split = true;
  for (const OwnReduction& one : r.reductions.all) is_split = is_split && splittable(one.func).has_value();
  const Expr length = r.length();
  std::vector<Branch> branches;
  if (!r.shared.empty()) {
    branches = {gpu_groups(r, length <= kLong && product(r.o, r.shared) <= kLong, kGroup, kRows),
                gpu_groups(r, Expr(), kThreads, 1)};
  } else if (!is_split) {
    branches = {gpu_threads_alone(r, Expr())};
  } else if (r.o.index.empty()) {
    branches = {gpu_groups(r, Expr(), kThreads, 1)};
  } else if (r.is_contiguous) {
    branches = {gpu_threads_alone(r, length <= kShort), gpu_groups(r, length <= kLong, kGroup, kRows),
                gpu_groups(r, Expr(), kThreads, 1)};
  } else {
    branches = {gpu_groups(r, r.o.elements() < kFewElements && length >= kDeep, kThreads, 1),
                gpu_threads_alone(r, Expr())};
  }
  choose(r.o.out, branches);
}

// ---- updates
// --------------------------------------------------------------------------------------------------------------

// Of each update: the indices that stay Vars, whose elements don't touch each other, and the reduction's in order
// within.
void updates(Func out, const std::set<std::string>& in_memory, bool is_gpu) {
  const Output o(out);
  for (int u = 0; u < out.num_update_definitions(); u++) {
    const Halide::Internal::Definition& definition = out.function().update(u);
    if (!own_reductions(definition.values(), out.function().args(), in_memory).all.empty()) {
      mistake("an update of " + plain_name(out.name()) +
              " reads a reduction: keep that in memory, as a Scratch, which generic() computes before");
    }
    Halide::Stage stage = out.update(u);
    std::vector<Var> elements;
    for (size_t d = 0; d < o.index.size(); d++) {
      const auto* index = definition.args()[d].as<Halide::Internal::Variable>();
      if (index != nullptr && index->name == o.index[d].name()) elements.push_back(o.index[d]);
    }
    std::vector<VarOrRVar> order;
    for (const Halide::RVar& axis : out.rvars(u)) order.emplace_back(axis);
    if (is_gpu && elements.empty()) {
      stage.gpu_single_thread();
    } else if (is_gpu) {
      Var block("block"), thread("thread");
      stage.split(fused(stage, elements, "elements"), block, thread, kThreads, TailStrategy::GuardWithIf);
      order.insert(order.end(), {thread, block});
      stage.reorder(order).gpu_blocks(block).gpu_threads(thread);
    } else if (elements.empty()) {
      stage.unscheduled();
    } else {
      Var vector("vector"), lane("lane");
      std::vector<Var> rows = elements;
      if (elements[0].name() == o.index[0].name()) {
        stage.split(rows[0], vector, lane, Descriptor::target.natural_vector_size<float>(), TailStrategy::GuardWithIf)
            .vectorize(lane);
        order.insert(order.begin(), lane);
        rows[0] = vector;
      }
      order.insert(order.end(), rows.begin(), rows.end());
      if (order.size() > 1) stage.reorder(order);
      Expr work = 1;
      for (const Halide::Internal::ReductionVariable& axis : definition.schedule().rvars()) work = work * axis.extent;
      task_loop(stage, rows, product(o, elements), Halide::max(1, work));
    }
  }
}

void generic_passes(const std::vector<Func>& outputs, bool is_gpu) {
  if (is_gpu) vector_accesses();
  const std::set<std::string> in_memory = names_in_memory();
  std::set<std::string> wanted;
  for (const Func& output : outputs) wanted.insert(output.name());
  for (const auto& tensor : Descriptor::current->definitions) {
    const Func out = tensor.func();
    bool is_below = false;
    for (const Func& output : outputs) {
      is_below = is_below || Halide::Internal::build_environment({output.function()}).contains(out.name());
    }
    // A Scratch that has a schedule keeps it.
    if (!is_below || (!wanted.contains(out.name()) && out.function().definition().schedule().touched())) continue;
    OwnReductions reductions = own_reductions(values_of(out), out.function().args(), in_memory);
    const bool is_reducing = !reductions.all.empty();
    if (is_reducing) {
      const Reducing r = reducing(out, std::move(reductions));
      is_gpu ? reductions_gpu(r) : reductions_cpu(r);
    } else {
      is_gpu ? elements_gpu(Output(out), reductions.values) : elements_cpu(Output(out));
    }
    updates(out, in_memory, is_gpu);
  }
  if (is_gpu) index_arithmetic();
}

}  // namespace

void generic(Cpu, const std::vector<Func>& outputs) { generic_passes(outputs, false); }
void generic(OpenCL, const std::vector<Func>& outputs) { generic_passes(outputs, true); }
void generic(Cuda, const std::vector<Func>& outputs) { generic_passes(outputs, true); }

}  // namespace ashlar::dsl
