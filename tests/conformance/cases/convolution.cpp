// Convolutions, their gradients, unfold and fold.
#include <cmath>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/by_plan.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

/// Finite differences take a convolution for each element.
constexpr int64_t kMostDifferentiated = 500;

struct Sliding {
  Shape stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;

  int64_t outputs(int axis, int64_t size, int64_t taps) const {
    return (size + 2 * padding[axis] - dilation[axis] * (taps - 1) - 1) / stride[axis] + 1;
  }
  int64_t place(int axis, int64_t output, int64_t tap) const {
    return output * stride[axis] - padding[axis] + tap * dilation[axis];
  }
};

/// An array of doubles by four indices.
struct Images {
  Shape shape;
  std::vector<double> values = std::vector<double>(static_cast<size_t>(shape.numel()));
  double& at(int64_t a, int64_t b, int64_t c, int64_t d) {
    return values[static_cast<size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d)];
  }
};

Images images(const HostTensor& x) {
  Shape shape = x.shape;
  if (shape.rank() == 3) shape = {1, shape[0], shape[1], shape[2]};
  return {shape, x.values};
}

/// Calls f(n, o, p, q, c of all, c of its group, h, w, i, j) for each product of a convolution.
template <class Function>
void for_each_term(const Shape& x, const Shape& weight, const Sliding& how, Function f) {
  const int64_t per_group = weight[0] / how.groups;
  for (int64_t n = 0; n < x[0]; n++)
    for (int64_t o = 0; o < weight[0]; o++)
      for (int64_t p = 0; p < how.outputs(0, x[2], weight[2]); p++)
        for (int64_t q = 0; q < how.outputs(1, x[3], weight[3]); q++)
          for (int64_t c = 0; c < weight[1]; c++)
            for (int64_t i = 0; i < weight[2]; i++)
              for (int64_t j = 0; j < weight[3]; j++) {
                const int64_t h = how.place(0, p, i), w = how.place(1, q, j);
                if (h < 0 || h >= x[2] || w < 0 || w >= x[3]) continue;
                f(n, o, p, q, o / per_group * weight[1] + c, c, h, w, i, j);
              }
}

Expected expected(Images y, Images magnitudes, const Shape& shape) {
  return {shape, std::move(y.values), std::move(magnitudes.values)};
}

Expected convolved(const HostTensor& of_x, const HostTensor& of_weight, const HostTensor* bias, const Sliding& how,
                   bool is_activated) {
  Images x = images(of_x), weight = images(of_weight);
  const Shape shape{x.shape[0], weight.shape[0], how.outputs(0, x.shape[2], weight.shape[2]),
                    how.outputs(1, x.shape[3], weight.shape[3])};
  Images y{shape}, magnitudes{shape};
  for_each_term(x.shape, weight.shape, how,
                [&](auto n, auto o, auto p, auto q, auto c, auto in_group, auto h, auto w, auto i, auto j) {
                  const double term = x.at(n, c, h, w) * weight.at(o, in_group, i, j);
                  y.at(n, o, p, q) += term;
                  magnitudes.at(n, o, p, q) += std::abs(term);
                });
  const int64_t plane = shape[2] * shape[3];
  for (size_t k = 0; k < y.values.size(); k++) {
    if (bias != nullptr) {
      const double term = bias->values[k / static_cast<size_t>(plane) % static_cast<size_t>(shape[1])];
      y.values[k] += term;
      magnitudes.values[k] += std::abs(term);
    }
    if (is_activated) y.values[k] = max_of(y.values[k], 0.0);
  }
  return expected(y, magnitudes, of_x.shape.rank() == 3 ? Shape{shape[1], shape[2], shape[3]} : shape);
}

Expected input_gradient(const HostTensor& of_dy, const HostTensor& of_weight, const Shape& size, const Sliding& how) {
  Images dy = images(of_dy), weight = images(of_weight);
  const Shape shape{dy.shape[0], weight.shape[1] * how.groups, size[0], size[1]};
  Images dx{shape}, magnitudes{shape};
  for_each_term(shape, weight.shape, how,
                [&](auto n, auto o, auto p, auto q, auto c, auto in_group, auto h, auto w, auto i, auto j) {
                  const double term = dy.at(n, o, p, q) * weight.at(o, in_group, i, j);
                  dx.at(n, c, h, w) += term;
                  magnitudes.at(n, c, h, w) += std::abs(term);
                });
  return expected(dx, magnitudes, shape);
}

