// Images in other sizes by kernels (generators/interpolation.cpp), for the operator that is composed of them
// (operators/composed/interpolation.h) and its gradient (autograd/recipes/interpolation.h).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "runtime/launch/launch.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// An axis that is to have `to` elements in place of `from`, of which one stands for `scale`.
struct Resize {
  int axis;
  int64_t from, to;
  double scale;
  bool is_whole;  ///< to is a multiple of from, and the scale says so, too
};

/// Linear along each axis, with first and last elements staying where they are or not; else nearest.
struct ResizeMode {
  bool is_linear = false, align_corners = false;
};

/// What becomes of each axis of x [n, c, sizes…] by the sizes, or else by the factors, one for all or one for each.
/// Throws ValueError unless there are either, positive, for one to three axes.
std::vector<Resize> resizes_of(const Tensor& x, const Shape& size, std::span<const double> factors,
                               const ResizeMode& mode);

// ---- on the CPU: both axes of images in one kernel, by tables of the neighbours, made on the host

struct ResampleTables;
/// The tables of a call and of its gradient, null where nobody asked for it.
using BothWays = std::array<std::shared_ptr<const ResampleTables>, 2>;
BothWays resample_tables(const std::vector<Resize>& resizes, const ResizeMode& mode, bool with_gradient);
/// x [n, c, h, w] by the first of the tables.
Tensor resampled(const Tensor& x, const BothWays& tables);
inline Tensor resampled_images(const Tensor& x, const std::vector<Resize>& resizes, const ResizeMode& mode) {
  return resampled(x, resample_tables(resizes, mode, false));
}

// ---- on a GPU, and where a step is captured: both axes in one kernel, which works the neighbours out itself

/// Sizes below which a float counts places (generators/interpolation.cpp).
inline constexpr int64_t kMostPlaces = int64_t{1} << 20;

/// An axis as the kernels' scalars say it: output p is at p step + begin in units of 2^-32 of an element where it is
/// linear, else at floor((p + offset) scale). Of an element h, floor(h inverse + shift) is the first output that reads
/// it, or one before, and `terms` from there on are all.
struct Places {
  int64_t from, to;
  int64_t step = int64_t{1} << 32, begin = 0, terms = 1;
  double scale = 1, offset = 0.5, inverse = 1, shift = 0.25;

  explicit Places(int64_t size) : from(size), to(size) {}  ///< as it is
  Places(const Resize& r, const ResizeMode& mode);
};

struct Resizing {
  Places down, across;
  ResizeMode mode;
};

/// x [n, c, h, w] resized, or the gradient of what was.
Tensor resized(const Tensor& x, const Resizing& resizing, bool is_gradient);

}  // namespace ashlar
