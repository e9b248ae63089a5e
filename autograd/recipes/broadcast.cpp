#include "autograd/recipes/broadcast.h"

#include "ashlar/ops.h"
#include "runtime/error.h"

namespace ashlar::recipes {

Tensor sum_to_shape(const Tensor& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const int added = g.rank() - shape.rank();
  Shape axes;
  bool fits = added >= 0;
  for (int i = 0; fits && i < g.rank(); i++) {
    const int64_t size = i < added ? 1 : shape[i - added];
    fits = size == g.shape()[i] || size == 1;
    if (i < added || size != g.shape()[i]) axes.push_back(i);
  }
  if (!fits) {
    throw ShapeError("sum_to_shape", g.str(), "a tensor that " + shape.str() + " broadcasts to",
                     "Pass the gradient of the broadcast result");
  }
  // Axes of size 1 in front need a reshape, not a sum.
  bool any_larger = false;
  for (int64_t axis : axes) any_larger = any_larger || g.shape()[static_cast<int>(axis)] != 1;
  return (any_larger ? sum(g, axes, /*keepdim=*/true) : g).reshape(shape);
}

}  // namespace ashlar::recipes
