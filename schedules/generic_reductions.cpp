// generic()'s schedules of elements that read reductions.
#include <algorithm>
#include <map>
#include <optional>

#include "schedules/generic_output.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tree.h"
#include "schedules/lowering/vector_rows.h"

namespace ashlar::dsl::detail {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::MemoryType;
using Halide::Parameter;
using Halide::TailStrategy;
using Halide::VarOrRVar;
using Halide::Internal::is_const_one;
using Halide::Internal::simplify;

namespace {

// An output that reads reductions: `own` are the indices that these have, `shared` those along which elements share
// them.
struct Reducing {
  GenericOutput o;
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
  Reducing r{GenericOutput(out), std::move(reductions), {}, {}};
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
              level = task_loop(branch, r.own, r.o.elements(r.own),
                                Halide::max(1, Halide::max(r.length(), r.o.elements(r.shared))));
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
                branch, rows, (r.o.extent[0] + kRun - 1) / kRun * r.o.elements({rows.begin() + 1, rows.end()}),
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
    repeat_last[row.name()] = group.read_row(row, r.o.elements({row}));
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
  constexpr int kGroup = 32, kRows = kThreadsOfGeneric / kGroup, kShort = 16, kLong = 2048, kFewElements = 8192,
                kDeep = 64;
  bool is_split = true;
  for (const OwnReduction& one : r.reductions.all) is_split = is_split && splittable(one.func).has_value();
  const Expr length = r.length();
  std::vector<Branch> branches;
  if (!r.shared.empty()) {
    branches = {gpu_groups(r, length <= kLong && r.o.elements(r.shared) <= kLong, kGroup, kRows),
                gpu_groups(r, Expr(), kThreadsOfGeneric, 1)};
  } else if (!is_split) {
    branches = {gpu_threads_alone(r, Expr())};
  } else if (r.o.index.empty()) {
    branches = {gpu_groups(r, Expr(), kThreadsOfGeneric, 1)};
  } else if (r.is_contiguous) {
    branches = {gpu_threads_alone(r, length <= kShort), gpu_groups(r, length <= kLong, kGroup, kRows),
                gpu_groups(r, Expr(), kThreadsOfGeneric, 1)};
  } else {
    branches = {gpu_groups(r, r.o.elements() < kFewElements && length >= kDeep, kThreadsOfGeneric, 1),
                gpu_threads_alone(r, Expr())};
  }
  choose(r.o.out, branches);
}

}  // namespace

void generic_reductions(const Func& out, OwnReductions reductions, bool is_gpu) {
  const Reducing r = reducing(out, std::move(reductions));
  is_gpu ? reductions_gpu(r) : reductions_cpu(r);
}

}  // namespace ashlar::dsl::detail
