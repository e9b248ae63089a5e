// A residual stream between modules: a sum that is worked out by whoever needs it, a normalisation in its own pass.
#pragma once

#include "autograd/var.h"

namespace ashlar::nn {

/// x as the sum of two that nobody has added up yet.
struct Terms {
  Var stream;
  Var branch;  ///< what a part made of the stream; undefined: nothing is to be added
};
/// x.
Var added(const Terms& x);

/// A sum of two, and what a module makes of it.
struct ResultOfSum {
  Var y;  ///< forward(h)
  Var h;  ///< the sum
};

}  // namespace ashlar::nn
