// pad and the shuffles of pixels: copies between views, an axis after the other.
#include "ashlar/ops/images.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/reduction.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// What stands before and behind an axis of `size` elements.
struct Border {
  int axis;
  int64_t before, behind;
};

std::vector<Border> borders_of(const char* operation, int rank, const Shape& padding, bool may_crop) {
  if (padding.rank() % 2 != 0 || padding.rank() > 2 * rank) {
    throw ValueError(operation, "padding = " + padding.str() + " for a tensor of rank " + std::to_string(rank),
                     "two numbers for each of the last axes", "Give {left, right}, or {left, right, top, bottom}");
  }
  std::vector<Border> borders;
  for (int i = 0; i < padding.rank(); i += 2) {
    if (!may_crop && (padding[i] < 0 || padding[i + 1] < 0)) {
      throw ValueError(operation, "padding = " + padding.str(), "numbers of at least 0 in this mode",
                       "Crop with slice()");
    }
    borders.push_back({rank - 1 - i / 2, padding[i], padding[i + 1]});
  }
  return borders;
}

void check_border(const char* operation, const std::string& came, const Border& border, int64_t size, PadMode mode) {
  const int64_t most = mode == PadMode::reflect ? size - 1 : mode == PadMode::circular ? size : Tensor::kEnd;
  const bool needs_one = mode == PadMode::replicate && size == 0 && border.before + border.behind > 0;
  if (std::max(border.before, border.behind) <= most && !needs_one) return;
  throw ShapeError(operation, came, "less padding than elements along axis " + std::to_string(border.axis),
                   "Pad less, or several times");
}

/// The elements of x that stand before and behind it, and their places in x.
Tensor part_before(const Tensor& x, const Border& b, PadMode mode) {
  const int64_t n = x.size(b.axis);
  if (mode == PadMode::reflect) return x.slice(b.axis, 1, b.before + 1).flip(b.axis);
  if (mode == PadMode::replicate) return x.slice(b.axis, 0, 1);
  return x.slice(b.axis, n - b.before, n);
}
Tensor part_behind(const Tensor& x, const Border& b, PadMode mode) {
  const int64_t n = x.size(b.axis);
  if (mode == PadMode::reflect) return x.slice(b.axis, n - 1 - b.behind, n - 1).flip(b.axis);
  if (mode == PadMode::replicate) return x.slice(b.axis, n - 1, n);
  return x.slice(b.axis, 0, b.behind);
}

Tensor padded(const Tensor& x, const Border& border, PadMode mode) {
  const auto [axis, before, behind] = border;
  if (before == 0 && behind == 0) return x;
  const int64_t n = x.size(axis);
  check_border("pad", x.str(), border, n, mode);
  Shape shape = x.shape();
  shape[axis] = before + n + behind;
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const auto put = [&](int64_t first, int64_t count, const Tensor& part) {
    const Tensor place = y.slice(axis, first, first + count);
    if (count > 0) place.copy_(part.broadcast_to(place.shape()));
  };
  put(before, n, x);
  put(0, before, part_before(x, border, mode));
  put(before + n, behind, part_behind(x, border, mode));
  return y;
}

/// dx of padded().
Tensor gathered(const Tensor& dy, const Border& border, PadMode mode) {
  const auto [axis, before, behind] = border;
  if (before == 0 && behind == 0) return dy;
  const int64_t n = dy.size(axis) - before - behind;
  if (n < 0)
    throw ShapeError("pad_grad", dy.str(), "more elements than padding", "Give the gradient of pad()'s result");
  check_border("pad_grad", dy.str(), border, n, mode);
  const Tensor dx = dy.slice(axis, before, before + n).clone();
  if (dx.numel() == 0) return dx;
  const auto take = [&](const Tensor& place, int64_t first, int64_t count) {
    if (count == 0) return;
    const Tensor part = dy.slice(axis, first, first + count);
    place.copy_(add(place, mode == PadMode::replicate ? sum(part, {axis}, true) : part));
  };
  if (before > 0) take(part_before(dx, border, mode), 0, before);
  if (behind > 0) take(part_behind(dx, border, mode), before + n, behind);
  return dx;
}

