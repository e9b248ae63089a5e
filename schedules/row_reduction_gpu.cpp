#include "dsl/device_facts.h"
#include "schedules/lowering/accesses.h"
#include "schedules/lowering/beside.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/tree.h"
#include "schedules/row_reduction.h"
#include "schedules/row_reduction_runs.h"
#include "schedules/row_reduction_staged.h"

#include <memory>
#include <optional>
#include <utility>

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::MemoryType;
using Halide::TailStrategy;
using rows::KeptSteps;
using rows::rewritten;
using rows::rows_of;
using rows::RunRows;
using rows::RunShape;
using rows::StagedBlockRows;
using rows::StagedWarpRows;

namespace {

constexpr int kUnroll = 4;

// ---- a thread for each row: rows too short to share
// ------------------------------------------------------------------

class ThreadRows {
 public:
  explicit ThreadRows(const std::vector<ReductionStage>& reductions) {
    for (const ReductionStage& stage : reductions) {
      Share share = make_share(stage, "_thread", {stage.index().at(0)}, 0, 1, kUnroll, rewrite_);
      rewrite_.calls[stage.name()] = [f = share.func](const std::vector<Expr>& at) { return f(at); };
      shares_.push_back(std::move(share));
    }
  }
  std::vector<Expr> values(const std::vector<Expr>& plain, const RowStages&) const {
    return rewritten(plain, rewrite_);
  }
  void schedule(Halide::Stage out, const Func& func, const RowStages& stages) {
    constexpr int kThreads = 128;
    out.split(stages.row, block_, thread_, kThreads, TailStrategy::GuardWithIf);
    if (stages.out_has_columns()) out.reorder(stages.column, thread_, block_);
    out.gpu_blocks(block_).gpu_threads(thread_);
    for (Share& share : shares_) {
      share.func.compute_at(func, thread_);
    }
  }

 private:
  Var block_{"block"}, thread_{"row_of_thread"};
  Rewrite rewrite_;
  std::vector<Share> shares_;
};

// ---- trees in shared memory: any target, any type
// --------------------------------------------------------------------

// `threads` threads reduce a row; `rows` rows in a block. Every value that all threads need is stored in shared memory.
class SharedRows {
 public:
  SharedRows(const RowStages& stages, const std::vector<ReductionStage>& reductions, int threads, int rows)
      : threads_(threads), rows_(rows) {
    for (const ReductionStage& stage : reductions) {
      const Var row = stage.index().at(0);
      Rewrite reading{{{row.name(), group_.read_row(row, rows_of(stages))}}, {}};
      for (const auto& [name, total] : totals_) {
        reading.calls[name] = [row, total = total](const std::vector<Expr>&) { return total(row); };
      }
      Share share = make_share(stage, "_part", {member_, row}, member_, threads, group_.is_line ? 1 : kUnroll, reading);
      std::vector<Func> tree = make_tree(stage, share.kept, threads, {row});
      totals_.emplace_back(stage.name(), tree.back());
      shares_.push_back(std::move(share));
      trees_.push_back(std::move(tree));
    }
  }

  std::vector<Expr> values(const std::vector<Expr>& plain, const RowStages&) const {
    Rewrite rewrite;
    for (const auto& [name, total] : totals_) {
      rewrite.calls[name] = [total = total](const std::vector<Expr>& at) { return total(at); };
    }
    return rewritten(plain, rewrite);
  }

