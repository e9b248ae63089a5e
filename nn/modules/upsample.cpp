#include "nn/modules/upsample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/node.h"
#include "runtime/forms/carrier.h"
#include "runtime/forms/check.h"
#include "runtime/graph/graph.h"
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

// ---- on the CPU: both axes of images in one kernel (generators/interpolation.cpp), by tables of the neighbours

/// What the outputs along an axis are sums of: `count` elements from `first` on, each with its weight.
struct Neighbours {
  std::vector<int32_t> first, count;
  std::vector<float> weights;  ///< `terms` of each output
  int64_t terms = 1;

  void push_back(int64_t at, std::initializer_list<double> of) {
    first.push_back(static_cast<int32_t>(at));
    count.push_back(static_cast<int32_t>(of.size()));
    weights.resize(first.size() * static_cast<size_t>(terms));
    std::ranges::copy(of, weights.end() - static_cast<std::ptrdiff_t>(terms));
  }
};

Neighbours neighbours_of(const Resize& r, Interpolation mode, bool align_corners) {
  Neighbours n;
  n.terms = mode == Interpolation::linear ? 2 : 1;
  for (int64_t p = 0; p < r.to; p++) {
    if (mode == Interpolation::nearest) {
      const auto at = std::floor(static_cast<float>(p) * static_cast<float>(r.scale));  // PyTorch's, rounded as there
      n.push_back(r.is_whole ? p / (r.to / r.from) : std::min(static_cast<int64_t>(at), r.from - 1), {1});
      continue;
    }
    const double step =
        align_corners ? static_cast<double>(r.from - 1) / static_cast<double>(std::max<int64_t>(r.to - 1, 1)) : r.scale;
    const double at =
        align_corners ? static_cast<double>(p) * step : std::max(0.0, (static_cast<double>(p) + 0.5) * step - 0.5);
    const auto before = static_cast<int64_t>(at);
    const double weight = at - static_cast<double>(before);
    if (before >= r.from - 1) {
      n.push_back(r.from - 1, {1});
    } else {
      n.push_back(before, {1 - weight, weight});
    }
  }
  return n;
}

/// The same numbers the other way round: what each of `size` elements gives to which outputs, which stand side by side.
Neighbours turned(const Neighbours& n, int64_t size) {
  Neighbours back;
  back.first.resize(static_cast<size_t>(size));
  back.count.resize(static_cast<size_t>(size));
  const auto for_each = [&](auto f) {
    for (size_t p = 0; p < n.first.size(); p++) {
      for (int32_t i = 0; i < n.count[p]; i++) f(p, static_cast<size_t>(n.first[p] + i), static_cast<size_t>(i));
    }
  };
  for_each([&](size_t p, size_t h, size_t) {
    if (back.count[h]++ == 0) back.first[h] = static_cast<int32_t>(p);
    back.terms = std::max<int64_t>(back.terms, back.count[h]);
  });
  const auto terms = static_cast<size_t>(back.terms);
  back.weights.resize(static_cast<size_t>(size) * terms);
  for_each([&](size_t p, size_t h, size_t i) {
    back.weights[h * terms + p - static_cast<size_t>(back.first[h])] = n.weights[p * static_cast<size_t>(n.terms) + i];
  });
  return back;
}

/// Whether outputs along an axis are each element `times` times.
bool repeats(const Neighbours& n, int64_t times) {
  for (size_t p = 0; p < n.first.size(); p++) {
    if (n.count[p] != 1 || n.weights[p * static_cast<size_t>(n.terms)] != 1 ||
        n.first[p] != static_cast<int64_t>(p) / times) {
      return false;
    }
  }
  return true;
}

/// A kernel's tables of both axes.
struct Tables {
  std::array<int64_t, 2> size;
  int64_t times = 0;  ///< y is each element twice along a row, and each row so many times; 0: it isn't
  std::vector<Tensor> inputs;

