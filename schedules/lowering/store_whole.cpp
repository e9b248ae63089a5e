#include "schedules/lowering/store_whole.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;

class StoreWhole : public IRMutator {
 public:
  StoreWhole(std::string stage, bool is_padded) : stage_(std::move(stage)), is_padded_(is_padded) {}

 private:
  using IRMutator::visit;
  Stmt visit(const Store* store) override {
    const auto* ramp = store->index.as<Ramp>();
    const bool is_stage = store->name == stage_ || store->name.starts_with(stage_ + ".");  // of several values
    const bool is_it = is_stage && !is_const_one(store->predicate) && ramp != nullptr && is_const_one(ramp->stride);
    if (!is_it) return IRMutator::visit(store);
    const Expr all = const_true(store->value.type().lanes());
    const Expr held =
        Load::make(store->value.type(), store->name, store->index, {}, store->param, all, store->alignment);
    const Expr value = is_padded_ ? store->value : Select::make(store->predicate, store->value, held);
    return Store::make(store->name, value, store->index, store->param, all, store->alignment);
  }

  std::string stage_;
  bool is_padded_;
};

}  // namespace

void store_whole(const Halide::Func& stage, bool is_padded) {
  Descriptor::current->lowering_passes.push_back(std::make_shared<StoreWhole>(stage.name(), is_padded));
}

}  // namespace ashlar::dsl