  // Schedules the output, or the branch of it that is this shape, and the stages below it.
  void schedule(Halide::Stage out, const Func& func, const RowStages& stages) {
    out.split(stages.row, block_, row_, rows_, TailStrategy::GuardWithIf);
    if (stages.out_has_columns() && group_.is_line) {
      // One column a turn: four under guards of their own are most of what a driver has to compile.
      out.split(stages.column, step_, thread_, threads_, TailStrategy::GuardWithIf)
          .reorder(step_, thread_, row_, block_);
      const Var item = group_.over_threads(out, thread_, row_);
      for (const Var& v : {step_, item, block_}) out.partition(v, Halide::Partition::Never);
    } else if (stages.out_has_columns()) {
      out.split(stages.column, step_, thread_, threads_ * kUnroll, TailStrategy::GuardWithIf)
          .split(thread_, unrolled_, thread_, threads_)
          .reorder(unrolled_, step_, thread_, row_, block_)
          .unroll(unrolled_)
          .gpu_threads(thread_, row_);
    } else {
      out.gpu_threads(row_);
    }
    out.gpu_blocks(block_);

    const LoopLevel level(func, block_);
    for (size_t i = 0; i < shares_.size(); i++) {
      Share& share = shares_[i];
      const Var row = share.func.args()[1];
      share.kept.bound(member_, 0, threads_);
      group_.bound_rows(share.kept, row, rows_);
      share_in_block(group_, share, level, member_, row);
      for (const Func& tree : trees_[i]) tree_in_block(group_, tree, level, row, rows_);
    }
  }

 private:
  int threads_, rows_;
  GroupShape group_;
  Var member_{"member"}, block_{"block"}, row_{"row_in_block"}, step_{"step"}, thread_{"thread"}, unrolled_{"unrolled"};
  std::vector<std::pair<std::string, Func>> totals_;
  std::vector<Share> shares_;
  std::vector<std::vector<Func>> trees_;
};

// ---- trees over a warp's lanes: CUDA, 32-bit values
// ------------------------------------------------------------------

// A warp for `rows_per_warp` rows at once, so that enough loads are under way; `warps` warps in a block. Stages have
// the indices (lane, row within the warp's, warp); rows beyond the last repeat it.
class WarpRows {
 public:
  WarpRows(const std::vector<ReductionStage>& reductions, const Expr& rows, int warps, int rows_per_warp)
      : warps_(warps), rows_per_warp_(rows_per_warp) {
    for (const ReductionStage& stage : reductions) {
      Rewrite rewrite = reading_at(lane_);
      rewrite.variables[stage.index().at(0).name()] = Halide::min(group_ * rows_per_warp_ + member_, rows - 1);
      Share share = make_share(stage, "_lane", {lane_, member_, group_}, lane_, kWarp, kUnroll, rewrite);
      std::vector<Func> tree = make_rotation(stage, share.func, lane_, {member_, group_});
      results_.emplace_back(stage.name(), tree.back());
      shares_.push_back(std::move(share));
      trees_.push_back(std::move(tree));
    }
  }

  std::vector<Expr> values(const std::vector<Expr>& plain, const RowStages& stages) const {
    Rewrite rewrite;
    for (const auto& [name, func] : results_) {
      rewrite.calls[name] = [this, func = func, &stages](const std::vector<Expr>& at) {
        return func(stages.column % kWarp, at[0] % rows_per_warp_, at[0] / rows_per_warp_);
      };
    }
    return rewritten(plain, rewrite);
  }

  void schedule(Halide::Stage out, const Func& func, const RowStages& stages) {
    out.split(stages.row, block_, warp_, warps_ * rows_per_warp_, TailStrategy::GuardWithIf)
        .split(warp_, warp_, row_, rows_per_warp_)
        .split(stages.column, step_, thread_, kWarp * kUnroll, TailStrategy::GuardWithIf)
        .split(thread_, unrolled_, thread_, kWarp)
        .reorder(unrolled_, step_, row_, thread_, warp_, block_)
        .unroll(unrolled_)
        .unroll(row_)
        .gpu_blocks(block_)
        .gpu_threads(warp_)
        .gpu_lanes(thread_);
    const LoopLevel level(func, warp_);
    for (Share& share : shares_) {
      in_lanes(share.func, level);
      share.func.update(0).reorder(member_, share.steps.x, lane_).unroll(member_).gpu_lanes(lane_);
      share.func.update(1).reorder(share.rest.x, member_, lane_).unroll(member_).gpu_lanes(lane_);
    }
    for (const std::vector<Func>& tree : trees_) {
      for (const Func& f : tree) in_lanes(f, level);
    }
  }

