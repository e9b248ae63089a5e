#include "schedules/row_sums.h"

#include <set>

#include "runtime/forms/row_sum_shapes.h"
#include "schedules/lowering/accesses.h"
#include "schedules/lowering/barriers.h"
#include "schedules/lowering/beside.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/row_reduction_staged.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::MemoryType;
using Halide::Partition;
using Halide::RDom;
using Halide::TailStrategy;
using rows::StagedReader;

namespace {

using Shape = forms::RowSumShape;

std::span<const Shape> shapes() {
  return forms::row_sum_shapes(Descriptor::target.has_feature(Halide::Target::OpenCL) ? DeviceKind::opencl
                                                                                      : DeviceKind::cuda);
}
RowLayout layout_of(const Shape& shape) { return {shape.threads, shape.steps, shape.vector}; }
bool is_warp(const Shape& shape) { return shape.warps > 0; }

/// What warps and blocks have in common. Stages have the indices (element, thread, step, …, group, part): the part's
/// rows come in groups of `members`, which are loaded together, and rows beyond the last repeat it. An element's
/// position is its column, or in a run, whose vectors begin at multiples of their length wherever a row does, more by
/// what the row's first vector has of the row before.
class RowSums {
 public:
  RowSums(const RowSumStages& stages, const Shape& shape) : s_(stages), shape_(shape), reader_(readers(stages)) {
    for (const Stage& stage : s_.reductions) reductions_.emplace_back(stage.func());
    const Expr row = row_of(part_, group_, member_);
    for (const Func& input : reader_.inputs) staged_.push_back(staged_rows(input, row));
    for (const Func& input : reader_.of_columns) {
      of_columns_.emplace_back(input.name() + "_staged");
      const Expr column = position(loaded_vector(begin_of(class_of(part_))), element_) - begin_of(class_of(part_));
      const Expr there = Halide::clamp(column, 0, s_.columns - 1);
      of_columns_.back()(element_, thread_, step_, part_) =
          input(Halide::unsafe_promise_clamped(there, 0, s_.columns - 1), class_of(part_));
    }
    for (const ReductionStage& stage : reductions_) {
      if (needs_pending(stage)) join();
      add_share(stage, row);
      pending_.push_back(shares_.size() - 1);
      if (!has_lanes()) join();
    }
    join();
    define_sums();
  }

