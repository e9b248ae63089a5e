#include "schedules/lowering/load_masked.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;

template <class Predicate>
bool any_load(const Expr& value, const Predicate& is_it) {
  struct Loads : IRVisitor {
    explicit Loads(const Predicate& is_it) : is_it(is_it) {}
    using IRVisitor::visit;
    void visit(const Load* load) override {
      found |= is_it(load);
      IRVisitor::visit(load);
    }
    const Predicate& is_it;
    bool found = false;
  } loads(is_it);
  value.accept(&loads);
  return loads.found;
}

class LoadMasked : public IRMutator {
 public:
  explicit LoadMasked(std::set<std::string> inputs) : inputs_(std::move(inputs)) {}

  using IRMutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    depth_++;
    const Stmt result = IRMutator::mutate(stmt);
    if (--depth_ == 0 && masked_ == 0) fail("no vector of an input stands under a condition");
    return result;
  }

 private:
  using IRMutator::visit;
  Expr visit(const Select* select) override {
    const auto* load = select->true_value.as<Load>();
    const bool is_it = load != nullptr && select->condition.type().is_vector() && is_const_one(load->predicate) &&
                       is_const_zero(select->false_value) && inputs_.contains(load->name);
    if (!is_it) {
      // It would be loaded whole, from beyond its buffer, too.
      if (select->condition.type().is_vector() && loads_whole(select->true_value)) {
        fail("of a vector under a condition more than the load, or other than 0, is selected");
      }
      return IRMutator::visit(select);
    }
    masked_++;
    return Select::make(
        select->condition,
        Load::make(load->type, load->name, load->index, load->image, load->param, select->condition, load->alignment),
        select->false_value);
  }

  bool loads_whole(const Expr& value) const {
    return any_load(value, [&](const Load* load) {
      return load->type.is_vector() && is_const_one(load->predicate) && inputs_.contains(load->name);
    });
  }
  [[noreturn]] void fail(const std::string& what) const { ir::fail("load_masked", *inputs_.begin(), what); }

  std::set<std::string> inputs_;
  int depth_ = 0, masked_ = 0;
};

// i < n of vectors, and clamps to it.
struct Bound {
  Expr index, extent;  ///< vectors

  static std::optional<Bound> of(const Expr& condition) {
    const auto* less = condition.as<LT>();
    if (less == nullptr || !less->a.type().is_vector()) return {};
    return Bound{less->a, less->b};
  }
  bool is_last(const Expr& e) const { return is_const_zero(simplify(e + 1 - extent)); }
};

// clamp(i, 0, n - 1) is i where i < n: indices begin at 0.
class WithoutClamps : public IRMutator {
 public:
  explicit WithoutClamps(const Bound& bound) : bound_(bound) {}

 private:
  using IRMutator::visit;
  Expr visit(const Max* max) override {
    const auto* min = max->a.as<Min>();
    const bool is_it = min != nullptr && is_const_zero(max->b) &&
                       ((equal(min->a, bound_.index) && bound_.is_last(min->b)) ||
                        (equal(min->b, bound_.index) && bound_.is_last(min->a)));
    return is_it ? bound_.index : IRMutator::visit(max);
  }
  const Bound& bound_;
};

class MaskLoads : public IRMutator {
 public:
  MaskLoads(const Bound& bound, Expr condition) : bound_(bound), condition_(std::move(condition)) {}

 private:
  using IRMutator::visit;
  Expr visit(const Load* load) override {
    constexpr int kLeastBits = 32;  // narrower ones AVX2 can't mask
    const bool may_be = load->param.defined() && load->type.lanes() == condition_.type().lanes() &&
                        load->type.bits() >= kLeastBits && is_const_one(load->predicate);
    if (!may_be) return load;
    const Expr index = simplify(WithoutClamps(bound_).mutate(load->index));
    const auto* ramp = index.as<Ramp>();
    if (ramp == nullptr || !is_const_one(ramp->stride) || index.same_as(load->index)) return load;
    return Load::make(load->type, load->name, index, load->image, load->param, condition_, {});
  }
  const Bound& bound_;
  Expr condition_;
};

class LoadTailsMasked : public IRMutator {
 public:
  explicit LoadTailsMasked(std::string stage) : stage_(std::move(stage)) {}

 private:
  using IRMutator::visit;
  Stmt visit(const Store* store) override {
    if (store->name != stage_ && !store->name.starts_with(stage_ + ".")) return store;
    const Expr value = common_subexpression_elimination(mutate(vectors_.expand(store->value)));
    return Store::make(store->name, value, store->index, store->param, store->predicate, store->alignment);
  }
  // What is used more than once has a name, outside of what is selected. What a stage holds keeps its: it may have been
  // read before a store (update_at_once()).
  Stmt visit(const LetStmt* let) override {
    if (!let->value.type().is_vector() || reads_stage(let->value)) return IRMutator::visit(let);
    vectors_.push_whole(let->name, let->value);
    const Stmt body = mutate(let->body);
    vectors_.pop();
    return stmt_uses_var(body, let->name) ? LetStmt::make(let->name, let->value, body) : body;
  }
  Expr visit(const Select* select) override {
    const std::optional<Bound> bound = Bound::of(select->condition);
    if (!bound) return IRMutator::visit(select);
    return Select::make(select->condition, MaskLoads(*bound, select->condition).mutate(select->true_value),
                        mutate(select->false_value));
  }
  static bool reads_stage(const Expr& value) {
    return any_load(value, [](const Load* load) { return !load->param.defined(); });
  }
  std::string stage_;
  ir::Bindings vectors_;  ///< named around what is visited
};

}  // namespace

void load_tails_masked(const Halide::Func& stage) {
  Descriptor::current->lowering_passes.push_back(std::make_shared<LoadTailsMasked>(stage.name()));
}

void load_masked(const std::vector<Halide::Parameter>& inputs) {
  std::set<std::string> names;
  for (const Halide::Parameter& input : inputs) names.insert(input.name());
  Descriptor::current->lowering_passes.push_back(std::make_shared<LoadMasked>(std::move(names)));
}

}  // namespace ashlar::dsl
