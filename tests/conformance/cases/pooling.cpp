// Pooling, padding and shuffles of pixels.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/launch/launch.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

/// The elements [first, last) that an output reads along an axis, `step` apart; `count`: what an average divides by.
struct Reads {
  int64_t first, last, step, count;
};
using Axis = std::vector<Reads>;

Axis sliding(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode,
             bool counts_padding) {
  Axis axis;
  const int64_t reach = dilation * (taps - 1) + 1;
  for (int64_t start = -padding; ceil_mode ? start < size + padding : start + reach <= size + padding;
       start += stride) {
    // The last one of those that only ceil_mode has begins inside or in the padding before.
    const bool is_extra = start + reach > size + padding;
    if (is_extra && (start >= size || (!axis.empty() && start - stride + reach >= size + padding))) break;
    const int64_t end = std::min(start + reach, size + padding);
    int64_t first = start;
    while (first < 0) first += dilation;
    axis.push_back({first, std::min(end, size), dilation,
                    counts_padding ? end - start : std::min(end, size) - std::max<int64_t>(start, 0)});
  }
  return axis;
}

Axis adaptive(int64_t size, int64_t outputs) {
  Axis axis;
  for (int64_t p = 0; p < outputs; p++) {
    const int64_t first = p * size / outputs, last = ((p + 1) * size + outputs - 1) / outputs;
    axis.push_back({first, last, 1, last - first});
  }
  return axis;
}

/// Calls f(plane, output, rows, columns) for each output.
template <class Function>
void for_each_output(const Shape& x, const Axis& rows, const Axis& columns, Function f) {
  int64_t output = 0;
  const int64_t planes = x.numel() / (x[x.rank() - 2] * x.back());
  for (int64_t plane = 0; plane < planes; plane++)
    for (const Reads& down : rows)
      for (const Reads& across : columns) f(plane, output++, down, across);
}

Shape pooled_shape(Shape x, const Axis& rows, const Axis& columns) {
  x[x.rank() - 2] = static_cast<int64_t>(rows.size());
  x[x.rank() - 1] = static_cast<int64_t>(columns.size());
  return x;
}

std::vector<Expected> maxima(const HostTensor& x, const Axis& rows, const Axis& columns) {
  const Shape shape = pooled_shape(x.shape, rows, columns);
  Expected y{shape, {}}, indices{.shape = shape, .values = {}, .dtype = DType::i64};
  const int64_t width = x.shape.back(), plane_size = x.shape[x.shape.rank() - 2] * width;
  for_each_output(x.shape, rows, columns, [&](int64_t plane, int64_t, const Reads& down, const Reads& across) {
    double best = -std::numeric_limits<double>::infinity();
    int64_t at = down.first * width + across.first;
    for (int64_t h = down.first; h < down.last; h += down.step)
      for (int64_t w = across.first; w < across.last; w += across.step) {
        const double value = x.values[static_cast<size_t>(plane * plane_size + h * width + w)];
        if (!(value > best) && !std::isnan(value)) continue;
        best = value;
        at = h * width + w;
      }
    y.values.push_back(best);
    indices.values.push_back(static_cast<double>(at));
  });
  return {y, indices};
}

Expected averages(const HostTensor& x, const Axis& rows, const Axis& columns, int64_t divisor) {
  Expected y{pooled_shape(x.shape, rows, columns), {}, {}};
  const int64_t width = x.shape.back(), plane_size = x.shape[x.shape.rank() - 2] * width;
  for_each_output(x.shape, rows, columns, [&](int64_t plane, int64_t, const Reads& down, const Reads& across) {
    double total = 0, magnitude = 0;
    const auto count = static_cast<double>(divisor != 0 ? divisor : down.count * across.count);
    for (int64_t h = down.first; h < down.last; h += down.step)
      for (int64_t w = across.first; w < across.last; w += across.step) {
        const double value = x.values[static_cast<size_t>(plane * plane_size + h * width + w)];
        total += value / count;
        magnitude += std::abs(value / count);
      }
    y.values.push_back(total);
    y.magnitudes.push_back(magnitude);
  });
  return y;
}

