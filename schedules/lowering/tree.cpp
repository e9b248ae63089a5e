#include "schedules/lowering/tree.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;

namespace {

std::vector<Expr> expressions(const std::vector<Var>& vars) { return {vars.begin(), vars.end()}; }

}  // namespace

Share make_share(const ReductionStage& stage, const std::string& name, const std::vector<Var>& index,
                 const Expr& member, int members, int unroll, const Rewrite& rewrite) {
  const Expr extent = stage.extent(), length = stage.length(rewrite);
  const int step = members * unroll;
  const auto value = [&](const Expr& k) {
    const Expr within = Halide::unsafe_promise_clamped(k, 0, extent - 1);
    const Expr condition = stage.condition(within, rewrite);
    const Expr v = stage.value(within, rewrite);
    return Halide::Internal::is_const_one(condition) ? v : Halide::select(condition, v, stage.start());
  };
  Share share{Func(stage.name() + name), Func(stage.name() + name + "_kept"), RDom(0, unroll, 0, extent / step),
              RDom(0, unroll)};
  Func& f = share.func;
  const std::vector<Expr> at = expressions(index);
  f(index) = stage.start();

  const RDom& steps = share.steps;
  if (stage.has_length()) share.steps.where((steps.y + 1) * step <= length);
  f(at) = stage.combine(f(at), value(steps.y * step + steps.x * members + member));

  // What is left of a step: the same loads for every member, those beyond the end at the last element and masked, so
  // that they are under way together.
  const Expr first = length / step * step, k = first + share.rest.x * members + member;
  share.rest.where(first < length);
  f(at) = stage.combine(f(at), Halide::select(k < length, value(Halide::min(k, length - 1)), stage.start()));
  share.kept(index) = f(at);
  return share;
}

void share_in_block(Share& share, const Halide::LoopLevel& level, const Var& x, const Var& y) {
  share.kept.compute_at(level).store_in(Halide::MemoryType::GPUShared).gpu_threads(x, y);
  share.func.compute_at(share.kept, x);
  share.func.update(0).unroll(share.steps.x);
  share.func.update(1).unroll(share.rest.x);
}

std::vector<Func> make_tree(const ReductionStage& stage, Func func, int members, const std::vector<Var>& index) {
  constexpr int kArity = 8;
  std::vector<Func> tree;
  while (members > 1) {
    const int left = members > kArity ? members / kArity : 1;
    Func next(stage.name() + "_of" + std::to_string(members));
    Var member("member");
    std::vector<Var> vars = index;
    if (left > 1) vars.insert(vars.begin(), member);
    std::vector<Expr> parts;
    for (int i = 0; i < members / left; i++) {
      std::vector<Expr> at = expressions(index);
      at.insert(at.begin(), left > 1 ? Expr(member + i * left) : Expr(i));
      parts.push_back(func(at));
    }
    next(vars) = stage.combine(parts);
    tree.push_back(next);
    func = next;
    members = left;
  }
  return tree;
}

}  // namespace ashlar::dsl
