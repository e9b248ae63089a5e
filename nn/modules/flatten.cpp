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

Var Unflatten::forward(const Var& x) const {
  const int axis = normalize_axis("Unflatten", axis_, x.rank());
  Shape shape;
  int64_t known = 1, open = 0;
  for (const int64_t size : sizes_) (size == -1 ? open : known) = size == -1 ? open + 1 : known * size;
  const bool fits = open == 0 ? known == x.size(axis) : open == 1 && known > 0 && x.size(axis) % known == 0;
  if (!fits) {
    throw ShapeError("Unflatten", x.value().str() + " with axis " + std::to_string(axis) + " as " + sizes_.str(),
                     "sizes whose product is that axis's", "Give one of them as -1");
  }
  for (int i = 0; i < x.rank(); i++) {
    if (i != axis) {
      shape.push_back(x.size(i));
      continue;
    }
    for (const int64_t size : sizes_) shape.push_back(size == -1 ? x.size(axis) / known : size);
  }
  return x.reshape(shape);
}

std::string Unflatten::details() const { return "axis " + std::to_string(axis_) + " as " + sizes_.str(); }

}  // namespace ashlar::nn
