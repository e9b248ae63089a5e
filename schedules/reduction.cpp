#include "schedules/reduction.h"

#include "runtime/forms/reduction.h"
#include "schedules/lowering/accesses.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/tasks.h"
#include "schedules/lowering/tree.h"
#include "schedules/lowering/vector_rows.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::MemoryType;
using Halide::TailStrategy;

namespace {

struct Shape3 {
  explicit Shape3(const Func& out)
      : inner(out.output_buffers()[0].dim(0).extent()),
        parts(out.output_buffers()[0].dim(1).extent()),
        outer(out.output_buffers()[0].dim(2).extent()) {}
  Expr results() const { return inner * parts * outer; }
  Expr inner, parts, outer;
};

// out reads its stage through `call`: the plain values with that in place.
std::vector<Expr> reading(const Func& out, const ReductionStage& stage, const CallRule& call) {
  const Rewrite rewrite{{}, {{stage.name(), call}}};
  std::vector<Expr> values;
  for (const Expr& value : values_of(out)) values.push_back(rewrite(value));
  return values;
}

// ---- CPU
// -------------------------------------------------------------------------------------------------------------

Branch cpu_rows(const ReductionStages& s, const ReductionStage& stage, const Expr& condition) {
  Func out = s.out;
  VectorReduction reduction(stage, stage.index(), {});
  return {
      Shape3(out).inner == 1 && condition,
      reading(out, stage, [t = reduction.total()](const std::vector<Expr>& at, int i) { return value_at(t, at, i); }),
      [=](Halide::Stage branch) mutable {
        Var task("task"), row("row");
        const Expr work = Halide::max(1, stage.extent());
        branch.fuse(s.part, s.outer, row)
            .split(row, task, row, Halide::max(1, elements_per_task(Shape3(out).results() * work) / work),
                   TailStrategy::GuardWithIf)
            .reorder(s.inner, row, task)
            .parallel(task);
        reduction.compute_at(LoopLevel(out, row));
      }};
}

// run[i] += x[k, i] + … + x[k + 7, i] for a run of neighbouring results: eight at a time as a tree, which rounds less
// and leaves the sum in memory alone for eight loads.
struct Run {
  static constexpr int kLength = 64, kUnroll = 8;
  Func func;
  Halide::RDom steps, rest;
  Var along;

  explicit Run(const ReductionStage& stage)
      : func(stage.name() + "_run"), steps(0, stage.extent() / kUnroll), rest(0, kUnroll), along(stage.index()[0]) {
    const std::vector<Var> index = stage.index();
    const std::vector<Expr> at(index.begin(), index.end());
    const Expr length = stage.length({});
    const auto state = [&](const Expr& k) {
      const Expr within = Halide::unsafe_promise_clamped(k, 0, stage.extent() - 1);
      return stage.state_if(stage.condition(within, {}), stage.state(within, {}));
    };
    define(func, index, stage.starts());
    steps.where((steps + 1) * kUnroll <= length);
    std::vector<std::vector<Expr>> together;
    for (int k = 0; k < kUnroll; k++) together.push_back(state(steps * kUnroll + k));
    update_at_once(func, at, stage.merge(values_at(func, at), stage.merge(together)));
    rest.where(length / kUnroll * kUnroll + rest < length);
    update_at_once(func, at, stage.merge(values_at(func, at), state(length / kUnroll * kUnroll + rest)));
  }