  Tables(const Neighbours& down, const Neighbours& across, int64_t rows, int64_t columns)
      : size{static_cast<int64_t>(down.first.size()), static_cast<int64_t>(across.first.size())} {
    if (size[1] == 2 * columns && size[0] % rows == 0 && repeats(across, 2) && repeats(down, size[0] / rows)) {
      times = size[0] / rows;
      return;
    }
    for (const Neighbours* n : {&down, &across}) {
      const auto count = static_cast<int64_t>(n->first.size());
      const Tensor weights = Tensor::from(n->weights, {count, n->terms});
      for (const auto* numbers : {&n->first, &n->count}) inputs.push_back(Tensor::from(*numbers, {count}));
      inputs.push_back(n == &down ? weights : weights.transpose(0, 1).contiguous());
    }
  }
};

/// The tables of a call and of its gradient.
using BothWays = std::array<std::shared_ptr<const Tables>, 2>;

Tensor resampled(const Tensor& x, const BothWays& tables) try {
  const auto& [high, wide] = tables[0]->size;
  const Tensor images = x.to(DType::f32), y = Tensor::empty({x.size(0), x.size(1), high, wide}, DType::f32);
  if (y.numel() == 0) return y.to(x.dtype());
  const Shape planes_of_x{x.size(0) * x.size(1), x.size(2), x.size(3)};
  if (tables[0]->times > 0) {
    const std::array inputs{forms::as_carrier(forms::as_declared(kernels::double_planes, 0, images, planes_of_x))};
    const Tensor pairs(y.storage(), {planes_of_x[0], high, x.size(3)}, {high * x.size(3), x.size(3), 1}, 0, DType::i64);
    const std::array<Scalar, 1> times{tables[0]->times};
    launch(kernels::double_planes, {.elements = {DType::i64}}, inputs, times, std::span(&pairs, 1));
    return y.to(x.dtype());
  }
  const KernelInfo& kernel = kernels::resample_planes;
  std::vector inputs{forms::as_declared(kernel, 0, images, planes_of_x)};
  inputs.insert(inputs.end(), tables[0]->inputs.begin(), tables[0]->inputs.end());
  const Tensor planes = y.reshape({planes_of_x[0], high, wide});
  launch(kernel, {.elements = {DType::f32}}, inputs, {}, std::span(&planes, 1));
  return y.to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("interpolate");
}
Var resampled(const Var& x, const BothWays& tables) {
  return record(
      "interpolate", {x}, resampled(x.value(), tables),
      [back = BothWays{tables[1], tables[0]}](const auto& pass) { return pass.gradients(resampled(pass.dy(), back)); });
}

Var of_images(const Var& x, const std::vector<Resize>& resizes, const InterpolateOptions& options) {
  const Neighbours down = neighbours_of(resizes[0], options.mode, options.align_corners),
                   across = neighbours_of(resizes[1], options.mode, options.align_corners);
  BothWays tables{std::make_shared<Tables>(down, across, x.size(2), x.size(3)), nullptr};
  if (!x.requires_grad()) return resampled(x.value(), tables);
  tables[1] = std::make_shared<Tables>(turned(down, x.size(2)), turned(across, x.size(3)), down.first.size(),
                                       across.first.size());
  return resampled(x, tables);
}

// ---- on a GPU, and where a step is captured: both axes in one kernel, which works the neighbours out itself

// Sizes below which a float counts places (generators/interpolation.cpp).
constexpr int64_t kMostPlaces = int64_t{1} << 20;

/// An axis as the kernels' scalars say it: output p is at p step + begin in units of 2^-32 of an element where it is
/// linear, else at floor((p + offset) scale). Of an element h, floor(h inverse + shift) is the first output that reads
/// it, or one before, and `terms` from there on are all.
struct Places {
  int64_t from, to;
  int64_t step = int64_t{1} << 32, begin = 0, terms = 1;
  double scale = 1, offset = 0.5, inverse = 1, shift = 0.25;

