#include "schedules/lowering/branches.h"

#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {
namespace {

using Halide::Internal::Definition;
using Branches = std::vector<Branch>::const_iterator;

void give_values(Definition& definition, const Branch& branch) {
  // As Halide does with every definition: a stage's value may be read many times, and would be written out as often.
  definition.values().clear();
  for (const Halide::Expr& value : branch.values) {
    definition.values().push_back(Halide::Internal::common_subexpression_elimination(value));
  }
}

// One chain of eighteen conditions took Halide 15 s, most of it to merge what each link reads with all that follows, link
// by link; as a tree, halved while there are more than a few, they take 2 s.
void choose_among(Branches begin, Branches end, Halide::Stage stage, Definition& definition) {
  constexpr int kMostInAChain = 2;
  if (end - begin <= kMostInAChain) {
    for (Branches branch = begin; branch != end; ++branch) {
      const Halide::Stage specialized = stage.specialize(branch->condition);
      give_values(definition.specializations().back().definition, *branch);
      branch->schedule(specialized);
    }
    return;
  }
  const Branches middle = begin + (end - begin + 1) / 2;
  Halide::Expr is_one_of_first = begin->condition;
  for (Branches branch = begin + 1; branch != middle; ++branch) is_one_of_first = is_one_of_first || branch->condition;
  Halide::Stage first = stage.specialize(is_one_of_first);
  Definition& first_definition = definition.specializations().back().definition;
  give_values(first_definition, *begin);  // never computed, but else it would need the stages of the whole's own values
  choose_among(begin, middle, first, first_definition);
  first.specialize_fail("no branch holds, though one of them does");
  choose_among(middle, end, stage, definition);
}

}  // namespace

void choose(Halide::Func out, const std::vector<Branch>& branches) {
  Definition& definition = out.function().definition();
  const bool has_default = !branches.back().condition.defined();
  choose_among(branches.begin(), branches.end() - has_default, out, definition);
  if (!has_default) return;  // the caller schedules what is left
  give_values(definition, branches.back());
  branches.back().schedule(out);
}

}  // namespace ashlar::dsl
