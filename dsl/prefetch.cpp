#include "dsl/prefetch.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;

class IntoAllCaches : public IRMutator {
  using IRMutator::visit;
  Stmt visit(const Evaluate* evaluate) override {
    const Call* call = Call::as_intrinsic(evaluate->value, {Call::prefetch});
    const auto* base = call == nullptr ? nullptr : call->args[0].as<Variable>();
    if (base == nullptr) return IRMutator::visit(evaluate);
    return prefetch(base->name, call->args[1], call->type, PrefetchFor::reading);
  }
};

}  // namespace

Stmt prefetch(const std::string& buffer, const Halide::Expr& index, const Halide::Type& type, PrefetchFor use) {
  constexpr int kLocality = 3, kData = 1;  // as llvm.prefetch has them: into all caches; no instruction
  const Halide::Type pointer = Halide::type_of<void*>();
  const Halide::Expr first = Halide::reinterpret<int64_t>(Variable::make(pointer, buffer));
  const Halide::Expr address = Halide::reinterpret(pointer, first + Halide::cast<int64_t>(index) * type.bytes());
  // LLVM's own, by its name: Halide finds what the module declares already, for its own prefetches.
  return Evaluate::make(Call::make(Halide::Int(32), "llvm.prefetch.p0",
                                   {address, static_cast<int>(use), kLocality, kData}, Call::Extern));
}

std::shared_ptr<IRMutator> prefetches_into_all_caches() { return std::make_shared<IntoAllCaches>(); }

}  // namespace ashlar::dsl
