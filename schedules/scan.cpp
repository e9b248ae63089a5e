#include "schedules/scan.h"

#include "schedules/lowering/branches.h"
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

using Parts = std::vector<Expr>;

// The stage that is scanned, with the sizes of the call.
class ScanStage {
 public:
  explicit ScanStage(const ScanStages& stages)
      : columns(stages.out.output_buffer().dim(0).extent()),
        rows(stages.out.output_buffer().dim(1).extent()),
        group_count(stages.groups.output_buffer().dim(0).extent()),
        scratch_rows(stages.groups.output_buffer().dim(1).extent()),
        name_(stages.running.name()),
        scanning_(Descriptor::current->scans.at(name_)) {
    for (const Var& var : stages.running.args()) {
      if (var.name() != plain_name(scanning_.variable) + "_at") row_ = var.name();
    }
  }
  const std::string& name() const { return name_; }
  Expr init() const { return scanning_.merging.start()[0]; }
  /// The state of the element at (row, k) alone; of none beyond the last.
  Expr element(const Expr& row, const Expr& k) const {
    const Expr within = Halide::unsafe_promise_clamped(Halide::min(k, columns - 1), 0, columns - 1);
    const Rewrite rewrite{{{scanning_.variable, within}, {row_, row}}, {}, names_in_memory()};
    Values element;
    for (const Value& value : scanning_.merging.element) element.emplace_back(rewrite(value.expr()));
    const Merge& merge = scanning_.merging.merge;
    return Halide::select(k < columns, merge.step(merge.init, element)[0].expr(), init());
  }
  Expr merge(const Expr& a, const Expr& b) const { return scanning_.merging.merge.merge({a}, {b})[0]; }
  /// In order, as a balanced tree.
  Expr merge(Parts parts) const {
    while (parts.size() > 1) {
      Parts halved;
      for (size_t i = 0; i + 1 < parts.size(); i += 2) halved.push_back(merge(parts[i], parts[i + 1]));
      if (parts.size() % 2 == 1) halved.push_back(parts.back());
      parts = std::move(halved);
    }
    return parts.at(0);
  }
  /// `state` where the condition holds, else that of nothing.
  Expr only_if(const Expr& condition, const Expr& state) const { return Halide::select(condition, state, init()); }

  const Expr columns, rows, group_count, scratch_rows;

 private:
  std::string name_, row_;
  Scanning scanning_;
};

// What is stored for a row: rows that are shorter than a block have no states of blocks but one row of them.
Expr row_of_scratch(const ScanStage& stage, const Expr& row) {
  return Halide::unsafe_promise_clamped(Halide::min(row, stage.scratch_rows - 1), 0, stage.scratch_rows - 1);
}

// A state in scratch, and read from there.
Expr stored(const Expr& state) {
  return Halide::cast<int64_t>(Halide::cast<uint64_t>(Halide::reinterpret(Halide::UInt(state.type().bits()), state)));
}
Expr loaded(const ScanStage& stage, const Expr& bits) {
  const Halide::Type type = stage.init().type();
  return Halide::reinterpret(type, Halide::cast(Halide::UInt(type.bits()), bits));
}