struct Window {
  Shape kernel, stride = {}, padding = {0, 0}, dilation = {1, 1};
  bool ceil_mode = false;

  Axis axis(const Shape& x, int i, bool counts_padding) const {
    const Shape& steps = stride.empty() ? kernel : stride;
    return sliding(x[x.rank() - 2 + i], kernel[i], steps[i], padding[i], dilation[i], ceil_mode, counts_padding);
  }
};

void add_max(const std::string& name, Input x, const Window& window, bool has_gradient = true) {
  const Window w = window;
  Case item{
      .kernel = "max_pool2d_with_indices",
      .name = name,
      .inputs = {std::move(x)},
      .call =
          [=](Tensors in) {
            const auto [y, indices] =
                max_pool2d_with_indices(in[0], w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode);
            return std::vector{y, indices};
          },
      .reference =
          [=](HostTensors in) { return maxima(in[0], w.axis(in[0].shape, 0, false), w.axis(in[0].shape, 1, false)); },
      .tolerance = terms(0),  // the element itself, but that -0 comes out as 0
      .gradient_is_rounded_once = true,
      .fixed_shapes = true};
  if (has_gradient) {
    item.differentiable = [=](Vars in) {
      return ad::max_pool2d_with_indices(in[0], w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode).y;
    };
  }
  add_case(std::move(item));
}

void add_average(const std::string& name, Input x, const Window& window, bool counts_padding = true,
                 int64_t divisor = 0) {
  const Window w = window;
  const Shape shape = x.shape, size{shape[shape.rank() - 2], shape.back()};
  const Shape outputs = pooled_shape(shape, w.axis(shape, 0, counts_padding), w.axis(shape, 1, counts_padding));
  add_case({.kernel = "avg_pool2d",
            .name = name,
            .inputs = {std::move(x)},
            .call =
                [=](Tensors in) {
                  return std::vector{
                      avg_pool2d(in[0], w.kernel, w.stride, w.padding, w.ceil_mode, counts_padding, divisor)};
                },
            .reference =
                [=](HostTensors in) {
                  return std::vector{averages(in[0], w.axis(in[0].shape, 0, counts_padding),
                                              w.axis(in[0].shape, 1, counts_padding), divisor)};
                },
            .tolerance = terms(1e-6),
            .differentiable =
                [=](Vars in) {
                  return ad::avg_pool2d(in[0], w.kernel, w.stride, w.padding, w.ceil_mode, counts_padding, divisor);
                },
            .fixed_shapes = true});
  add_gradient_case({.kernel = "avg_pool2d_grad",
                     .name = name,
                     .inputs = {{.shape = outputs}},
                     .call =
                         [=](Tensors in) {
                           return std::vector{avg_pool2d_grad(in[0], size, w.kernel, w.stride, w.padding, w.ceil_mode,
                                                              counts_padding, divisor)};
                         },
                     .reference =
                         [=](HostTensors in) {
                           const auto count = static_cast<size_t>(shape.numel());
                           Expected dx{shape, std::vector<double>(count), std::vector<double>(count)};
                           for_each_output(
                               shape, w.axis(shape, 0, counts_padding), w.axis(shape, 1, counts_padding),
                               [&](int64_t plane, int64_t output, const Reads& down, const Reads& across) {
                                 const double share =
                                     in[0].values[static_cast<size_t>(output)] /
                                     static_cast<double>(divisor != 0 ? divisor : down.count * across.count);
                                 for (int64_t h = down.first; h < down.last; h++)
                                   for (int64_t c = across.first; c < across.last; c++) {
                                     const auto at = static_cast<size_t>((plane * size[0] + h) * size[1] + c);
                                     dx.values[at] += share;
                                     dx.magnitudes[at] += std::abs(share);
                                   }
                               });
                           return std::vector{dx};
                         },
                     .tolerance = terms(1e-6),
                     .differentiable =
                         [=](Vars in) {
                           return ad::avg_pool2d_grad(in[0], size, w.kernel, w.stride, w.padding, w.ceil_mode,
                                                      counts_padding, divisor);
                         },
                     .fixed_shapes = true});
}

