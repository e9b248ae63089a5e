// Checks inside GPU kernels that hold whatever their variables are, but stand behind lets through which Halide 21
// doesn't look: OpenCL C has none and Halide warns of each, on CUDA a block waits for them.
#pragma once

#include <Halide.h>

#include <memory>
#include <utility>
#include <vector>

#include "dsl/descriptor.h"

namespace ashlar::dsl {

class CertainChecks : public Halide::Internal::IRMutator {
  using IRMutator::visit;

  Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override {
    const bool was_in_kernel = std::exchange(in_kernel_, in_kernel_ || Halide::Internal::is_gpu(loop->for_type));
    Halide::Internal::Stmt result = IRMutator::visit(loop);
    in_kernel_ = was_in_kernel;
    return result;
  }
  Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override {
    if (!in_kernel_) return IRMutator::visit(let);
    lets_.emplace_back(let->name, let->value);
    Halide::Internal::Stmt result = IRMutator::visit(let);
    lets_.pop_back();
    return result;
  }
  Halide::Internal::Stmt visit(const Halide::Internal::AssertStmt* check) override {
    if (!in_kernel_) return check;
    Halide::Expr condition = check->condition;
    for (auto let = lets_.rbegin(); let != lets_.rend(); ++let) {
      condition = Halide::Internal::substitute(let->first, let->second, condition);
    }
    const auto* order = condition.as<Halide::Internal::LE>();
    const bool is_certain = order != nullptr ? is_most(order->a, order->b) : Halide::Internal::can_prove(condition);
    if (!is_certain) return check;
    return Halide::Internal::Evaluate::make(0);
  }

  // Whether a <= b, whichever of its parts a is.
  static bool is_most(const Halide::Expr& a, const Halide::Expr& b) {
    using namespace Halide::Internal;
    if (const auto* either = a.as<Select>()) return is_most(either->true_value, b) && is_most(either->false_value, b);
    if (const auto* greater = a.as<Max>()) return is_most(greater->a, b) && is_most(greater->b, b);
    return can_prove(not_less(a) <= b);
  }

  // e with the first of two for the lesser of them.
  static Halide::Expr not_less(const Halide::Expr& e) {
    using namespace Halide::Internal;
    if (const auto* sum = e.as<Add>(); sum != nullptr && is_const(sum->b)) return not_less(sum->a) + sum->b;
    if (const auto* quotient = e.as<Div>(); quotient != nullptr && is_positive_const(quotient->b)) {
      return Div::make(not_less(quotient->a), quotient->b);
    }
    const auto* least = e.as<Min>();
    return least != nullptr ? least->a : e;
  }

  std::vector<std::pair<std::string, Halide::Expr>> lets_;  // around the check
  bool in_kernel_ = false;
};

/// Has the kernel under construction lowered without them.
inline void leave_out_certain_checks() {
  Descriptor::current->lowering_passes.push_back(std::make_shared<CertainChecks>());
}

}  // namespace ashlar::dsl
