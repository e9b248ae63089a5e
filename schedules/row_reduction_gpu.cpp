#include "schedules/lowering/accesses.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/tree.h"
#include "schedules/row_reduction.h"
#include "schedules/row_reduction_staged.h"

#include <memory>
#include <optional>

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::MemoryType;
using Halide::TailStrategy;
using rows::in_lanes;
using rows::kWarp;
using rows::make_rotation;
using rows::rewritten;
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
    if (stages.out_has_columns) out.reorder(stages.column, thread_, block_);
    out.gpu_blocks(block_).gpu_threads(thread_);
    for (Share& share : shares_) {
      share.func.compute_at(func, thread_).update(0).unroll(share.steps.x);
      share.func.update(1).unroll(share.rest.x);
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
  SharedRows(const std::vector<ReductionStage>& reductions, int threads, int rows) : threads_(threads), rows_(rows) {
    for (const ReductionStage& stage : reductions) {
      const Var row = stage.index().at(0);
      Share share = make_share(stage, "_part", {member_, row}, member_, threads, kUnroll, rewrite_);
      std::vector<Func> tree = make_tree(stage, share.kept, threads, {row});
      rewrite_.calls[stage.name()] = [total = tree.back()](const std::vector<Expr>& at) { return total(at); };
      shares_.push_back(std::move(share));
      trees_.push_back(std::move(tree));
    }
  }

  std::vector<Expr> values(const std::vector<Expr>& plain, const RowStages&) const {
    return rewritten(plain, rewrite_);
  }

  // Schedules the output, or the branch of it that is this shape, and the stages below it.
  void schedule(Halide::Stage out, const Func& func, const RowStages& stages) {
    out.split(stages.row, block_, row_, rows_, TailStrategy::GuardWithIf);
    if (stages.out_has_columns) {
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
      share.kept.bound(member_, 0, threads_).bound_storage(row, rows_);
      share_in_block(share, level, member_, row);
      for (Func& tree : trees_[i]) {
        tree.compute_at(level).store_in(MemoryType::GPUShared).bound_storage(row, rows_);
        if (tree.dimensions() == 2)
          tree.gpu_threads(tree.args()[0], tree.args()[1]);
        else
          tree.gpu_threads(tree.args()[0]);
      }
    }
  }

 private:
  int threads_, rows_;
  Var member_{"member"}, block_{"block"}, row_{"row_in_block"}, step_{"step"}, thread_{"thread"}, unrolled_{"unrolled"};
  Rewrite rewrite_;
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
      share.func.update(0)
          .reorder(share.steps.x, member_, share.steps.y, lane_)
          .unroll(share.steps.x)
          .unroll(member_)
          .gpu_lanes(lane_);
      share.func.update(1).reorder(share.rest.x, member_, lane_).unroll(share.rest.x).unroll(member_).gpu_lanes(lane_);
    }
    for (const std::vector<Func>& tree : trees_) {
      for (const Func& f : tree) in_lanes(f, level);
    }
  }

 private:
  void in_lanes(Func f, const LoopLevel& level) {
    f.bound(member_, 0, rows_per_warp_).reorder(member_, lane_).unroll(member_);
    rows::in_lanes(f, level, lane_);
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
constexpr int kColumnsOfThread = 16, kColumnsOfWarp = 512, kColumnsOfFewWarps = 2048, kColumnsOfBlock = 8192;

class RowBranches {
 public:
  explicit RowBranches(const RowStages& stages) : stages_(stages), plain_(values_of(stages.out)) {
    for (const RowReduction& reduction : stages.reductions) reductions_.emplace_back(reduction.stage.func());
  }
  const std::vector<ReductionStage>& reductions() const { return reductions_; }

  const RowStages& stages() const { return stages_; }

  /// Adds a branch for rows of at most `columns` that fulfil `condition`, or for all that are left.
  template <class Rows>
  void add(std::optional<int> columns, Rows rows, const Expr& condition = Halide::Internal::const_true()) {
    const auto shared = std::make_shared<Rows>(std::move(rows));
    branches_.push_back(
        {columns ? Halide::Internal::simplify(condition && reductions_.at(0).extent() <= *columns) : Expr(),
         shared->values(plain_, stages_),
         [=, this](Halide::Stage branch) { shared->schedule(branch, stages_.out, stages_); }});
  }
  void choose() { ashlar::dsl::choose(stages_.out, branches_); }

 private:
  RowStages stages_;
  std::vector<Expr> plain_;
  std::vector<ReductionStage> reductions_;
  std::vector<Branch> branches_;
};

// A row in shared memory: what every OpenCL device in use has beside the trees, and every CUDA one from sm_80 on.
constexpr int kMostSharedOfOpenCl = 32 << 10, kMostSharedOfCuda = 64 << 10;

// Elements per access of a thread: 16 bytes of the widest row type.
int row_vector(const RowStages& stages) {
  int bytes = 2;
  for (const Halide::Parameter& input : inputs_of(stages.out)) {
    if (input.dimensions() == 3) bytes = std::max(bytes, input.type().bytes());
  }
  return 16 / bytes;
}

void shared_rows(RowBranches& branches, int most_threads) {
  branches.add(kColumnsOfThread, ThreadRows(branches.reductions()));
  branches.add(kColumnsOfWarp, SharedRows(branches.reductions(), 32, 8));
  branches.add(kColumnsOfFewWarps, SharedRows(branches.reductions(), 128, 1));
  if (most_threads > 256) branches.add(kColumnsOfBlock, SharedRows(branches.reductions(), 256, 1));
  branches.add(std::nullopt, SharedRows(branches.reductions(), most_threads, 1));
  branches.choose();
}

// Shapes whose rows need more than `most_bytes` of shared memory are left out.
void add_staged_block_rows(RowBranches& branches, int most_bytes,
                           std::initializer_list<std::tuple<int, int, int>> shapes) {
  const int vector = row_vector(branches.stages());
  int bytes_of_column = 0;
  for (const Func& input : inputs_to_stage(branches.stages())) bytes_of_column += input.types()[0].bytes();
  const Expr aligned = rows_are_aligned(branches.stages(), vector);
  for (const auto& [threads, steps, rows] : shapes) {
    const RowLayout layout{threads, steps, vector};
    if (layout.columns() * rows * bytes_of_column > most_bytes) continue;
    branches.add(layout.columns(), StagedBlockRows(branches.stages(), branches.reductions(), layout, rows), aligned);
  }
}

}  // namespace

