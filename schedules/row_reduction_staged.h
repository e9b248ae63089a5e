// The shapes of a row reduction in which a row is loaded once, for row_reduction_gpu.cpp.
#pragma once

#include <memory>

#include "schedules/lowering/cluster.h"
#include "schedules/lowering/per_thread.h"
#include "schedules/lowering/staged_rows.h"
#include "schedules/lowering/tree.h"
#include "schedules/row_reduction.h"

namespace ashlar::dsl::rows {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::MemoryType;
using Halide::Partition;
using Halide::TailStrategy;

inline Expr rows_of(const RowStages& stages) {
  return Func(stages.out).output_buffers()[0].dim(stages.out_has_columns() ? 1 : 0).extent();
}

inline std::vector<Expr> rewritten(const std::vector<Expr>& values, const Rewrite& rewrite) {
  std::vector<Expr> result;
  for (const Expr& value : values) result.push_back(rewrite(value));
  return result;
}

// What both kinds below share: the reductions' results so far and the staged inputs, read at (element, thread, step,
// …).
class StagedReader {
 public:
  explicit StagedReader(const RowStages& stages)
      : StagedReader(inputs_to_stage(stages), column_inputs(stages, /*of_reductions=*/true)) {}
  StagedReader(std::vector<Func> staged, std::vector<Func> staged_columns)
      : inputs(std::move(staged)), of_columns(std::move(staged_columns)) {}

  /// Reads the results, and the i-th input's element of `column` by `element(i)`, that of the i-th input of the columns
  /// alone by `of_column(i)`, where it is staged; other elements (the one of a label, say) come from memory.
  Rewrite rewrite(const Expr& column, const std::function<Expr(const Func& result)>& result,
                  const std::function<Expr(size_t input)>& element,
                  const std::function<Expr(size_t input)>& of_column = {}) const {
    Rewrite rewrite;
    for (const auto& [name, func] : results) {
      rewrite.calls[name] = [=, f = func](const std::vector<Expr>&) { return result(f); };
    }
    for (size_t i = 0; i < inputs.size(); i++) {
      rewrite.calls[inputs[i].name()] = [=, input = inputs[i]](const std::vector<Expr>& at) {
        return Halide::Internal::equal(at[0], column) ? element(i) : Expr(input(at));
      };
    }
    for (size_t i = 0; of_column && i < of_columns.size(); i++) {
      rewrite.calls[of_columns[i].name()] = [=, input = of_columns[i]](const std::vector<Expr>& at) {
        return Halide::Internal::equal(at[0], column) ? of_column(i) : Expr(input(at));
      };
    }
    return rewrite;
  }
  std::vector<Func> inputs, of_columns;
  std::vector<std::pair<std::string, Func>> results;
};

// In registers: layout.threads lanes for each row, 32 / layout.threads rows side by side in a warp and `members` one
// after the other, so that enough loads are under way; `warps` warps in a block. Rows beyond the last repeat it. Where
// the output has no columns, the lanes of a row lie apart: the first of them then have a row each, and store its result
// without a shuffle, which all lanes of a warp would have to take part in.
class StagedWarpRows {
 public:
  StagedWarpRows(const RowStages& stages, const std::vector<ReductionStage>& reductions, const RowLayout& layout,
                 int warps, int members)
      : layout_(layout), warps_(warps), members_(members), side_(kWarp / layout.threads), reader_(stages) {
    const Expr rows = rows_of(stages);
    const bool are_apart = !stages.out_has_columns();
    const Expr thread = side_ == 1 ? Expr(lane_) : are_apart ? lane_ / side_ : lane_ % layout.threads;
    const Expr beside = are_apart ? lane_ % side_ : lane_ / layout.threads;
    const Expr number = side_ == 1 ? group_ * members + member_ : (group_ * members + member_) * side_ + beside;
    const Expr row = Halide::min(number, rows - 1);
    const std::vector<Var> index{lane_, member_, group_};
    for (const Func& input : reader_.inputs) {
      staged_.push_back(
          stage_rows(input, layout, reductions.at(0).extent(), element_, lane_, thread, step_, {member_, group_}, row));
    }
    // What the output alone reads is on its way while the lanes reduce: it has to be loaded before.
    for (const Func& input : inputs_of_output_alone(stages)) {
      reader_.inputs.push_back(input);
      staged_.push_back(stage_rows(input, layout, reductions.at(0).extent(), element_, lane_, thread, step_,
                                   {member_, group_}, row, 0, "Ahead_of_" + input.name()));
    }
    for (const Func& input : reader_.of_columns) {
      of_columns_.push_back(
          stage_rows(input, layout, reductions.at(0).extent(), element_, lane_, thread, step_, {}, row));
    }
    for (const ReductionStage& stage : reductions) {
      const auto reading = [&](size_t, const Halide::RDom& each, const Expr& column) {
        Rewrite rewrite = reader_.rewrite(
            column, [&](const Func& f) { return f(lane_, member_, group_); },
            [&](size_t i) { return staged_[i](each.x, lane_, each.y, member_, group_); },
            [&](size_t i) { return of_columns_[i](each.x, lane_, each.y); });
        rewrite.variables[stage.index().at(0).name()] = row;
        return rewrite;
      };
      shares_.push_back(make_staged_share(stage, "_lane", index, layout, thread, {{0, layout.steps}}, reading));
      trees_.push_back(
          make_rotation(stage, shares_.back().func, lane_, {member_, group_}, layout.threads, are_apart ? side_ : 1));
      reader_.results.emplace_back(stage.name(), layout.threads > 1 ? trees_.back().back() : shares_.back().func);
    }
  }

