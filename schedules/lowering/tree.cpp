#include "schedules/lowering/tree.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Internal::make_zero;

namespace {

constexpr const char* kMember = "member";  // the first coordinate of a tree's stages but the last

std::vector<Expr> expressions(const std::vector<Var>& vars) { return {vars.begin(), vars.end()}; }

// Of a ranked stage: a thread keeps the largest rank and its k, and makes the key of them in the end. Three operations
// less for each value than on keys of 64 bits.
Share make_ranked_share(const ReductionStage& stage, const std::string& name, const std::vector<Var>& index,
                        const Expr& member, int members, int unroll, const Rewrite& rewrite) {
  const Expr extent = stage.extent(), length = stage.length(rewrite);
  const int step = members * unroll;
  const auto rank = [&](const Expr& k) {
    return stage.rank(Halide::unsafe_promise_clamped(k, 0, extent - 1), rewrite);
  };
  Share share{Func(stage.name() + name), Func(stage.name() + name + "_kept"), RDom(0, extent / step), RDom(0, 1)};
  Func& best = share.func;
  const std::vector<Expr> at = expressions(index);
  best(index) = Halide::Tuple(make_zero(Halide::UInt(32)), member);  // a member without values loses to all with one
  const auto take_step = [&](const Expr& first, const auto& rank_at) {
    Expr largest = best(at)[0], k_of_largest = best(at)[1];
    for (int i = 0; i < unroll; i++) {
      const Expr k = first + i * members + member, of_k = rank_at(k);
      k_of_largest = Halide::select(of_k > largest, k, k_of_largest);
      largest = Halide::max(largest, of_k);
    }
    best(at) = Halide::Tuple(largest, k_of_largest);
  };
  if (stage.has_length()) share.steps.where((share.steps.x + 1) * step <= length);
  take_step(share.steps.x * step, rank);
  const Expr first = (length / step + share.rest) * step;
  share.rest.where(first + member < length);
  take_step(first, [&](const Expr& k) {
    return Halide::select(k < length, rank(Halide::min(k, length - 1)), make_zero(Halide::UInt(32)));
  });
  share.kept(index) = stage.key(best(at)[0], best(at)[1], rewrite);
  return share;
}

}  // namespace

Share make_share(const ReductionStage& stage, const std::string& name, const std::vector<Var>& index,
                 const Expr& member, int members, int unroll, const Rewrite& rewrite) {
  if (stage.is_ranked()) return make_ranked_share(stage, name, index, member, members, unroll, rewrite);
  const Expr extent = stage.extent(), length = stage.length(rewrite);
  const int step = members * unroll;
  const auto state = [&](const Expr& k) {
    const Expr within = Halide::unsafe_promise_clamped(k, 0, extent - 1);
    return stage.state_if(stage.condition(within, rewrite), stage.state(within, rewrite));
  };
  Share share{Func(stage.name() + name), Func(stage.name() + name + "_kept"), RDom(0, extent / step), RDom(0, 1)};
  Func& f = share.func;
  const std::vector<Expr> at = expressions(index);
  define(f, index, stage.starts());

  // A step's values as a tree: their loads are under way together, and sums round less.
  const RDom& steps = share.steps;
  if (stage.has_length()) share.steps.where((steps.x + 1) * step <= length);
  std::vector<std::vector<Expr>> states;
  for (int i = 0; i < unroll; i++) states.push_back(state(steps.x * step + i * members + member));
  update_at_once(f, at, stage.merge(values_at(f, at), stage.merge(states)));

  // What is left of a step: its loads are under way together, too, those beyond the end at the last element and masked.
  const Expr first = (length / step + share.rest) * step;
  share.rest.where(first + member < length);
  states.clear();
  for (int i = 0; i < unroll; i++) {
    const Expr k = first + i * members + member;
    states.push_back(stage.state_if(k < length, state(Halide::min(k, length - 1))));
  }
  update_at_once(f, at, stage.merge(values_at(f, at), stage.merge(states)));
  define(share.kept, index, values_at(f, at));
  return share;
}