void add_adaptive(const std::string& name, const Shape& x, const Shape& outputs) {
  const Axis rows = adaptive(x[x.rank() - 2], outputs[0]), columns = adaptive(x.back(), outputs[1]);
  const Shape size{x[x.rank() - 2], x.back()};
  add_case({.kernel = "adaptive_avg_pool2d",
            .name = name,
            .inputs = {{.shape = x}},
            .call = [=](Tensors in) { return std::vector{adaptive_avg_pool2d(in[0], outputs)}; },
            .reference = [=](HostTensors in) { return std::vector{averages(in[0], rows, columns, 0)}; },
            .tolerance = terms(1e-6),
            .differentiable = [=](Vars in) { return ad::adaptive_avg_pool2d(in[0], outputs); },
            .fixed_shapes = true});
  add_gradient_case({.kernel = "adaptive_avg_pool2d_grad",
                     .name = name,
                     .inputs = {{.shape = pooled_shape(x, rows, columns)}},
                     .call = [=](Tensors in) { return std::vector{adaptive_avg_pool2d_grad(in[0], size)}; },
                     .reference =
                         [=](HostTensors in) {
                           const auto count = static_cast<size_t>(x.numel());
                           Expected dx{x, std::vector<double>(count), std::vector<double>(count)};
                           for_each_output(x, rows, columns,
                                           [&](int64_t plane, int64_t output, const Reads& down, const Reads& across) {
                                             const double share = in[0].values[static_cast<size_t>(output)] /
                                                                  static_cast<double>(down.count * across.count);
                                             for (int64_t h = down.first; h < down.last; h++)
                                               for (int64_t c = across.first; c < across.last; c++) {
                                                 const auto at =
                                                     static_cast<size_t>((plane * size[0] + h) * size[1] + c);
                                                 dx.values[at] += share;
                                                 dx.magnitudes[at] += std::abs(share);
                                               }
                                           });
                           return std::vector{dx};
                         },
                     .tolerance = terms(1e-6),
                     .differentiable = [=](Vars in) { return ad::adaptive_avg_pool2d_grad(in[0], size); },
                     .fixed_shapes = true});
  add_case({.kernel = "adaptive_max_pool2d_with_indices",
            .name = name,
            .inputs = {{x, {Pattern::distinct}}},
            .call =
                [=](Tensors in) {
                  const auto [y, indices] = adaptive_max_pool2d_with_indices(in[0], outputs);
                  return std::vector{y, indices};
                },
            .reference = [=](HostTensors in) { return maxima(in[0], rows, columns); },
            .differentiable = [=](Vars in) { return ad::adaptive_max_pool2d_with_indices(in[0], outputs).y; },
            .gradient_is_rounded_once = true,
            .fixed_shapes = true});
}

/// What the maxima's gradients add up: indices of a forward call that lie where windows may.
void add_max_gradients(const std::string& name, int64_t rows, int64_t columns) {
  // Windows of 2 × 2 beside each other, `rows` × `columns` of them, whose index is the window's (row, column)-th
  // element.
  const Shape x{2, 3, 2 * rows, 2 * columns}, y{2, 3, rows, columns}, size{2 * rows, 2 * columns};
  const auto places = [=](int64_t output) {
    const int64_t p = output / columns % rows, q = output % columns, pick = output * 7 % 4;
    return (2 * p + pick / 2) * 2 * columns + 2 * q + pick % 2;
  };
  const auto indices = [=](Device device) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < y.numel(); i++) all.push_back(places(i));
    return Tensor::from(all, y, device);
  };
  const auto spread = [=](const HostTensor& dy) {
    Expected dx{x, std::vector<double>(static_cast<size_t>(x.numel()))};
    for (int64_t i = 0; i < y.numel(); i++)
      dx.values[static_cast<size_t>(i / (rows * columns) * size.numel() + places(i))] +=
          dy.values[static_cast<size_t>(i)];
    return std::vector{dx};
  };
  add_gradient_case(
      {.kernel = "max_pool2d_grad",
       .name = name,
       .inputs = {{.shape = y}},
       .call = [=](Tensors in) { return std::vector{max_pool2d_grad(in[0], indices(in[0].device()), size, {2})}; },
       .reference = [=](HostTensors in) { return spread(in[0]); },
       .differentiable =
           [=](Vars in) { return ad::max_pool2d_grad(in[0], indices(in[0].value().device()), size, {2}); },
       .fixed_shapes = true});
  add_gradient_case(
      {.kernel = "adaptive_max_pool2d_grad",
       .name = name,
       .inputs = {{.shape = y}},
       .call = [=](Tensors in) { return std::vector{adaptive_max_pool2d_grad(in[0], indices(in[0].device()), size)}; },
       .reference = [=](HostTensors in) { return spread(in[0]); },
       .differentiable =
           [=](Vars in) { return ad::adaptive_max_pool2d_grad(in[0], indices(in[0].value().device()), size); },
       .fixed_shapes = true});
}