Expected weight_gradient(const HostTensor& of_dy, const HostTensor& of_x, const Shape& size, const Sliding& how) {
  Images dy = images(of_dy), x = images(of_x);
  const Shape shape{dy.shape[1], x.shape[1] / how.groups, size[0], size[1]};
  Images dw{shape}, magnitudes{shape};
  for_each_term(x.shape, shape, how,
                [&](auto n, auto o, auto p, auto q, auto c, auto in_group, auto h, auto w, auto i, auto j) {
                  const double term = dy.at(n, o, p, q) * x.at(n, c, h, w);
                  dw.at(o, in_group, i, j) += term;
                  magnitudes.at(o, in_group, i, j) += std::abs(term);
                });
  return expected(dw, magnitudes, shape);
}

struct Layer {
  std::string name;
  Shape x, weight;
  Sliding how = {};
  bool has_bias = false, is_activated = false;
  Layout layout = Layout::dense;
};

/// As a call chooses, and by each of the ways that it chooses among.
void add_in_every_way(Case item) {
  for (const char* plan : {"unfolded", "gathered"}) add_case(by_plan(item, plan));
  add_case(std::move(item));
}

void add_layer(const Layer& layer) {
  const Sliding how = layer.how;
  const bool has_bias = layer.has_bias;
  const auto activation = layer.is_activated ? Conv2dActivation::relu : Conv2dActivation::none;
  std::vector<Input> inputs{{.shape = layer.x, .layout = layer.layout}, {.shape = layer.weight}};
  if (has_bias) inputs.push_back({.shape = {layer.weight[0]}});
  std::vector<int> differentiated{0, 1};
  if (has_bias) differentiated.push_back(2);
  Case item{.kernel = "conv2d",
            .name = layer.name,
            .inputs = inputs,
            .call =
                [=](Tensors in) {
                  return std::vector{conv2d(in[0], in[1], has_bias ? in[2] : Tensor(), how.stride, how.padding,
                                            how.dilation, how.groups, activation)};
                },
            .reference =
                [=, is_activated = layer.is_activated](HostTensors in) {
                  return std::vector{convolved(in[0], in[1], has_bias ? &in[2] : nullptr, how, is_activated)};
                },
            .tolerance = terms(),
            .differentiable =
                [=](Vars in) {
                  return ad::conv2d(in[0], in[1], has_bias ? in[2] : Var(), how.stride, how.padding, how.dilation,
                                    how.groups, activation);
                },
            .differentiated = differentiated,
            .fixed_shapes = true};
  if (layer.x.numel() > kMostDifferentiated) item.differentiable = nullptr;
  add_in_every_way(std::move(item));
}

void add_gradients(const std::string& name, const Shape& x, const Shape& weight, const Sliding& how) {
  const Shape dy{x[0], weight[0], how.outputs(0, x[2], weight[2]), how.outputs(1, x[3], weight[3])};
  const Shape size{x[2], x[3]}, taps{weight[2], weight[3]};
  Case of_input{
      .kernel = "conv2d_input",
      .name = name,
      .inputs = {{.shape = dy}, {.shape = weight}},
      .call =
          [=](Tensors in) {
            return std::vector{conv2d_input(in[0], in[1], size, how.stride, how.padding, how.dilation, how.groups)};
          },
      .reference = [=](HostTensors in) { return std::vector{input_gradient(in[0], in[1], size, how)}; },
      .tolerance = terms(),
      .differentiable =
          [=](Vars in) {
            return ad::conv2d_input(in[0], in[1], size, how.stride, how.padding, how.dilation, how.groups);
          },
      .differentiated = {0, 1},
      .fixed_shapes = true};
  Case of_weight{
      .kernel = "conv2d_weight",
      .name = name,
      .inputs = {{.shape = dy}, {.shape = x}},
      .call =
          [=](Tensors in) {
            return std::vector{conv2d_weight(in[0], in[1], taps, how.stride, how.padding, how.dilation, how.groups)};
          },
      .reference = [=](HostTensors in) { return std::vector{weight_gradient(in[0], in[1], taps, how)}; },
      .tolerance = terms(),
      .differentiable =
          [=](Vars in) {
            return ad::conv2d_weight(in[0], in[1], taps, how.stride, how.padding, how.dilation, how.groups);
          },
      .differentiated = {0, 1},
      .fixed_shapes = true};
  if (x.numel() > kMostDifferentiated) of_input.differentiable = of_weight.differentiable = nullptr;
  add_in_every_way(std::move(of_input));
  add_in_every_way(std::move(of_weight));
}