// out with `running` replaced.
Parts reading(const Func& out, const ScanStage& stage, const CallRule& call) {
  Parts values;
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
  const int tile_columns = 1024;
  Var i("i"), group("group"), row("row"), q("q");

  // The states of eights in a group, wanted where there are several groups; one after the other.
  const auto eight = [&](const Expr& first, const Expr& r) {
    Parts parts;
    for (int j = 0; j < kEight; j++) parts.push_back(stage.element(r, first + j));
    return stage.merge(parts);
  };
  Func whole(stage.name() + "_group");
  RDom each(0, Halide::select(stage.group_count > 1, kScanGroup / kEight, 0));
  each.where(group * kScanGroup + each * kEight < stage.columns);
  whole(group, row) = stage.init();
  whole(group, row) = stage.merge(whole(group, row), eight(group * kScanGroup + each * kEight, row));
  values_of(groups) = {stored(whole(groups.args()[0], groups.args()[1]))};
  values_of(blocks) = {stored(stage.init())};  // these are for GPUs

  // What stands before each eight of a group: first all groups before it.
  Func before(stage.name() + "_before"), carry(stage.name() + "_carry");
  RDom earlier(0, stage.group_count);
  earlier.where(earlier < group);
  carry(group, row) = stage.init();
  carry(group, row) = stage.merge(carry(group, row), loaded(stage, groups(earlier, row_of_scratch(stage, row))));
  RDom next(1, kScanGroup / kEight - 1);
  next.where(group * kScanGroup + next * kEight < stage.columns);
  before(q, group, row) = carry(group, row);
  before(next, group, row) =
      stage.merge(before(next - 1, group, row), eight(group * kScanGroup + (next - 1) * kEight, row));

  // Within each eight, by steps over 1, 2 and 4 elements.
  std::vector<Func> steps{Func(stage.name() + "_elements")};
  steps[0](i, row) = stage.element(row, i);
  for (int distance = 1; distance < kEight; distance *= 2) {
    Func from = steps.back(), to(stage.name() + "_by" + std::to_string(distance));
    to(i, row) = Halide::select(i % kEight >= distance,
                                stage.merge(from(Halide::max(i - distance, 0), row), from(i, row)), from(i, row));
    steps.push_back(to);
  }
  const auto running = [&](const std::vector<Expr>& at) {
    // Vectors beyond the last column run into tiles without any, where nothing stands before them.
    const Expr eights = Halide::min(at[0] / kEight, (stage.columns - 1) / kEight);
    const Expr of_group = eights / (kScanGroup / kEight), eighth = eights - of_group * (kScanGroup / kEight);
    return stage.merge(before(eighth, of_group, at[1]), steps.back()(at[0], at[1]));
  };
  values_of(out) = reading(out, stage, CallRule(running));

  const int lanes = Descriptor::target.natural_vector_size(stage.init().type());
  Var task("task"), piece("piece"), tile("tile");
  const Var c = s.column, r = s.row;
  const Expr work = Halide::clamp(stage.columns, 1, kScanGroup);
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
  groups.fuse(groups.args()[0], groups.args()[1], group_row).parallel(group_row);
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

// The elements of a tile: a thread's running states, in local memory.
struct ThreadScans {
  ThreadScans(const ScanStage& stage, const std::string& name, const ScanTile& shape, const Expr& row_to_read)
      : shape(shape),
        items(stage.name() + name + "_items"),
        kept(stage.name() + name + "_kept"),
        later(1, shape.each - 1) {
    items(e, t, row, tile) = stage.element(row_to_read, tile * shape.columns() + t * shape.each + e);
    items(later, t, row, tile) = stage.merge(items(later - 1, t, row, tile), items(later, t, row, tile));
    kept(e, t, row, tile) = items(e, t, row, tile);
  }
  Expr total(const Expr& thread, const Expr& r, const Expr& at_tile) const {
    return kept(shape.each - 1, thread, r, at_tile);
  }
  void schedule(const GroupShape& group, const LoopLevel& level) {
    kept.bound(e, 0, shape.each).bound(t, 0, shape.threads);
    group.bound_rows(kept, row, shape.rows);
    kept.compute_at(level).store_in(MemoryType::GPUShared).unroll(e);
    const Var thread = group.over_threads(kept, t, row);
    items.compute_at(kept, thread).bound_extent(e, shape.each).unroll(e);
    items.update().unroll(later.x);
  }
  ScanTile shape;
  Func items, kept;
  RDom later;
  Var e{"e"}, t{"t"}, row{"row"}, tile{"tile"};
};

void in_block(const GroupShape& group, Func f, const LoopLevel& level, const Var& x, int extent, const Var& row,
              int rows) {
  f.compute_at(level).store_in(MemoryType::GPUShared).bound(x, 0, extent);
  group.bound_rows(f, row, rows);
  group.over_threads(f, x, row);
}

// `carried`: the tiles are a row's blocks, and what stands before one is merged from s.groups and s.blocks.
Branch gpu_tiles(const ScanStages& s, const ScanStage& stage, const Expr& condition, const ScanTile& shape,
                 bool carried) {
  const std::string name = "_" + std::to_string(shape.columns());
  constexpr int kBlocksOfGroup = kScanGroup / kScanBlock, kBlocksOfThread = 16;
  Func out = s.out, blocks = s.blocks, groups = s.groups;
  const GroupShape group;
  Var t("t"), row("row"), tile("tile"), x("x");
  ThreadScans scans(stage, name, shape, group.read_row(Var("row"), stage.rows));

  Func cluster(stage.name() + name + "_cluster");
  Parts parts;
  for (int j = 0; j < shape.cluster; j++) parts.push_back(scans.total(x * shape.cluster + j, row, tile));
  cluster(x, row, tile) = stage.merge(parts);

  // What stands before the tile: a thread for some groups each, threads for the blocks of its own group.
  Func of_groups(stage.name() + name + "_groups"), groups_kept(stage.name() + name + "_groups_kept");
  Func group_cluster(stage.name() + name + "_group_cluster"), of_blocks(stage.name() + name + "_blocks");
  Func carry(stage.name() + name + "_carry");
  const Expr each_thread = (stage.group_count + shape.threads - 1) / shape.threads;
  RDom some(0, each_thread);
  if (carried) {
    const Expr r = row_of_scratch(stage, group.read_row(row, stage.rows)), whole_groups = tile / kBlocksOfGroup;
    const Expr at = t * each_thread + some;
    some.where(at < whole_groups);
    of_groups(t, row, tile) = stage.init();
    of_groups(t, row, tile) =
        stage.merge(of_groups(t, row, tile),
                    loaded(stage, groups(Halide::unsafe_promise_clamped(at, 0, stage.group_count - 1), r)));
    groups_kept(t, row, tile) = of_groups(t, row, tile);
    parts.clear();
    for (int j = 0; j < shape.cluster; j++) parts.push_back(groups_kept(x * shape.cluster + j, row, tile));
    group_cluster(x, row, tile) = stage.merge(parts);
    parts.clear();
    const Expr block_count = blocks.output_buffer().dim(0).extent();
    for (int j = 0; j < kBlocksOfThread; j++) {
      const Expr block = whole_groups * kBlocksOfGroup + x * kBlocksOfThread + j;
      const Expr within = Halide::unsafe_promise_clamped(Halide::min(block, block_count - 1), 0, block_count - 1);
      parts.push_back(stage.only_if(block < tile, loaded(stage, blocks(within, r))));
    }
    of_blocks(x, row, tile) = stage.merge(parts);
    parts.clear();
    for (int j = 0; j < shape.clusters(); j++) parts.push_back(group_cluster(j, row, tile));
    for (int j = 0; j < kBlocksOfGroup / kBlocksOfThread; j++) parts.push_back(of_blocks(j, row, tile));
    carry(row, tile) = stage.merge(parts);
  }

  // What stands before each thread's columns.
  Func before(stage.name() + name + "_before");
  parts.clear();
  if (carried) parts.push_back(carry(row, tile));
  const Expr own = t / shape.cluster;
  for (int j = 0; j + 1 < shape.clusters(); j++) parts.push_back(stage.only_if(j < own, cluster(j, row, tile)));
  for (int j = 0; j + 1 < shape.cluster; j++) {
    parts.push_back(stage.only_if(j < t % shape.cluster, scans.total(own * shape.cluster + j, row, tile)));
  }
  before(t, row, tile) = stage.merge(parts);

  const auto running = [&](const std::vector<Expr>& at) {
    const Expr thread = at[0] % shape.columns() / shape.each, of_tile = at[0] / shape.columns();
    return stage.merge(before(thread, at[1], of_tile), scans.kept(at[0] % shape.each, thread, at[1], of_tile));
  };
  return {condition, reading(out, stage, CallRule(running)), [=](Halide::Stage branch) mutable {
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
            in_block(group, of_blocks, level, x, kBlocksOfGroup / kBlocksOfThread, row, shape.rows);
            groups_kept.compute_at(level).store_in(MemoryType::GPUShared).bound(t, 0, shape.threads);
            group.bound_rows(groups_kept, row, shape.rows);
            of_groups.compute_at(groups_kept, group.over_threads(groups_kept, t, row));
            carry.compute_at(level).store_in(MemoryType::GPUShared);
            group.bound_rows(carry, row, shape.rows);
            carry.gpu_threads(row);
          }};
}

// The states of whole blocks, a work-group for each, and of groups of them, a thread for each.
void gpu_states(const ScanStages& s, const ScanStage& stage) {
  const ScanTile shape{256, kScanBlock / 256, 1, 16};
  Func blocks = s.blocks, groups = s.groups;
  Var x("x"), t("t"), row("row"), tile("tile");
  Func kept(stage.name() + "_block_threads"), cluster(stage.name() + "_block_clusters");
  Parts parts;
  for (int j = 0; j < shape.each; j++) parts.push_back(stage.element(row, tile * kScanBlock + t * shape.each + j));
  kept(t, row, tile) = stage.merge(parts);
  parts.clear();
  for (int j = 0; j < shape.cluster; j++) parts.push_back(kept(x * shape.cluster + j, row, tile));
  cluster(x, row, tile) = stage.merge(parts);
  const Var b = blocks.args()[0], r = blocks.args()[1];
  parts.clear();
  for (int j = 0; j < shape.clusters(); j++) parts.push_back(cluster(j, r, b));
  values_of(blocks) = {stored(stage.merge(parts))};
  Var thread("thread"), block("block_of_states");
  blocks.split(b, b, thread, 1).reorder(thread, b, r).fuse(b, r, block).gpu_blocks(block).gpu_threads(thread);
  for (Func f : {kept, cluster}) f.compute_at(blocks, block).store_in(MemoryType::GPUShared);
  kept.bound(t, 0, shape.threads).gpu_threads(t);
  cluster.bound(x, 0, shape.clusters()).gpu_threads(x);

  Func whole(stage.name() + "_whole_group");
  const Expr block_count = blocks.output_buffer().dim(0).extent();
  RDom eights(0, kScanGroup / kScanBlock / 8);
  parts.clear();
  const Var g = groups.args()[0], gr = groups.args()[1];
  for (int j = 0; j < 8; j++) {
    const Expr at = g * (kScanGroup / kScanBlock) + eights * 8 + j;
    const Expr within = Halide::unsafe_promise_clamped(Halide::min(at, block_count - 1), 0, block_count - 1);
    parts.push_back(stage.only_if(at < block_count, loaded(stage, blocks(within, gr))));
  }
  whole(g, gr) = stage.init();
  whole(g, gr) = stage.merge(whole(g, gr), stage.merge(parts));
  values_of(groups) = {stored(whole(g, gr))};
  Var group_block("block_of_groups"), group_thread("thread_of_groups");
  groups.split(g, group_block, group_thread, 32, TailStrategy::GuardWithIf)
      .reorder(group_thread, group_block, gr)
      .fuse(group_block, gr, group_block)
      .gpu_blocks(group_block)
      .gpu_threads(group_thread);
  whole.compute_at(groups, group_thread);
}

void scan_gpu(const ScanStages& s) {
  index_arithmetic();
  const ScanStage stage(s);
  const ScanTile few{32, 16, stage.init().type().bits() > 32 ? 4 : 8, 8};
  const ScanTile block{256, kScanBlock / 256, 1, 16};
  gpu_states(s, stage);
  choose(s.out,
         {gpu_tiles(s, stage, stage.columns <= few.columns(), few, false), gpu_tiles(s, stage, Expr(), block, true)});
}

}  // namespace

void scan(Cpu, const ScanStages& stages) { scan_cpu(stages); }
void scan(OpenCL, const ScanStages& stages) { scan_gpu(stages); }
void scan(Cuda, const ScanStages& stages) { scan_gpu(stages); }

}  // namespace ashlar::dsl
