// The kernels of interpolate(): sums of neighbours on the CPU, resized planes on GPUs.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "ashlar/ops.h"
#include "runtime/launch/launch.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

/// Outputs along an axis as sums of neighbours, `terms` at most: the kernel of interpolate() on the CPU.
struct Neighbours {
  std::vector<int32_t> first, count;
  std::vector<float> weights;  ///< of output p its i-th: weights[p terms + i]
  int64_t terms;

  int64_t outputs() const { return static_cast<int64_t>(first.size()); }
  double weight(int64_t p, int64_t i) const { return weights[static_cast<size_t>(p * terms + i)]; }
  std::array<Tensor, 3> tables(bool is_turned) const {
    const Tensor all = Tensor::from(weights, {outputs(), terms});
    return {Tensor::from(first, {outputs()}), Tensor::from(count, {outputs()}),
            is_turned ? all.transpose(0, 1).contiguous() : all};
  }
};

/// Outputs of 0 to `terms` neighbours of `size`, by some rule.
Neighbours some_neighbours(int64_t outputs, int64_t size, int32_t terms) {
  Neighbours n{.first = {}, .count = {}, .weights = {}, .terms = terms};
  for (int32_t p = 0; p < outputs; p++) {
    n.first.push_back(static_cast<int32_t>(p * (size - terms + 1) / outputs));
    n.count.push_back(terms == 1 ? 1 : p % (terms + 1));
    for (int32_t i = 0; i < terms; i++) n.weights.push_back(0.25F * static_cast<float>((p + 3 * i) % 5 + 1));
  }
  return n;
}

void add_resampling(const std::string& name, Input x, const Neighbours& down, const Neighbours& across) {
  add_case({.kernel = "resample_planes",
            .name = name,
            .inputs = {std::move(x)},
            .dtypes = {DType::f32},
            .call =
                [=](Tensors in) {
                  const Tensor y = Tensor::empty({in[0].size(0), down.outputs(), across.outputs()}, DType::f32);
                  std::vector<Tensor> inputs{in[0]};
                  for (const Tensor& table : down.tables(false)) inputs.push_back(table);
                  for (const Tensor& table : across.tables(true)) inputs.push_back(table);
                  launch(kernels::resample_planes, {.elements = {DType::f32}}, inputs, {}, std::span(&y, 1));
                  return std::vector{y};
                },
            .reference =
                [=](HostTensors in) {
                  const int64_t planes = in[0].shape[0], high = in[0].shape[1], wide = in[0].shape[2];
                  Expected y{{planes, down.outputs(), across.outputs()}, {}, {}};
                  for_each_index(y.shape, dense_strides(y.shape), [&](const Shape& at, int64_t) {
                    double total = 0, magnitude = 0;
                    const auto p = static_cast<size_t>(at[1]), q = static_cast<size_t>(at[2]);
                    for (int32_t i = 0; i < down.count[p]; i++)
                      for (int32_t j = 0; j < across.count[q]; j++) {
                        const int64_t from = (at[0] * high + down.first[p] + i) * wide + across.first[q] + j;
                        const double term =
                            in[0].values[static_cast<size_t>(from)] * down.weight(at[1], i) * across.weight(at[2], j);
                        total += term;
                        magnitude += std::abs(term);
                      }
                    y.values.push_back(total);
                    y.magnitudes.push_back(magnitude);
                  });
                  return std::vector{y};
                },
            .tolerance = terms(1e-6),
            .fixed_shapes = true});
}

/// An axis for the kernels of interpolate() on a GPU: output p lies at (p + offset) scale, or, where that is linear, at
/// (p + ½) scale - ½ within the axis. The first of the `terms` outputs that an element h gives something is
/// floor(h inverse + shift), or one behind.
struct ResizedAxis {
  int64_t from, to, terms;
  double offset, inverse, shift;

  ResizedAxis(bool is_linear, int64_t size, int64_t outputs)
      : from(size), to(outputs), offset(outputs % size == 0 ? 0.5 : 0) {
    inverse = static_cast<double>(to) / static_cast<double>(from);
    const int64_t times = to / from;
    const bool is_whole = to % from == 0;
    shift = is_linear ? 0.75 - (1 + scale() / 2 - 0.5) * inverse : 0.5 - offset;
    terms = is_linear ? (is_whole ? 2 * times : static_cast<int64_t>(2 * inverse) + 2)
                      : (is_whole ? times : static_cast<int64_t>(inverse) + 2);
    if (from != to) return;
    shift = 0.25;
    terms = 1;
  }
  double scale() const { return static_cast<double>(from) / static_cast<double>(to); }
  /// Of element h in output p, none where it is negative.
  double share(int64_t h, int64_t p, bool is_linear) const {
    const auto at = static_cast<double>(p), place = static_cast<double>(h), last = static_cast<double>(from - 1);
    if (!is_linear) return std::min(std::floor((at + offset) * scale()), last) == place ? 1 : 0;
    return 1 - std::abs(std::clamp((at + 0.5) * scale() - 0.5, 0.0, last) - place);
  }
  std::array<int64_t, 2> line() const {
    return {std::llround(scale() * 0x1p32), std::llround((scale() / 2 - 0.5) * 0x1p32)};
  }
};

