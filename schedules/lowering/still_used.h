// What shared memory is kept for.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// `value`, computed where `memory`, an element of a stage in a GPU's shared memory, is needed for the last time.
/// Halide 21 takes that for the last access in the text: what a serial loop reads in each of its turns it gives away to
/// stages behind the access, in the same turn. Costs nothing: a lowering pass leaves `value` alone.
inline Halide::Expr still_used(const Halide::Expr& value, const Halide::Expr& memory) {
  static constexpr const char* kName = "ashlar_still_used";
  struct LeaveOut : Halide::Internal::IRMutator {
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call* op) override {
      return op->name == kName ? mutate(op->args[0]) : IRMutator::visit(op);
    }
  };
  Descriptor::current->lowering_passes.push_back(std::make_shared<LeaveOut>());
  return Halide::Internal::Call::make(value.type(), kName, {value, memory}, Halide::Internal::Call::PureExtern);
}

}  // namespace ashlar::dsl
