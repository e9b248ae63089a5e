#include "nn/modules/flatten.h"

#include <string>

#include "runtime/support/error.h"

namespace ashlar::nn {

Var Flatten::forward(const Var& x) const {
  const int first = normalize_axis("Flatten", first_, x.rank()), last = normalize_axis("Flatten", last_, x.rank());
  if (first > last) {
    throw ValueError("Flatten", "dimensions " + std::to_string(first) + " to " + std::to_string(last),
                     "the first before the last", "Exchange them");
  }
  Shape shape = Shape::filled(x.rank() - (last - first), 1);
  for (int i = 0, to = 0; i < x.rank(); i++) {
    shape[to] *= x.size(i);
    if (i < first || i >= last) to++;
  }
  return x.reshape(shape);
}

}  // namespace ashlar::nn
