#include "schedules/lowering/branches.h"

#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {

void choose(Halide::Func out, const std::vector<Branch>& branches) {
  Halide::Internal::Definition& definition = out.function().definition();
  for (const Branch& branch : branches) {
    // As Halide does with every definition: a stage's value may be read many times, and would be written out as often.
    std::vector<Halide::Expr> values;
    for (const Halide::Expr& value : branch.values) {
      values.push_back(Halide::Internal::common_subexpression_elimination(value));
    }
    if (branch.condition.defined()) {
      Halide::Stage stage = out.specialize(branch.condition);
      definition.specializations().back().definition.values() = values;
      branch.schedule(stage);
    } else {
      definition.values() = values;
      branch.schedule(out);
    }
  }
}

}  // namespace ashlar::dsl
