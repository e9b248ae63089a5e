// Coordinates within tiles on a GPU: a stage that is indexed by a row's tile, row / 64, and its place there, row % 64.
#pragma once

#include "dsl/kernel.h"
#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {

/// Quotients and remainders by constants lose the terms that the divisor divides: Halide 21 leaves
/// ((block · 16 + thread) · 4 + 1) % 64 as it stands, though the loops over threads say that it is thread · 4 + 1.
class TileCoordinates : public Halide::Internal::IRMutator {
  using IRMutator::visit;
  using Expr = Halide::Expr;

  template <class Op>
  Expr divided(const Op* op, bool is_remainder) {
    const auto divisor = Halide::Internal::as_const_int(op->b);
    if (!divisor || *divisor <= 1 || !op->type.is_int() || !op->type.is_scalar()) return IRMutator::visit(op);
    const Expr dividend = mutate(op->a);
    const ir::Linear all(bindings_.expand(dividend));
    Expr whole = 0, rest = Expr(static_cast<int32_t>(all.constant));
    for (const auto& [name, part] : all.parts) {
      const auto& [term, factor] = part;
      if (factor % *divisor == 0)
        whole = whole + term * static_cast<int32_t>(factor / *divisor);
      else
        rest = rest + term * static_cast<int32_t>(factor);
    }
    rest = Halide::Internal::simplify(rest, true, extents_);
    const Expr is_inside = Halide::Internal::simplify(rest >= 0 && rest < op->b, true, extents_);
    if (!Halide::Internal::is_const_one(is_inside)) return Op::make(dividend, op->b);
    return is_remainder ? rest : whole;
  }
  Expr visit(const Halide::Internal::Mod* op) override { return divided(op, true); }
  Expr visit(const Halide::Internal::Div* op) override { return divided(op, false); }

  Halide::Internal::Stmt visit(const Halide::Internal::For* op) override {
    const bool is_constant = Halide::Internal::is_const(op->min) && Halide::Internal::is_const(op->extent);
    if (is_constant) extents_.push(op->name, {op->min, Halide::Internal::simplify(op->min + op->extent - 1)});
    const Halide::Internal::Stmt result = IRMutator::visit(op);
    if (is_constant) extents_.pop(op->name);
    return result;
  }
  template <class Result, class Op>
  Result let(const Op* op) {
    const Expr value = mutate(op->value);
    bindings_.push(op->name, value);
    const auto body = mutate(op->body);
    bindings_.pop();
    return Op::make(op->name, value, body);
  }
  Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* op) override { return let<Halide::Internal::Stmt>(op); }
  Expr visit(const Halide::Internal::Let* op) override { return let<Expr>(op); }

  ir::Bindings bindings_;
  Halide::Internal::Scope<Halide::Internal::Interval> extents_;
};

/// Has the kernel under construction lowered with it. Before per_thread(), which wants indices without remainders.
inline void tile_coordinates() { Descriptor::current->lowering_passes.push_back(std::make_shared<TileCoordinates>()); }

}  // namespace ashlar::dsl