/// Where in an axis of `size` the padded element `at` comes from; -1: from nowhere.
int64_t source(int64_t at, int64_t size, PadMode mode) {
  if (at >= 0 && at < size) return at;
  if (mode == PadMode::reflect) return at < 0 ? -at : 2 * (size - 1) - at;
  if (mode == PadMode::replicate) return at < 0 ? 0 : size - 1;
  if (mode == PadMode::circular) return (at + size) % size;
  return -1;
}

void add_pad(const std::string& name, const Shape& x, const Shape& padding, PadMode mode, double value = 0) {
  Shape y = x;
  for (int i = 0; i < padding.rank(); i += 2) y[x.rank() - 1 - i / 2] += padding[i] + padding[i + 1];
  // f(element of y, of x or -1)
  const auto for_each_source = [=](auto f) {
    size_t element = 0;
    for_each_index(y, dense_strides(y), [&](const Shape& at, int64_t) {
      int64_t from = 0;
      for (int i = 0; i < x.rank(); i++) {
        const int pair = 2 * (x.rank() - 1 - i);
        const int64_t place = source(at[i] - (pair < padding.rank() ? padding[pair] : 0), x[i], mode);
        from = from < 0 || place < 0 ? -1 : from * x[i] + place;
      }
      f(element++, from);
    });
  };
  Case item{.kernel = "pad",
            .name = name,
            .inputs = {{.shape = x}},
            .dtypes = std::isfinite(value) && value == std::trunc(value)
                          ? std::vector{DType::f32, DType::f16, DType::bf16, DType::i64, DType::u8, DType::boolean}
                          : std::vector{DType::f32, DType::f16, DType::bf16},
            .call = [=](Tensors in) { return std::vector{pad(in[0], padding, mode, value)}; },
            .reference =
                [=](HostTensors in) {
                  Expected result{y, {}};
                  for_each_source([&](size_t, int64_t from) {
                    result.values.push_back(from < 0 ? value : in[0].values[static_cast<size_t>(from)]);
                  });
                  return std::vector{result};
                },
            .fixed_shapes = true};
  // Differences of infinities are NaN.
  if (std::isfinite(value)) item.differentiable = [=](Vars in) { return ad::pad(in[0], padding, mode, value); };
  add_case(std::move(item));
  add_gradient_case(
      {.kernel = "pad_grad",
       .name = name,
       .inputs = {{.shape = y}},
       .call = [=](Tensors in) { return std::vector{pad_grad(in[0], padding, static_cast<PadGradMode>(mode))}; },
       .reference =
           [=](HostTensors in) {
             const auto count = static_cast<size_t>(x.numel());
             Expected dx{x, std::vector<double>(count), std::vector<double>(count)};
             for_each_source([&](size_t element, int64_t from) {
               if (from < 0) return;
               dx.values[static_cast<size_t>(from)] += in[0].values[element];
               dx.magnitudes[static_cast<size_t>(from)] += std::abs(in[0].values[element]);
             });
             return std::vector{dx};
           },
       .tolerance = terms(1e-6),
       .differentiable = [=](Vars in) { return ad::pad_grad(in[0], padding, static_cast<PadGradMode>(mode)); },
       .fixed_shapes = true});
}

