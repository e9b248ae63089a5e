#include "schedules/scan.h"

#include <functional>
#include <tuple>

#include "schedules/lowering/branches.h"
#include "schedules/lowering/certain_checks.h"
#include "schedules/lowering/group_shape.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tasks.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::MemoryType;
using Halide::RDom;
using Halide::TailStrategy;

namespace {

using State = std::vector<Expr>;
using Parts = std::vector<State>;

// The stage that is scanned, with the sizes of the call.
class ScanStage {
 public:
  explicit ScanStage(const ScanStages& stages)
      : columns(stages.out.output_buffers()[0].dim(0).extent()),
        rows(stages.out.output_buffers()[0].dim(1).extent()),
        block_count(stages.blocks.output_buffer().dim(0).extent()),
        group_count(stages.groups.output_buffer().dim(0).extent()),
        scratch_rows(stages.groups.output_buffer().dim(1).extent()),
        name_(stages.running.name()),
        scanning_(Descriptor::current->scans.at(name_)),
        init_(scanning_.merging.start()) {
    for (const Var& var : stages.running.args()) {
      if (var.name() != plain_name(scanning_.variable) + "_at") row_ = var.name();
    }
  }
  const std::string& name() const { return name_; }
  const State& init() const { return init_; }
  int values() const { return static_cast<int>(init_.size()); }
  int block() const { return scan_block(values()); }
  int group() const { return scan_group(values()); }
  /// Of a state.
  int bytes() const {
    int sum = 0;
    for (const Expr& value : init_) sum += value.type().bytes();
    return sum;
  }
  Halide::Type widest() const {
    return std::max_element(init_.begin(), init_.end(),
                            [](const Expr& a, const Expr& b) { return a.type().bits() < b.type().bits(); })
        ->type();
  }
  /// The state of the element at (row, k) alone; of none beyond the last.
  State element(const Expr& row, const Expr& k) const {
    const Expr within = Halide::unsafe_promise_clamped(Halide::min(k, columns - 1), 0, columns - 1);
    const Rewrite rewrite{{{scanning_.variable, within}, {row_, row}}, {}, names_in_memory()};
    Values element;
    for (const Value& value : scanning_.merging.element) element.emplace_back(rewrite(value.expr()));
    const Merge& merge = scanning_.merging.merge;
    return only_if(k < columns, expressions_of(merge.step(merge.init, element)));
  }
  State merge(const State& a, const State& b) const {
    return expressions_of(scanning_.merging.merge.merge(Values(a.begin(), a.end()), Values(b.begin(), b.end())));
  }
  /// In order, as a balanced tree.
  State merge(Parts parts) const {
    while (parts.size() > 1) {
      Parts halved;
      for (size_t i = 0; i + 1 < parts.size(); i += 2) halved.push_back(merge(parts[i], parts[i + 1]));
      if (parts.size() % 2 == 1) halved.push_back(parts.back());
      parts = std::move(halved);
    }
    return parts.at(0);
  }
  /// `state` where the condition holds, else that of nothing.
  State only_if(const Expr& condition, const State& state) const {
    State chosen;
    for (size_t i = 0; i < state.size(); i++) chosen.push_back(Halide::select(condition, state[i], init_[i]));
    return chosen;
  }

  const Expr columns, rows, block_count, group_count, scratch_rows;