 private:
  void in_lanes(Func f, const LoopLevel& level) {
    f.bound(member_, 0, rows_per_warp_).reorder(member_, lane_).unroll(member_);
    ashlar::dsl::in_lanes(f, level, lane_);
  }
  // Reads a reduction's result for the same row from the copy of one lane.
  Rewrite reading_at(const Expr& lane) const {
    Rewrite rewrite;
    for (const auto& [name, func] : results_) {
      rewrite.calls[name] = [this, func = func, lane](const std::vector<Expr>&) { return func(lane, member_, group_); };
    }
    return rewrite;
  }

  int warps_, rows_per_warp_;
  Var lane_{"lane"}, member_{"member"}, group_{"group"}, block_{"block"}, warp_{"warp_in_block"}, row_{"row_in_warp"},
      step_{"step"}, thread_{"thread"}, unrolled_{"unrolled"};
  std::vector<std::pair<std::string, Func>> results_;
  std::vector<Share> shares_;
  std::vector<std::vector<Func>> trees_;
};

// Shapes and their limits are the best of a sweep of softmax on an H200, 10 to 50257 columns in f32 and bf16.
constexpr int kFewRows = 16;  // which clusters share
constexpr int kColumnsOfThread = 16, kColumnsOfWarp = 512, kColumnsOfFewWarps = 2048, kColumnsOfBlock = 8192;

class RowBranches {
 public:
  explicit RowBranches(const RowStages& stages) : stages_(stages), plain_(values_of(stages.out)) {
    for (const Stage& stage : stages.reductions) reductions_.emplace_back(stage.func());
  }
  const std::vector<ReductionStage>& reductions() const { return reductions_; }

  const RowStages& stages() const { return stages_; }

  /// Adds a branch for rows of at most `columns`, or of any number, that fulfil `condition`, or for all that are left.
  template <class Rows>
  void add(std::optional<int> columns, Rows rows, const Expr& condition = Halide::Internal::const_true()) {
    const auto shared = std::make_shared<Rows>(std::move(rows));
    const Expr fits = columns ? reductions_.at(0).extent() <= *columns : Halide::Internal::const_true();
    const Expr when = Halide::Internal::simplify(condition && fits);
    branches_.push_back({Halide::Internal::is_const_one(when) ? Expr() : when, shared->values(plain_, stages_),
                         [=, this](Halide::Stage branch) { shared->schedule(branch, stages_.out, stages_); }});
  }
  void choose() { ashlar::dsl::choose(stages_.out, branches_); }

