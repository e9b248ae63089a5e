// The shapes of a row reduction for dense rows of any length on CUDA, for row_reduction_gpu.cpp: a row is loaded and
// stored once, by the aligned vectors of four that it lies in, whatever element of one it begins at.
#pragma once

#include "schedules/lowering/beside.h"
#include "schedules/lowering/per_thread.h"
#include "schedules/row_reduction_staged.h"

namespace ashlar::dsl::rows {

/// A row's threads, each with `steps` vectors in registers: a block, or one of its `warps`.
struct RunShape {
  int threads, steps;
  int least = 1;  ///< columns that there are, which a row's first steps need not look at then
  int warps = 0;
  int registers = 0;  ///< at most so many for a thread; 0: any number

  static constexpr int kVector = 4;
  /// Of a row that begins at a vector's last element, too.
  int columns() const { return threads * steps * kVector - (kVector - 1); }
  int columns_of_step() const { return threads * kVector; }
};

// Stages have the indices (element, thread, step, row). An element's position is its column and what the row's first
// vector has of the row before; what is stored, and where the reductions look, is as far as the row goes.
class RunRows {
 public:
  RunRows(const RowStages& stages, const std::vector<ReductionStage>& reductions, const RunShape& shape)
      : shape_(shape), columns_(reductions.at(0).extent()), reader_(inputs_to_stage(stages), column_inputs(stages)) {
    const Expr last_row = rows_of(stages) - 1, row = is_warp() ? Halide::min(unit_, last_row) : Expr(unit_);
    for (const Func& input : reader_.inputs) {
      staged_.emplace_back(input.name() + "_staged");
      const Expr last = (begin_of(row) + columns_ - 1) / kVector;
      const Expr vector = row * columns_ / kVector +
                          Halide::select(is_full(step_), vector_number(), Halide::min(vector_number(), last));
      staged_.back()(element_, thread_, step_, unit_) =
          input(Halide::unsafe_promise_clamped(vector * kVector + element_, 0, columns_ - 1), 0, 0);
    }
    for (const Func& input : reader_.of_columns) of_columns_.push_back(of_position(input, begin_of(row)));

    const std::vector<Var> index{thread_, unit_};
    for (const ReductionStage& stage : reductions) {
      StagedShare share{Func(stage.name() + "_share"), {Halide::RDom(0, kVector, 0, shape.steps)}};
      const Halide::RDom& each = share.each[0];
      const Expr column = (each.y * shape.threads + thread_) * kVector + each.x - begin_of(row);
      Rewrite rewrite = reader_.rewrite(
          column, [&](const Func& f) { return f(thread_, unit_); },
          [&](size_t i) { return staged_[i](each.x, thread_, each.y, unit_); });
      rewrite.variables[stage.index().at(0).name()] = row;
      share.func(thread_, unit_) = stage.start();
      share.func(thread_, unit_) =
          stage.combine(share.func(thread_, unit_), value_where(stage, column, is_column(column, each.y), rewrite));
      if (is_warp()) {
        trees_.push_back(make_rotation(stage, share.func, thread_, {unit_}));
        reader_.results.emplace_back(stage.name(), trees_.back().back());
      } else {
        trees_.push_back(make_exchanges(stage, share.func, index));
        Func kept(stage.name() + "_kept");
        kept(index) = trees_.back().back()(thread_, unit_);
        kept_.push_back(kept);
        sums_.push_back(make_sum_of_warps(stage, kept, index, shape.threads));
        reader_.results.emplace_back(stage.name(), sums_.back());
      }
      shares_.push_back(std::move(share));
    }
  }

