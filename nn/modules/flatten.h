// Several dimensions as one.
#pragma once

#include "nn/module.h"

namespace ashlar::nn {

/// Dimensions first … last of x, both included, become one, as in torch.nn.Flatten: by default all but the batch.
class Flatten : public ModuleOf<Flatten> {
 public:
  explicit Flatten(int64_t first = 1, int64_t last = -1) : first_(first), last_(last) {}

  /// Throws IndexError on a dimension that x doesn't have, ValueError when the last comes before the first.
  Var forward(const Var& x) const;

 private:
  int64_t first_, last_;
};

}  // namespace ashlar::nn
