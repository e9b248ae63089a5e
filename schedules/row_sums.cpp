#include "schedules/row_sums.h"

#include "runtime/forms/row_sum_shapes.h"
#include "schedules/lowering/accesses.h"
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

/// What warps and blocks have in common. Stages have the indices (element, thread, step, …, group): the part's rows
/// come in groups of `members`, which are loaded together, and rows beyond the last repeat it.
class RowSums {
 public:
  RowSums(const RowSumStages& stages, const Shape& shape) : s_(stages), shape_(shape), reader_(readers(stages)) {
    for (const Stage& stage : s_.reductions) reductions_.emplace_back(stage.func());
    const Expr row = row_of(group_, member_);
    for (const Func& input : reader_.inputs) {
      staged_.push_back(
          stage_rows(input, layout_of(shape), s_.columns, element_, thread_, thread_, step_, {member_, group_}, row));
    }
    for (const Func& input : reader_.of_columns) {
      of_columns_.push_back(
          stage_rows(input, layout_of(shape), s_.columns, element_, thread_, thread_, step_, {}, row));
    }
    const std::vector<Var> index{thread_, member_, group_};
    for (const ReductionStage& stage : reductions_) {
      const auto reading = [&](size_t, const RDom& each, const Expr& column) {
        Rewrite rewrite = reader_.rewrite(
            column, [&](const Func& f) { return result(f, member_, group_); },
            [&](size_t i) { return staged_[i](each.x, thread_, each.y, member_, group_); },
            [&](size_t i) { return of_columns_[i](each.x, thread_, each.y); });
        rewrite.variables[stage.index().at(0).name()] = row;
        return rewrite;
      };
      shares_.push_back(
          make_staged_share(stage, "_share", index, layout_of(shape), thread_, {{0, shape.steps}}, reading));
      if (is_warp(shape)) {
        trees_.push_back(make_rotation(stage, shares_.back().func, thread_, {member_, group_}));
      } else {
        Func kept(stage.name() + "_kept");
        kept(index) = shares_.back().func(thread_, member_, group_);
        kept_.push_back(kept);
        trees_.push_back(make_tree(stage, kept, shape.threads, {member_, group_}));
      }
      reader_.results.emplace_back(stage.name(), trees_.back().back());
    }
    define_sums();
  }

