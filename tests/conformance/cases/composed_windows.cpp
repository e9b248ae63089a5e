// Pools, convolutions and resizing over one, two and three axes, composed of those over images: straight loops over any
// number of axes.
#include <algorithm>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/composed.h"

namespace ashlar::conformance {
namespace {

/// The elements that an output reads along an axis, each with its weight; `count`: what an average divides by.
struct Reads {
  std::vector<std::pair<int64_t, double>> places;
  int64_t count = 1;
};
using Axis = std::vector<Reads>;

Axis sliding(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation) {
  Axis axis;
  const int64_t reach = dilation * (taps - 1) + 1;
  for (int64_t start = -padding; start + reach <= size + padding; start += stride) {
    Reads reads{{}, taps};
    for (int64_t at = start; at < start + reach; at += dilation) {
      if (at >= 0 && at < size) reads.places.emplace_back(at, 1);
    }
    axis.push_back(reads);
  }
  return axis;
}

Axis adaptive(int64_t size, int64_t outputs) {
  Axis axis;
  for (int64_t p = 0; p < outputs; p++) {
    const int64_t first = p * size / outputs, last = ((p + 1) * size + outputs - 1) / outputs;
    Reads reads{{}, last - first};
    for (int64_t at = first; at < last; at++) reads.places.emplace_back(at, 1);
    axis.push_back(reads);
  }
  return axis;
}

/// Calls f(output's place, its reads) for each output of planes [n, c, sizes…].
void for_each_output(const HostTensor& x, const std::vector<Axis>& axes, Expected& y,
                     const std::function<void(std::vector<std::pair<double, double>>& elements, int64_t count)>& f) {
  const auto first = x.shape.rank() - static_cast<int>(axes.size());
  y.shape = x.shape;
  for (size_t i = 0; i < axes.size(); i++) y.shape[first + static_cast<int>(i)] = static_cast<int64_t>(axes[i].size());
  const Shape strides = dense_strides(x.shape);
  for_each_index(y.shape, dense_strides(y.shape), [&](const Shape& at, int64_t) {
    std::vector<std::pair<int64_t, double>> offsets{{0, 1.0}};
    int64_t count = 1;
    for (int i = 0; i < first; i++) offsets[0].first += at[i] * strides[i];
    for (int i = first; i < at.rank(); i++) {
      const Reads& reads = axes[static_cast<size_t>(i - first)][static_cast<size_t>(at[i])];
      std::vector<std::pair<int64_t, double>> next;
      for (const auto& [offset, weight] : offsets) {
        for (const auto& [place, share] : reads.places) next.emplace_back(offset + place * strides[i], weight * share);
      }
      offsets = next;
      count *= reads.count;
    }
    std::vector<std::pair<double, double>> elements;
    for (const auto& [offset, weight] : offsets) elements.emplace_back(x.values[static_cast<size_t>(offset)], weight);
    f(elements, count);
  });
}

Expected maxima(const HostTensor& x, const std::vector<Axis>& axes) {
  Expected y;
  for_each_output(x, axes, y, [&](const auto& elements, int64_t) {
    double best = elements[0].first;
    for (const auto& [value, weight] : elements) best = std::max(best, value);
    y.values.push_back(best);
  });
  return y;
}

/// Σ weight |x|^p or of x itself, divided by the window's count or not, to the power 1/p.
Expected sums(const HostTensor& x, const std::vector<Axis>& axes, bool is_mean, double p = 1) {
  Expected y;
  for_each_output(x, axes, y, [&](const auto& elements, int64_t count) {
    double sum = 0, size = 0;
    for (const auto& [value, weight] : elements) {
      sum += weight * std::pow(value, p);
      size += std::abs(weight * std::pow(value, p));
    }
    const double scale = is_mean ? 1 / static_cast<double>(count) : 1;
    y.values.push_back(std::pow(sum * scale, 1 / p));
    y.magnitudes.push_back(4 * std::pow(size * scale, 1 / p));
  });
  return y;
}

const Values kPositive{.low = 0.5, .high = 2}, kDistinct{Pattern::distinct};

/// Windows of `taps` over the last axes of x, `stride` apart.
struct Pool {
  Shape x, taps, stride, padding;
  std::vector<Axis> axes(int64_t dilation = 1) const {
    std::vector<Axis> all;
    for (int i = 0; i < taps.rank(); i++) {
      all.push_back(sliding(x[x.rank() - taps.rank() + i], taps[i], stride[i], padding[i], dilation));
    }
    return all;
  }
};

void add_pools(const Pool& of) {
  const std::string name = of.x.str() + " by " + of.taps.str();
  const int axes = of.taps.rank();
  const Shape apart = Shape::filled(axes, 2), none = Shape::filled(axes, 0);
  const auto max_pool = [=](const auto& x, const Shape& dilation) {
    using namespace ad;
    return axes == 1   ? max_pool1d(x, of.taps, of.stride, of.padding, dilation)
           : axes == 2 ? max_pool2d(x, of.taps, of.stride, of.padding, dilation)
                       : max_pool3d(x, of.taps, of.stride, of.padding, dilation);
  };
  const std::string d = std::to_string(axes) + "d";
  for (const int64_t dilation : {1, 2}) {
    const Shape gaps = dilation == 1 ? Shape{} : apart;
    add_composed({"max_pool" + d,
                  name + (dilation == 1 ? "" : ", dilated"),
                  {{of.x, kDistinct}},
                  [=](Tensors in) { return max_pool(in[0], gaps); },
                  [=](Vars in) { return max_pool(in[0], gaps); },
                  [=](HostTensors in) { return maxima(in[0], of.axes(dilation)); }});
  }
  const auto lp_pool = [=](const auto& x, double p) {
    using namespace ad;
    return axes == 1   ? lp_pool1d(x, p, of.taps, of.stride)
           : axes == 2 ? lp_pool2d(x, p, of.taps, of.stride)
                       : lp_pool3d(x, p, of.taps, of.stride);
  };
  for (const double p : {2.0, 3.0}) {
    const Pool inside{of.x, of.taps, of.stride, none};
    add_composed(cancelling({"lp_pool" + d,
                             name + ", p = " + std::to_string(p),
                             {{of.x, kPositive}},
                             [=](Tensors in) { return lp_pool(in[0], p); },
                             [=](Vars in) { return lp_pool(in[0], p); },
                             [=](HostTensors in) { return sums(in[0], inside.axes(), false, p); }}));
  }
  if (axes == 2) return;  // avg_pool2d is a kernel's
  const auto avg_pool = [=](const auto& x) {
    using namespace ad;
    return axes == 1 ? avg_pool1d(x, of.taps, of.stride, of.padding) : avg_pool3d(x, of.taps, of.stride, of.padding);
  };
  add_composed({"avg_pool" + d,
                name,
                {{of.x}},
                [=](Tensors in) { return avg_pool(in[0]); },
                [=](Vars in) { return avg_pool(in[0]); },
                [=](HostTensors in) { return sums(in[0], of.axes(), true); }});
}

void add_adaptive_pools(const Shape& x, const Shape& outputs) {
  const std::string name = x.str() + " to " + outputs.str(), d = std::to_string(outputs.rank()) + "d";
  const int count = outputs.rank();
  std::vector<Axis> axes;
  for (int i = 0; i < count; i++) axes.push_back(adaptive(x[x.rank() - count + i], outputs[i]));
  const auto largest = [=](const auto& of) {
    using namespace ad;
    return count == 1   ? adaptive_max_pool1d(of, outputs)
           : count == 2 ? adaptive_max_pool2d(of, outputs)
                        : adaptive_max_pool3d(of, outputs);
  };
  add_composed({"adaptive_max_pool" + d,
                name,
                {{x, kDistinct}},
                [=](Tensors in) { return largest(in[0]); },
                [=](Vars in) { return largest(in[0]); },
                [=](HostTensors in) { return maxima(in[0], axes); }});
  if (count == 2) return;
  const auto means = [=](const auto& of) {
    using namespace ad;
    return count == 1 ? adaptive_avg_pool1d(of, outputs) : adaptive_avg_pool3d(of, outputs);
  };
  add_composed({"adaptive_avg_pool" + d,
                name,
                {{x}},
                [=](Tensors in) { return means(in[0]); },
                [=](Vars in) { return means(in[0]); },
                [=](HostTensors in) { return sums(in[0], axes, true); }});
}

// ---- convolutions of x [n, c, sizes…] and weight [out, in / groups, sizes…], or [in, out / groups, sizes…]

struct Convolved {
  Shape x, weight, stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool has_bias = true;
};

/// Adds every product of an element of the longer side and a tap of the window to f(n, channel, at, in's, out's).
Expected convolution(const Convolved& of, HostTensors in, bool is_transposed) {
  const HostTensor &x = in[0], &weight = in[1];
  const int axes = of.stride.rank();
  const int64_t in_channels = x.shape[1], out_channels = is_transposed ? weight.shape[1] * of.groups : weight.shape[0];
  Expected y{{x.shape[0], out_channels}, {}, {}};
  Shape taps;
  for (int i = 0; i < axes; i++) {
    taps.push_back(weight.shape[i + 2]);
    const int64_t size = x.shape[i + 2], reach = of.dilation[i] * (taps[i] - 1);
    y.shape.push_back(is_transposed ? (size - 1) * of.stride[i] - 2 * of.padding[i] + reach + 1 + of.output_padding[i]
                                    : (size + 2 * of.padding[i] - reach - 1) / of.stride[i] + 1);
  }
  y.values.assign(static_cast<size_t>(y.shape.numel()), 0);
  y.magnitudes = y.values;
  const Shape x_strides = dense_strides(x.shape), w_strides = dense_strides(weight.shape),
              y_strides = dense_strides(y.shape);
  // Of the two the one that windows step over has `near`'s places; the other, `far`, near stride - padding + tap gap.
  Shape near = is_transposed ? x.shape : y.shape;
  for_each_index(near, dense_strides(near), [&](const Shape& at, int64_t) {
    const int64_t near_channel = at[1];
    const int64_t group_size = (is_transposed ? in_channels : out_channels) / of.groups,
                  group = near_channel / group_size;
    const int64_t far_size = weight.shape[1];
    for (int64_t other = 0; other < far_size; other++) {
      for_each_index(taps, dense_strides(taps), [&](const Shape& tap, int64_t) {
        int64_t from = at[0] * (is_transposed ? y_strides[0] : x_strides[0]);
        const Shape& far_strides = is_transposed ? y_strides : x_strides;
        const Shape& far_shape = is_transposed ? y.shape : x.shape;
        from += (group * far_size + other) * far_strides[1];
        int64_t w = near_channel * w_strides[0] + other * w_strides[1];
        for (int i = 0; i < axes; i++) {
          const int64_t place = at[i + 2] * of.stride[i] - of.padding[i] + tap[i] * of.dilation[i];
          if (place < 0 || place >= far_shape[i + 2]) return;
          from += place * far_strides[i + 2];
          w += tap[i] * w_strides[i + 2];
        }
        int64_t own = 0;
        const Shape& near_strides = is_transposed ? x_strides : y_strides;
        for (int i = 0; i < at.rank(); i++) own += at[i] * near_strides[i];
        const int64_t read = is_transposed ? own : from, written = is_transposed ? from : own;
        const double term = x.values[static_cast<size_t>(read)] * weight.values[static_cast<size_t>(w)];
        y.values[static_cast<size_t>(written)] += term;
        y.magnitudes[static_cast<size_t>(written)] += std::abs(term);
      });
    }
  });
  if (of.has_bias) {
    size_t i = 0;
    for_each_index(y.shape, y_strides, [&](const Shape& at, int64_t) {
      y.values[i] += in[2].values[static_cast<size_t>(at[1])];
      y.magnitudes[i++] += std::abs(in[2].values[static_cast<size_t>(at[1])]);
    });
  }
  return y;
}

void add_convolution(const std::string& kernel, const std::string& name, const Convolved& of) {
  const bool is_transposed = kernel != "conv3d";
  const int64_t out = is_transposed ? of.weight[1] * of.groups : of.weight[0];
  std::vector<Input> inputs{{of.x}, {of.weight, {.low = -0.5, .high = 0.5}}};
  if (of.has_bias) inputs.push_back({{out}});
  const auto run = [=](const auto& in) {
    using namespace ad;
    using T = std::decay_t<decltype(in[0])>;
    const T bias = of.has_bias ? in[2] : T();
    if (kernel == "conv3d") return T(conv3d(in[0], in[1], bias, of.stride, of.padding, of.dilation, of.groups));
    return kernel == "conv_transpose1d" ? T(conv_transpose1d(in[0], in[1], bias, of.stride, of.padding,
                                                             of.output_padding, of.groups, of.dilation))
                                        : T(conv_transpose3d(in[0], in[1], bias, of.stride, of.padding,
                                                             of.output_padding, of.groups, of.dilation));
  };
  add_composed({kernel, name, inputs, [=](Tensors in) { return run(in); }, [=](Vars in) { return run(in); },
                [=](HostTensors in) { return convolution(of, in, is_transposed); },
                of.has_bias ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 1}});
}

// ---- other sizes

Axis nearest(int64_t size, int64_t outputs, double scale) {
  Axis axis;
  for (int64_t q = 0; q < outputs; q++) {
    const auto at = static_cast<int64_t>(std::floor(static_cast<double>(q) * scale));
    axis.push_back({{{std::min(at, size - 1), 1.0}}, 1});
  }
  return axis;
}

Axis linear(int64_t size, int64_t outputs, double scale, bool align_corners) {
  Axis axis;
  for (int64_t q = 0; q < outputs; q++) {
    const double step = static_cast<double>(size - 1) / static_cast<double>(std::max<int64_t>(outputs - 1, 1));
    const double at =
        align_corners ? static_cast<double>(q) * step : std::max((static_cast<double>(q) + 0.5) * scale - 0.5, 0.0);
    const auto before = static_cast<int64_t>(at);
    const double share = at - static_cast<double>(before);
    axis.push_back({{{std::min(before, size - 1), 1 - share}, {std::min(before + 1, size - 1), share}}, 1});
  }
  return axis;
}

void add_resizing(const Shape& x, const Shape& size, double factor, InterpolateMode mode, bool align_corners = false) {
  std::vector<Axis> axes;
  const int count = x.rank() - 2;
  for (int i = 0; i < count; i++) {
    const int64_t from = x[i + 2];
    const int64_t to = size.empty() ? static_cast<int64_t>(std::floor(static_cast<double>(from) * factor)) : size[i];
    const double scale = size.empty() ? 1 / factor : static_cast<double>(from) / static_cast<double>(to);
    axes.push_back(mode == InterpolateMode::nearest ? nearest(from, to, scale)
                                                    : linear(from, to, scale, align_corners));
  }
  constexpr const char* kModes[] = {"nearest", "linear", "bilinear", "trilinear"};
  const auto run = [=](const auto& in) {
    using namespace ad;
    return interpolate(in, size, mode, align_corners, factor);
  };
  add_composed({"interpolate",
                x.str() + (size.empty() ? " by " + std::to_string(factor) : " to " + size.str()) + " " +
                    kModes[static_cast<size_t>(mode)] + (align_corners ? ", aligned" : ""),
                {{x}},
                [=](Tensors in) { return run(in[0]); },
                [=](Vars in) { return run(in[0]); },
                [=](HostTensors in) { return sums(in[0], axes, false); }});
}

// ---- normalisation by the channels around

void add_local_response_norm(const Shape& shape, int64_t size, double alpha, double beta, double k) {
  const auto run = [=](const auto& x) {
    using namespace ad;
    return local_response_norm(x, size, alpha, beta, k);
  };
  add_composed(cancelling({"local_response_norm",
                           shape.str() + " by " + std::to_string(size),
                           {{shape}},
                           [=](Tensors in) { return run(in[0]); },
                           [=](Vars in) { return run(in[0]); },
                           [=](HostTensors in) {
                             const HostTensor& x = in[0];
                             Expected y{x.shape, {}, {}};
                             const int64_t channels = x.shape[1], apart = dense_strides(x.shape)[1];
                             for_each_index(x.shape, dense_strides(x.shape), [&](const Shape& at, int64_t offset) {
                               double squares = 0;
                               for (int64_t c = at[1] - size / 2; c <= at[1] + (size - 1) / 2; c++) {
                                 if (c < 0 || c >= channels) continue;
                                 const double value = x.values[static_cast<size_t>(offset + (c - at[1]) * apart)];
                                 squares += value * value;
                               }
                               const double divisor = std::pow(k + alpha / static_cast<double>(size) * squares, beta);
                               y.values.push_back(x.values[static_cast<size_t>(offset)] / divisor);
                               y.magnitudes.push_back(3 * std::abs(y.values.back()));
                             });
                             return y;
                           }}));
}

}  // namespace

