#include "operators/interpolation.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ashlar/ops/interpolation.h"
#include "runtime/forms/carrier.h"
#include "runtime/forms/check.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

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

Neighbours neighbours_of(const Resize& r, const ResizeMode& mode) {
  Neighbours n;
  n.terms = mode.is_linear ? 2 : 1;
  for (int64_t p = 0; p < r.to; p++) {
    if (!mode.is_linear) {
      const auto at = std::floor(static_cast<float>(p) * static_cast<float>(r.scale));  // PyTorch's, rounded as there
      n.push_back(r.is_whole ? p / (r.to / r.from) : std::min(static_cast<int64_t>(at), r.from - 1), {1});
      continue;
    }
    const double step = mode.align_corners
                            ? static_cast<double>(r.from - 1) / static_cast<double>(std::max<int64_t>(r.to - 1, 1))
                            : r.scale;
    const double at =
        mode.align_corners ? static_cast<double>(p) * step : std::max(0.0, (static_cast<double>(p) + 0.5) * step - 0.5);
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

}  // namespace

/// A kernel's tables of both axes.
struct ResampleTables {
  std::array<int64_t, 2> size;
  int64_t times = 0;  ///< y is each element twice along a row, and each row so many times; 0: it isn't
  std::vector<Tensor> inputs;

  ResampleTables(const Neighbours& down, const Neighbours& across, int64_t rows, int64_t columns)
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

BothWays resample_tables(const std::vector<Resize>& resizes, const ResizeMode& mode, bool with_gradient) {
  const Neighbours down = neighbours_of(resizes[0], mode), across = neighbours_of(resizes[1], mode);
  const int64_t rows = resizes[0].from, columns = resizes[1].from;
  BothWays tables{std::make_shared<ResampleTables>(down, across, rows, columns), nullptr};
  if (with_gradient) {
    tables[1] = std::make_shared<ResampleTables>(turned(down, rows), turned(across, columns),
                                                 static_cast<int64_t>(down.first.size()),
                                                 static_cast<int64_t>(across.first.size()));
  }
  return tables;
}

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

Places::Places(const Resize& r, const ResizeMode& mode) : from(r.from), to(r.to) {
  const int64_t times = r.is_whole ? r.to / r.from : 0;
  if (!mode.is_linear) {
    scale = r.is_whole ? 1 / static_cast<double>(times) : r.scale;
    offset = r.is_whole ? 0.5 : 0;
    inverse = 1 / scale;
    shift = 0.5 - offset;
    terms = r.is_whole ? times : static_cast<int64_t>(inverse) + 2;
  } else {
    scale = mode.align_corners ? static_cast<double>(from - 1) / static_cast<double>(std::max<int64_t>(to - 1, 1))
                               : r.scale;
    const double first = mode.align_corners ? 0 : scale / 2 - 0.5;
    step = std::llround(scale * 0x1p32);
    begin = std::llround(first * 0x1p32);
    inverse = scale > 0 ? 1 / scale : 0;
    shift = 0.75 - (1 + first) * inverse;
    const bool is_even = r.is_whole && !mode.align_corners;
    terms = scale == 0 ? to : is_even ? 2 * times : static_cast<int64_t>(2 * inverse) + 2;
  }
  terms = std::min(terms, to);
}

namespace {

std::vector<Scalar> scalars_of(const Resizing& r, bool is_gradient) {
  std::vector<Scalar> all{r.down.step, r.across.step, r.down.begin, r.across.begin};
  const auto both = [&](double Places::*number) {
    for (const Places* axis : {&r.down, &r.across}) all.emplace_back(axis->*number);
  };
  for (auto number : {&Places::scale, &Places::offset}) both(number);
  if (!is_gradient) return all;
  for (auto number : {&Places::inverse, &Places::shift}) both(number);
  for (const Places* axis : {&r.down, &r.across}) all.emplace_back(axis->terms);
  return all;
}

}  // namespace

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
    const auto variant = static_cast<uint16_t>(r.mode.is_linear);
    launch(kernel, {.elements = {DType::f32}, .variant = variant}, inputs, scalars_of(r, is_gradient),
           std::span(&out, 1));
  }
  return y.to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("interpolate");
}

std::vector<Resize> resizes_of(const Tensor& x, const Shape& size, std::span<const double> factors,
                               const ResizeMode& mode) {
  const int axes = x.rank() - 2;
  const auto sizes = static_cast<size_t>(size.rank()), count = factors.size();
  const size_t given = std::max(sizes, count);
  const bool fits = axes >= 1 && axes <= 3 && (sizes == 0) != (count == 0) &&
                    (given == 1 || given == static_cast<size_t>(axes)) && (mode.is_linear || !mode.align_corners);
  std::vector<Resize> resizes;
  bool is_positive = true;
  for (int i = 0; fits && i < axes; i++) {
    const size_t at = given == 1 ? 0 : static_cast<size_t>(i);
    Resize r{i + 2, x.size(i + 2), 0, 0, false};
    if (sizes > 0) {
      r.to = size[static_cast<int>(at)];
      r.scale = static_cast<double>(r.from) / static_cast<double>(r.to);
      r.is_whole = r.from > 0 && r.to % r.from == 0;
    } else {
      const double factor = factors[at];
      r.to = factor > 0 ? static_cast<int64_t>(std::floor(static_cast<double>(r.from) * factor)) : 0;
      r.scale = 1 / factor;
      r.is_whole = factor == std::floor(factor);
    }
    is_positive = is_positive && r.from > 0 && r.to > 0;
    resizes.push_back(r);
  }
  if (!fits || !is_positive) {
    throw ValueError("interpolate",
                     x.str() + ", size " + size.str() + ", " + std::to_string(count) + " factors" +
                         (mode.align_corners ? ", align_corners" : ""),
                     "x [n, c, one to three sizes] and a positive size or factor for all or each of these",
                     "Give size or scale_factor; align_corners belongs to linear");
  }
  return resizes;
}

}  // namespace ashlar