void add_shuffle(const std::string& name, const Shape& small, const Shape& large, int64_t factor) {
  // Element of `small` for each of `large`, in order.
  const auto sources = [=] {
    std::vector<size_t> all;
    const int rank = large.rank();
    for_each_index(large, dense_strides(large), [&](const Shape& at, int64_t) {
      const int64_t c = at[rank - 3], h = at[rank - 2], w = at[rank - 1], image = rank == 4 ? at[0] : 0;
      const int64_t channel = (c * factor + h % factor) * factor + w % factor;
      all.push_back(static_cast<size_t>(
          ((image * small[rank - 3] + channel) * small[rank - 2] + h / factor) * small[rank - 1] + w / factor));
    });
    return all;
  };
  add_case({.kernel = "pixel_shuffle",
            .name = name,
            .inputs = {{.shape = small}},
            .call = [=](Tensors in) { return std::vector{pixel_shuffle(in[0], factor)}; },
            .reference =
                [=](HostTensors in) {
                  Expected y{large, {}};
                  for (const size_t from : sources()) y.values.push_back(in[0].values[from]);
                  return std::vector{y};
                },
            .differentiable = [=](Vars in) { return ad::pixel_shuffle(in[0], factor); },
            .fixed_shapes = true});
  add_case({.kernel = "pixel_unshuffle",
            .name = name,
            .inputs = {{.shape = large}},
            .call = [=](Tensors in) { return std::vector{pixel_unshuffle(in[0], factor)}; },
            .reference =
                [=](HostTensors in) {
                  Expected y{small, std::vector<double>(static_cast<size_t>(small.numel()))};
                  const std::vector<size_t> to = sources();
                  for (size_t i = 0; i < to.size(); i++) y.values[to[i]] = in[0].values[i];
                  return std::vector{y};
                },
            .differentiable = [=](Vars in) { return ad::pixel_unshuffle(in[0], factor); },
            .fixed_shapes = true});
}

/// Maxima's gradients as GPUs gather them, of windows of 2 × 2 side by side; the CPU's operators scatter them instead.
void add_gathered_maxima(const std::string& name, uint16_t variant) {
  constexpr int64_t kOutputs = 3, kSize = 2 * kOutputs, kPlanes = 2;
  const Shape outputs{kPlanes, kOutputs, kOutputs};
  add_gradient_case({.kernel = "max_pool_planes_grad",
                     .name = name,
                     .inputs = {{.shape = outputs},
                                {.shape = outputs,
                                 .values = {.pattern = Pattern::integers, .low = 0, .high = kSize * kSize - 1},
                                 .dtype = DType::i64}},
                     .dtypes = {DType::f32},
                     .call =
                         [=](Tensors in) {
                           const Tensor dx = Tensor::empty({kPlanes, kSize, kSize}, DType::f32, in[0].device());
                           const std::array<Scalar, 10> scalars{2, 2, 2, 2, 0, 0, 1, 1, 1, 1};
                           const std::array inputs{in[0].contiguous(), in[1].contiguous()};
                           launch(kernels::max_pool_planes_grad, {.elements = {DType::f32}, .variant = variant}, inputs,
                                  scalars, std::span(&dx, 1));
                           return std::vector{dx};
                         },
                     .reference =
                         [=](HostTensors in) {
                           Expected dx{{kPlanes, kSize, kSize}, {}, {}};
                           for_each_index(dx.shape, dense_strides(dx.shape), [&](const Shape& at, int64_t) {
                             const auto window =
                                 static_cast<size_t>((at[0] * kOutputs + at[1] / 2) * kOutputs + at[2] / 2);
                             const auto place = static_cast<double>(at[1] * kSize + at[2]);
                             dx.values.push_back(in[1].values[window] == place ? in[0].values[window] + 0.0 : 0.0);
                           });
                           return std::vector{dx};
                         },
                     .tolerance = ulps(0),
                     .fixed_shapes = true});
}

}  // namespace

