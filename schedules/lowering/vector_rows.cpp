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
  const auto value = [&](const Expr& k, const Expr& valid) {
    const Expr v = value_at ? value_at(k) : stage.value(k, rewrite),
               condition = Halide::Internal::simplify(valid && stage.condition(k, rewrite));
    return Halide::Internal::is_const_one(condition) ? v : Halide::select(condition, v, stage.start());
  };

  // Steps of one vector per accumulator. A sum takes them in blocks, so that no long row is added up in one chain.
  const auto add_step = [&](Func& to, const std::vector<Expr>& place, const Expr& step) {
    const Expr k = Halide::unsafe_promise_clamped(step * width_ + lane_, 0, extent - 1);
    to(place) = stage.combine(to(place), value(k, Halide::Internal::const_true()));
  };
  main_(lane_index) = stage.start();
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
    block_(block_index) = stage.start();
    add_step(block_, {block_index.begin(), block_index.end()}, block_number_ * kSteps + within_);
    std::vector<Expr> of_block = at;
    of_block.emplace_back(each_block_);
    main_(at) = stage.combine(main_(at), block_(of_block));
  }

  RDom rest(0, stage.has_length() ? Expr(width_ / vector_) : (extent % width_ + vector_ - 1) / vector_);
  const Expr first = length / width_ * width_ + rest * vector_;
  if (stage.has_length()) rest.where(first < length);
  rest_(lane_index) = stage.start();
  rest_(at) = stage.combine(rest_(at), value(Halide::clamp(first + lane_, 0, length - 1), first + lane_ < length));

  std::vector<Expr> parts{rest_(at)};
  for (int i = 0; i < width_ / vector_; i++) {
    std::vector<Expr> shifted = at;
    shifted[0] = lane_ + i * vector_;
    parts.push_back(main_(shifted));
  }
  lanes_(lane_index) = stage.combine(parts);

  parts.clear();
  for (int i = 0; i < vector_; i++) {
    std::vector<Expr> fixed = at;
    fixed[0] = i;
    parts.push_back(lanes_(fixed));
  }
  total_(index) = stage.combine(parts);
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