std::vector<Func> make_tree(const ReductionStage& stage, Func func, int members, const std::vector<Var>& index) {
  constexpr int kArity = 8, kLastArity = 16;
  std::vector<Func> tree;
  while (members > 1) {
    const int left = members > kLastArity ? members / kArity : 1;
    Func next(stage.name() + "_of" + std::to_string(members));
    Var member(kMember);
    std::vector<Var> vars = index;
    if (left > 1) vars.insert(vars.begin(), member);
    std::vector<std::vector<Expr>> parts;
    for (int i = 0; i < members / left; i++) {
      std::vector<Expr> at = expressions(index);
      at.insert(at.begin(), left > 1 ? Expr(member + i * left) : Expr(i));
      parts.push_back(values_at(func, at));
    }
    define(next, vars, stage.merge(parts));
    tree.push_back(next);
    func = next;
    members = left;
  }
  return tree;
}

std::vector<Func> make_rotation(const ReductionStage& stage, Func func, const Var& lane, const std::vector<Var>& rest,
                                int lanes, int apart) {
  std::vector<Func> tree;
  const bool wraps_in_warp = lanes * apart == kWarp;
  std::vector<Var> index{lane};
  index.insert(index.end(), rest.begin(), rest.end());
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    Func next(stage.name() + "_rotated" + std::to_string(distance));
    std::vector<Expr> here = expressions(index), there = here;
    there[0] = wraps_in_warp ? (lane + distance * apart) % kWarp : lane / lanes * lanes + (lane + distance) % lanes;
    next(index) = stage.combine(func(here), func(there));
    tree.push_back(next);
    func = next;
  }
  return tree;
}

void in_lanes(Func func, const Halide::LoopLevel& level, const Var& lane) {
  func.compute_at(level).store_in(Halide::MemoryType::Register).bound(lane, 0, kWarp).gpu_lanes(lane);
}

Expr warp_exchanged(const Expr& value, int distance) {
  using Halide::Internal::Call;
  constexpr int kAllLanes = -1, kLastLane = kWarp - 1, kSynchronised = 70;  // from that capability on
  const auto shuffled = [](const char* name, const std::vector<Expr>& arguments) {
    return Call::make(Halide::Float(32), name, arguments, Call::PureExtern);
  };
  if (Descriptor::target.get_cuda_capability_lower_bound() < kSynchronised) {
    return shuffled("llvm.nvvm.shfl.bfly.f32", {value, distance, kLastLane});
  }
  return shuffled("llvm.nvvm.shfl.sync.bfly.f32", {kAllLanes, value, distance, kLastLane});
}

std::vector<Func> make_exchanges(const ReductionStage& stage, Func func, const std::vector<Var>& index) {
  std::vector<Func> all;
  const std::vector<Expr> at(index.begin(), index.end());
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    Func next(stage.name() + "_lanes" + std::to_string(distance));
    next(index) = stage.combine(func(at), warp_exchanged(func(at), distance));
    all.push_back(next);
    func = next;
  }
  return all;
}

Func make_sum_of_warps(const ReductionStage& stage, const Func& kept, const std::vector<Var>& index, int threads) {
  std::vector<Expr> of_warps, at(index.begin(), index.end());
  for (int first = 0; first < threads; first += kWarp) {
    at[0] = first;
    of_warps.emplace_back(kept(at));
  }
  Func total(stage.name() + "_warps");
  total(index) = stage.combine(of_warps);
  return total;
}

void share_in_block(const GroupShape& group, Share& share, const Halide::LoopLevel& level, const Var& x, const Var& y) {
  share.kept.compute_at(level).store_in(Halide::MemoryType::GPUShared);
  share.func.compute_at(share.kept, group.over_threads(share.kept, x, y));
}

void tree_in_block(const GroupShape& group, Func stage, const Halide::LoopLevel& level, const Var& row, int rows) {
  stage.compute_at(level).store_in(Halide::MemoryType::GPUShared);
  group.bound_rows(stage, row, rows);
  if (stage.args()[0].name() == kMember)
    group.over_threads(stage, stage.args()[0], row);
  else
    stage.gpu_threads(row);
}

}  // namespace ashlar::dsl
