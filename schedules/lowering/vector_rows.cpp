#include "schedules/lowering/vector_rows.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;

VectorReduction::VectorReduction(const ReductionStage& stage, const std::vector<Var>& index, const Rewrite& rewrite,
                                 const std::function<Expr(const Expr&)>& value_at)
    : main_(stage.name() + "_main"),
      block_(stage.name() + "_block"),
      rest_(stage.name() + "_rest"),
      lanes_(stage.name() + "_lanes"),
      total_(stage.name() + "_total"),
      vector_(Descriptor::target.natural_vector_size(stage.type())),
      width_(4 * vector_) {
  std::vector<Var> lane_index = index;
  lane_index.insert(lane_index.begin(), lane_);
  const std::vector<Expr> at(lane_index.begin(), lane_index.end());
  const Expr extent = stage.extent(), length = stage.length(rewrite);
  const auto state = [&](const Expr& k, const Expr& valid) {
    const std::vector<Expr> state = value_at ? std::vector<Expr>{value_at(k)} : stage.state(k, rewrite);
    return stage.state_if(Halide::Internal::simplify(valid && stage.condition(k, rewrite)), state);
  };

  // Steps of one vector per accumulator. A sum takes them in blocks, so that no long row is added up in one chain.
  const auto add_step = [&](Func& to, const std::vector<Expr>& place, const Expr& step) {
    const Expr k = Halide::unsafe_promise_clamped(step * width_ + lane_, 0, extent - 1);
    update_at_once(to, place, stage.merge(values_at(to, place), state(k, Halide::Internal::const_true())));
  };
  define(main_, lane_index, stage.starts());
  if (stage.is_idempotent()) {
    RDom steps(0, extent / width_);
    if (stage.has_length()) steps.where((steps + 1) * width_ <= length);
    add_step(main_, at, steps);
  } else {
    const int columns = kSteps * width_;
    each_block_ = RDom(0, (extent + columns - width_) / columns);
    within_ = RDom(0, kSteps);
    within_.where((block_number_ * kSteps + within_ + 1) * width_ <= length);
    std::vector<Var> block_index = lane_index;
    block_index.push_back(block_number_);
    define(block_, block_index, stage.starts());
    add_step(block_, {block_index.begin(), block_index.end()}, block_number_ * kSteps + within_);
    std::vector<Expr> of_block = at;
    of_block.emplace_back(each_block_);
    update_at_once(main_, at, stage.merge(values_at(main_, at), values_at(block_, of_block)));
  }

  RDom rest(0, stage.has_length() ? Expr(width_ / vector_) : (extent % width_ + vector_ - 1) / vector_);
  const Expr first = length / width_ * width_ + rest * vector_;
  if (stage.has_length()) rest.where(first < length);
  define(rest_, lane_index, stage.starts());
  update_at_once(
      rest_, at,
      stage.merge(values_at(rest_, at), state(Halide::clamp(first + lane_, 0, length - 1), first + lane_ < length)));

  std::vector<std::vector<Expr>> parts{values_at(rest_, at)};
  for (int i = 0; i < width_ / vector_; i++) {
    std::vector<Expr> shifted = at;
    shifted[0] = lane_ + i * vector_;
    parts.push_back(values_at(main_, shifted));
  }
  define(lanes_, lane_index, stage.merge(parts));

  parts.clear();
  for (int i = 0; i < vector_; i++) {
    std::vector<Expr> fixed = at;
    fixed[0] = i;
    parts.push_back(values_at(lanes_, fixed));
  }
  define(total_, index, stage.merge(parts));
}

void VectorReduction::compute_at(const Halide::LoopLevel& level) {
  for (Func func : {main_, rest_, lanes_}) {
    const int width = func.name() == main_.name() ? width_ : vector_;
    func.compute_at(level).store_in(Halide::MemoryType::Stack).bound(lane_, 0, width).vectorize(lane_);
    if (func.has_update_definition()) func.update().vectorize(lane_);
  }
  if (block_.defined()) {
    main_.update().reorder(lane_, each_block_.x);  // around the block, whose lanes are vectors of their own
    block_.compute_at(main_, each_block_.x).store_in(Halide::MemoryType::Stack).bound(lane_, 0, width_);
    block_.vectorize(lane_).update().vectorize(lane_).partition(within_.x, Halide::Partition::Never);
  }
  total_.compute_at(level).store_in(Halide::MemoryType::Stack);
}

}  // namespace ashlar::dsl
