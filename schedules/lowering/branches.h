// One output, several algorithms for it: which one runs is decided by the call's sizes and strides.
#pragma once

#include <Halide.h>

#include <functional>
#include <vector>

namespace ashlar::dsl {

struct Branch {
  Halide::Expr condition;            ///< undefined in a last branch that takes what is left
  std::vector<Halide::Expr> values;  ///< in place of the output's own
  std::function<void(Halide::Stage)> schedule;
};

/// Makes `out` compute the first branch whose condition holds. Halide's specialize() gives one algorithm several loop
/// nests; this gives each nest an algorithm of its own as well, with the stages that it needs computed inside it.
void choose(Halide::Func out, const std::vector<Branch>& branches);

}  // namespace ashlar::dsl