void check_defined(const char* operation, const Tensor& x) {
  if (!x.defined()) throw ValueError(operation, "an undefined tensor", "a tensor with elements", "Give one");
}

}  // namespace

Tensor pad(const Tensor& x, const Axes& padding, PadMode mode, double value) try {
  check_defined("pad", x);
  const std::vector<Border> borders = borders_of("pad", x.rank(), padding, mode == PadMode::constant);
  if (mode != PadMode::constant) {
    Tensor y = x;
    for (const Border& border : borders) y = padded(y, border, mode);
    return y.storage() == x.storage() ? y.clone() : y;
  }
  Shape shape = x.shape();
  Tensor from = x;
  for (const auto& [axis, before, behind] : borders) {
    const int64_t n = shape[axis];
    shape[axis] = n + before + behind;
    if (shape[axis] < 0) {
      throw ShapeError("pad", x.str() + ", padding = " + padding.str(), "at least as many elements as are cropped",
                       "Crop less");
    }
    const int64_t first = std::min(n, std::max<int64_t>(-before, 0));
    from = from.slice(axis, first, std::max(first, std::min(n, n + behind)));
  }
  const Tensor y = Tensor::full(shape, value, x.dtype(), x.device());
  Tensor to = y;
  for (const auto& [axis, before, behind] : borders) {
    const int64_t first = std::min(shape[axis], std::max<int64_t>(before, 0));
    to = to.slice(axis, first, first + from.size(axis));
  }
  if (to.numel() > 0) to.copy_(from);
  return y;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("pad");
}

Tensor pad_grad(const Tensor& dy, const Axes& padding, PadGradMode mode) try {
  check_defined("pad_grad", dy);
  const auto as_pad = static_cast<PadMode>(mode);
  std::vector<Border> borders = borders_of("pad_grad", dy.rank(), padding, as_pad == PadMode::constant);
  if (as_pad == PadMode::constant) {
    Shape opposite = padding;
    for (int i = 0; i < opposite.rank(); i++) opposite[i] = -opposite[i];
    return pad(dy, opposite);
  }
  std::reverse(borders.begin(), borders.end());
  Tensor dx = size_of(dy.dtype()) == 2 ? dy.to(DType::f32) : dy;  // rounded once
  for (const Border& border : borders) dx = gathered(dx, border, as_pad);
  dx = dx.to(dy.dtype());
  return dx.storage() == dy.storage() ? dx.clone() : dx;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("pad_grad");
}

namespace {

/// [rows, a, b, c, d, e] of x's elements with the axes in that order, in one copy.
Tensor shuffled(const char* operation, const Tensor& x, int64_t factor, bool is_inverse) {
  check_defined(operation, x);
  const int rank = x.rank();
  const bool fits =
      rank >= 3 && factor >= 1 &&
      (is_inverse ? x.size(-2) % factor == 0 && x.size(-1) % factor == 0 : x.size(-3) % (factor * factor) == 0);
  if (!fits) {
    throw ShapeError(operation, x.str() + ", factor " + std::to_string(factor),
                     is_inverse ? "[…, c, h, w] whose height and width the factor divides"
                                : "[…, c, h, w] whose channels the square of the factor divides",
                     "Check the factor");
  }
  Shape shape = x.shape();
  int64_t images = 1;
  for (int i = 0; i + 3 < rank; i++) images *= shape[i];
  int64_t& c = shape[rank - 3];
  int64_t& h = shape[rank - 2];
  int64_t& w = shape[rank - 1];
  const int64_t r = factor;
  Tensor y;
  if (is_inverse) {
    h /= r;
    w /= r;
    y = x.reshape({images, c, h, r, w, r}).permute({0, 1, 3, 5, 2, 4});
    c *= r * r;
  } else {
    c /= r * r;
    y = x.reshape({images, c, r, r, h, w}).permute({0, 1, 4, 2, 5, 3});
    h *= r;
    w *= r;
  }
  return y.clone().reshape(shape);
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor) try {
  return shuffled("pixel_shuffle", x, upscale_factor, false);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("pixel_shuffle");
}

Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor) try {
  return shuffled("pixel_unshuffle", x, downscale_factor, true);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("pixel_unshuffle");
}

}  // namespace ashlar