void add_pooling_cases() {
  const Values distinct{Pattern::distinct};
  add_max("2x2", {{2, 3, 8, 9}, distinct}, {.kernel = {2, 2}});
  add_max("3x3_strided", {{2, 2, 9, 11}, distinct}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  add_max("overlapping", {{1, 2, 7, 10}, distinct}, {.kernel = {3, 2}, .stride = {1, 1}, .padding = {1, 0}});
  add_max("dilated", {{1, 3, 11, 12}, distinct}, {.kernel = {2, 3}, .stride = {3, 1}, .dilation = {3, 2}});
  add_max("ceil_mode", {{2, 2, 8, 10}, distinct},
          {.kernel = {3, 3}, .stride = {2, 3}, .padding = {1, 1}, .ceil_mode = true});
  add_max("one_image", {{4, 6, 6}, distinct}, {.kernel = {2, 2}});
  add_max("transposed", {{2, 2, 6, 8}, distinct, Layout::transposed}, {.kernel = {2, 2}});
  add_max("ties", {{1, 2, 9, 9}, {Pattern::integers, 0, 1}}, {.kernel = {3, 3}, .stride = {2, 2}}, false);
  add_max("special", {{1, 2, 10, 10}, {Pattern::special}}, {.kernel = {2, 2}}, false);
  add_max("minus_infinity", {{1, 2, 16, 16}, {Pattern::masked}}, {.kernel = {2, 2}, .padding = {1, 1}}, false);
  add_max("none", {{0, 2, 6, 6}}, {.kernel = {2, 2}}, false);
  add_max_gradients("2x2", 2, 3);
  add_max_gradients("2x2_large", 35, 65);

  add_average("2x2", {{2, 3, 8, 9}}, {.kernel = {2, 2}});
  add_average("3x3_strided", {{2, 2, 9, 11}}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  add_average("overlapping", {{1, 2, 7, 10}}, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
  add_average("inside_only", {{1, 2, 9, 11}}, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}}, false);
  add_average("ceil_mode", {{1, 2, 8, 10}}, {.kernel = {3, 3}, .stride = {2, 3}, .padding = {1, 1}, .ceil_mode = true});
  add_average("divisor", {{1, 2, 6, 6}}, {.kernel = {2, 2}}, true, 3);
  add_average("transposed", {{2, 2, 6, 8}, {}, Layout::transposed}, {.kernel = {2, 2}});
  add_average("none", {{2, 0, 6, 6}}, {.kernel = {2, 2}});

  add_adaptive("whole", {2, 3, 7, 5}, {1, 1});
  add_adaptive("uneven", {2, 2, 10, 11}, {3, 4});
  add_adaptive("larger", {1, 2, 5, 4}, {7, 4});
  add_adaptive("long_windows", {2, 3, 25, 37}, {7, 5});  // which a GPU adds up in two steps

  add_gathered_maxima("side_by_side", 0);
  add_gathered_maxima("side_by_side_adaptive", 1);

  const Shape x{2, 3, 6, 7};
  add_pad("constant", x, {1, 2, 3, 0}, PadMode::constant, 1);
  add_pad("constant_half", x, {1, 2, 3, 0}, PadMode::constant, -0.5);
  add_pad("constant_infinite", x, {1, 2, 3, 0}, PadMode::constant, -HUGE_VAL);
  add_pad("cropped", x, {-2, 1, 0, -3}, PadMode::constant);
  add_pad("all_axes", {2, 3, 4}, {1, 0, 0, 2, 1, 1}, PadMode::constant);
  add_pad("reflect", x, {3, 6, 2, 1}, PadMode::reflect);
  add_pad("replicate", x, {3, 2, 0, 9}, PadMode::replicate);
  add_pad("circular", x, {7, 2, 1, 5}, PadMode::circular);

  add_shuffle("by_2", {2, 8, 3, 5}, {2, 2, 6, 10}, 2);
  add_shuffle("by_3", {9, 2, 3}, {1, 6, 9}, 3);
}

}  // namespace ashlar::conformance