void add_transposed(const std::string& name, const Shape& x, const Shape& weight, const Sliding& how, const Shape& more,
                    bool has_bias) {
  Shape size;
  for (int axis = 0; axis < 2; axis++) {
    size.push_back((x[2 + axis] - 1) * how.stride[axis] - 2 * how.padding[axis] +
                   how.dilation[axis] * (weight[2 + axis] - 1) + 1 + more[axis]);
  }
  std::vector<Input> inputs{{.shape = x}, {.shape = weight}};
  if (has_bias) inputs.push_back({.shape = {weight[1] * how.groups}});
  std::vector<int> differentiated{0, 1};
  if (has_bias) differentiated.push_back(2);
  add_case({.kernel = "conv_transpose2d",
            .name = name,
            .inputs = inputs,
            .call =
                [=](Tensors in) {
                  return std::vector{conv_transpose2d(in[0], in[1], has_bias ? in[2] : Tensor(), how.stride,
                                                      how.padding, more, how.groups, how.dilation)};
                },
            .reference =
                [=](HostTensors in) {
                  Expected y = input_gradient(in[0], in[1], size, how);
                  const auto plane = static_cast<size_t>(size[0] * size[1]);
                  for (size_t k = 0; has_bias && k < y.values.size(); k++) {
                    const double term = in[2].values[k / plane % in[2].values.size()];
                    y.values[k] += term;
                    y.magnitudes[k] += std::abs(term);
                  }
                  return std::vector{y};
                },
            .tolerance = terms(),
            .differentiable =
                [=](Vars in) {
                  return ad::conv_transpose2d(in[0], in[1], has_bias ? in[2] : Var(), how.stride, how.padding, more,
                                              how.groups, how.dilation);
                },
            .differentiated = differentiated,
            .fixed_shapes = true});
}

void add_sequence(const std::string& name, const Shape& x, const Shape& weight, const Sliding& how, bool is_activated) {
  const auto along = [](const Shape& both) { return Shape{both[1]}; };
  const auto activation = is_activated ? Conv1dActivation::relu : Conv1dActivation::none;
  add_case({.kernel = "conv1d",
            .name = name,
            .inputs = {{.shape = x}, {.shape = weight}, {.shape = {weight[0]}}},
            .call =
                [=](Tensors in) {
                  return std::vector{conv1d(in[0], in[1], in[2], along(how.stride), along(how.padding),
                                            along(how.dilation), how.groups, activation)};
                },
            .reference =
                [=](HostTensors in) {
                  HostTensor images = in[0], filters = in[1];
                  images.shape.insert(images.shape.rank() - 1, 1);
                  filters.shape.insert(2, 1);
                  Expected y = convolved(images, filters, &in[2], how, is_activated);
                  y.shape.erase(y.shape.rank() - 2);
                  return std::vector{y};
                },
            .tolerance = terms(),
            .differentiable =
                [=](Vars in) {
                  return ad::conv1d(in[0], in[1], in[2], along(how.stride), along(how.padding), along(how.dilation),
                                    how.groups, activation);
                },
            .differentiated = {0, 1, 2},
            .fixed_shapes = true});
}

/// Calls f(element of x, of the columns) for each pair that unfold copies.
template <class Function>
void for_each_copy(const Shape& x, const Shape& taps, const Sliding& how, Function f) {
  const int64_t high = how.outputs(0, x[2], taps[0]), wide = how.outputs(1, x[3], taps[1]);
  size_t column = 0;
  for (int64_t plane = 0; plane < x[0] * x[1]; plane++)
    for (int64_t i = 0; i < taps[0]; i++)
      for (int64_t j = 0; j < taps[1]; j++)
        for (int64_t p = 0; p < high; p++)
          for (int64_t q = 0; q < wide; q++, column++) {
            const int64_t h = how.place(0, p, i), w = how.place(1, q, j);
            if (h >= 0 && h < x[2] && w >= 0 && w < x[3]) f(static_cast<size_t>((plane * x[2] + h) * x[3] + w), column);
          }
}