  /// For calls that the shape `applies` to.
  void schedule(const Expr& applies) {
    const auto [threads, steps, vector] = layout_of(shape_);
    Halide::Stage out = s_.sums.specialize(applies);
    s_.sums.specialize_fail("rows longer than the plan's, or that begin elsewhere");
    Var block("block"), warp("warp"), whole("whole"), of_row("of_row"), in_step("in_step");
    Var lane("lane_of_sums"), step("step_of_sums"), element("element_of_sums");
    out.split(s_.column, whole, of_row, shape_.columns(), TailStrategy::GuardWithIf)
        .split(of_row, step, in_step, threads * vector)
        .split(in_step, lane, element, vector);
    const LoopLevel level = [&] {
      if (is_warp(shape_)) {
        out.split(s_.part, block, warp, shape_.warps, TailStrategy::GuardWithIf)
            .reorder({element, step, s_.which, whole, lane, warp, block})
            .gpu_blocks(block)
            .gpu_threads(warp)
            .gpu_lanes(lane);
        out.partition(warp, Partition::Never).partition(block, Partition::Never);
        return LoopLevel(s_.sums, warp);
      }
      out.reorder({element, step, s_.which, whole, lane, s_.part}).gpu_blocks(s_.part).gpu_threads(lane);
      out.partition(s_.part, Partition::Never);
      return LoopLevel(s_.sums, s_.part);
    }();
    shape_.is_run ? out.unroll(element) : out.vectorize(element);
    out.unroll(step).unroll(s_.which);
    for (const Var& v : {whole, lane}) out.partition(v, Partition::Never);

    const auto in_registers = [&](Func f) {
      f.bound(element_, 0, vector).bound(thread_, 0, threads).bound(step_, 0, steps).bound_extent(part_, 1);
      if (is_warp(shape_))
        f.store_in(MemoryType::Register);
      else
        per_thread(f);
    };
    // What is of rows or columns, of which each thread reads again what it has loaded.
    const auto where_it_fits = [&](Func f) {
      if (!shape_.in_shared) return in_registers(f);
      f.bound(element_, 0, vector).bound(thread_, 0, threads).bound(step_, 0, steps).bound_extent(part_, 1);
      f.store_in(MemoryType::GPUShared);
    };
    const auto over_threads = [&](Halide::Stage stage) {
      is_warp(shape_) ? stage.gpu_lanes(thread_) : stage.gpu_threads(thread_);
    };
    const auto of_group = [&](Func f) {
      f.bound(member_, 0, shape_.members).bound_extent(group_, 1).bound_extent(part_, 1);
    };
    for (Func f : of_columns_) {
      f.compute_at(level);
      f.reorder(element_, step_, thread_, part_).vectorize(element_).unroll(step_);
      over_threads(f);
      where_it_fits(f);
    }
    sum_.compute_at(level).bound(which_, 0, count());
    sum_.reorder(element_, step_, which_, thread_, part_).vectorize(element_).unroll(step_).unroll(which_);
    over_threads(sum_);
    Halide::Stage update = sum_.update();
    update.reorder({element_, step_, which_, rows_.x, thread_, rows_.y, part_})
        .vectorize(element_)
        .unroll(step_)
        .unroll(which_)
        .unroll(rows_.x);
    over_threads(update);
    in_registers(sum_);
    if (shape_.registers > 0) limit_registers(sum_, shape_.registers);

    const LoopLevel each(sum_, rows_.y);
    for (Func f : staged_) {
      f.compute_at(each);
      of_group(f);
      f.reorder(element_, step_, member_, thread_, group_).vectorize(element_).unroll(step_).unroll(member_);
      over_threads(f);
      where_it_fits(f);
    }
    for (size_t i = 0; i < shares_.size(); i++) {
      StagedShare& share = shares_[i];
      of_group(share.func);
      share.func.reorder(member_, thread_, group_).unroll(member_);
      share.func.update(0).reorder(share.each[0].x, share.each[0].y, member_, thread_, group_).unroll(member_);
      if (is_warp(shape_)) {
        in_lanes(share.func, each, thread_);
        over_threads(share.func.update(0));
      } else {
        const LoopLevel level(meetings_[meeting_of_[i]], thread_);
        for (Func f : lanes_[i]) f.compute_at(level).reorder(member_, thread_, group_).unroll(member_);
        share.func.compute_at(level);
      }
      share.func.update(0).unroll(share.each[0].x).unroll(share.each[0].y);
      for (Func f : trees_[i]) {
        of_group(f);
        if (is_warp(shape_)) {
          f.reorder(member_, thread_, group_).unroll(member_);
          in_lanes(f, each, thread_);
        } else if (has_lanes()) {
          f.compute_at(each)
              .reorder(member_, thread_, group_)
              .unroll(member_)
              .gpu_threads(thread_)
              .bound(thread_, 0, threads);
          per_thread(f);
        } else {
          f.compute_at(each).store_in(MemoryType::GPUShared);
          const bool is_last = f.dimensions() == 3;
          is_last ? f.gpu_threads(member_) : f.gpu_threads(f.args()[0]);
        }
      }
    }
    for (size_t i = 0; i < meetings_.size(); i++) {
      Func f = meetings_[i];
      of_group(f);
      f.compute_at(each).store_in(MemoryType::GPUShared).bound(thread_, 0, threads);
      f.bound(reduction_, 0, static_cast<int>(std::ranges::count(meeting_of_, i)));
      f.reorder(reduction_, member_, thread_, group_).unroll(reduction_).unroll(member_).gpu_threads(thread_);
    }
  }
  void store_out() const { store_beside({s_.out}); }

 private:
  static StagedReader readers(const RowSumStages& stages) { return {stages.inputs, stages.of_columns}; }
  /// Whether a block's threads add up by warps: each warp by shuffles, then every thread the warps'.
  bool has_lanes() const { return !is_warp(shape_) && Descriptor::target.has_feature(Halide::Target::CUDA); }
  int count() const { return static_cast<int>(s_.terms.size()); }

  Expr class_of(const Expr& part) const { return part % s_.classes; }
  /// Beyond the last row, too.
  Expr number_of(const Expr& part, const Expr& group, const Expr& member) const {
    const Expr in_class = part / s_.classes * s_.rows_of_part + group * shape_.members + member;
    return in_class * s_.classes + class_of(part);
  }
  Expr row_of(const Expr& part, const Expr& group, const Expr& member) const {
    return Halide::min(number_of(part, group, member), s_.rows - 1);
  }
  Expr result(const Func& f, const Expr& member, const Expr& group, const Expr& part) const {
    return is_warp(shape_) || has_lanes() ? f(thread_, member, group, part) : f(member, group, part);
  }