void add_resizing(const std::string& name, bool is_linear, const Shape& from, const Shape& to,
                  Layout layout = Layout::dense) {
  constexpr int64_t kPlanes = 3;
  const ResizedAxis down(is_linear, from[0], to[0]), across(is_linear, from[1], to[1]);
  const Shape small{kPlanes, down.from, across.from}, large{kPlanes, down.to, across.to};
  const auto case_of = [&](bool is_gradient) {
    const Shape out = is_gradient ? small : large;
    std::vector<Scalar> scalars{down.line()[0], across.line()[0], down.line()[1], across.line()[1],
                                down.scale(),   across.scale(),   down.offset,    across.offset};
    if (is_gradient) {
      for (const double number : {down.inverse, across.inverse, down.shift, across.shift}) scalars.emplace_back(number);
      for (const int64_t number : {down.terms, across.terms}) scalars.emplace_back(number);
    }
    const KernelInfo& kernel = is_gradient ? kernels::resize_planes_grad : kernels::resize_planes;
    return Case{
        .kernel = is_gradient ? "resize_planes_grad" : "resize_planes",
        .name = name,
        .inputs = {{is_gradient ? large : small, {}, layout}},
        .dtypes = {DType::f32},
        .call =
            [=, &kernel](Tensors in) {
              const Tensor y = Tensor::empty(out, DType::f32, in[0].device());
              const auto variant = static_cast<uint16_t>(is_linear);
              launch(kernel, {.elements = {DType::f32}, .variant = variant}, std::span(&in[0], 1), scalars,
                     std::span(&y, 1));
              return std::vector{y};
            },
        .reference =
            [=](HostTensors in) {
              Expected y{out, {}, {}};
              const Shape& from = in[0].shape;
              for_each_index(out, dense_strides(out), [&](const Shape& at, int64_t) {
                double total = 0, magnitude = 0;
                for (int64_t i = 0; i < from[1]; i++)
                  for (int64_t j = 0; j < from[2]; j++) {
                    const bool back = is_gradient;
                    const double rows = back ? down.share(at[1], i, is_linear) : down.share(i, at[1], is_linear);
                    const double columns = back ? across.share(at[2], j, is_linear) : across.share(j, at[2], is_linear);
                    const double value = in[0].values[static_cast<size_t>((at[0] * from[1] + i) * from[2] + j)];
                    // Shares are rounded as parts of 1, so none may be some.
                    constexpr double kRounding = 1e-6;
                    total += std::max(rows, 0.0) * std::max(columns, 0.0) * value;
                    magnitude += rows > -kRounding && columns > -kRounding ? std::abs(value) : 0;
                  }
                y.values.push_back(total);
                y.magnitudes.push_back(magnitude);
              });
              return std::vector{y};
            },
        .tolerance = terms(1e-6),
        .fixed_shapes = true};
  };
  add_case(case_of(false));
  add_case(case_of(true));
}

/// Each of x's 32 bits twice, in 64: nearest neighbours at twice as many columns.
void add_doubling(const std::string& name, Input x, int64_t times) {
  x.dtype = DType::i32;
  add_case({.kernel = "double_planes",
            .name = name,
            .inputs = {std::move(x)},
            .dtypes = {DType::i64},
            .call =
                [=](Tensors in) {
                  const Tensor y = Tensor::empty({in[0].size(0), times * in[0].size(1), in[0].size(2)}, DType::i64);
                  const std::array<Scalar, 1> scalars{times};
                  launch(kernels::double_planes, {.elements = {DType::i64}}, in, scalars, std::span(&y, 1));
                  // The halves apart: both together are more than a double holds.
                  const Shape halves{y.size(0), y.size(1), y.size(2), 2};
                  const Tensor single = Tensor(y.storage(), halves, dense_strides(halves), 0, DType::i32);
                  return std::vector{single.to(DType::i64)};
                },
            .reference =
                [=](HostTensors in) {
                  const int64_t planes = in[0].shape[0], high = in[0].shape[1], wide = in[0].shape[2];
                  Expected y{.shape = {planes, times * high, wide, 2}, .values = {}, .dtype = DType::i64};
                  for_each_index(y.shape, dense_strides(y.shape), [&](const Shape& at, int64_t) {
                    y.values.push_back(
                        in[0].values[static_cast<size_t>((at[0] * high + at[1] / times) * wide + at[2])]);
                  });
                  return std::vector{y};
                },
            .fixed_shapes = true});
}

}  // namespace

void add_interpolation_cases() {
  add_resampling("one_neighbour", {.shape = {3, 5, 11}}, some_neighbours(9, 5, 1), some_neighbours(27, 11, 1));
  add_resampling("two_neighbours", {.shape = {2, 7, 16}}, some_neighbours(4, 7, 2), some_neighbours(19, 16, 2));
  add_resampling("several", {.shape = {2, 9, 13}}, some_neighbours(3, 9, 5), some_neighbours(5, 13, 4));
  add_resampling("transposed", {{2, 6, 9}, {}, Layout::transposed}, some_neighbours(8, 6, 3), some_neighbours(9, 9, 2));

  for (const auto& [shape, times] : {std::pair(Shape{3, 4, 11}, 2), std::pair(Shape{2, 3, 5}, 3)}) {
    add_doubling("by_" + std::to_string(times), {.shape = shape, .values = {Pattern::integers, 0, 1e6}}, times);
  }
  add_doubling("transposed", {{2, 6, 9}, {Pattern::integers, 0, 1e6}, Layout::transposed}, 1);

  for (const bool is_linear : {false, true}) {
    const auto resize = [&](const std::string& name, const Shape& from, const Shape& to,
                            Layout layout = Layout::dense) {
      add_resizing((is_linear ? "linear_" : "nearest_") + name, is_linear, from, to, layout);
    };
    resize("both_ways", {5, 11}, {12, 7});
    resize("transposed", {6, 9}, {4, 13}, Layout::transposed);
    resize("less", {23, 11}, {16, 7});
    resize("a_little_more", {5, 9}, {7, 11});
    resize("twice", {7, 5}, {14, 10});
    resize("rows", {4, 9}, {15, 9});
    resize("one_element", {1, 3}, {6, 8});
  }
}

}  // namespace ashlar::conformance
