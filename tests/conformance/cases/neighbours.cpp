// The tests' own kernels that read an element's neighbours, with every border, at sizes down to one element.
#include <cmath>

#include "ashlar/ops/neighbours.h"
#include "ashlar/ops/schedules.h"
#include "runtime/support/error.h"
#include "tests/conformance/case.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

enum class Border { constant, clamp, reflect, wrap };
constexpr const char* kNames[] = {"constant", "clamp", "reflect", "wrap"};

// Where an index reads, by steps; -1: outside.
int64_t place(int64_t at, int64_t size, Border border) {
  if (border == Border::constant) return at >= 0 && at < size ? at : -1;
  if (border == Border::clamp) return at < 0 ? 0 : at < size ? at : size - 1;
  if (border == Border::wrap) {
    while (at < 0) at += size;
    while (at >= size) at -= size;
    return at;
  }
  if (size == 1) return 0;
  while (at < 0 || at >= size) at = at < 0 ? -at : 2 * (size - 1) - at;
  return at;
}

Expected blur(const HostTensor& x, Border border) {
  Expected y{x.shape, {}, {}};
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    for (int64_t c = 0; c < x.shape[1]; ++c) {
      double value = 0, magnitude = 0;
      for (int64_t i = -1; i <= 1; ++i) {
        for (int64_t j = -1; j <= 1; ++j) {
          const int64_t row = place(r + i, x.shape[0], border), column = place(c + j, x.shape[1], border);
          const double weight = static_cast<double>((2 - std::abs(i)) * (2 - std::abs(j))) / 16;
          const double v = row < 0 || column < 0 ? 0.5 : x.values[static_cast<size_t>(row * x.shape[1] + column)];
          value += weight * v, magnitude += weight * std::abs(v);
        }
      }
      y.values.push_back(value), y.magnitudes.push_back(magnitude);
    }
  }
  return y;
}

Expected convolve(const HostTensor& x, const HostTensor& w, Border border) {
  Expected y{x.shape, {}, {}};
  const int64_t size = x.shape[1], weights = w.shape[0];
  if (weights == 0 && !x.values.empty()) throw ShapeError("reference", "no weights", "one or more", "");
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    for (int64_t i = 0; i < size; ++i) {
      double value = 0, magnitude = 0;
      for (int64_t k = 0; k < weights; ++k) {
        const int64_t at = place(i + k - weights / 2, size, border);
        const double term =
            at < 0 ? 0 : w.values[static_cast<size_t>(k)] * x.values[static_cast<size_t>(b * size + at)];
        value += term, magnitude += std::abs(term);
      }
      y.values.push_back(value), y.magnitudes.push_back(magnitude);
    }
  }
  return y;
}

Expected smooth(const HostTensor& x) {
  constexpr double kWeights[] = {0.2, 0.16, 0.12, 0.08, 0.04};
  Expected y{x.shape, {}, {}};
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    for (int64_t c = 0; c < x.shape[1]; ++c) {
      double value = 0, magnitude = 0;
      for (int64_t i = -4; i <= 4; ++i) {
        for (int64_t j = -4; j <= 4; ++j) {
          const int64_t row = place(r + i, x.shape[0], Border::clamp), column = place(c + j, x.shape[1], Border::clamp);
          const double term =
              kWeights[std::abs(i)] * kWeights[std::abs(j)] * x.values[static_cast<size_t>(row * x.shape[1] + column)];
          value += term, magnitude += std::abs(term);
        }
      }
      y.values.push_back(value), y.magnitudes.push_back(magnitude);
    }
  }
  return y;
}

using Blurring = Tensor (*)(const Tensor&);
using Convolving = Tensor (*)(const Tensor&, const Tensor&);
constexpr Blurring kBlurs[] = {&test_blur_constant, &test_blur_clamp, &test_blur_reflect, &test_blur_wrap};
constexpr Convolving kConvolutions[] = {&test_convolve_constant, &test_convolve_clamp, &test_convolve_reflect,
                                        &test_convolve_wrap};

}  // namespace

void add_neighbour_cases() {
  const Shape images[] = {{0, 4}, {1, 1}, {1, 2}, {2, 1}, {2, 9}, {9, 2}, {3, 3}, {17, 31}, {5, 300}, {40, 1100}};
  const std::pair<Shape, int64_t> lines[] = {{{0, 4}, 3}, {{1, 1}, 1},  {{2, 1}, 5},    {{2, 2}, 9},
                                             {{3, 5}, 4}, {{2, 33}, 7}, {{3, 1030}, 5}, {{1, 3}, 40}};
  const std::pair<const char*, Blurring> smoothing[] = {{"test_smooth", &test_smooth},
                                                        {"test_smooth_in_two", &test_smooth_in_two},
                                                        {"test_smooth_in_tiles", &test_smooth_in_tiles},
                                                        {"test_blur_in_rows", &test_blur_in_rows}};
  for (const auto& [kernel, function] : smoothing) {
    const bool is_blur = function == &test_blur_in_rows;
    for (const Shape& shape : images) {
      add_case(
          {.kernel = kernel,
           .name = std::to_string(shape[0]) + "x" + std::to_string(shape[1]),
           .inputs = {{.shape = shape}},
           .dtypes = {DType::f32},
           .call = [f = function](Tensors in) { return std::vector{f(in[0])}; },
           .reference =
               [is_blur](HostTensors in) { return std::vector{is_blur ? blur(in[0], Border::clamp) : smooth(in[0])}; },
           .tolerance = terms()});
    }
  }
  for (int b = 0; b < 4; ++b) {
    const auto border = static_cast<Border>(b);
    for (const Shape& shape : images) {
      add_case({.kernel = std::string("test_blur_") + kNames[b],
                .name = std::to_string(shape[0]) + "x" + std::to_string(shape[1]),
                .inputs = {{.shape = shape}},
                .dtypes = {DType::f32},
                .call = [f = kBlurs[b]](Tensors in) { return std::vector{f(in[0])}; },
                .reference = [border](HostTensors in) { return std::vector{blur(in[0], border)}; },
                .tolerance = terms()});
    }
    for (const auto& [shape, weights] : lines) {
      add_case({.kernel = std::string("test_convolve_") + kNames[b],
                .name = std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + "_by_" + std::to_string(weights),
                .inputs = {{.shape = shape}, {.shape = {weights}}},
                .dtypes = {DType::f32},
                .call = [f = kConvolutions[b]](Tensors in) { return std::vector{f(in[0], in[1])}; },
                .reference = [border](HostTensors in) { return std::vector{convolve(in[0], in[1], border)}; },
                .tolerance = terms()});
    }
  }
}

}  // namespace ashlar::conformance
