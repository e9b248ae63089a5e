#include "schedules/lowering/load_masked.h"

#include <set>
#include <string>

#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;

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
    struct Loads : IRVisitor {
      explicit Loads(const std::set<std::string>& inputs) : of(inputs) {}
      using IRVisitor::visit;
      void visit(const Load* load) override {
        found |= load->type.is_vector() && is_const_one(load->predicate) && of.contains(load->name);
        IRVisitor::visit(load);
      }
      const std::set<std::string>& of;
      bool found = false;
    } loads(inputs_);
    value.accept(&loads);
    return loads.found;
  }
  [[noreturn]] void fail(const std::string& what) const { ir::fail("load_masked", *inputs_.begin(), what); }

  std::set<std::string> inputs_;
  int depth_ = 0, masked_ = 0;
};

}  // namespace

void load_masked(const std::vector<Halide::Parameter>& inputs) {
  std::set<std::string> names;
  for (const Halide::Parameter& input : inputs) names.insert(input.name());
  Descriptor::current->lowering_passes.push_back(std::make_shared<LoadMasked>(std::move(names)));
}

}  // namespace ashlar::dsl