  /// The position of column 0 of a row, or of all rows of a class by the class.
  Expr begin_of(const Expr& row) const { return shape_.is_run ? row * s_.columns % shape_.vector : Expr(0); }
  Expr vector_number(const Expr& step) const { return step * shape_.threads + thread_; }
  /// Threads beyond the row's last vector load that.
  Expr loaded_vector(const Expr& begin) const {
    const Expr last = shape_.is_run ? (begin + s_.columns - 1) / shape_.vector : s_.columns / shape_.vector - 1;
    return Halide::min(vector_number(step_), last);
  }
  Expr position(const Expr& vector, const Expr& element) const { return vector * shape_.vector + element; }
  /// Whether there's a column at this position of a row that begins at `begin`.
  Expr is_column(const Expr& vector, const Expr& element, const Expr& begin) const {
    if (!shape_.is_run) return vector < s_.columns / shape_.vector;
    const Expr column = position(vector, element) - begin;
    return column >= 0 && column < s_.columns;
  }
  /// Of an element of a vector of a row, from the first row's first element on.
  Expr index_of(const Expr& row, const Expr& vector, const Expr& element) const {
    if (!shape_.is_run) return row * s_.columns + position(vector, element);
    return position(row * s_.columns / shape_.vector + vector, element);
  }

  /// What a thread loads of a row: its column in row 0, whatever Halide knows of that, since of a row's begin only the
  /// run's alignment is known.
  Expr element_of(const Func& input, const Expr& row) const {
    const Expr column = index_of(row, loaded_vector(begin_of(row)), element_);
    return input(Halide::unsafe_promise_clamped(column, 0, s_.columns - 1), 0, 0);
  }
  Func staged_rows(const Func& input, const Expr& row) const {
    Func staged(input.name() + "_staged");
    staged(element_, thread_, step_, member_, group_, part_) = element_of(input, row);
    return staged;
  }

  /// Whether a reduction's elements need the result of one whose threads haven't met.
  bool needs_pending(const ReductionStage& stage) const {
    struct Calls : Halide::Internal::IRVisitor {
      using IRVisitor::visit;
      std::set<std::string> names;
      void visit(const Halide::Internal::Call* op) override {
        names.insert(op->name);
        IRVisitor::visit(op);
      }
    } calls;
    stage.value(Halide::Var("k"), Rewrite{}).accept(&calls);
    return std::ranges::any_of(pending_, [&](size_t i) { return calls.names.contains(reductions_[i].name()); });
  }

  /// What each thread, or with lanes each warp, has of a reduction.
  void add_share(const ReductionStage& stage, const Expr& row) {
    const std::vector<Var> index{thread_, member_, group_, part_};
    shares_.push_back(make_share(stage, index, row));
    lanes_.push_back(has_lanes() ? make_exchanges(stage, shares_.back().func, index) : std::vector<Func>());
  }

  /// The results of what is pending, whose threads meet at once.
  void join() {
    const std::vector<Var> index{thread_, member_, group_, part_};
    if (pending_.empty()) return;
    Func kept(reductions_[pending_[0]].name() + "_kept");
    std::vector<Expr> shares;
    for (const size_t i : pending_) {
      const Func share = has_lanes() ? lanes_[i].back() : shares_[i].func;
      shares.push_back(share(thread_, member_, group_, part_));
    }
    if (!is_warp(shape_)) {
      kept(thread_, reduction_, member_, group_, part_) = Halide::mux(Expr(reduction_), shares);
      meetings_.push_back(kept);
    }
    for (size_t n = 0; n < pending_.size(); n++) {
      const ReductionStage& stage = reductions_[pending_[n]];
      if (is_warp(shape_)) {
        trees_.push_back(make_rotation(stage, shares_.back().func, thread_, {member_, group_, part_}));
      } else {
        meeting_of_.push_back(meetings_.size() - 1);
        Func own(stage.name() + "_shares");
        own(index) = kept(thread_, static_cast<int>(n), member_, group_, part_);
        trees_.push_back(has_lanes() ? std::vector{make_sum_of_warps(stage, own, index, shape_.threads)}
                                     : make_tree(stage, own, shape_.threads, {member_, group_, part_}));
      }
      reader_.results.emplace_back(stage.name(), trees_.back().back());
    }
    pending_.clear();
  }

  StagedShare make_share(const ReductionStage& stage, const std::vector<Var>& index, const Expr& row) const {
    StagedShare share{Func(stage.name() + "_share"), {Halide::RDom(0, shape_.vector, 0, shape_.steps)}};
    const std::vector<Expr> at(index.begin(), index.end());
    const RDom& each = share.each[0];
    // What is read at this column is staged: it says which element that is, and no more.
    const Expr column = position(vector_number(each.y), each.x) - begin_of(row);
    Rewrite rewrite = reader_.rewrite(
        column, [&](const Func& f) { return result(f, member_, group_, part_); },
        [&](size_t i) { return staged_[i](each.x, thread_, each.y, member_, group_, part_); },
        [&](size_t i) { return of_columns_[i](each.x, thread_, each.y, part_); });
    rewrite.variables[stage.index().at(0).name()] = row;
    const Expr is_there = is_column(vector_number(each.y), each.x, begin_of(row));
    share.func(index) = stage.start();
    share.func(at) =
        stage.combine(share.func(at), Halide::select(is_there, stage.value(column, rewrite), stage.start()));
    return share;
  }

