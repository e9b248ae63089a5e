// Other sizes of images, and of what has one or three axes behind its channels.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/cumsum.h"
#include "ashlar/ops/gather.h"
#include "ashlar/ops/interpolation.h"
#include "ashlar/ops/maths.h"
#include "ashlar/ops/ternary.h"
#include "ashlar/ops/unary.h"
#include "operators/composed/values.h"
#include "operators/interpolation.h"
#include "runtime/graph/graph.h"

namespace ashlar::composed {

/// 0, 1, …, count - 1 in f32, made on the device.
inline Tensor places(int64_t count, Device device) {
  return ashlar::affine(ashlar::cumsum(Tensor::ones({count}, DType::f32, device)), 1, -1);
}

inline Tensor as_index(const Tensor& places, int64_t size) {
  return ashlar::clamp(places, 0, static_cast<double>(size - 1)).to(DType::i64);
}

template <class T>
T repeated(const T& x, const Resize& r) {
  Shape apart = x.shape(), whole = x.shape();
  apart.insert(r.axis + 1, r.to / r.from);
  whole[r.axis] = r.to;
  return x.unsqueeze(r.axis + 1).broadcast_to(apart).reshape(whole);
}

template <class T>
T nearest(const T& x, const Resize& r) {
  if (r.is_whole) return repeated(x, r);
  const Tensor at = ashlar::floor(ashlar::affine(places(r.to, x.device()), r.scale, 0));
  return index_select(x, as_index(at, r.from), r.axis);
}

template <class T>
T between(const T& given, const Resize& r, bool align_corners) {
  const T x = size_of(given.dtype()) == 2 ? T(given.to(DType::f32)) : given;
  const Tensor at =
      align_corners ? ashlar::affine(places(r.to, x.device()),
                                     r.to > 1 ? static_cast<double>(r.from - 1) / static_cast<double>(r.to - 1) : 0, 0)
                    : ashlar::relu(ashlar::affine(places(r.to, x.device()), r.scale, r.scale / 2 - 0.5));
  const Tensor before = ashlar::floor(at), behind = ashlar::affine(before, 1, 1);
  Shape along = Shape::filled(x.shape().rank() - r.axis, 1);
  along[0] = r.to;
  const Tensor weight = ashlar::sub(at, before).reshape(along);
  return T(lerp(index_select(x, as_index(before, r.from), r.axis), index_select(x, as_index(behind, r.from), r.axis),
                T(weight)))
      .to(given.dtype());
}

/// x [n, c, sizes…] with these sizes. Images (two sizes) of floats, f64 aside, have kernels of their own. Elsewhere
/// whole factors of nearest are copies, and the others read by index_select(), so that gradients are added up in the
/// same order every time; indices are made on the device.
template <class T>
T interpolated(const T& x, const std::vector<Resize>& resizes, const ResizeMode& mode) {
  if (resizes.size() == 2 && is_floating(x.dtype()) && x.dtype() != DType::f64) {
    // Tables come from the host, which a capture can't repeat.
    if (x.device().kind == DeviceKind::cpu && !is_capturing(x.device())) return resampled_images(x, resizes, mode);
    const bool fits_floats =
        std::ranges::all_of(resizes, [](const Resize& r) { return r.from < kMostPlaces && r.to < kMostPlaces; });
    if (fits_floats) return resized(x, {Places(resizes[0], mode), Places(resizes[1], mode), mode}, false);
  }
  T y = x;
  for (const Resize& r : resizes) {
    if (r.to == r.from && r.scale == 1) continue;
    y = mode.is_linear ? between(y, r, mode.align_corners) : nearest(y, r);
  }
  return y;
}

template <class T>
T interpolate(const T& x, const Axes& size, InterpolateMode mode, bool align_corners, double scale_factor) {
  const ResizeMode how{mode != InterpolateMode::nearest, align_corners};
  const int axes = x.shape().rank() - 2;
  if (how.is_linear && axes != static_cast<int>(mode) - static_cast<int>(InterpolateMode::linear) + 1) {
    throw ValueError("interpolate", shown(x) + " in a linear mode for another number of axes",
                     "linear of one size behind the channels, bilinear of two, trilinear of three",
                     "Choose the mode for x's axes");
  }
  const std::span<const double> factors(&scale_factor, scale_factor != 0 ? 1 : 0);
  return interpolated(x, resizes_of(value_of(x), size, factors, how), how);
}

}  // namespace ashlar::composed