void add_composed_window_cases() {
  add_pools({{2, 3, 11}, {3}, {2}, {1}});
  add_pools({{3, 10}, {4}, {4}, {0}});
  add_pools({{2, 2, 7, 8}, {3, 2}, {2, 2}, {1, 1}});
  add_pools({{2, 2, 5, 6, 7}, {2, 3, 2}, {1, 2, 2}, {1, 1, 0}});
  add_pools({{2, 5, 5, 6}, {2, 2, 3}, {2, 2, 3}, {0, 0, 1}});
  add_adaptive_pools({2, 3, 11}, {4});
  add_adaptive_pools({3, 5}, {7});
  add_adaptive_pools({2, 2, 7, 5}, {3, 2});
  add_adaptive_pools({2, 2, 5, 6, 7}, {2, 4, 3});
  add_adaptive_pools({3, 4, 3, 5}, {1, 1, 1});

  add_convolution("conv_transpose1d", "strided", {{2, 4, 5}, {4, 3, 3}, {2}, {1}, {1}, {1}});
  add_convolution("conv_transpose1d", "groups", {{2, 4, 6}, {4, 2, 2}, {1}, {0}, {2}, {0}, 2, false});
  add_convolution("conv3d", "strided", {{2, 3, 4, 5, 6}, {4, 3, 2, 3, 2}, {2, 1, 2}, {1, 1, 0}, {1, 1, 1}, {}});
  add_convolution("conv3d", "groups",
                  {{2, 4, 4, 4, 5}, {2, 2, 2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {2, 1, 2}, {}, 2, false});
  add_convolution("conv_transpose3d", "strided",
                  {{2, 3, 2, 3, 3}, {3, 2, 2, 3, 2}, {2, 1, 2}, {1, 1, 0}, {1, 1, 1}, {1, 0, 1}});
  add_convolution("conv_transpose3d", "groups",
                  {{1, 4, 2, 3, 2}, {4, 1, 2, 2, 2}, {1, 2, 1}, {0, 0, 0}, {2, 1, 1}, {0, 0, 0}, 2, false});

  add_resizing({2, 3, 7}, {10}, 0, InterpolateMode::nearest);
  add_resizing({2, 3, 7}, {}, 2, InterpolateMode::linear);
  add_resizing({2, 3, 4, 5}, {8, 10}, 0, InterpolateMode::nearest);
  add_resizing({2, 3, 6, 5}, {}, 1.5, InterpolateMode::nearest);
  add_resizing({2, 3, 6, 5}, {4, 9}, 0, InterpolateMode::bilinear);
  add_resizing({2, 3, 6, 5}, {7, 3}, 0, InterpolateMode::bilinear, true);
  add_resizing({2, 2, 3, 4, 5}, {5, 4, 3}, 0, InterpolateMode::trilinear);
  add_resizing({2, 2, 3, 4, 5}, {}, 2, InterpolateMode::nearest);

  add_local_response_norm({2, 7, 5}, 3, 0.5, 0.75, 1);
  add_local_response_norm({2, 5, 3, 4}, 4, 1.5, 0.5, 2);
}

}  // namespace ashlar::conformance