void add_columns(const std::string& name, const Shape& x, const Shape& taps, const Sliding& how) {
  const Shape columns{x[0], x[1] * taps[0] * taps[1], how.outputs(0, x[2], taps[0]) * how.outputs(1, x[3], taps[1])};
  const Shape size{x[2], x[3]};
  add_case({.kernel = "unfold",
            .name = name,
            .inputs = {{.shape = x}},
            .call = [=](Tensors in) { return std::vector{unfold(in[0], taps, how.dilation, how.padding, how.stride)}; },
            .reference =
                [=](HostTensors in) {
                  Expected y{columns, std::vector<double>(static_cast<size_t>(columns.numel()))};
                  for_each_copy(x, taps, how, [&](size_t from, size_t to) { y.values[to] = in[0].values[from]; });
                  return std::vector{y};
                },
            .differentiable = [=](Vars in) { return ad::unfold(in[0], taps, how.dilation, how.padding, how.stride); },
            .fixed_shapes = true});
  add_case(
      {.kernel = "fold",
       .name = name,
       .inputs = {{.shape = columns}},
       .call = [=](Tensors in) { return std::vector{fold(in[0], size, taps, how.dilation, how.padding, how.stride)}; },
       .reference =
           [=](HostTensors in) {
             const auto count = static_cast<size_t>(x.numel());
             Expected y{x, std::vector<double>(count), std::vector<double>(count)};
             for_each_copy(x, taps, how, [&](size_t to, size_t from) {
               y.values[to] += in[0].values[from];
               y.magnitudes[to] += std::abs(in[0].values[from]);
             });
             return std::vector{y};
           },
       .tolerance = terms(1e-6),
       .differentiable = [=](Vars in) { return ad::fold(in[0], size, taps, how.dilation, how.padding, how.stride); },
       .fixed_shapes = true});
}

}  // namespace