 private:
  std::string name_, row_;
  Scanning scanning_;
  State init_;
};

// What is stored for a row: rows that are shorter than a block have no states of blocks but one row of them.
Expr row_of_scratch(const ScanStage& stage, const Expr& row) {
  return Halide::unsafe_promise_clamped(Halide::min(row, stage.scratch_rows - 1), 0, stage.scratch_rows - 1);
}

// Gives scratch(position, row, value) the bits of `state`, an expression over the first two.
void store_states(const ScanStage& stage, Func scratch, const State& state) {
  std::vector<Expr> bits;
  for (const Expr& value : state) {
    const Expr own = Halide::reinterpret(Halide::UInt(value.type().bits()), value);
    bits.push_back(Halide::cast<int64_t>(Halide::cast<uint64_t>(own)));
  }
  const Var v = scratch.args()[2];
  values_of(scratch) = {bits.size() == 1 ? bits[0] : Halide::mux(v, bits)};
  scratch.bound(v, 0, stage.values());
}
// The state at one of `count` positions, read from there.
State loaded(const ScanStage& stage, const Func& scratch, const Expr& position, const Expr& count, const Expr& row) {
  const Expr within = Halide::unsafe_promise_clamped(Halide::min(position, count - 1), 0, count - 1);
  State state;
  for (int v = 0; v < stage.values(); v++) {
    const Halide::Type type = stage.init()[static_cast<size_t>(v)].type();
    state.push_back(Halide::reinterpret(type, Halide::cast(Halide::UInt(type.bits()), Expr(scratch(within, row, v)))));
  }
  return state;
}

// out with `running` replaced by the state that is found at its coordinates.
std::vector<Expr> reading(const Func& out, const ScanStage& stage,
                          const std::function<State(const std::vector<Expr>&)>& state_at) {
  std::vector<Expr> values;
  const CallRule call([&](const std::vector<Expr>& at, int value) { return state_at(at)[static_cast<size_t>(value)]; });
  const Rewrite rewrite{{}, {{stage.name(), call}}, names_in_memory()};
  for (const Expr& value : values_of(out)) values.push_back(rewrite(value));
  return values;
}

// ---- CPU
// -------------------------------------------------------------------------------------------------------------

constexpr int kEight = 8;

void scan_cpu(const ScanStages& s) {
  const ScanStage stage(s);
  Func out = s.out, blocks = s.blocks, groups = s.groups;
  const int tile_columns = 1024, eights_of_group = stage.group() / kEight;
  Var i("i"), group("group"), row("row"), q("q");

  // The states of eights in a group, wanted where there are several groups; one after the other.
  const auto eight = [&](const Expr& first, const Expr& r) {
    Parts parts;
    for (int j = 0; j < kEight; j++) parts.push_back(stage.element(r, first + j));
    return stage.merge(parts);
  };
  Func whole(stage.name() + "_group");
  RDom each(0, Halide::select(stage.group_count > 1, eights_of_group, 0));
  each.where(group * stage.group() + each * kEight < stage.columns);
  define(whole, {group, row}, stage.init());
  update_at_once(whole, {group, row},
                 stage.merge(values_at(whole, {group, row}), eight(group * stage.group() + each * kEight, row)));
  store_states(stage, groups, values_at(whole, {groups.args()[0], groups.args()[1]}));
  store_states(stage, blocks, stage.init());  // these are for GPUs

  // What stands before each eight of a group: first all groups before it.
  Func before(stage.name() + "_before"), carry(stage.name() + "_carry");
  RDom earlier(0, stage.group_count);
  earlier.where(earlier < group);
  define(carry, {group, row}, stage.init());
  update_at_once(carry, {group, row},
                 stage.merge(values_at(carry, {group, row}),
                             loaded(stage, groups, earlier, stage.group_count, row_of_scratch(stage, row))));
  RDom next(1, eights_of_group - 1);
  next.where(group * stage.group() + next * kEight < stage.columns);
  define(before, {q, group, row}, values_at(carry, {group, row}));
  update_at_once(
      before, {next, group, row},
      stage.merge(values_at(before, {next - 1, group, row}), eight(group * stage.group() + (next - 1) * kEight, row)));

  // Within each eight, by steps over 1, 2 and 4 elements.
  std::vector<Func> steps{Func(stage.name() + "_elements")};
  define(steps[0], {i, row}, stage.element(row, i));
  for (int distance = 1; distance < kEight; distance *= 2) {
    Func from = steps.back(), to(stage.name() + "_by" + std::to_string(distance));
    const State own = values_at(from, {i, row});
    const State merged = stage.merge(values_at(from, {Halide::max(i - distance, 0), row}), own);
    State chosen;
    for (size_t v = 0; v < own.size(); v++) {
      chosen.push_back(Halide::select(i % kEight >= distance, merged[v], own[v]));
    }
    define(to, {i, row}, chosen);
    steps.push_back(to);
  }
  const auto running = [&](const std::vector<Expr>& at) {
    // Vectors beyond the last column run into tiles without any, where nothing stands before them.
    const Expr eights = Halide::min(at[0] / kEight, (stage.columns - 1) / kEight);
    const Expr of_group = eights / eights_of_group, eighth = eights - of_group * eights_of_group;
    return stage.merge(values_at(before, {eighth, of_group, at[1]}), values_at(steps.back(), at));
  };
  values_of(out) = reading(out, stage, running);

  const int lanes = Descriptor::target.natural_vector_size(stage.widest());
  Var task("task"), piece("piece"), tile("tile");
  const Var c = s.column, r = s.row;
  const Expr work = Halide::clamp(stage.columns, 1, stage.group());
  out.split(c, group, c, work, TailStrategy::GuardWithIf)
      .split(c, tile, c, tile_columns, TailStrategy::GuardWithIf)
      .fuse(group, r, piece)
      .split(piece, task, piece, Halide::max(1, elements_per_task(stage.rows * stage.columns) / work),
             TailStrategy::GuardWithIf)
      .reorder(c, tile, piece, task)
      .vectorize(c, lanes, TailStrategy::GuardWithIf)
      .parallel(task);
  before.compute_at(out, piece);
  carry.compute_at(out, piece);
  for (Func step : steps) {
    step.compute_at(out, tile).store_in(MemoryType::Stack).bound_storage(i, tile_columns + 3 * kEight);
    step.vectorize(i, lanes, TailStrategy::GuardWithIf);
  }
  Var group_row("group_row");
  const Var v = groups.args()[2];
  groups.reorder(v, groups.args()[0], groups.args()[1])
      .unroll(v)
      .fuse(groups.args()[0], groups.args()[1], group_row)
      .parallel(group_row);
  whole.compute_at(groups, group_row);
  blocks.vectorize(blocks.args()[0], lanes, TailStrategy::GuardWithIf);
}

// ---- GPU
// -------------------------------------------------------------------------------------------------------------

// `threads` threads of `each` neighbouring columns scan a tile of a row, `rows` rows to a work-group.
struct ScanTile {
  int threads, each, rows, cluster;  // a cluster: threads whose totals are merged first
  int columns() const { return threads * each; }
  int clusters() const { return threads / cluster; }
};

// The elements of a tile: a thread's running states, in shared memory.
struct ThreadScans {
  ThreadScans(const ScanStage& stage, const std::string& name, const ScanTile& shape, const Expr& row_to_read)
      : shape(shape),
        elements(stage.name() + name + "_elements"),
        items(stage.name() + name + "_items"),
        kept(stage.name() + name + "_kept"),
        later(1, shape.each - 1) {
    define(elements, {e, t, row, tile}, stage.element(row_to_read, tile * shape.columns() + t * shape.each + e));
    define(items, {e, t, row, tile}, values_at(elements, {e, t, row, tile}));
    // Not from items(later), which this update stores: an unrolled one of several values may read it too late.
    update_at_once(
        items, {later, t, row, tile},
        stage.merge(values_at(items, {later - 1, t, row, tile}), values_at(elements, {later, t, row, tile})));
    define(kept, {e, t, row, tile}, values_at(items, {e, t, row, tile}));
  }
  State total(const Expr& thread, const Expr& r, const Expr& at_tile) const {
    return values_at(kept, {shape.each - 1, thread, r, at_tile});
  }
  void schedule(const GroupShape& group, const LoopLevel& level) {
    kept.bound(e, 0, shape.each).bound(t, 0, shape.threads);
    group.bound_rows(kept, row, shape.rows);
    kept.compute_at(level).store_in(MemoryType::GPUShared).unroll(e);
    const Var thread = group.over_threads(kept, t, row);
    for (Func of_thread : {elements, items}) of_thread.compute_at(kept, thread).bound_extent(e, shape.each).unroll(e);
    items.update().unroll(later.x);
  }
  ScanTile shape;
  Func elements, items, kept;
  RDom later;
  Var e{"e"}, t{"t"}, row{"row"}, tile{"tile"};
};

// Keeps `f` in shared memory. States of several values are worked out in registers first: what the values have in
// common would be loaded and merged again behind each store, since all that is shared lies in one array.
void in_block(Func f, const LoopLevel& level, const std::function<Var(Func)>& over_threads) {
  const bool has_several = f.outputs() > 1;
  Func kept = has_several ? f.in() : f;
  kept.compute_at(level).store_in(MemoryType::GPUShared);
  const Var thread = over_threads(kept);
  if (has_several) f.compute_at(kept, thread);
}
void in_block(const GroupShape& group, const Func& f, const LoopLevel& level, const Var& x, int extent, const Var& row,
              int rows) {
  in_block(f, level, [&](Func kept) {
    kept.bound(x, 0, extent);
    group.bound_rows(kept, row, rows);
    return group.over_threads(kept, x, row);
  });
}

// `carried`: the tiles are a row's blocks, and what stands before one is merged from s.groups and s.blocks.
Branch gpu_tiles(const ScanStages& s, const ScanStage& stage, const Expr& condition, const ScanTile& shape,
                 bool carried) {
  const std::string name = carried ? "_block" : "_row";
  constexpr int kBlocksOfThread = 16;
  Func out = s.out, blocks = s.blocks, groups = s.groups;
  const GroupShape group;
  Var t("t"), row("row"), tile("tile"), x("x");
  ThreadScans scans(stage, name, shape, group.read_row(Var("row"), stage.rows));

  Func cluster(stage.name() + name + "_cluster");
  Parts parts;
  for (int j = 0; j < shape.cluster; j++) parts.push_back(scans.total(x * shape.cluster + j, row, tile));
  define(cluster, {x, row, tile}, stage.merge(parts));

  // What stands before the tile: a thread for some groups each, threads for the blocks of its own group.
  Func of_groups(stage.name() + name + "_groups"), groups_kept(stage.name() + name + "_groups_kept");
  Func group_cluster(stage.name() + name + "_group_cluster"), of_blocks(stage.name() + name + "_blocks");
  Func carry(stage.name() + name + "_carry");
  const Expr each_thread = (stage.group_count + shape.threads - 1) / shape.threads;
  RDom some(0, each_thread);
  if (carried) {
    const Expr r = row_of_scratch(stage, group.read_row(row, stage.rows)), whole_groups = tile / kBlocksOfScanGroup;
    const Expr at = t * each_thread + some;
    some.where(at < whole_groups);
    define(of_groups, {t, row, tile}, stage.init());
    update_at_once(of_groups, {t, row, tile},
                   stage.merge(values_at(of_groups, {t, row, tile}), loaded(stage, groups, at, stage.group_count, r)));
    define(groups_kept, {t, row, tile}, values_at(of_groups, {t, row, tile}));
    parts.clear();
    for (int j = 0; j < shape.cluster; j++) parts.push_back(values_at(groups_kept, {x * shape.cluster + j, row, tile}));
    define(group_cluster, {x, row, tile}, stage.merge(parts));
    parts.clear();
    for (int j = 0; j < kBlocksOfThread; j++) {
      const Expr block = whole_groups * kBlocksOfScanGroup + x * kBlocksOfThread + j;
      parts.push_back(stage.only_if(block < tile, loaded(stage, blocks, block, stage.block_count, r)));
    }
    define(of_blocks, {x, row, tile}, stage.merge(parts));
    parts.clear();
    for (int j = 0; j < shape.clusters(); j++) parts.push_back(values_at(group_cluster, {j, row, tile}));
    for (int j = 0; j < kBlocksOfScanGroup / kBlocksOfThread; j++) {
      parts.push_back(values_at(of_blocks, {j, row, tile}));
    }
    define(carry, {row, tile}, stage.merge(parts));
  }

  // What stands before each thread's columns.
  Func before(stage.name() + name + "_before");
  parts.clear();
  if (carried) parts.push_back(values_at(carry, {row, tile}));
  const Expr own = t / shape.cluster;
  for (int j = 0; j + 1 < shape.clusters(); j++) {
    parts.push_back(stage.only_if(j < own, values_at(cluster, {j, row, tile})));
  }
  for (int j = 0; j + 1 < shape.cluster; j++) {
    parts.push_back(stage.only_if(j < t % shape.cluster, scans.total(own * shape.cluster + j, row, tile)));
  }
  define(before, {t, row, tile}, stage.merge(parts));

  const auto running = [&](const std::vector<Expr>& at) {
    const Expr thread = at[0] % shape.columns() / shape.each, of_tile = at[0] / shape.columns();
    return stage.merge(values_at(before, {thread, at[1], of_tile}),
                       values_at(scans.kept, {at[0] % shape.each, thread, at[1], of_tile}));
  };
  return {condition, reading(out, stage, running), [=](Halide::Stage branch) mutable {
            Var block("block" + name), lane("lane"), each("each"), in_block_row("row_in_block"), rows("rows");
            branch.split(s.column, tile, lane, shape.columns(), TailStrategy::GuardWithIf)
                .split(lane, each, lane, shape.threads)
                .split(s.row, rows, in_block_row, shape.rows, TailStrategy::GuardWithIf)
                .reorder(each, lane, in_block_row, tile, rows)
                .fuse(tile, rows, block)
                .gpu_blocks(block);
            group.over_threads(branch, lane, in_block_row);
            const LoopLevel level(out, block);
            scans.schedule(group, level);
            in_block(group, cluster, level, x, shape.clusters(), row, shape.rows);
            in_block(group, before, level, t, shape.threads, row, shape.rows);
            if (!carried) return;
            in_block(group, group_cluster, level, x, shape.clusters(), row, shape.rows);
            in_block(group, of_blocks, level, x, kBlocksOfScanGroup / kBlocksOfThread, row, shape.rows);
            groups_kept.compute_at(level).store_in(MemoryType::GPUShared).bound(t, 0, shape.threads);
            group.bound_rows(groups_kept, row, shape.rows);
            of_groups.compute_at(groups_kept, group.over_threads(groups_kept, t, row));
            in_block(carry, level, [&](Func kept) {
              group.bound_rows(kept, row, shape.rows);
              kept.gpu_threads(row);
              return row;
            });
          }};
}

// The states of whole blocks, a work-group for each, and of groups of them, a thread for each.
void gpu_states(const ScanStages& s, const ScanStage& stage, const ScanTile& shape) {
  Func blocks = s.blocks, groups = s.groups;
  Var x("x"), t("t"), row("row"), tile("tile");
  Func kept(stage.name() + "_block_threads"), cluster(stage.name() + "_block_clusters");
  Func block_total(stage.name() + "_block_total");
  Parts parts;
  for (int j = 0; j < shape.each; j++) parts.push_back(stage.element(row, (tile * shape.threads + t) * shape.each + j));
  define(kept, {t, row, tile}, stage.merge(parts));
  parts.clear();
  for (int j = 0; j < shape.cluster; j++) parts.push_back(values_at(kept, {x * shape.cluster + j, row, tile}));
  define(cluster, {x, row, tile}, stage.merge(parts));
  parts.clear();
  for (int j = 0; j < shape.clusters(); j++) parts.push_back(values_at(cluster, {j, row, tile}));
  define(block_total, {row, tile}, stage.merge(parts));
  const Var b = blocks.args()[0], r = blocks.args()[1], v = blocks.args()[2];
  store_states(stage, blocks, values_at(block_total, {r, b}));
  Var thread("thread"), block("block_of_states");
  blocks.split(b, b, thread, 1)
      .reorder(v, thread, b, r)
      .unroll(v)
      .fuse(b, r, block)
      .gpu_blocks(block)
      .gpu_threads(thread);
  for (const auto& [f, index, extent] : {std::tuple{kept, t, shape.threads}, {cluster, x, shape.clusters()}}) {
    in_block(f, LoopLevel(blocks, block), [&](Func kept) {
      kept.bound(index, 0, extent).gpu_threads(index);
      return index;
    });
  }
  block_total.compute_at(blocks, thread);

  Func whole(stage.name() + "_whole_group");
  RDom eights(0, kBlocksOfScanGroup / 8);
  parts.clear();
  const Var g = groups.args()[0], gr = groups.args()[1], gv = groups.args()[2];
  for (int j = 0; j < 8; j++) {
    const Expr at = g * kBlocksOfScanGroup + eights * 8 + j;
    parts.push_back(stage.only_if(at < stage.block_count, loaded(stage, blocks, at, stage.block_count, gr)));
  }
  define(whole, {g, gr}, stage.init());
  update_at_once(whole, {g, gr}, stage.merge(values_at(whole, {g, gr}), stage.merge(parts)));
  store_states(stage, groups, values_at(whole, {g, gr}));
  Var group_block("block_of_groups"), group_thread("thread_of_groups");
  groups.split(g, group_block, group_thread, 32, TailStrategy::GuardWithIf)
      .reorder(gv, group_thread, group_block, gr)
      .unroll(gv)
      .fuse(group_block, gr, group_block)
      .gpu_blocks(group_block)
      .gpu_threads(group_thread);
  whole.compute_at(groups, group_thread);
}

void scan_gpu(const ScanStages& s) {
  index_arithmetic();
  leave_out_certain_checks();
  const ScanStage stage(s);
  // 16 KB of states of short rows, and no more than 48 KB of a block's.
  const auto of_thread = static_cast<int>(std::bit_floor(512U / static_cast<unsigned>(stage.bytes())));
  const ScanTile few{32, std::clamp(of_thread, 2, 16), std::clamp(of_thread / 16, 1, 8), 8};
  const ScanTile block{stage.block() / 8, 8, 1, 16};
  gpu_states(s, stage, block);
  choose(s.out,
         {gpu_tiles(s, stage, stage.columns <= few.columns(), few, false), gpu_tiles(s, stage, Expr(), block, true)});
}

}  // namespace

void scan(Cpu, const ScanStages& stages) { scan_cpu(stages); }
void scan(OpenCL, const ScanStages& stages) { scan_gpu(stages); }
void scan(Cuda, const ScanStages& stages) { scan_gpu(stages); }

}  // namespace ashlar::dsl