  void compute_at(const LoopLevel& level, int lanes) {
    func.compute_at(level).store_in(MemoryType::Stack).bound_storage(along, kLength);
    func.vectorize(along, lanes, TailStrategy::GuardWithIf);
    Var vectors("vectors"), lane("lane");
    const auto by_vectors = [&](Halide::Stage stage, const Halide::RVar& serial) {
      stage.split(along, vectors, lane, lanes, TailStrategy::GuardWithIf)
          .reorder(lane, vectors, serial)
          .vectorize(lane);
    };
    by_vectors(func.update(0), steps.x);
    by_vectors(func.update(1), rest.x);
  }
};

Branch cpu_columns(const ReductionStages& s, const ReductionStage& stage, const Expr& condition) {
  Func out = s.out;
  const Expr extent = stage.extent();
  const int lanes = Descriptor::target.natural_vector_size(stage.type());
  Run run(stage);
  return {condition,
          reading(out, stage, [f = run.func](const std::vector<Expr>& at, int i) { return value_at(f, at, i); }),
          [=](Halide::Stage branch) mutable {
            Var task("task"), row("row"), tile("tile");
            const Expr work = Halide::max(1, extent * Run::kLength);
            branch.split(s.inner, tile, s.inner, Run::kLength, TailStrategy::GuardWithIf)
                .fuse(tile, s.part, row)
                .fuse(row, s.outer, row)
                .split(row, task, row, Halide::max(1, elements_per_task(Shape3(out).results() * extent) / work),
                       TailStrategy::GuardWithIf)
                .vectorize(s.inner, lanes, TailStrategy::GuardWithIf)
                .parallel(task);
            run.compute_at(LoopLevel(out, row), lanes);
          }};
}

// ---- GPU: trees in shared memory
// -------------------------------------------------------------------------------------

// Reductions too short to share, one part each: a thread for each. Where there are results for all threads of a device
// and states take long to merge, of longer ones.
Branch gpu_thread_rows(const ReductionStages& s, const ReductionStage& stage) {
  constexpr int kThreads = 128, kLongest = 16, kLongestMerged = 32, kMany = 32768;
  Func out = s.out;
  const Shape3 shape(out);
  const Var row("row");
  const std::vector<Var> index = stage.index();
  const Rewrite first_part{{{index[0].name(), 0}, {index[1].name(), 0}, {index[2].name(), row}}, {}};
  Share share = make_share(stage, "_thread", {row}, 0, 1, 4, first_part);
  Expr is_short = stage.extent() <= kLongest;
  if (stage.has_merge()) is_short = is_short || (stage.extent() <= kLongestMerged && shape.outer >= kMany);
  return {shape.inner == 1 && shape.parts == 1 && is_short,
          reading(out, stage, [f = share.kept](const std::vector<Expr>& at, int i) { return value_at(f, {at[2]}, i); }),
          [=](Halide::Stage branch) mutable {
            Var block("block_of_threads"), thread("row_of_thread");
            branch.split(s.outer, block, thread, kThreads, TailStrategy::GuardWithIf)
                .reorder(s.inner, s.part, thread, block)
                .gpu_blocks(block)
                .gpu_threads(thread);
            share.func.compute_at(out, thread);
          }};
}

// The same of columns: neighbouring threads read neighbours. Where there are results for all threads of a device, of
// longer ones.
Branch gpu_thread_columns(const ReductionStages& s, const ReductionStage& stage) {
  constexpr int kThreads = 256, kLongest = 16, kLongestOfMany = 64, kMany = 32768;
  Func out = s.out;
  const Shape3 shape(out);
  const Var row("row"), column("column");
  const std::vector<Var> index = stage.index();
  const Rewrite first_part{{{index[0].name(), column}, {index[1].name(), 0}, {index[2].name(), row}}, {}};
  Share share = make_share(stage, "_thread_column", {column, row}, 0, 1, 4, first_part);
  const Expr is_short = stage.extent() <= kLongest || (stage.extent() <= kLongestOfMany && shape.results() >= kMany);
  return {shape.parts == 1 && is_short,
          reading(out, stage,
                  [f = share.kept](const std::vector<Expr>& at, int i) {
                    return value_at(f, {at[0], at[2]}, i);
                  }),
          [=](Halide::Stage branch) mutable {
            Var result("result"), block("block_of_columns"), thread("column_of_thread");
            branch.fuse(s.inner, s.part, result)
                .fuse(result, s.outer, result)
                .split(result, block, thread, kThreads, TailStrategy::GuardWithIf)
                .gpu_blocks(block)
                .gpu_threads(thread);
            share.func.compute_at(out, thread);
          }};
}

// Short reductions, one part each: 256 threads in a block, `threads` of them for each. Of contiguous ones, or of some
// that lie beside each other: a block has several of one inner index.
Branch gpu_short_rows(const ReductionStages& s, const ReductionStage& stage, int threads, bool is_contiguous,
                      const Expr& condition) {
  constexpr int kFewInner = 6, kMostBlocks = 65535;  // of a grid's second dimension
  const int rows = 256 / threads;
  Func out = s.out;
  const Shape3 shape(out);
  const Var member("member"), column("column"), row("row");
  const GroupShape group;
  const std::vector<Var> index = stage.index();
  const std::string name = std::to_string(threads) + (is_contiguous ? "" : "_beside");
  const Rewrite first_part{{{index[0].name(), is_contiguous ? Expr(0) : Expr(column)},
                            {index[1].name(), 0},
                            {index[2].name(), group.read_row(row, shape.outer)}},
                           {}};
  const std::vector<Var> of_result = is_contiguous ? std::vector{row} : std::vector{column, row};
  std::vector<Var> of_share{member};
  of_share.insert(of_share.end(), of_result.begin(), of_result.end());
  Share share = make_share(stage, "_short" + name, of_share, member, threads, 4, first_part);
  const std::vector<Func> tree = make_tree(stage, share.kept, threads, of_result);
  const Expr lies_so = is_contiguous ? shape.inner == 1 : shape.inner <= kFewInner && shape.outer <= kMostBlocks * rows;
  return {lies_so && shape.parts == 1 && condition,
          reading(out, stage,
                  [=, f = tree.back()](const std::vector<Expr>& at, int i) {
                    return value_at(f, is_contiguous ? std::vector{at[2]} : std::vector{at[0], at[2]}, i);
                  }),
          [=](Halide::Stage branch) mutable {
            Var block("block_of" + name), in_block("row_in_block");
            branch.split(s.outer, block, in_block, rows, TailStrategy::GuardWithIf).gpu_threads(in_block);
            if (is_contiguous) {
              branch.reorder(s.inner, s.part, in_block, block).gpu_blocks(block);
            } else {
              branch.reorder(s.part, in_block, s.inner, block).gpu_blocks(s.inner, block);
            }
            const LoopLevel level(out, is_contiguous ? block : s.inner);
            share.kept.bound(member, 0, threads);
            group.bound_rows(share.kept, row, rows);
            share_in_block(group, share, level, member, row);
            for (const Func& f : tree) tree_in_block(group, f, level, row, rows);
          }};
}

// The same of contiguous ones in a warp's lanes, on CUDA: `threads` of them for each, 32 / threads side by side and
// `members` one after the other, so that enough loads are under way. Those beyond the last repeat it. The lanes of a
// reduction lie apart: the first of them then have a result each, and store it without a shuffle.
Branch gpu_lane_rows(const ReductionStages& s, const ReductionStage& stage, int threads, int members,
                     const Expr& condition) {
  constexpr int kWarps = 8, kUnroll = 4;
  const int side = kWarp / threads;
  Func out = s.out;
  const Shape3 shape(out);
  const Var lane("lane"), member("member"), group("group");
  const std::vector<Var> index = stage.index();
  const Expr row = side == 1 ? group * members + member : (group * members + member) * side + lane % side;
  const Rewrite rewrite{
      {{index[0].name(), 0}, {index[1].name(), 0}, {index[2].name(), Halide::min(row, shape.outer - 1)}}, {}};
  const std::string name = std::to_string(threads) + "_by_" + std::to_string(members);
  Share share = make_share(stage, "_lanes" + name, {lane, member, group}, lane / side, threads, kUnroll, rewrite);
  const std::vector<Func> rotation = make_rotation(stage, share.func, lane, {member, group}, threads, side);
  return {shape.inner == 1 && shape.parts == 1 && condition,
          reading(out, stage,
                  [=, f = rotation.back()](const std::vector<Expr>& at, int i) {
                    return value_at(f, {at[2] % side, at[2] / side % members, at[2] / (side * members)}, i);
                  }),
          [=](Halide::Stage branch) mutable {
            Var block("block_of_lanes" + name), warp("warp" + name), row("row_in_warp"), beside("beside");
            branch.split(s.outer, block, warp, kWarps * members * side, TailStrategy::GuardWithIf)
                .split(warp, warp, row, members * side)
                .split(row, row, beside, side)
                .reorder(s.inner, s.part, row, beside, warp, block)
                .unroll(row)
                .gpu_blocks(block)
                .gpu_threads(warp)
                .gpu_lanes(beside);
            for (const Var& v : {beside, warp, block}) branch.partition(v, Halide::Partition::Never);
            const LoopLevel level(out, warp);
            const auto each_member = [&](Func f) {
              f.bound(member, 0, members).bound_extent(group, 1).reorder(member, lane).unroll(member);
              in_lanes(f, level, lane);
            };
            each_member(share.func);
            share.func.update(0).reorder(member, share.steps.x, lane).unroll(member).gpu_lanes(lane);
            share.func.update(1).reorder(share.rest.x, member, lane).unroll(member).gpu_lanes(lane);
            for (const Func& f : rotation) each_member(f);
          }};
}

// Loads that a thread of a long contiguous reduction has under way. Measured on an H200: a ranked one of f32 is
// quickest with 2, of shorter types with 8.
int loads_under_way(const ReductionStage& stage, const Halide::Type& input) {
  if (stage.is_ranked()) return input.bytes() < 4 ? 8 : 2;
  return stage.is_idempotent() ? 8 : 4;
}

// A contiguous reduction by a block of its own, whose threads have `unroll` loads under way each.
Branch gpu_block_rows(const ReductionStages& s, const ReductionStage& stage, const std::string& name, int threads,
                      int unroll, const Expr& condition) {
  Func out = s.out;
  const Var member("member"), part_index("part_index"), row("row");
  const std::vector<Var> index = stage.index();
  const Rewrite rewrite{{{index[0].name(), 0}, {index[1].name(), part_index}, {index[2].name(), row}}, {}};
  Share share = make_share(stage, "_" + name, {member, part_index, row}, member, threads, unroll, rewrite);
  const std::vector<Func> tree = make_tree(stage, share.kept, threads, {part_index, row});
  const CallRule read = [f = tree.back()](const std::vector<Expr>& at, int i) {
    return value_at(f, {at[1], at[2]}, i);
  };
  return {Shape3(out).inner == 1 && condition, reading(out, stage, read), [=](Halide::Stage branch) mutable {
            Var block(name + "_block"), thread("thread");
            branch.fuse(s.part, s.outer, block)
                .split(s.inner, s.inner, thread, 1)
                .reorder(s.inner, thread, block)
                .gpu_blocks(block)
                .gpu_threads(thread);
            const LoopLevel level(out, block);
            share.kept.bound(member, 0, threads);
            share_in_block({}, share, level, member, row);
            for (Func f : tree) {
              f.compute_at(level).store_in(MemoryType::GPUShared);
              if (f.dimensions() == 3) f.gpu_threads(f.args()[0]);
            }
          }};
}

Branch gpu_long_rows(const ReductionStages& s, const ReductionStage& stage) {
  const auto chosen = [](int tunable, int otherwise) { return tunable != 0 ? tunable : otherwise; };
  const int threads = chosen(s.tunables.row_threads, stage.is_ranked() ? 128 : 256);
  const int unroll = chosen(s.tunables.row_unroll, loads_under_way(stage, inputs_of(s.out)[0].type()));
  return gpu_block_rows(s, stage, "long", threads, unroll, Halide::Internal::const_true());
}

// Few rows that a second pass would cost more than it saves: as much under way as a block can have, whose threads have
// 64 registers each.
Branch gpu_few_rows(const ReductionStages& s, const ReductionStage& stage) {
  constexpr int kThreads = 1024, kFewRows = forms::kFewRows, kLeast = 2048, kFewOperations = 8;
  const int unroll = operations_of(stage.state(0, {}).at(0)) <= kFewOperations ? 16 : 4;
  const Shape3 shape(s.out);
  return gpu_block_rows(s, stage, "few", kThreads, unroll,
                        shape.parts == 1 && shape.outer <= kFewRows && stage.extent() >= kLeast);
}

// How neighbouring results lie on a block: `across` threads along them, with `each` results to a thread, and `along`
// threads that share each reduction.
struct ColumnTile {
  int across, along, each;
  bool vectors;  // a thread's results are neighbours, else `across` apart
  int results() const { return across * each; }
  // The tile's index in results, of result `e` of thread `x`.
  Expr index(const Expr& x, const Expr& e) const { return vectors ? x * each + e : e * across + x; }
  Expr thread(const Expr& result) const { return vectors ? result / each % across : result % across; }
  Expr of_thread(const Expr& result) const { return vectors ? result % each : result / across % each; }
};

// Results beyond the last repeat it, so that every tile has the same extent.
Branch gpu_columns(const ReductionStages& s, const ReductionStage& stage, const Expr& condition,
                   const ColumnTile& shape) {
  Func out = s.out;
  const Expr inner = Shape3(out).inner;
  const Var member("member"), x("x"), each("each"), tile("tile"), part_index("part_index"), row("row");
  const std::vector<Var> index = stage.index();
  const int results = shape.results();
  const GroupShape group;
  const Expr column = shape.vectors ? Halide::min(tile * shape.across + x, inner / shape.each - 1) * shape.each + each
                                    : Halide::min(tile * results + shape.index(x, each), inner - 1);
  const Rewrite rewrite{{{index[0].name(), column}, {index[1].name(), part_index}, {index[2].name(), row}}, {}};
  const std::string name = "_columns" + std::to_string(results) + (shape.vectors ? "v" : "");
  Share share = make_share(stage, name, {each, x, member, tile, part_index, row}, member, shape.along,
                           s.tunables.column_unroll, rewrite);
  const auto combined = [=](const std::vector<Expr>& at, int i) {
    std::vector<std::vector<Expr>> parts;
    for (int m = 0; m < shape.along; m++) {
      parts.push_back(
          values_at(share.kept, {shape.of_thread(at[0]), shape.thread(at[0]), m, at[0] / results, at[1], at[2]}));
    }
    return stage.merge(parts)[static_cast<size_t>(i)];
  };
  return {condition, reading(out, stage, combined), [=](Halide::Stage branch) mutable {
            Var block("block" + name), thread("thread"), beside("beside");
            branch.split(s.inner, block, thread, results, TailStrategy::GuardWithIf)
                .split(thread, beside, thread, shape.across)
                .reorder(thread, beside, block, s.part, s.outer)
                .fuse(block, s.part, block)
                .fuse(block, s.outer, block)
                .gpu_blocks(block);
            group.over_threads(branch, thread, beside);
            share.kept.bound(each, 0, shape.each).bound(x, 0, shape.across).bound(member, 0, shape.along);
            share_in_block(group, share, LoopLevel(out, block), x, member);
            const auto on_each = [&](auto&& f) {
              if (shape.vectors)
                f.vectorize(each);
              else
                f.unroll(each);
            };
            share.func.bound(each, 0, shape.each);
            on_each(share.kept);
            on_each(share.func);
            share.func.update(0).reorder(each, share.steps.x);
            share.func.update(1).reorder(each, share.rest.x);
            on_each(share.func.update(0));
            on_each(share.func.update(1));
          }};
}

// True where a tile has results for all its threads, and each row of the input is a whole number of aligned runs of
// `each`.
Expr columns_are_aligned(const Func& out, int each) {
  Expr aligned = Shape3(out).inner % each == 0 && Shape3(out).inner >= 32 * each;
  for (const Halide::Parameter& input : inputs_of(out)) {
    if (input.dimensions() < 3) continue;  // a value for each reduced element
    aligned = aligned && stride_of(input, 0) == 1 && lines_are_aligned(input, each);
  }
  return Halide::Internal::simplify(aligned);
}

void reduction_gpu(const ReductionStages& s) {
  check_reductions_listed(s.out, {s.reduce.func().name()}, "reduction");
  vector_accesses();
  index_arithmetic();
  const ReductionStage stage(s.reduce.func());
  std::vector<Branch> branches;
  if (!s.has_parts) {
    // Few threads to a row load more each and add up less, where rows enough are there to keep the device busy. States
    // of several values need too many registers for it.
    constexpr int kManyRows = 32768, kSomeRows = 4096;
    const Expr length = stage.extent(), rows = Shape3(s.out).outer;
    const bool is_one_value = !stage.has_merge(), is_short = inputs_of(s.out)[0].type().bytes() < 4;
    const Expr are_some = length <= 256 || (length <= 2048 && rows >= kSomeRows);
    const bool is_cuda = Descriptor::target.has_feature(Halide::Target::CUDA);
    const bool fits_lanes = is_one_value && stage.type().bits() == 32 && is_cuda;
    branches = {gpu_thread_rows(s, stage)};
    if (fits_lanes) {
      branches.push_back(gpu_lane_rows(s, stage, 8, 4, length <= 64 && rows >= kManyRows));
      branches.push_back(gpu_lane_rows(s, stage, 32, 4, length <= 2048 && rows >= kSomeRows));
      branches.push_back(gpu_lane_rows(s, stage, 32, 1, length <= 256));
    } else {
      // Eight elements of 16 bits are half a sector, which long rows of many would wait for.
      const Expr are_many = length <= 256 && rows >= kManyRows;
      if (is_one_value)
        branches.push_back(gpu_short_rows(s, stage, 8, true, is_short ? length <= 64 : length <= 64 || are_many));
      branches.push_back(gpu_short_rows(s, stage, 32, true, are_some));
    }
    if (is_one_value) {
      branches.push_back(gpu_thread_columns(s, stage));
      branches.push_back(gpu_short_rows(s, stage, 32, false, are_some));
    }
    if (fits_lanes) branches.push_back(gpu_few_rows(s, stage));
  }
  branches.push_back(gpu_long_rows(s, stage));
  branches.push_back(
      gpu_columns(s, stage, Shape3(s.out).inner <= 12, {.across = 8, .along = 32, .each = 1, .vectors = false}));
  const int along = s.tunables.column_members,
            each = s.tunables.column_bytes / std::max(4, inputs_of(s.out)[0].type().bytes());
  if (each > 1 && !stage.is_ranked() && !stage.has_merge()) {
    branches.push_back(gpu_columns(s, stage, columns_are_aligned(s.out, each),
                                   {.across = 32, .along = along, .each = each, .vectors = true}));
  }
  branches.push_back(gpu_columns(s, stage, Expr(), {.across = 32, .along = 8, .each = 1, .vectors = false}));
  choose(s.out, branches);
}

}  // namespace

void reduction(Cpu, const ReductionStages& s) {
  const ReductionStage stage(s.reduce.func());
  check_reductions_listed(s.out, {stage.name()}, "reduction");
  std::vector<Branch> branches;
  if (Descriptor::target.has_feature(Halide::Target::AVX2)) {
    // Elsewhere vectors are put together from single elements.
    const Halide::Parameter input = inputs_of(s.out)[0];
    branches.push_back(cpu_rows(s, stage, stride_of(input, 1) == 1));
    branches.push_back(cpu_columns(s, stage, Shape3(s.out).inner > 1 && stride_of(input, 0) == 1));
  }
  branches.push_back(cpu_rows(s, stage, Halide::Internal::const_true()));
  branches.push_back(cpu_columns(s, stage, Expr()));
  choose(s.out, branches);
}
void reduction(OpenCL, const ReductionStages& s) { reduction_gpu(s); }
void reduction(Cuda, const ReductionStages& s) { reduction_gpu(s); }

}  // namespace ashlar::dsl