 private:
  RowStages stages_;
  std::vector<Expr> plain_;
  std::vector<ReductionStage> reductions_;
  std::vector<Branch> branches_;
};

// Rows in shared memory: at most so many bytes, to which the reductions' trees come. Every CUDA device has both from
// sm_80 on; an OpenCL one has 32 KB for certain, and is asked where that isn't enough.
constexpr int kMostSharedOfOpenCl = 32 << 10, kMostSharedOfCuda = 64 << 10, kLeastSharedOfOpenCl = 32 << 10;

// Elements per access of a thread: 16 bytes of the widest row type.
int row_vector(const RowStages& stages) {
  int bytes = 2;
  for (const Halide::Parameter& input : inputs_of(stages.out)) {
    if (input.dimensions() == 3) bytes = std::max(bytes, input.type().bytes());
  }
  return 16 / bytes;
}

// `least_columns`: shorter rows have branches already.
void shared_rows(RowBranches& branches, int most_threads, int least_columns = 1) {
  if (least_columns <= kColumnsOfThread) branches.add(kColumnsOfThread, ThreadRows(branches.reductions()));
  if (least_columns <= kColumnsOfWarp)
    branches.add(kColumnsOfWarp, SharedRows(branches.stages(), branches.reductions(), 32, 8));
  if (most_threads > 256)
    branches.add(kColumnsOfFewWarps, SharedRows(branches.stages(), branches.reductions(), 128, 1));
  if (most_threads > 256) branches.add(kColumnsOfBlock, SharedRows(branches.stages(), branches.reductions(), 256, 1));
  if (Descriptor::target.has_feature(Halide::Target::OpenCL)) {
    constexpr int kManyThreads = 1024;
    branches.add(
        std::nullopt, SharedRows(branches.stages(), branches.reductions(), kManyThreads, 1),
        branches.reductions().at(0).extent() > kColumnsOfBlock && device_fact(kOpenClGroupThreads) >= kManyThreads);
  }
  branches.add(std::nullopt, SharedRows(branches.stages(), branches.reductions(), most_threads, 1));
  branches.choose();
}

int staged_bytes_of_column(const RowStages& stages) {
  int bytes = 0;
  for (const Func& input : inputs_to_stage(stages)) bytes += input.types()[0].bytes();
  return bytes;
}

Expr most_shared_bytes() {
  return device_fact(Descriptor::target.has_feature(Halide::Target::CUDA) ? kCudaSharedBytes : kOpenClLocalBytes);
}

// Beside the rows in shared memory: 8 bytes of each thread's share of a reduction, and of the tree above it.
constexpr int kSharedBytesOfThread = 16;

struct BlockShape {
  int threads, steps;  ///< of a row: `steps` vectors for each thread
  int rows = 1;        ///< in a block
};
using BlockShapes = std::vector<BlockShape>;
// Rows of whole vectors of so many elements, aligned; of one, rows as they come. Shapes whose rows need more than
// `most_bytes` of shared memory are left out.
void add_staged_block_rows(RowBranches& branches, int most_bytes, int vector, const BlockShapes& shapes) {
  const RowStages& stages = branches.stages();
  const int bytes_of_column = staged_bytes_of_column(stages);
  const Expr aligned = vector == 1 ? Halide::Internal::const_true() : rows_are_aligned(stages, vector);
  const bool is_opencl = Descriptor::target.has_feature(Halide::Target::OpenCL);
  for (const auto& [threads, steps, rows] : shapes) {
    const RowLayout layout{threads, steps, vector};
    const int bytes_of_rows = layout.columns() * rows * bytes_of_column;
    if (bytes_of_rows > most_bytes) continue;
    const int bytes = bytes_of_rows + threads * rows * kSharedBytesOfThread;
    // CUDA's threads keep all but one step of a row in registers, where they have enough.
    const int inputs = static_cast<int>(inputs_to_stage(stages).size()), kept = (steps - 1) * vector * inputs;
    const int most = threads < 512 || (threads == 512 && inputs == 1) ? 28 : 12;
    const bool in_registers = !is_opencl && rows == 1 && kept > 0 && kept <= most;
    const KeptSteps where = in_registers ? KeptSteps{1, steps - 1} : KeptSteps{steps, 0};
    branches.add(layout.columns(), StagedBlockRows(stages, branches.reductions(), layout, {rows, 1}, where),
                 is_opencl && bytes > kLeastSharedOfOpenCl ? aligned && most_shared_bytes() >= bytes : aligned);
  }
}

struct WarpShape {
  int threads, steps;  ///< of a row: `steps` vectors for each thread
  int warps;           ///< in a block
  int members;         ///< rows one after the other
};
// Rows of one vector have a lane each, those of up to four have four. A vector holds 4 or 8 elements.
std::vector<WarpShape> warp_shapes(const RowTunables& tunables, int vector) {
  std::vector<WarpShape> shapes;
  for (int vectors = 1; vectors <= 128; vectors *= vectors == 1 ? 4 : 2) {
    const int threads = std::clamp(vectors / tunables.lane_vectors, std::min(32 / vector, vectors), kWarp);
    const int steps = vectors / threads;
    shapes.push_back({threads, steps, tunables.warps, std::max(1, tunables.warp_vectors / steps)});
  }
  return shapes;
}

BlockShapes block_shapes(const RowStages& stages) {
  const RowTunables& tunables = stages.tunables;
  if (tunables.block_vectors == 0 && inputs_to_stage(stages).size() == 1)
    return {{.threads = 128, .steps = 2}, {.threads = 256, .steps = 2}, {.threads = 256, .steps = 4},
            {.threads = 256, .steps = 6}, {.threads = 512, .steps = 4}, {.threads = 512, .steps = 6},
            {.threads = 512, .steps = 8}};
  if (tunables.block_vectors == 0)
    return {{.threads = 128, .steps = 2},
            {.threads = 256, .steps = 2},
            {.threads = 256, .steps = 4},
            {.threads = 512, .steps = 4},
            {.threads = 1024, .steps = 4}};
  BlockShapes shapes;
  for (int vectors = 256; vectors <= 4096; vectors *= 2) {
    const int threads = std::clamp(vectors / tunables.block_vectors, 32, 1024);
    shapes.push_back({.threads = threads, .steps = vectors / threads});
  }
  return shapes;
}

// A row that doesn't fit into 64 KB: blocks of 512 threads that keep it in shared memory, of which two or three blocks
// on a multiprocessor of 228 KB take their part, and in registers.
constexpr int kLongThreads = 512, kLongShared = 104 << 10, kLongRegisters = 16, kMostRegisterSteps = 3;
void add_long_rows(RowBranches& branches) {
  const RowStages& stages = branches.stages();
  const int vector = row_vector(stages), bytes_of_column = staged_bytes_of_column(stages);
  const int inputs = static_cast<int>(inputs_to_stage(stages).size());
  const int bytes_of_step = kLongThreads * vector * bytes_of_column;
  const Expr aligned = rows_are_aligned(stages, vector);
  const auto layout_of = [&](int columns, int cluster) {
    return RowLayout{kLongThreads * cluster, columns / (kLongThreads * cluster * vector), vector};
  };
  // Columns' own values are loaded beside each vector of the row: 8 of them a step are all the registers that there
  // are.
  const bool is_crowded = vector == 8 && !column_inputs(stages, /*of_reductions=*/true).empty();
  const auto kept_of = [&](const RowLayout& layout) {
    const int most = is_crowded ? 0 : kLongRegisters / (4 * inputs);
    const int registers = std::min({layout.steps - 1, kMostRegisterSteps, most});
    return KeptSteps{std::min(layout.steps - registers, kLongShared / bytes_of_step), registers};
  };
  const auto add = [&](int columns, int cluster, const Expr& runs) {
    const RowLayout layout = layout_of(columns, cluster);
    const KeptSteps kept = kept_of(layout);
    const int bytes = kept.shared * bytes_of_step + kLongThreads * kSharedBytesOfThread;
    branches.add(columns, StagedBlockRows(stages, branches.reductions(), layout, {1, cluster}, kept),
                 aligned && runs && most_shared_bytes() >= bytes);
  };
  // The rest is measured on an H200. Vectors of a row in each thread of a cluster:
  const int steps = is_crowded || (inputs == 1 && branches.reductions().size() == 1) ? 4 : 8;
  for (int columns = 8192; columns <= 131072; columns *= 2) {
    if (columns * bytes_of_column <= kMostSharedOfCuda) continue;
    const RowLayout alone = layout_of(columns, 1);
    const bool is_kept = kept_of(alone).shared + kept_of(alone).registers == alone.steps;
    // Two reductions of 16 bits are arithmetic, which a cluster's meetings hold up.
    const bool is_better_alone = vector == 8 && !is_crowded && branches.reductions().size() > 1 && is_kept;
    const int wanted = stages.tunables.long_row_cluster;
    const int cluster = wanted != 0       ? wanted
                        : is_better_alone ? 1
                                          : std::min(8, columns / (kLongThreads * steps * vector));
    if (cluster > 1) add(columns, cluster, has_clusters());
    if (columns > 65536) continue;  // by so many steps a block alone is slower than one that stages nothing
    // Rows of 16 bits even where a part has to be read again.
    const bool has_registers = !is_crowded || alone.steps <= steps;
    if ((is_kept || vector == 8) && has_registers) add(columns, 1, Halide::Internal::const_true());
  }
}

// Whether rows of f32 that begin anywhere in a vector have shapes of their own.
bool has_run_rows(const RowBranches& branches) {
  const RowStages& stages = branches.stages();
  // Of an axis with a condition Halide would work for minutes on what all of the shapes read.
  const auto is_plain_f32 = [](const ReductionStage& stage) {
    return stage.type() == Halide::Float(32) && !stage.has_merge() && !stage.is_ranked() && !stage.has_length() &&
           Halide::Internal::is_const_one(stage.condition(Halide::Var("k"), {}));
  };
  const bool has_one = inputs_to_stage(stages).size() == 1 && inputs_of_output_alone(stages).empty();
  return stages.out_has_columns() && has_one && row_vector(stages) == RunShape::kVector &&
         std::ranges::all_of(branches.reductions(), is_plain_f32) &&
         column_inputs(stages, /*of_reductions=*/true).empty();
}

// Fifty lengths from 289 to 16381 columns on an H200 say which there are. How many bytes are on their way at once
// decides, and threads without a column are at work for none.
void add_run_rows(RowBranches& branches) {
  const RowStages& stages = branches.stages();
  // Shorter ones are as many elements for fewer threads, one by one.
  constexpr int kLeastRun = 288;
  const Expr are_runs = rows_are_runs(stages, RunShape::kVector);
  int least = kLeastRun;
  for (RunShape shape : std::initializer_list<RunShape>{{.threads = 32, .steps = 3, .warps = 8, .registers = 64},
                                                        {.threads = 32, .steps = 4, .warps = 8, .registers = 80},
                                                        {.threads = 64, .steps = 3},
                                                        {.threads = 64, .steps = 4},
                                                        {.threads = 96, .steps = 3},
                                                        {.threads = 128, .steps = 3},
                                                        {.threads = 128, .steps = 4},
                                                        {.threads = 256, .steps = 3},
                                                        {.threads = 256, .steps = 4},
                                                        {.threads = 256, .steps = 5},
                                                        {.threads = 256, .steps = 6},
                                                        {.threads = 256, .steps = 8},
                                                        {.threads = 384, .steps = 6, .registers = 56},
                                                        {.threads = 384, .steps = 8, .registers = 56},
                                                        {.threads = 512, .steps = 8, .registers = 64}}) {
    shape.least = std::exchange(least, shape.columns() + 1);
    const Expr is_wanted =
        shape.columns() > kColumnsOfBlock ? rows_of(stages) > kFewRows : Halide::Internal::const_true();
    branches.add(shape.columns(), RunRows(stages, branches.reductions(), shape),
                 are_runs && is_wanted && branches.reductions().at(0).extent() >= shape.least);
  }
}

}  // namespace

