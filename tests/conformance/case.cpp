#include "tests/conformance/case.h"

#include <set>

#include "runtime/support/error.h"

namespace ashlar::conformance {
namespace {

std::vector<Case>& list() {
  static std::vector<Case> cases;
  return cases;
}

}  // namespace

void add_case(Case item) {
  static std::set<std::string> names;
  const std::string name = item.kernel + "/" + item.name;
  if (item.kernel.empty() || item.name.empty() || !item.call || !item.reference || item.dtypes.empty()) {
    throw ValueError("add_case", "an incomplete case '" + name + "'", "kernel, name, dtypes, call and reference",
                     "Fill them in");
  }
  if (!names.insert(name).second) {
    throw ValueError("add_case", "a second case '" + name + "'", "one of each name", "Rename it");
  }
  list().push_back(std::move(item));
}

void add_gradient_case(Case item) {
  Case special = item;
  special.name += "_special_dy";
  special.inputs.at(0).values = {Pattern::special};
  special.differentiable = {};
  add_case(std::move(item));
  add_case(std::move(special));
}

const std::vector<Case>& cases() { return list(); }

}  // namespace ashlar::conformance
