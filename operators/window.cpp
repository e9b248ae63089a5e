#include "operators/window.h"

#include <algorithm>

#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar {

Pair pair_of(const char* operation, const char* name, const Shape& given, int64_t otherwise, int64_t least) {
  if (given.rank() > 2) {
    throw ValueError(operation, std::string(name) + " = " + given.str(), "one number, or one for each axis of an image",
                     "Give it as {height, width}");
  }
  const Pair pair = given.empty() ? Pair{otherwise, otherwise} : Pair{given[0], given.back()};
  if (pair[0] < least || pair[1] < least) {
    throw ValueError(operation, std::string(name) + " = " + given.str(), "at least " + std::to_string(least),
                     "Correct the argument");
  }
  return pair;
}

int64_t Window::outputs(const char* operation, int axis, int64_t size) const {
  constexpr int64_t kMost = int64_t{1} << 21;
  const int64_t padded = size + 2 * padding[axis];
  if (padded >= kMost || extent(axis) >= kMost || stride[axis] >= kMost) {
    throw ValueError(operation, "an image of " + std::to_string(padded) + " along axis " + std::to_string(axis - 2),
                     "sizes, windows and strides below 2^21", "Cut the image into parts");
  }
  if (padded < extent(axis)) {
    throw ShapeError(operation,
                     "a window over " + std::to_string(extent(axis)) + " elements of an axis of " +
                         std::to_string(size) + ", padded to " + std::to_string(padded),
                     "a window that fits", "Pad more, or take a smaller window");
  }
  return (padded - extent(axis)) / stride[axis] + 1;
}

void check_groups(const char* operation, int64_t groups, int64_t channels, const std::string& came) {
  if (groups < 1 || channels % groups != 0) {
    throw ValueError(operation, std::to_string(groups) + " groups for " + came, "groups that divide the channels",
                     "Set groups to a divisor of both numbers of channels");
  }
}

Window window_of(const char* operation, const Pair& taps, const Shape& stride, const Shape& padding,
                 const Shape& dilation) {
  Window window;
  window.taps = taps;
  window.stride = pair_of(operation, "stride", stride, 1, 1);
  window.padding = pair_of(operation, "padding", padding, 0, 0);
  window.dilation = pair_of(operation, "dilation", dilation, 1, 1);
  return window;
}

Pooling::Pooling(const char* operation, const Shape& kernel_size, const Shape& stride, const Shape& padding,
                 const Shape& dilation, bool ceil)
    : ceil_mode(ceil) {
  if (kernel_size.empty()) {
    throw ValueError(operation, "no kernel_size", "the size of the window", "Give it as {height, width}");
  }
  const Pair taps = pair_of(operation, "kernel_size", kernel_size, 1, 1);
  window = window_of(operation, taps, stride.empty() ? Shape{taps[0], taps[1]} : stride, padding, dilation);
  for (int axis = 0; axis < 2; axis++) {
    if (2 * window.padding[axis] <= window.extent(axis)) continue;
    throw ValueError(operation, "padding = " + padding.str() + " for windows of " + kernel_size.str(),
                     "at most half a window", "Pad less, or call pad() first");
  }
}

int64_t Pooling::outputs(const char* operation, int axis, int64_t size) const {
  const int64_t whole = window.outputs(operation, axis, size);
  if (!ceil_mode) return whole;
  const int64_t step = window.stride[axis], padding = window.padding[axis];
  const bool is_rest = (size + 2 * padding - window.extent(axis)) % step != 0;
  return is_rest && whole * step < size + padding ? whole + 1 : whole;
}

AdaptiveAxis::AdaptiveAxis(const char* operation, int64_t size, int64_t outputs) {
  if (size < 1 || outputs < 1 || size >= (int64_t{1} << 21) / outputs) {
    throw ValueError(operation, std::to_string(outputs) + " outputs of " + std::to_string(size) + " elements",
                     "positive numbers whose product is below 2^21", "Cut the image, or pool in two steps");
  }
  const auto start = [&](int64_t p) { return p * size / outputs; };
  const auto end = [&](int64_t p) { return detail::over((p + 1) * size, outputs); };
  for (int64_t p = 0; p < outputs; p++) taps = std::max(taps, end(p) - start(p));
  for (int64_t h = 0; h < size; h++) {
    candidates = std::max(candidates, detail::over((h + 1) * outputs, size) - h * outputs / size);
  }
}

Tensor as_images(const char* operation, const Tensor& x) {
  if (!x.defined()) {
    throw ValueError(operation, "an undefined tensor", "a tensor with elements", "Give one for each input");
  }
  if (x.rank() == 4) return x;
  if (x.rank() == 3) return x.unsqueeze(0);
  throw ShapeError(operation, x.str(), "images [n, c, h, w], or one [c, h, w]", "Use reshape() or unsqueeze()");
}

Tensor without_batch_unless(const Tensor& y, bool has_batch) { return has_batch ? y : y.squeeze(0); }

}  // namespace ashlar