  // sum[…] += terms[which], and beside the first of them the outputs' elements.
  void define_sums() {
    const auto [threads, steps, vector] = layout_of(shape_);
    rows_ = RDom(0, shape_.members, 0, s_.rows_of_part / shape_.members, "rows");
    const Expr row = row_of(part_, rows_.y, rows_.x), begin = begin_of(row), number = vector_number(step_);
    const Expr column = position(number, element_) - begin;
    Rewrite rewrite = reader_.rewrite(
        column, [&](const Func& f) { return result(f, rows_.x, rows_.y, part_); },
        [&](size_t i) { return staged_[i](element_, thread_, step_, rows_.x, rows_.y, part_); },
        [&](size_t i) { return of_columns_[i](element_, thread_, step_, part_); });
    rewrite.variables[s_.row.name()] = row;
    rewrite.variables[s_.column.name()] = column;
    const Expr is_there = number_of(part_, rows_.y, rows_.x) < s_.rows;
    sum_(element_, thread_, step_, which_, part_) = 0.0f;
    const Expr before = sum_(element_, thread_, step_, which_, part_);
    const auto after = [&](size_t q) { return Halide::select(is_there, before + rewrite(s_.terms[q]), before); };
    for (const Func& input : s_.beside) {
      rewrite.calls[input.name()] = [=, this](const std::vector<Expr>&) { return element_of(input, row); };
    }
    Expr value = value_and_store(after(0), {.output = s_.out,
                                            .index = index_of(row, number, element_),
                                            .element = rewrite(values_of(s_.out).at(0)),
                                            .condition = is_there && is_column(number, element_, begin)});
    for (int q = 1; q < count(); q++) value = Halide::select(which_ == q, after(static_cast<size_t>(q)), value);
    sum_(element_, thread_, step_, which_, part_) = value;
    const Expr p = s_.column;
    const Expr total = sum_(p % vector, p / vector % threads, p / (vector * threads) % steps, s_.which, s_.part);
    values_of(s_.sums).at(0) = total;
    if (!shape_.is_run) return;
    const Halide::OutputImageParam sums = s_.sums.output_buffer();
    const Expr at = p - begin_of(class_of(s_.part));
    values_of(s_.sums).at(0) = value_stored_at(
        total, at + s_.which * sums.dim(1).stride() + s_.part * sums.dim(2).stride(), at >= 0 && at < s_.columns);
  }

  RowSumStages s_;
  Shape shape_;
  StagedReader reader_;
  Var element_{"element"}, thread_{"thread"}, step_{"step"}, member_{"row_of_group"}, group_{"group"}, which_{"which"},
      part_{"part_of_rows"}, reduction_{"reduction"};
  std::vector<ReductionStage> reductions_;
  std::vector<Func> staged_, of_columns_, meetings_;
  std::vector<size_t> pending_, meeting_of_;  ///< reductions; and the place of each among the meetings
  std::vector<StagedShare> shares_;
  std::vector<std::vector<Func>> lanes_, trees_;
  RDom rows_;
  Func sum_{"sum_of_rows"};
};

}  // namespace

void RowSumPlans::declare(const Expr& columns, const Expr& aligned) {
  std::vector<PlanDescription> all;
  for (const Shape& shape : shapes()) {
    const Expr are_whole = columns % shape.vector == 0;
    Expr applies = columns <= shape.columns();
    if (shape.is_run) applies = columns + Halide::select(are_whole, 0, shape.vector - 1) <= shape.columns();
    if (shape.vector > 1) applies = applies && aligned;
    if (!shape.is_run) applies = applies && are_whole;
    conditions_.push_back(Halide::Internal::simplify(applies));
    all.push_back({.name = shape.name, .applies = &shape == &shapes().back() ? Expr() : conditions_.back()});
  }
  plans_.declare(all);
}

void RowSumPlans::schedule(const RowSumStages& stages) const {
  const size_t chosen = plans_.chosen_index();
  uniform_guards();
  RowSums sums(stages, shapes()[chosen]);
  sums.store_out();
  aligned_vectors();
  sums.schedule(conditions_[chosen]);
  needed_barriers();
  vector_accesses();
  index_arithmetic();
}

}  // namespace ashlar::dsl