void row_reduction(OpenCL, const RowStages& stages) {
  compute_beside(stages.out, stages.beside, stages.row, stages.column);
  stages.check_complete();
  uniform_guards();
  store_beside(stages.beside);
  vector_accesses();
  index_arithmetic();
  RowBranches branches(stages);
  const bool is_staged = !inputs_to_stage(stages).empty();
  if (is_staged) {
    add_staged_block_rows(branches, kMostSharedOfOpenCl, row_vector(stages),
                          {{.threads = 8, .steps = 1, .rows = 32},
                           {.threads = 8, .steps = 2, .rows = 32},
                           {.threads = 16, .steps = 2, .rows = 16},
                           {.threads = 32, .steps = 2, .rows = 8},
                           {.threads = 64, .steps = 2, .rows = 2},
                           {.threads = 128, .steps = 2},
                           {.threads = 256, .steps = 2},
                           {.threads = 256, .steps = 4},
                           {.threads = 256, .steps = 8}});
    add_staged_block_rows(branches, kMostSharedOfOpenCl, 1,
                          {{.threads = 4, .steps = 2, .rows = 64},
                           {.threads = 8, .steps = 2, .rows = 32},
                           {.threads = 8, .steps = 4, .rows = 32},
                           {.threads = 8, .steps = 8, .rows = 32},
                           {.threads = 16, .steps = 8, .rows = 16},
                           {.threads = 32, .steps = 8, .rows = 8},
                           {.threads = 64, .steps = 8, .rows = 4},
                           {.threads = 128, .steps = 8, .rows = 1},
                           {.threads = 256, .steps = 8, .rows = 1},
                           {.threads = 256, .steps = 16, .rows = 1},
                           {.threads = 256, .steps = 32, .rows = 1}});
  }
  // 256 is the smallest limit of a work-group among devices in use.
  shared_rows(branches, 256, is_staged ? kColumnsOfWarp + 1 : 1);
}

