#include "schedules/lowering/vector_rows.h"

#include "schedules/lowering/load_masked.h"
#include "schedules/lowering/store_whole.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;

VectorReduction::VectorReduction(const ReductionStage& stage, const std::vector<Var>& index, const Rewrite& rewrite,
                                 const std::function<Expr(const Expr&)>& value_at)
    : main_(stage.name() + "_main"),
      block_(stage.name() + "_block"),
      rest_(stage.name() + "_rest"),
      total_(stage.name() + "_total"),
      vector_(Descriptor::target.natural_vector_size(stage.type())),
      width_((stage.has_merge() ? 2 : 4) * vector_),
      together_(stage.has_merge() ? 4 : 1) {
  std::vector<Var> lane_index = index;
  lane_index.insert(lane_index.begin(), lane_);
  const std::vector<Expr> at(lane_index.begin(), lane_index.end());
  const Expr extent = stage.extent(), length = stage.length(rewrite);
  const auto state_at = [&](const Expr& k, const Expr& valid) {
    const std::vector<Expr> state = value_at ? std::vector<Expr>{value_at(k)} : stage.state(k, rewrite);
    return stage.state_if(Halide::Internal::simplify(valid && stage.condition(k, rewrite)), state);
  };
  const auto add = [&](Func& to, const std::vector<Expr>& place, const std::vector<Expr>& state) {
    update_at_once(to, place, stage.merge(values_at(to, place), state));
  };

  // A sum takes its steps in blocks, so that no long row is added up in one chain.
  const int step_elements = together_ * width_;
  const auto add_step = [&](Func& to, const std::vector<Expr>& place, const Expr& step) {
    std::vector<std::vector<Expr>> states;
    for (int i = 0; i < together_; i++) {
      const Expr k = step * step_elements + i * width_ + lane_;
      states.push_back(state_at(Halide::unsafe_promise_clamped(k, 0, extent - 1), Halide::Internal::const_true()));
    }
    add(to, place, stage.merge(states));
  };
  define(main_, lane_index, stage.starts());
  if (stage.is_idempotent()) {
    RDom steps(0, extent / step_elements);
    if (stage.has_length()) steps.where((steps + 1) * step_elements <= length);
    add_step(main_, at, steps);
  } else {
    const int steps_of_block = kSteps / together_, columns = steps_of_block * step_elements;
    each_block_ = RDom(0, (extent + columns - step_elements) / columns);
    within_ = RDom(0, steps_of_block);
    within_.where((block_number_ * steps_of_block + within_ + 1) * step_elements <= length);
    std::vector<Var> block_index = lane_index;
    block_index.push_back(block_number_);
    define(block_, block_index, stage.starts());
    add_step(block_, {block_index.begin(), block_index.end()}, block_number_ * steps_of_block + within_);
    std::vector<Expr> of_block = at;
    of_block.emplace_back(each_block_);
    add(main_, at, values_at(block_, of_block));
  }

  // Behind the others, in the order of memory: a processor's prefetching goes on from a row to the next.
  std::vector<std::vector<Expr>> parts;
  for (int i = 0; i < width_ / vector_; i++) {
    std::vector<Expr> shifted = at;
    shifted[0] = lane_ + i * vector_;
    parts.push_back(values_at(main_, shifted));
  }
  define(rest_, lane_index, stage.merge(parts));
  if (stage.has_length()) {
    RDom steps(0, step_elements / vector_);
    const Expr first = length / step_elements * step_elements + steps * vector_;
    if (stage.has_merge()) steps.where(first < length);  // costs more than a vector of sums
    add(rest_, at, state_at(Halide::clamp(first + lane_, 0, length - 1), first + lane_ < length));
  } else {
    // One by one, which compute_at() makes vectors of: the last alone is masked. Halide 21 takes vectors with a promise
    // in their index apart instead of masking them.
    elements_ = RDom(0, extent % step_elements);
    std::vector<Expr> place = at;
    place[0] = elements_ % vector_;
    add(rest_, place, state_at(extent / step_elements * step_elements + elements_, Halide::Internal::const_true()));
  }

  const auto last = [&] { return halves_.empty() ? rest_ : halves_.back(); };
  // The last four lanes are taken one by one: a vector of two of them would be loaded across what was stored before.
  for (int lanes = vector_ / 2; lanes >= 4; lanes /= 2) {
    Func half(stage.name() + "_" + std::to_string(lanes) + "_lanes");
    std::vector<Expr> shifted = at;
    shifted[0] = lane_ + lanes;
    define(half, lane_index, stage.merge(values_at(last(), at), values_at(last(), shifted)));
    halves_.push_back(half);
  }
  const auto lane = [&](int i) {
    std::vector<Expr> one = at;
    one[0] = i;
    return values_at(last(), one);
  };
  define(total_, index,
         vector_ == 2 ? stage.merge(lane(0), lane(1))
                      : stage.merge(stage.merge(lane(0), lane(2)), stage.merge(lane(1), lane(3))));
}

void VectorReduction::compute_at(const Halide::LoopLevel& level) {
  const auto in_lanes = [&](Func func, int lanes) {
    func.compute_at(level).store_in(Halide::MemoryType::Stack).bound(lane_, 0, lanes).vectorize(lane_);
  };
  in_lanes(main_, width_);
  main_.update().vectorize(lane_);
  in_lanes(rest_, vector_);
  if (elements_.defined()) {
    Halide::RVar step("step"), element("element");
    rest_.update().split(elements_.x, step, element, vector_, Halide::TailStrategy::GuardWithIf);
    rest_.update().allow_race_conditions().vectorize(element);  // each has a lane of its own
    store_whole(rest_);
  } else {
    rest_.update().vectorize(lane_);
  }
  load_tails_masked(rest_);
  for (size_t i = 0; i < halves_.size(); i++) in_lanes(halves_[i], vector_ >> (i + 1));
  if (block_.defined()) {
    main_.update().reorder(lane_, each_block_.x);  // around the block, whose lanes are vectors of their own
    block_.compute_at(main_, each_block_.x).store_in(Halide::MemoryType::Stack).bound(lane_, 0, width_);
    block_.vectorize(lane_).update().vectorize(lane_).partition(within_.x, Halide::Partition::Never);
  }
  total_.compute_at(level).store_in(Halide::MemoryType::Stack);
}

}  // namespace ashlar::dsl