void add_convolution_cases() {
  const Shape one{1, 1}, two{2, 2};
  add_layer({"3x3", {2, 3, 9, 11}, {5, 3, 3, 3}, {.padding = one}, true, true});
  add_layer({"1x1", {2, 6, 5, 7}, {9, 6, 1, 1}, {}, true});
  add_layer({"1x1_many_channels", {2, 40, 3, 5}, {33, 40, 1, 1}, {}, true, true});
  add_layer({"1x1_strided_groups", {2, 6, 7, 6}, {10, 3, 1, 1}, {.stride = {2, 3}, .groups = 2}});
  add_layer({"one_image", {3, 6, 5}, {4, 3, 3, 2}});
  add_layer({"one_place", {1, 4, 3, 3}, {3, 4, 3, 3}, {}, true});
  add_layer({"strided", {2, 3, 10, 13}, {4, 3, 3, 3}, {.stride = two, .padding = one}, true});
  add_layer({"stride_beyond_window", {1, 2, 9, 9}, {3, 2, 1, 2}, {.stride = {3, 2}}});
  add_layer({"dilated", {1, 2, 12, 11}, {3, 2, 3, 2}, {.stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 3}}});
  add_layer({"more_padding_than_window", {1, 2, 3, 4}, {2, 2, 1, 2}, {.padding = {2, 3}}});
  add_layer({"groups", {2, 6, 7, 6}, {10, 3, 3, 3}, {.padding = one, .groups = 2}, true, true});
  add_layer({"depthwise", {2, 5, 9, 8}, {5, 1, 3, 3}, {.padding = one, .groups = 5}, true});
  add_layer({"depthwise_strided", {1, 3, 11, 9}, {6, 1, 5, 3}, {.stride = two, .padding = {2, 1}, .groups = 3}});
  add_layer({"depthwise_5x5", {2, 3, 7, 9}, {3, 1, 5, 5}, {.padding = two, .groups = 3}, true});
  add_layer({"depthwise_dilated",
             {2, 4, 21, 34},
             {8, 1, 3, 5},
             {.stride = {1, 2}, .padding = {3, 1}, .dilation = {2, 3}, .groups = 4},
             true,
             true});
  add_layer({"depthwise_of_transposed",
             {2, 5, 9, 8},
             {5, 1, 3, 3},
             {.padding = one, .groups = 5},
             true,
             false,
             Layout::transposed});
  add_layer({"transposed", {2, 3, 6, 8}, {4, 3, 3, 3}, {.padding = one}, false, false, Layout::transposed});
  add_layer({"flipped", {2, 3, 6, 8}, {4, 3, 3, 3}, {.padding = one}, false, false, Layout::flipped});
  add_layer({"tiles", {3, 19, 26, 25}, {66, 19, 3, 3}, {.padding = one}, true, true});
  add_layer(
      {"more_channels_than_filters", {2, 70, 9, 11}, {20, 70, 3, 3}, {.padding = one}});  // on CUDA its dx isn't folded
  // On a GPU enough images for tiles of as many rows as there are, and of few terms.
  const Shape many{52, 3, 13, 14};
  add_layer({"many_images", many, {40, 3, 3, 3}, {.padding = one}, true, true});
  add_layer({"many_images_few_terms", many, {40, 3, 1, 1}, {}, true});
  add_layer({"many_images_32_rows", many, {20, 3, 3, 3}, {.padding = one}, true});
  add_layer({"many_images_16_rows", many, {9, 3, 3, 2}, {.stride = {1, 2}, .padding = one}});
  add_layer({"large_images", {1, 2, 160, 170}, {3, 2, 3, 3}, {.padding = one}, true, true});
  add_layer({"large_images_1x1", {6, 3, 55, 51}, {4, 3, 1, 1}, {}, true});
  add_layer({"many_small_images_1x1", {701, 3, 7, 7}, {2, 3, 1, 1}, {}, true});
  add_layer({"no_images", {0, 3, 6, 8}, {4, 3, 3, 3}, {.padding = one}, true});
  add_layer({"no_filters", {2, 3, 6, 8}, {0, 3, 3, 3}});

  add_gradients("3x3", {2, 3, 7, 9}, {4, 3, 3, 3}, {.padding = one});
  add_gradients("1x1", {2, 6, 5, 7}, {9, 6, 1, 1}, {});
  add_gradients("1x1_strided", {3, 20, 3, 2}, {30, 20, 1, 1}, {.stride = two});
  add_gradients("1x1_groups", {2, 6, 4, 5}, {8, 3, 1, 1}, {.groups = 2});
  add_gradients("strided", {2, 3, 8, 9}, {4, 3, 3, 2}, {.stride = two, .padding = one});
  add_gradients("dilated", {1, 4, 9, 10}, {6, 2, 2, 3},
                {.stride = {1, 2}, .padding = {0, 2}, .dilation = {2, 1}, .groups = 2});
  add_gradients("depthwise", {2, 5, 6, 7}, {5, 1, 3, 3}, {.padding = one, .groups = 5});
  add_gradients("depthwise_strided", {2, 3, 8, 7}, {6, 1, 3, 2}, {.stride = two, .padding = one, .groups = 3});
  add_gradients("depthwise_halved", {2, 3, 9, 8}, {3, 1, 3, 3}, {.stride = two, .padding = one, .groups = 3});
  add_gradients("depthwise_7x7", {1, 2, 10, 9}, {2, 1, 7, 7}, {.padding = {3, 3}, .groups = 2});
  add_gradients("depthwise_7x7_halved", {1, 2, 13, 11}, {2, 1, 7, 7}, {.stride = two, .padding = {3, 3}, .groups = 2});
  add_gradients("depthwise_multiplied", {2, 2, 9, 8}, {4, 1, 3, 3}, {.stride = two, .padding = one, .groups = 2});
  add_gradients("depthwise_dilated", {1, 4, 12, 11}, {4, 1, 2, 3},
                {.stride = {1, 2}, .padding = {0, 2}, .dilation = {3, 2}, .groups = 4});
  // A GPU sums the weight's gradient in shares of the images' rows.
  add_gradients("depthwise_large", {3, 7, 61, 43}, {7, 1, 5, 5}, {.stride = two, .padding = {2, 2}, .groups = 7});
  // A GPU sums the weight's gradient in shares of 128 places, of which there are enough for tiles.
  add_gradients("tiles", {8, 35, 20, 21}, {67, 35, 3, 3}, {.padding = one});
  add_gradients("tiles_32_rows", {12, 35, 20, 21}, {20, 35, 3, 3}, {.padding = one});
  add_gradients("large_images", {1, 2, 160, 170}, {3, 2, 3, 3}, {.padding = one});
  add_gradients("many_channels", {1, 192, 5, 5}, {5, 192, 3, 3}, {.padding = one});

  add_transposed("3x3", {2, 4, 5, 6}, {4, 3, 3, 3}, {.padding = one}, {0, 0}, false);
  add_transposed("upsampling", {2, 4, 4, 5}, {4, 3, 3, 3}, {.stride = two, .padding = one}, one, true);
  add_transposed("groups", {1, 4, 4, 3}, {4, 2, 2, 3}, {.stride = {2, 1}, .dilation = {1, 2}, .groups = 2}, {0, 0},
                 true);

  add_sequence("3", {2, 3, 17}, {5, 3, 3}, {.padding = {0, 1}}, true);
  add_sequence("strided", {2, 4, 19}, {6, 2, 4}, {.stride = {1, 3}, .padding = {0, 2}, .dilation = {1, 2}, .groups = 2},
               false);
  add_sequence("one_sequence", {3, 9}, {2, 3, 5}, {}, false);

  add_columns("3x3", {2, 3, 7, 9}, {3, 3}, {.padding = one});
  add_columns("strided", {2, 2, 8, 9}, {3, 2}, {.stride = {2, 3}, .padding = one, .dilation = {1, 2}});
  add_columns("apart", {1, 2, 9, 10}, {2, 1}, {.stride = {4, 3}});
}

}  // namespace ashlar::conformance