  void schedule() {
    const auto [threads, steps, vector] = layout_of(shape_);
    Halide::Stage out = s_.sums.specialize(s_.columns <= shape_.columns());
    s_.sums.specialize_fail("rows longer than the plan's");
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
    out.vectorize(element).unroll(step).unroll(s_.which);
    for (const Var& v : {whole, lane}) out.partition(v, Partition::Never);

    const auto in_registers = [&](Func f) {
      f.bound(element_, 0, vector).bound(thread_, 0, threads).bound(step_, 0, steps);
      if (is_warp(shape_))
        f.store_in(MemoryType::Register);
      else
        per_thread(f);
    };
    const auto over_threads = [&](Halide::Stage stage) {
      is_warp(shape_) ? stage.gpu_lanes(thread_) : stage.gpu_threads(thread_);
    };
    const auto of_group = [&](Func f) { f.bound(member_, 0, shape_.members).bound_extent(group_, 1); };
    for (Func f : of_columns_) {
      f.compute_at(level);
      f.reorder(element_, step_, thread_).vectorize(element_).unroll(step_);
      over_threads(f);
      in_registers(f);
    }
    sum_.compute_at(level).bound(which_, 0, count()).bound_extent(part_, 1);
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
      in_registers(f);
    }
    for (size_t i = 0; i < shares_.size(); i++) {
      StagedShare& share = shares_[i];
      if (is_warp(shape_)) {
        of_group(share.func);
        share.func.reorder(member_, thread_, group_).unroll(member_);
        in_lanes(share.func, each, thread_);
        share.func.update(0).reorder(share.each[0].x, share.each[0].y, member_, thread_, group_).unroll(member_);
        over_threads(share.func.update(0));
      } else {
        of_group(kept_[i]);
        kept_[i].compute_at(each).store_in(MemoryType::GPUShared).bound(thread_, 0, threads);
        kept_[i].reorder(member_, thread_, group_).unroll(member_).gpu_threads(thread_);
        share.func.compute_at(kept_[i], thread_).reorder(member_, thread_, group_).unroll(member_);
        share.func.update(0).reorder(share.each[0].x, share.each[0].y, member_, thread_, group_).unroll(member_);
      }
      share.func.update(0).unroll(share.each[0].x).unroll(share.each[0].y);
      for (Func f : trees_[i]) {
        of_group(f);
        if (is_warp(shape_)) {
          f.reorder(member_, thread_, group_).unroll(member_);
          in_lanes(f, each, thread_);
        } else {
          f.compute_at(each).store_in(MemoryType::GPUShared);
          f.dimensions() == 3 ? f.gpu_threads(f.args()[0]) : f.gpu_threads(member_);
        }
      }
    }
  }
  void store_out() const { store_beside({s_.out}); }

 private:
  static StagedReader readers(const RowSumStages& stages) { return {stages.inputs, stages.of_columns}; }
  int count() const { return static_cast<int>(s_.terms.size()); }
  Expr number_of(const Expr& group, const Expr& member) const { return group * shape_.members + member; }
  Expr row_of(const Expr& group, const Expr& member) const {
    return Halide::min(number_of(group, member), s_.rows - 1);
  }
  Expr result(const Func& f, const Expr& member, const Expr& group) const {
    return is_warp(shape_) ? f(thread_, member, group) : f(member, group);
  }

  // sum[…] += terms[which], and beside the first of them the output's element.
  void define_sums() {
    const auto [threads, steps, vector] = layout_of(shape_);
    const Expr groups = s_.rows_of_part / shape_.members;
    rows_ = RDom(0, shape_.members, 0, groups, "rows");
    const Expr group = part_ * groups + rows_.y, row = row_of(group, rows_.x);
    const Expr of_vector = step_ * threads + thread_, vectors = s_.columns / vector;
    const Expr column = Halide::min(of_vector, vectors - 1) * vector + element_;
    Rewrite rewrite = reader_.rewrite(
        column, [&](const Func& f) { return result(f, rows_.x, group); },
        [&](size_t i) { return staged_[i](element_, thread_, step_, rows_.x, group); },
        [&](size_t i) { return of_columns_[i](element_, thread_, step_); });
    rewrite.variables[s_.row.name()] = row;
    rewrite.variables[s_.column.name()] = column;
    const Expr is_there = number_of(group, rows_.x) < s_.rows;
    sum_(element_, thread_, step_, which_, part_) = 0.0f;
    const Expr before = sum_(element_, thread_, step_, which_, part_);
    Expr after = before + rewrite(s_.terms.at(0));
    after = Halide::select(is_there, after, before);
    const Expr index = column + row * s_.out.output_buffer().dim(1).stride();
    Expr value =
        value_and_store(after, s_.out, index, rewrite(values_of(s_.out).at(0)), is_there && of_vector < vectors);
    for (int q = 1; q < count(); q++) {
      const Expr other = Halide::select(is_there, before + rewrite(s_.terms[static_cast<size_t>(q)]), before);
      value = Halide::select(which_ == q, other, value);
    }
    sum_(element_, thread_, step_, which_, part_) = value;
    const Expr c = s_.column;
    values_of(s_.sums).at(0) =
        sum_(c % vector, c / vector % threads, c / (vector * threads) % steps, s_.which, s_.part);
  }

  RowSumStages s_;
  Shape shape_;
  StagedReader reader_;
  Var element_{"element"}, thread_{"thread"}, step_{"step"}, member_{"row_of_group"}, group_{"group"}, which_{"which"},
      part_{"part_of_rows"};
  std::vector<ReductionStage> reductions_;
  std::vector<Func> staged_, of_columns_, kept_;
  std::vector<StagedShare> shares_;
  std::vector<std::vector<Func>> trees_;
  RDom rows_;
  Func sum_{"sum_of_rows"};
};

}  // namespace

void RowSumPlans::declare(const Expr& columns, const Expr& aligned) {
  std::vector<PlanDescription> all;
  for (const Shape& shape : shapes()) {
    Expr applies = columns <= shape.columns();
    if (shape.vector > 1) applies = applies && aligned;
    all.push_back({.name = shape.name, .applies = &shape == &shapes().back() ? Expr() : applies});
  }
  plans_.declare(all);
}

void RowSumPlans::schedule(const RowSumStages& stages) const {
  const auto shape = std::ranges::find_if(shapes(), [&](const Shape& one) { return one.name == plans_.chosen(); });
  uniform_guards();
  RowSums sums(stages, *shape);
  sums.store_out();
  sums.schedule();
  vector_accesses();
  index_arithmetic();
}

}  // namespace ashlar::dsl