  std::vector<Expr> values(const std::vector<Expr>& plain, const RowStages& stages) const {
    const auto [vector, side, members] = std::tuple{layout_.vector, side_, members_};
    const Expr column = stages.column, row = stages.row;
    const Expr member = row / side % members, group = row / (side * members);
    if (!stages.out_has_columns()) {
      return rewritten(plain, reader_.rewrite(column, [=](const Func& f) { return f(row % side, member, group); }, {}));
    }
    const Expr thread = column / vector % layout_.threads;
    const Expr lane = side == 1 ? thread : row % side * layout_.threads + thread;
    const Expr element = column % vector, step = column / (vector * layout_.threads) % layout_.steps;
    return rewritten(plain, reader_.rewrite(
                                column, [=](const Func& f) { return f(lane, member, group); },
                                [=, this](size_t i) { return staged_[i](element, lane, step, member, group); },
                                [=, this](size_t i) { return of_columns_[i](element, lane, step); }));
  }

  void schedule(Halide::Stage out, const Func& func, const RowStages& stages) {
    const int vector = layout_.vector;
    out.split(stages.row, block_, warp_, warps_ * members_ * side_, TailStrategy::GuardWithIf)
        .split(warp_, warp_, row_, members_ * side_)
        .split(row_, row_, beside_, side_);
    if (stages.out_has_columns()) {
      out.split(stages.column, whole_, thread_, layout_.columns(), TailStrategy::GuardWithIf)
          .split(thread_, step_, thread_, layout_.threads * vector)
          .split(thread_, thread_, element_, vector)
          .reorder({element_, step_, row_, whole_, thread_, beside_, warp_, block_})
          .fuse(thread_, beside_, thread_)
          .vectorize(element_)
          .unroll(step_)
          .gpu_lanes(thread_);
      for (const Var& v : {whole_, thread_}) out.partition(v, Partition::Never);
    } else {
      out.reorder(row_, beside_, warp_, block_).gpu_lanes(beside_).partition(beside_, Partition::Never);
    }
    out.unroll(row_).gpu_blocks(block_).gpu_threads(warp_);
    for (const Var& v : {warp_, block_}) out.partition(v, Partition::Never);
    const LoopLevel level(func, warp_);
    for (Func f : staged_) {
      f.compute_at(level).store_in(MemoryType::Register);
      f.bound(element_, 0, vector).bound(lane_, 0, kWarp).bound(step_, 0, layout_.steps).bound(member_, 0, members_);
      f.bound_extent(group_, 1);
      f.reorder(element_, step_, member_, lane_).vectorize(element_).unroll(step_).unroll(member_).gpu_lanes(lane_);
    }
    for (Func f : of_columns_) {
      f.compute_at(level).store_in(MemoryType::Register);
      f.bound(element_, 0, vector).bound(lane_, 0, kWarp).bound(step_, 0, layout_.steps);
      f.reorder(element_, step_, lane_).vectorize(element_).unroll(step_).gpu_lanes(lane_);
    }
    for (StagedShare& share : shares_) {
      in_lanes(share.func, level);
      share.func.update(0)
          .reorder(share.each[0].x, share.each[0].y, member_, lane_)
          .unroll(share.each[0].x)
          .unroll(share.each[0].y)
          .unroll(member_)
          .gpu_lanes(lane_);
    }
    for (const std::vector<Func>& tree : trees_) {
      for (const Func& f : tree) in_lanes(f, level);
    }
  }

