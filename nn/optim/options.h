// Options of parameter groups, as the optimisers' sources take them apart.
#pragma once

#include <vector>

#include "nn/optim/optimizer.h"

namespace ashlar::nn {

template <class Options>
std::vector<Options> options_of(const std::vector<ParameterGroup<Options>>& groups) {
  std::vector<Options> all;
  for (const ParameterGroup<Options>& group : groups) all.push_back(group.options);
  return all;
}

/// A decay rate of a mean: in [0, 1).
inline bool is_part(double beta) { return beta >= 0 && beta < 1; }

}  // namespace ashlar::nn