  /// The output's loops over columns are over positions.
  std::vector<Expr> values(const std::vector<Expr>& plain, const RowStages& stages) const {
    const Expr position = stages.column, row = stages.row, begin = begin_of(row);
    const Expr element = position % kVector, thread = position / kVector % shape_.threads;
    const Expr step = position / (kVector * shape_.threads) % shape_.steps, column = position - begin;
    Rewrite rewrite = reader_.rewrite(
        column, [&](const Func& f) { return f(thread, row); },
        [&](size_t i) { return staged_[i](element, thread, step, row); },
        [&](size_t i) {
          const Func& value = of_columns_[i].value;
          return is_warp() ? value(element, thread, step, row) : value(element, position / kVector, row);
        });
    rewrite.variables[stages.column.name()] = column;
    std::vector<Expr> values = rewritten(plain, rewrite);
    const Expr index = (row * columns_ / kVector + position / kVector) * kVector + element;
    values.at(0) = row_stored_at(values.at(0), position, index, is_column(column, step));
    return values;
  }

  void schedule(Halide::Stage out, const Func& func, const RowStages& stages) {
    // The guard is one of columns, and goes (uniform_guards()): positions have their own.
    out.split(stages.column, whole_, position_, shape_.threads * shape_.steps * kVector, TailStrategy::GuardWithIf)
        .split(position_, loop_step_, position_, shape_.threads * kVector)
        .split(position_, loop_thread_, loop_element_, kVector)
        .vectorize(loop_element_)
        .unroll(loop_step_);
    const LoopLevel level = [&] {
      if (!is_warp()) {
        out.reorder({loop_element_, loop_step_, whole_, loop_thread_, stages.row});
        out.gpu_blocks(stages.row).gpu_threads(loop_thread_);
        return LoopLevel(func, stages.row);
      }
      out.split(stages.row, block_, warp_, shape_.warps, TailStrategy::GuardWithIf)
          .reorder({loop_element_, loop_step_, whole_, loop_thread_, warp_, block_})
          .gpu_blocks(block_)
          .gpu_threads(warp_)
          .gpu_lanes(loop_thread_)
          .partition(warp_, Partition::Never)
          .partition(block_, Partition::Never);
      return LoopLevel(func, warp_);
    }();
    for (const Var& v : {whole_, loop_thread_}) out.partition(v, Partition::Never);

    const auto in_registers = [&](Func f) {
      f.compute_at(level).bound(thread_, 0, shape_.threads).bound_extent(unit_, 1);
      if (is_warp()) {
        f.store_in(MemoryType::Register).gpu_lanes(thread_);
      } else {
        f.gpu_threads(thread_);
        per_thread(f);
      }
    };
    for (Func f : staged_) {
      f.bound(element_, 0, kVector).bound(step_, 0, shape_.steps);
      f.reorder(element_, step_, thread_, unit_).vectorize(element_).unroll(step_);
      in_registers(f);
    }
    if (shape_.registers > 0) limit_registers(staged_[0], shape_.registers);
    for (OfPosition column : of_columns_) {
      for (Func f : {column.vectors, column.value}) {
        f.bound(element_, 0, kVector);
        if (is_warp()) {
          f.bound(step_, 0, shape_.steps).unroll(step_);
          in_registers(f);
          std::vector<Var> order = f.args();
          order.erase(std::ranges::find_if(order, [&](const Var& v) { return v.name() == thread_.name(); }));
          order.insert(order.end() - 1, thread_);
          f.reorder(std::vector<Halide::VarOrRVar>(order.begin(), order.end()));
        } else {
          f.compute_at(func, loop_step_).store_in(MemoryType::Stack);
          f.bound_extent(vector_, 1).bound_extent(unit_, 1);
        }
      }
      column.vectors.bound(which_, 0, 2).vectorize(element_).unroll(which_);
      column.value.unroll(element_);
    }
    for (size_t i = 0; i < shares_.size(); i++) {
      StagedShare& share = shares_[i];
      Halide::Stage update = share.func.update(0);
      update.reorder(share.each[0].x, share.each[0].y, thread_, unit_).unroll(share.each[0].x).unroll(share.each[0].y);
      if (is_warp()) {
        in_lanes(share.func, level, thread_);
        update.gpu_lanes(thread_);
        for (const Func& f : trees_[i]) in_lanes(f, level, thread_);
        continue;
      }
      Func kept = kept_[i];
      kept.compute_at(level).store_in(MemoryType::GPUShared).bound(thread_, 0, shape_.threads).gpu_threads(thread_);
      share.func.compute_at(kept, thread_);
      for (Func f : trees_[i]) f.compute_at(kept, thread_);
      in_registers(sums_[i]);
    }
  }