  explicit Places(int64_t size) : from(size), to(size) {}  ///< as it is
  Places(const Resize& r, Interpolation mode, bool align_corners) : from(r.from), to(r.to) {
    const int64_t times = r.is_whole ? r.to / r.from : 0;
    if (mode == Interpolation::nearest) {
      scale = r.is_whole ? 1 / static_cast<double>(times) : r.scale;
      offset = r.is_whole ? 0.5 : 0;
      inverse = 1 / scale;
      shift = 0.5 - offset;
      terms = r.is_whole ? times : static_cast<int64_t>(inverse) + 2;
    } else {
      scale =
          align_corners ? static_cast<double>(from - 1) / static_cast<double>(std::max<int64_t>(to - 1, 1)) : r.scale;
      const double first = align_corners ? 0 : scale / 2 - 0.5;
      step = std::llround(scale * 0x1p32);
      begin = std::llround(first * 0x1p32);
      inverse = scale > 0 ? 1 / scale : 0;
      shift = 0.75 - (1 + first) * inverse;
      const bool is_even = r.is_whole && !align_corners;
      terms = scale == 0 ? to : is_even ? 2 * times : static_cast<int64_t>(2 * inverse) + 2;
    }
    terms = std::min(terms, to);
  }
};

struct Resizing {
  Places down, across;
  Interpolation mode;

  std::vector<Scalar> scalars(bool is_gradient) const {
    std::vector<Scalar> all{down.step, across.step, down.begin, across.begin};
    const auto both = [&](double Places::*number) {
      for (const Places* axis : {&down, &across}) all.emplace_back(axis->*number);
    };
    for (auto number : {&Places::scale, &Places::offset}) both(number);
    if (!is_gradient) return all;
    for (auto number : {&Places::inverse, &Places::shift}) both(number);
    for (const Places* axis : {&down, &across}) all.emplace_back(axis->terms);
    return all;
  }
};

/// interpolate() of images, or its gradient.
Tensor resized(const Tensor& x, const Resizing& r, bool is_gradient) try {
  constexpr int64_t kTermsAtOnce = 16;
  if (is_gradient && r.down.terms > 1 && r.across.terms > 1 && r.down.terms * r.across.terms > kTermsAtOnce) {
    const Tensor columns = resized(x.to(DType::f32), {r.down, Places(r.across.to), r.mode}, true);
    return resized(columns, {Places(r.down.from), r.across, r.mode}, true).to(x.dtype());
  }
  const KernelInfo& kernel = is_gradient ? kernels::resize_planes_grad : kernels::resize_planes;
  const int64_t high = is_gradient ? r.down.from : r.down.to, wide = is_gradient ? r.across.from : r.across.to;
  const Tensor y = Tensor::empty({x.size(0), x.size(1), high, wide}, DType::f32, x.device());
  if (y.numel() > 0) {
    const int64_t planes = x.size(0) * x.size(1);
    const std::array inputs{forms::as_declared(kernel, 0, x.to(DType::f32), {planes, x.size(2), x.size(3)})};
    const Tensor out = y.reshape({planes, high, wide});
    const auto variant = static_cast<uint16_t>(r.mode == Interpolation::linear);
    launch(kernel, {.elements = {DType::f32}, .variant = variant}, inputs, r.scalars(is_gradient), std::span(&out, 1));
  }
  return y.to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("interpolate");
}
Var resized(const Var& x, const Resizing& r, bool is_gradient) {
  return record("interpolate", {x}, resized(x.value(), r, is_gradient),
                [r, is_gradient](const auto& pass) { return pass.gradients(resized(pass.dy(), r, !is_gradient)); });
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
  if (axes == 2 && is_floating(x.dtype()) && x.dtype() != DType::f64) {
    // Tables come from the host, which a capture can't repeat.
    if (x.device().kind == DeviceKind::cpu && !is_capturing(x.device())) return of_images(x, resizes, options);
    const bool fits_floats =
        std::ranges::all_of(resizes, [](const Resize& r) { return r.from < kMostPlaces && r.to < kMostPlaces; });
    if (fits_floats) {
      const auto along = [&](size_t i) { return Places(resizes[i], options.mode, options.align_corners); };
      return resized(x, {along(0), along(1), options.mode}, false);
    }
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