 private:
  void in_lanes(Func f, const LoopLevel& level) {
    f.bound(member_, 0, members_).bound_extent(group_, 1).reorder(member_, lane_).unroll(member_);
    ashlar::dsl::in_lanes(f, level, lane_);
  }

  RowLayout layout_;
  int warps_, members_, side_;
  Var lane_{"lane"}, member_{"member"}, group_{"group"}, element_{"element"}, step_{"step"}, block_{"block"},
      warp_{"warp_in_block"}, row_{"row_in_warp"}, beside_{"beside"}, whole_{"whole"}, thread_{"thread"};
  std::vector<Func> staged_, of_columns_;
  StagedReader reader_;
  std::vector<StagedShare> shares_;
  std::vector<std::vector<Func>> trees_;
};

// The first steps of a layout are kept in shared memory, the next in registers, and what is left is read again where
// it's needed, from the second-level cache with some luck.
struct KeptSteps {
  int shared, registers;
};
// How rows lie on blocks: `rows` of them in one, or one in each cluster of `cluster` blocks.
struct RowBlocks {
  int rows, cluster;
};

// layout.threads threads for each row, those of a cluster's first block first. Every stage is a block's own; which part
// of the row that is, its rank says.
class StagedBlockRows {
 public:
  StagedBlockRows(const RowStages& stages, const std::vector<ReductionStage>& reductions, const RowLayout& layout,
                  const RowBlocks& blocks, const KeptSteps& kept_steps)
      : layout_(layout),
        blocks_(blocks),
        threads_(layout.threads / blocks.cluster),
        kept_steps_(kept_steps),
        reader_(stages) {
    const Expr columns = reductions.at(0).extent();
    const Expr row = group_.read_row(stages.row, rows_of(stages));
    const Expr thread =
        blocks.cluster > 1 ? rank_in_cluster(member_, blocks.cluster) * threads_ + member_ : Expr(member_);
    const auto stage_from = [&](const Func& input, int first) {
      return stage_rows(input, layout, columns, element_, member_, thread, step_, {stages.row}, row, first);
    };
    const int registers_end = kept_steps.shared + kept_steps.registers;
    std::vector<Steps> parts{{0, kept_steps.shared}};
    if (kept_steps.registers > 0) parts.push_back({kept_steps.shared, kept_steps.registers});
    if (registers_end < layout.steps) parts.push_back({registers_end, layout.steps - registers_end});
    for (const Func& input : reader_.inputs) {
      in_shared_.push_back(stage_from(input, 0));
      if (kept_steps.registers > 0) in_registers_.push_back(stage_from(input, kept_steps.shared));
    }
    const std::vector<Var> index{member_, stages.row};
    for (const ReductionStage& stage : reductions) {
      again_.emplace_back();
      if (registers_end < layout.steps) {
        for (const Func& input : reader_.inputs) again_.back().push_back(stage_from(input, registers_end));
      }
      of_columns_.emplace_back();
      for (const Steps& part : parts) {
        of_columns_.back().emplace_back();
        if (blocks.rows > 1) continue;  // one vector of each thread would be given memory for all of the block's
        for (const Func& input : reader_.of_columns) {
          of_columns_.back().back().push_back(
              stage_rows(input, layout, columns, element_, member_, thread, step_, {}, row, part.first));
        }
      }
      const auto reading = [&](size_t part, const Halide::RDom& each, const Expr& column) {
        const std::vector<Func>& staged = part == 0                               ? in_shared_
                                          : part == 1 && kept_steps.registers > 0 ? in_registers_
                                                                                  : again_.back();
        const std::vector<Func>& of_columns = of_columns_.back()[part];
        Rewrite rewrite = reader_.rewrite(
            column, [&](const Func& f) { return f(stages.row); },
            [&](size_t i) { return staged[i](each.x, member_, each.y, stages.row); },
            of_columns.empty() ? std::function<Expr(size_t)>()
                               : [&](size_t i) { return of_columns[i](each.x, member_, each.y); });
        rewrite.variables[stage.index().at(0).name()] = row;
        return rewrite;
      };
      shares_.push_back(make_staged_share(stage, "_part", index, layout, thread, parts, reading));
      Func kept(stage.name() + "_kept");
      kept(index) = shares_.back().func(member_, stages.row);
      kept_.push_back(kept);
      trees_.push_back(make_tree(stage, kept, threads_, {stages.row}));
      reader_.results.emplace_back(stage.name(), of_whole_row(stage, trees_.back().back(), stages.row));
    }
  }