void row_reduction(Cuda, const RowStages& stages) {
  compute_beside(stages.out, stages.beside, stages.row, stages.column);
  stages.check_complete();
  uniform_guards();
  store_beside(stages.beside);
  RowBranches branches(stages);
  const std::vector<ReductionStage>& reductions = branches.reductions();
  const bool fits_lanes = std::all_of(reductions.begin(), reductions.end(),
                                      [](const ReductionStage& stage) { return stage.type().bits() == 32; });
  const bool is_staged = !inputs_to_stage(stages).empty();
  const bool has_columns = stages.out_has_columns();
  const BlockShapes of_results{{.threads = 128, .steps = 2},
                               {.threads = 256, .steps = 4},
                               {.threads = 512, .steps = 4},
                               {.threads = 1024, .steps = 4}};
  if (!fits_lanes || (!has_columns && !is_staged)) {
    if (is_staged) {
      add_staged_block_rows(branches, kMostSharedOfCuda, row_vector(stages), {{.threads = 32, .steps = 2, .rows = 4}});
      add_staged_block_rows(branches, kMostSharedOfCuda, row_vector(stages), of_results);
    }
    shared_rows(branches, 1024);
    vector_accesses();
    return index_arithmetic();
  }
  if (is_staged) {
    const int vector = row_vector(stages);
    const Expr aligned = rows_are_aligned(stages, vector);
    for (const auto& [threads, steps, warps, members] : warp_shapes(stages.tunables, vector)) {
      const RowLayout layout{threads, steps, vector};
      branches.add(layout.columns(), StagedWarpRows(stages, reductions, layout, warps, members), aligned);
    }
    add_staged_block_rows(branches, kMostSharedOfCuda, vector, has_columns ? block_shapes(stages) : of_results);
    if (has_columns) add_long_rows(branches);
    const bool has_runs = has_run_rows(branches);
    if (has_runs) add_run_rows(branches);
    // Of any length and alignment, element by element. Instructions are the limit of many rows, so that few lanes share
    // one: as many as make loads of whole sectors, a few rows of short ones under way, and of most rows one for the
    // shortest. Of few rows a warp has one each.
    constexpr int kManyRows = 1 << 12, kMostRows = 1 << 15;
    const int warps = stages.tunables.warps;
    const auto add_shapes = [&](const Expr& condition, const std::vector<WarpShape>& shapes) {
      for (const WarpShape& shape : shapes) {
        const RowLayout layout{shape.threads, shape.steps, 1};
        branches.add(layout.columns(), StagedWarpRows(stages, reductions, layout, shape.warps, shape.members),
                     condition);
      }
    };
    add_shapes(rows_of(stages) >= kMostRows, {{.threads = 1, .steps = 4, .warps = warps, .members = 1},
                                              {.threads = 1, .steps = 8, .warps = warps, .members = 1}});
    add_shapes(rows_of(stages) >= kManyRows, {{.threads = 4, .steps = 1, .warps = warps, .members = 4},
                                              {.threads = 4, .steps = 2, .warps = warps, .members = 2},
                                              {.threads = 8, .steps = 2, .warps = warps, .members = 2},
                                              {.threads = 8, .steps = 4, .warps = warps, .members = 2},
                                              {.threads = 8, .steps = 6, .warps = warps, .members = 1},
                                              {.threads = 8, .steps = 8, .warps = warps, .members = 1},
                                              {.threads = 16, .steps = 6, .warps = warps, .members = 1},
                                              {.threads = 16, .steps = 8, .warps = warps, .members = 1}});
    add_shapes(Halide::Internal::const_true(), {{.threads = 8, .steps = 1, .warps = warps, .members = 1},
                                                {.threads = 32, .steps = 1, .warps = warps, .members = 1},
                                                {.threads = 32, .steps = 2, .warps = warps, .members = 1},
                                                {.threads = 32, .steps = 4, .warps = warps, .members = 1},
                                                {.threads = 32, .steps = 6, .warps = warps, .members = 1},
                                                {.threads = 32, .steps = 8, .warps = warps, .members = 1},
                                                {.threads = 32, .steps = 16, .warps = warps, .members = 1}});
    // Longer ones by a block, which holds all but a step of a row in registers, so small that another one is at work
    // while its threads meet.
    const auto add_block = [&](const BlockShape& shape, const Expr& condition) {
      const RowLayout layout{shape.threads, shape.steps, 1};
      branches.add(layout.columns(), StagedBlockRows(stages, reductions, layout, {shape.rows, 1}, {1, shape.steps - 1}),
                   condition);
    };
    add_block({.threads = 128, .steps = 8}, rows_of(stages) < kManyRows);
    // Few are left where rows have shapes as runs of vectors: views.
    if (!has_runs)
      add_shapes(Halide::Internal::const_true(), {{.threads = 32, .steps = 32, .warps = warps, .members = 1}});
    add_block({.threads = 128, .steps = 16}, Halide::Internal::const_true());
    add_block({.threads = 512, .steps = 8}, Halide::Internal::const_true());
    if (!has_runs) add_block({.threads = 512, .steps = 12}, Halide::Internal::const_true());
    add_block({.threads = 512, .steps = 16}, Halide::Internal::const_true());
    // Still longer ones by a cluster of such blocks: where few rows leave most of the device idle, and where a row's
    // bytes wouldn't be in a cache any more when they are read again.
    if (has_columns) {
      constexpr int kThreads = 512, kCluster = 8, kCachedColumns = 32768;
      const Expr is_few = rows_of(stages) <= kFewRows,
                 is_uncached = vector == 4 && reductions.at(0).extent() > kCachedColumns;
      const auto by_cluster = [&](int steps, const Expr& condition) {
        const RowLayout layout{kThreads * kCluster, steps, 1};
        branches.add(layout.columns(), StagedBlockRows(stages, reductions, layout, {1, kCluster}, {1, steps - 1}),
                     has_clusters() && condition);
      };
      by_cluster(4, is_few);
      by_cluster(16, is_few || is_uncached);
      by_cluster(32, is_few || is_uncached);
    }
  } else {
    const Expr rows = stages.out.output_buffers()[0].dim(1).extent();
    branches.add(kColumnsOfThread, ThreadRows(reductions));
    branches.add(kColumnsOfWarp, WarpRows(reductions, rows, 8, 2));
    branches.add(kColumnsOfFewWarps, SharedRows(stages, reductions, 128, 1));
    branches.add(kColumnsOfBlock, SharedRows(stages, reductions, 256, 1));
  }
  branches.add(std::nullopt, SharedRows(stages, reductions, 1024, 1));
  branches.choose();
  aligned_vectors();
  vector_accesses();  // after per_thread(), which takes vectors apart, and so is the next
  index_arithmetic();
}

}  // namespace ashlar::dsl