 private:
  static constexpr int kVector = RunShape::kVector;
  bool is_warp() const { return shape_.warps > 0; }
  Expr vector_number() const { return step_ * shape_.threads + thread_; }
  /// The position of a row's first element.
  Expr begin_of(const Expr& row) const { return row * columns_ % kVector; }
  /// Whether a step has columns alone but for what lies before the row.
  Expr is_full(const Expr& step) const { return step < shape_.least / shape_.columns_of_step(); }
  Expr is_column(const Expr& column, const Expr& step) const {
    return (step > 0 || column >= 0) && (is_full(step) || column < columns_);
  }

  /// What an input of columns alone has for each position, out of two of its own aligned vectors: that of the
  /// position's number and the one before.
  struct OfPosition {
    Func vectors, value;
  };
  template <class T>
  static std::vector<T> with(std::vector<T> first, const std::vector<T>& rest) {
    first.insert(first.end(), rest.begin(), rest.end());
    return first;
  }
  OfPosition of_position(const Func& input, const Expr& begin) const {
    OfPosition of{Func(input.name() + "_vectors"), Func(input.name() + "_of_position")};
    std::vector<Var> index = is_warp() ? std::vector{thread_, step_} : std::vector{vector_};
    const Expr number = is_warp() ? vector_number() : Expr(vector_);
    index.push_back(unit_);
    const Expr vector = Halide::clamp(number - 1 + which_, 0, (columns_ - 1) / kVector);
    of.vectors(with({element_, which_}, index)) =
        input(Halide::unsafe_promise_clamped(vector * kVector + element_, 0, columns_ - 1), 0);
    // That of place 4 + element - begin among both. By masks: where a select() doesn't read a Func, Halide would have
    // it computed under conditions that it then doesn't find.
    const auto bits = [](const Expr& value) { return Halide::reinterpret<uint32_t>(value); };
    const auto at = [&](const Expr& of_both) {
      const Expr there = Halide::clamp(of_both, 0, 2 * kVector - 1);
      return bits(of.vectors(with<Expr>({there % kVector, there / kVector}, {index.begin(), index.end()})));
    };
    const auto either = [&](int bit, const Expr& set, const Expr& clear) {
      const Expr mask = Halide::cast<uint32_t>(-((begin >> bit) & 1));
      return (set & mask) | (clear & ~mask);
    };
    const auto shifted = [&](int by) {
      const Expr place = element_ + (kVector - by);
      return either(0, at(place - 1), at(place));
    };
    of.value(with({element_}, index)) = Halide::reinterpret<float>(either(1, shifted(2), shifted(0)));
    return of;
  }

  RunShape shape_;
  Expr columns_;
  StagedReader reader_;
  Var element_{"element"}, thread_{"thread"}, step_{"step"}, which_{"which"}, vector_{"vector"}, unit_{"row_of_thread"},
      block_{"block"}, warp_{"warp_in_block"}, whole_{"whole"}, position_{"position"}, loop_step_{"step_of_row"},
      loop_thread_{"thread_of_row"}, loop_element_{"element_of_vector"};
  std::vector<Func> staged_, kept_, sums_;
  std::vector<OfPosition> of_columns_;
  std::vector<StagedShare> shares_;
  std::vector<std::vector<Func>> trees_;
};

}  // namespace ashlar::dsl::rows