void row_reduction(OpenCL, const RowStages& stages) {
  uniform_guards();
  vector_accesses();
  index_arithmetic();
  RowBranches branches(stages);
  if (!inputs_to_stage(stages).empty())
    add_staged_block_rows(branches, kMostSharedOfOpenCl,
                          {{8, 1, 32},
                           {8, 2, 32},
                           {16, 2, 16},
                           {32, 2, 8},
                           {64, 2, 2},
                           {128, 2, 1},
                           {256, 2, 1},
                           {256, 4, 1},
                           {256, 8, 1}});
  shared_rows(branches, 256);  // the smallest limit of a work-group among devices in use
}

void row_reduction(Cuda, const RowStages& stages) {
  uniform_guards();
  vector_accesses();
  index_arithmetic();
  RowBranches branches(stages);
  const std::vector<ReductionStage>& reductions = branches.reductions();
  const bool fits_lanes = std::all_of(reductions.begin(), reductions.end(),
                                      [](const ReductionStage& stage) { return stage.type().bits() == 32; });
  const bool is_staged = !inputs_to_stage(stages).empty();
  if (!stages.out_has_columns || !fits_lanes) {
    if (is_staged)
      add_staged_block_rows(branches, kMostSharedOfCuda,
                            {{32, 2, 4}, {128, 2, 1}, {256, 4, 1}, {512, 4, 1}, {1024, 4, 1}});
    return shared_rows(branches, 1024);
  }
  if (is_staged) {
    const int vector = row_vector(stages);
    const Expr aligned = rows_are_aligned(stages, vector);
    for (const auto& [threads, steps, warps, members] :
         {std::tuple{8, 1, 8, 2}, {8, 2, 8, 2}, {8, 4, 8, 1}, {8, 8, 8, 1}, {32, 4, 8, 1}}) {
      const RowLayout layout{threads, steps, vector};
      branches.add(layout.columns(), StagedWarpRows(stages, reductions, layout, warps, members), aligned);
    }
    add_staged_block_rows(branches, kMostSharedOfCuda,
                          {{128, 2, 1}, {256, 2, 1}, {256, 4, 1}, {512, 4, 1}, {1024, 4, 1}});
  }
  const Expr rows = stages.out.output_buffers()[0].dim(1).extent();
  branches.add(kColumnsOfThread, ThreadRows(reductions));
  branches.add(kColumnsOfWarp, WarpRows(reductions, rows, 8, 2));
  branches.add(kColumnsOfFewWarps, SharedRows(reductions, 128, 1));
  branches.add(kColumnsOfBlock, SharedRows(reductions, 256, 1));
  branches.add(std::nullopt, SharedRows(reductions, 1024, 1));
  branches.choose();
}

}  // namespace ashlar::dsl
