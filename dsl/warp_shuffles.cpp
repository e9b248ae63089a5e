#include "dsl/warp_shuffles.h"

#include <map>
#include <string>

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

// Of "llvm.nvvm.shfl.sync.MODE.TYPE"(mask, value, by, clamp), as Halide 21 has them.
constexpr const char *kDown = "llvm.nvvm.shfl.sync.down.", *kUp = "llvm.nvvm.shfl.sync.up.",
                     *kIndexed = "llvm.nvvm.shfl.sync.idx.";
constexpr int64_t kLanes = 32;

const Call* shuffle(const Expr& value, const std::string& kind) {
  const auto* call = value.as<Call>();
  return call != nullptr && call->name.starts_with(kind) ? call : nullptr;
}

// select(lane < 32 - d, down(x, d), up(x, 32 - d)) = indexed(x, lane + d)
class RotationsByOneShuffle : public IRMutator {
  using IRMutator::visit;
  Expr visit(const Select* op) override {
    const Call *down = shuffle(op->true_value, kDown), *up = shuffle(op->false_value, kUp);
    const auto* below = comparison_of(op->condition);
    if (down == nullptr || up == nullptr || below == nullptr || !equal(down->args[1], up->args[1]))
      return IRMutator::visit(op);
    const auto by = as_const_int(down->args[2]), back = as_const_int(up->args[2]), end = as_const_int(below->b);
    if (!by || !back || !end || *by + *back != kLanes || *end != *back) return IRMutator::visit(op);
    const std::string type = down->name.substr(std::string(kDown).size());
    return Call::make(op->type, kIndexed + type,
                      {down->args[0], mutate(down->args[1]), below->a + static_cast<int>(*by), down->args[3]},
                      down->call_type);
  }

  // Several rotations by the same distance have a name for the comparison. Names are unique at this point.
  const LT* comparison_of(const Expr& condition) const {
    const auto* name = condition.as<Variable>();
    if (name == nullptr) return condition.as<LT>();
    const auto named = comparisons_.find(name->name);
    return named == comparisons_.end() ? nullptr : named->second.as<LT>();
  }
  Expr visit(const Let* let) override {
    if (let->value.as<LT>() != nullptr) comparisons_.emplace(let->name, let->value);
    return IRMutator::visit(let);
  }
  Stmt visit(const LetStmt* let) override {
    if (let->value.as<LT>() != nullptr) comparisons_.emplace(let->name, let->value);
    return IRMutator::visit(let);
  }
  std::map<std::string, Expr> comparisons_;
};

}  // namespace

std::shared_ptr<IRMutator> rotations_by_one_shuffle() { return std::make_shared<RotationsByOneShuffle>(); }

}  // namespace ashlar::dsl