  std::vector<Expr> values(const std::vector<Expr>& plain, const RowStages& stages) const {
    const int vector = layout_.vector;
    const Expr column = stages.column;
    const Expr thread = column / vector % threads_, element = column % vector;
    const Expr step = column / (vector * layout_.threads) % layout_.steps;
    const auto [shared, registers] = kept_steps_;
    return rewritten(
        plain,
        reader_.rewrite(
            column, [&](const Func& f) { return f(stages.row); },
            [&, shared = shared, registers = registers](size_t i) {
              Expr value = in_shared_[i](element, thread, shared < layout_.steps ? Halide::min(step, shared - 1) : step,
                                         stages.row);
              if (registers > 0) {
                value = Halide::select(
                    step < shared, value,
                    in_registers_[i](element, thread, Halide::clamp(step - shared, 0, registers - 1), stages.row));
              }
              if (shared + registers == layout_.steps) return value;
              return Halide::select(step < shared + registers, value, Expr(reader_.inputs[i](column, stages.row, 0)));
            }));
  }

  void schedule(Halide::Stage out, const Func& func, const RowStages& stages) {
    const int vector = layout_.vector;
    out.split(stages.row, block_, row_, blocks_.rows, TailStrategy::GuardWithIf);
    if (stages.out_has_columns()) {
      out.split(stages.column, whole_, thread_, layout_.columns(), TailStrategy::GuardWithIf)
          .split(thread_, step_, thread_, layout_.threads * vector)
          .split(thread_, thread_, element_, vector)
          .reorder({element_, step_, whole_, thread_, row_, block_})
          .vectorize(element_);
      if (is_unrolled()) out.unroll(step_);
      if (blocks_.cluster > 1) out.split(thread_, rank_, thread_, threads_).reorder(thread_, row_, block_, rank_);
      const Var item = group_.over_threads(out, thread_, row_);
      for (const Var& v : {whole_, item}) out.partition(v, Partition::Never);
      if (!group_.is_line) out.partition(row_, Partition::Never);
    } else {
      out.gpu_threads(row_).partition(row_, Partition::Never);
    }
    out.partition(block_, Partition::Never);
    if (blocks_.cluster > 1) {
      std::vector<Func> totals;
      for (const std::vector<Func>& tree : trees_) totals.push_back(tree.back());
      out.gpu_blocks(block_, rank_);
      across_cluster(totals, blocks_.cluster);
    } else {
      out.gpu_blocks(block_);
    }

    const LoopLevel level(func, block_);
    const auto in_shared = [&](Func f) {
      f.compute_at(level).store_in(MemoryType::GPUShared);
      group_.bound_rows(f, stages.row, blocks_.rows);
    };
    const auto in_vectors = [&](Func f, int steps) {
      f.bound(element_, 0, vector).bound(member_, 0, threads_).bound(step_, 0, steps);
      f.reorder(element_, step_, member_, stages.row).vectorize(element_);
      if (is_unrolled()) f.unroll(step_);
      group_.over_threads(f, member_, stages.row);
    };
    for (Func f : in_shared_) {
      in_shared(f);
      in_vectors(f, kept_steps_.shared);
    }
    for (Func f : in_registers_) {
      f.compute_at(level).bound_storage(stages.row, blocks_.rows);
      in_vectors(f, kept_steps_.registers);
      per_thread(f);
    }
    // Two blocks at a time. Without a word the assembler takes fewer, and loads one after the other.
    constexpr int kManySteps = 4, kManyThreads = 512, kRegisters = 64;
    if (threads_ == kManyThreads && kept_steps_.registers > kManySteps) limit_registers(in_registers_[0], kRegisters);
    for (size_t i = 0; i < shares_.size(); i++) {
      in_shared(kept_[i]);
      kept_[i].bound(member_, 0, threads_);
      shares_[i].func.compute_at(kept_[i], group_.over_threads(kept_[i], member_, stages.row));
      for (size_t part = 0; part < shares_[i].each.size(); part++) {
        const Halide::RDom& each = shares_[i].each[part];
        Halide::Stage update = shares_[i].func.update(static_cast<int>(part));
        update.unroll(each.x);
        if (is_unrolled()) update.unroll(each.y);
        for (Func f : of_columns_[i][part]) {
          f.compute_at(shares_[i].func, each.y).bound(element_, 0, vector).vectorize(element_);
        }
      }
      for (Func f : again_[i]) {
        f.compute_at(shares_[i].func, shares_[i].each.back().y).bound(element_, 0, vector).vectorize(element_);
      }
      for (const Func& tree : trees_[i]) tree_in_block(group_, tree, level, stages.row, blocks_.rows);
    }
  }

