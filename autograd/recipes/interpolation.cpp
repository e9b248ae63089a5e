#include "autograd/recipes/interpolation.h"

#include "autograd/node.h"

namespace ashlar::recipes {
namespace {

using ashlar::resampled;
using ashlar::resized;

Var resampled(const Var& x, const BothWays& tables) {
  return record(
      "interpolate", {x}, resampled(x.value(), tables),
      [back = BothWays{tables[1], tables[0]}](const auto& pass) { return pass.gradients(resampled(pass.dy(), back)); });
}

}  // namespace

Var resampled_images(const Var& x, const std::vector<Resize>& resizes, const ResizeMode& mode) {
  return resampled(x, resample_tables(resizes, mode, x.requires_grad()));
}

Var resized(const Var& x, const Resizing& resizing, bool is_gradient) {
  return record("interpolate", {x}, resized(x.value(), resizing, is_gradient),
                [=](const auto& pass) { return pass.gradients(resized(pass.dy(), resizing, !is_gradient)); });
}

}  // namespace ashlar::recipes
