#include "schedules/lowering/load_masked.h"

#include <set>
#include <string>

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;

class LoadMasked : public IRMutator {
 public:
  explicit LoadMasked(std::set<std::string> inputs) : inputs_(std::move(inputs)) {}

 private:
  using IRMutator::visit;
  Expr visit(const Select* select) override {
    const auto* load = select->true_value.as<Load>();
    const bool is_it = load != nullptr && select->condition.type().is_vector() && is_const_one(load->predicate) &&
                       is_const_zero(select->false_value) && inputs_.contains(load->name);
    if (!is_it) return IRMutator::visit(select);
    return Select::make(
        select->condition,
        Load::make(load->type, load->name, load->index, load->image, load->param, select->condition, load->alignment),
        select->false_value);
  }

  std::set<std::string> inputs_;
};

}  // namespace

void load_masked(const std::vector<Halide::Parameter>& inputs) {
  std::set<std::string> names;
  for (const Halide::Parameter& input : inputs) names.insert(input.name());
  Descriptor::current->lowering_passes.push_back(std::make_shared<LoadMasked>(std::move(names)));
}

}  // namespace ashlar::dsl