 private:
  // Many steps by rows in shared memory alone stay loops on OpenCL, for its drivers' sake.
  bool is_unrolled() const { return !group_.is_line || layout_.steps <= kMostUnrolled; }

  // The blocks' totals in the order of their ranks, so that each of them comes to the same bits.
  Func of_whole_row(const ReductionStage& stage, const Func& total, const Var& row) const {
    if (blocks_.cluster == 1) return total;
    std::vector<Expr> totals;
    for (int peer = 0; peer < blocks_.cluster; peer++) totals.push_back(of_peer(total, {row}, peer));
    Func whole(stage.name() + "_of_cluster");
    whole(row) = stage.combine(totals);
    return whole;
  }

  static constexpr int kMostUnrolled = 8;
  RowLayout layout_;
  RowBlocks blocks_;
  int threads_;  // of a block for a row
  KeptSteps kept_steps_;
  GroupShape group_;
  Var member_{"member"}, element_{"element"}, step_{"step"}, block_{"block"}, row_{"row_in_block"}, whole_{"whole"},
      thread_{"thread"}, rank_{"rank"};
  StagedReader reader_;
  std::vector<Func> in_shared_, in_registers_;
  std::vector<std::vector<Func>> again_;                    // of each reduction
  std::vector<std::vector<std::vector<Func>>> of_columns_;  // of each reduction's parts
  std::vector<StagedShare> shares_;
  std::vector<Func> kept_;
  std::vector<std::vector<Func>> trees_;
};

}  // namespace ashlar::dsl::rows
