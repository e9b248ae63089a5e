#include "nn/modules/upsample.h"

#include <algorithm>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// An axis that is to have `to` elements in place of `from`, of which one stands for `scale`.
struct Resize {
  int axis;
  int64_t from, to;
  double scale;
  bool is_whole;  ///< to is a multiple of from, and the scale says so, too
};

/// 0, 1, …, count - 1 in f32, made on the device.
Tensor places(int64_t count, Device device) {
  return ashlar::affine(ashlar::cumsum(Tensor::ones({count}, DType::f32, device)), 1, -1);
}

Tensor as_index(const Tensor& places, int64_t size) {
  return ashlar::clamp(places, 0, static_cast<double>(size - 1)).to(DType::i64);
}

Var repeated(const Var& x, const Resize& r) {
  Shape apart = x.shape(), whole = x.shape();
  apart.insert(r.axis + 1, r.to / r.from);
  whole[r.axis] = r.to;
  return x.unsqueeze(r.axis + 1).broadcast_to(apart).reshape(whole);
}

Var nearest(const Var& x, const Resize& r) {
  if (r.is_whole) return repeated(x, r);
  const Tensor at = ashlar::floor(ashlar::affine(places(r.to, x.device()), r.scale, 0));
  return ad::index_select(x, as_index(at, r.from), r.axis);
}

Var linear(const Var& x, const Resize& r, bool align_corners) {
  const Tensor at =
      align_corners ? ashlar::affine(places(r.to, x.device()),
                                     r.to > 1 ? static_cast<double>(r.from - 1) / static_cast<double>(r.to - 1) : 0, 0)
                    : ashlar::relu(ashlar::affine(places(r.to, x.device()), r.scale, r.scale / 2 - 0.5));
  const Tensor before = ashlar::floor(at), behind = ashlar::affine(before, 1, 1);
  Shape along = Shape::filled(x.rank() - r.axis, 1);
  along[0] = r.to;
  const Tensor weight = ashlar::sub(at, before).reshape(along);
  return ad::lerp(ad::index_select(x, as_index(before, r.from), r.axis),
                  ad::index_select(x, as_index(behind, r.from), r.axis), weight)
      .to(x.dtype());
}

}  // namespace

Var interpolate(const Var& x, const InterpolateOptions& options) try {
  const int axes = x.rank() - 2;
  const auto sizes = static_cast<size_t>(options.size.rank()), factors = options.scale_factor.size();
  const size_t given = std::max(sizes, factors);
  const bool fits = axes >= 1 && axes <= 3 && (sizes == 0) != (factors == 0) &&
                    (given == 1 || given == static_cast<size_t>(axes)) &&
                    (options.mode == Interpolation::linear || !options.align_corners);
  std::vector<Resize> resizes;
  bool is_positive = true;
  for (int i = 0; fits && i < axes; i++) {
    const size_t at = given == 1 ? 0 : static_cast<size_t>(i);
    Resize r{i + 2, x.size(i + 2), 0, 0, false};
    if (sizes > 0) {
      r.to = options.size[static_cast<int>(at)];
      r.scale = static_cast<double>(r.from) / static_cast<double>(r.to);
      r.is_whole = r.from > 0 && r.to % r.from == 0;
    } else {
      const double factor = options.scale_factor[at];
      r.to = factor > 0 ? static_cast<int64_t>(std::floor(static_cast<double>(r.from) * factor)) : 0;
      r.scale = 1 / factor;
      r.is_whole = factor == std::floor(factor);
    }
    is_positive = is_positive && r.from > 0 && r.to > 0;
    resizes.push_back(r);
  }
  if (!fits || !is_positive) {
    throw ValueError("interpolate",
                     x.value().str() + ", size " + options.size.str() + ", " + std::to_string(factors) + " factors" +
                         (options.align_corners ? ", align_corners" : ""),
                     "x [n, c, one to three sizes] and a positive size or factor for all or each of these",
                     "Give size or scale_factor; align_corners belongs to linear");
  }
  Var y = x;
  for (const Resize& r : resizes) {
    if (r.to == r.from && r.scale == 1) continue;
    y = options.mode == Interpolation::nearest ? nearest(y, r) : linear(y, r, options.align_corners);
  }
  return y;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("interpolate");
}

}  // namespace ashlar::nn
