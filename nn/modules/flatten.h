// Several dimensions as one, and one as several.
#pragma once

#include <string>

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

/// A dimension of x as several, as in torch.nn.Unflatten.
class Unflatten : public ModuleOf<Unflatten> {
 public:
  /// One of the sizes may be -1: what the others leave.
  Unflatten(int64_t axis, const Shape& sizes) : axis_(axis), sizes_(sizes) {}

  /// Throws IndexError on a dimension that x doesn't have, ShapeError when the sizes have another product.
  Var forward(const Var& x) const;
  std::string details() const override;

 private:
  int64_t axis_;
  Shape sizes_;
};

}  // namespace ashlar::nn
