// Samples drawn by the ranks of their forecasts, and forecasts brought up to date: both to the bit, by loops over all
// samples in place of sums and searches.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "ashlar/ops.h"
#include "runtime/launch/launch.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

size_t bin_of(double forecast, size_t bins) {
  const auto x = static_cast<float>(forecast);
  if (std::isnan(x) || x >= 0x1p12F) return bins - 1;
  if (!(x > 0x1p-20F)) return 0;
  // The 16 bits that tell 32 octaves apart, and 2048 parts of each.
  const uint64_t place = (std::bit_cast<uint32_t>(x) - std::bit_cast<uint32_t>(0x1p-20F)) >> 12;
  return static_cast<size_t>(place * bins >> 16);
}

/// Twice the mean rank of each bin's samples, and their number.
struct Ranks {
  std::vector<int64_t> twice;
  int64_t samples = 0;
  explicit Ranks(const std::vector<double>& counts) {
    for (const double count : counts) {
      twice.push_back(2 * samples + static_cast<int64_t>(count));
      samples += static_cast<int64_t>(count);
    }
  }
};

/// What forecast_weights() gives: bin_weights [bins], and ends [groups] from the weights of all samples.
struct Weights {
  std::vector<double> of_bins, ends;
  std::vector<int64_t> order, sums;  // the samples in the order of their groups, and where the part of each ends

  Weights(HostTensors in, int64_t patience, int64_t most) {
    const std::vector<double>&forecasts = in[0].values, &table = in[3].values;
    const Ranks ranks(in[2].values);
    const auto n = static_cast<int64_t>(forecasts.size()), groups = (n + 63) / 64;
    const auto size = static_cast<int64_t>(table.size());
    for (const int64_t twice : ranks.twice) {
      const int64_t place = twice * size / std::max<int64_t>(2 * ranks.samples, 1);
      of_bins.push_back(table[static_cast<size_t>(std::min(place, size - 1))]);
    }
    int64_t total = 0;
    for (int64_t g = 0; g < groups; g++) {
      for (int64_t i = g; i < n; i += groups) {
        const auto at = static_cast<size_t>(i);
        auto weight = static_cast<int64_t>(of_bins[bin_of(forecasts[at], of_bins.size())]);
        if (in[1].values[at] >= static_cast<double>(patience)) weight = std::min(weight, most);
        order.push_back(i);
        sums.push_back(total += weight);
      }
      ends.push_back(static_cast<double>(total));
    }
  }
};

/// Of the tensors of forecast_weights, and chances.
Expected drawn_rows(HostTensors in, int64_t patience, int64_t most) {
  const Weights weights(in, patience, most);
  const std::vector<double>& chances = in[4].values;
  const int64_t total = weights.sums.back(), parts = static_cast<int64_t>(chances.size());
  Expected rows{in[4].shape, {}, {}, DType::i64};
  for (int64_t j = 0; j < parts; j++) {
    __extension__ using Wide = __int128;
    const auto begin = [&](int64_t part) { return static_cast<int64_t>(Wide{total} * part / parts); };
    const auto chance = static_cast<int64_t>(chances[static_cast<size_t>(j)]);
    const int64_t target = begin(j) + static_cast<int64_t>(Wide{begin(j + 1) - begin(j)} * chance >> 32);
    const auto found = std::ranges::upper_bound(weights.sums, target);
    rows.values.push_back(static_cast<double>(weights.order[static_cast<size_t>(found - weights.sums.begin())]));
  }
  return rows;
}

Input integers(int64_t size, double low, double high, DType dtype) {
  return {.shape = {size}, .values = {Pattern::integers, low, high}, .dtype = dtype};
}

struct Sizes {
  int64_t samples, bins, weights, batch;
};

void add_drawing(const std::string& name, const Sizes& sizes, Values forecasts, int64_t patience = 3) {
  constexpr int64_t kMost = 500;
  std::vector<Input> inputs{{{sizes.samples}, forecasts},
                            integers(sizes.samples, 0, 5, DType::i32),
                            integers(sizes.bins, 0, 7, DType::i32),
                            integers(sizes.weights, 1, 65535, DType::i32)};
  const auto weigh = [patience](Tensors in) { return forecast_weights(in[0], in[1], in[2], in[3], patience, kMost); };
  add_case({.kernel = "forecast_weights",
            .name = name,
            .inputs = inputs,
            .dtypes = {DType::f32},
            .call =
                [weigh](Tensors in) {
                  const auto [bin_weights, ends] = weigh(in);
                  return std::vector{bin_weights, ends};
                },
            .reference =
                [patience](HostTensors in) {
                  const Weights weights(in, patience, kMost);
                  return std::vector{
                      Expected{in[2].shape, weights.of_bins, {}, DType::i32},
                      Expected{{static_cast<int64_t>(weights.ends.size())}, weights.ends, {}, DType::i64}};
                },
            .fixed_shapes = true});
  inputs.push_back(integers(sizes.batch, 0, 0x1p32 - 1, DType::i64));
  add_case({.kernel = "draw_by_forecast",
            .name = name,
            .inputs = inputs,
            .dtypes = {DType::f32},
            .call =
                [weigh, patience](Tensors in) {
                  const auto [bin_weights, ends] = weigh(in);
                  return std::vector{draw_by_forecast(in[0], in[1], bin_weights, ends, in[4], patience, kMost)};
                },
            .reference = [patience](HostTensors in) { return std::vector{drawn_rows(in, patience, kMost)}; },
            .fixed_shapes = true});
}

struct Rule {
  double age = 0, trend = 0, hard = 0.5;
};

std::vector<Expected> visited(HostTensors in, const Rule& rule) {
  Expected forecasts{in[0].shape, in[0].values, in[0].values}, streaks{in[1].shape, in[1].values, {}, DType::i32},
      counts{in[2].shape, in[2].values, {}, DType::i32};
  const Ranks ranks(in[2].values);
  const auto hard = static_cast<int64_t>(std::ceil(rule.hard * 2 * static_cast<double>(in[0].values.size())));
  Expected all{in[3].shape, {}};
  for (size_t j = 0; j < in[3].values.size(); j++) {
    const double row = in[3].values[j];
    const bool is_there = row >= 0 && row < static_cast<double>(in[0].values.size());
    const auto i = static_cast<size_t>(is_there ? row : 0);
    // What it was before the batch: of several visits the last one counts, as if there had been no other.
    const double before = is_there ? in[0].values[i] : std::numeric_limits<double>::infinity();
    const double scaled = in[4].values[j] * std::pow(std::max(in[5].values[0], 1e-30), -rule.age);
    double fresh = scaled;
    if (rule.trend != 0 && before <= std::numeric_limits<float>::max()) {
      fresh = static_cast<float>(scaled) + rule.trend * static_cast<float>(scaled - before);
      fresh = fresh < 0 ? 0 : fresh;
    }
    // A trend's difference cancels.
    const double size = std::abs(scaled) + (fresh != scaled ? std::abs(scaled) + before : 0);
    all.values.push_back(fresh);
    all.magnitudes.push_back(size);
    if (!is_there) continue;
    const size_t to = bin_of(fresh, ranks.twice.size());
    counts.values[bin_of(forecasts.values[i], ranks.twice.size())]--;
    counts.values[to]++;
    forecasts.values[i] = fresh;
    forecasts.magnitudes[i] = size;
    streaks.values[i] = ranks.twice[to] >= hard ? in[1].values[i] + 1 : 0;
  }
  return {all, forecasts, streaks, counts};
}

void add_visits(const std::string& name, const Sizes& sizes, const Rule& rule, Values forecasts,
                Tolerance tolerance = kExact) {
  Input rows = integers(sizes.batch, 0, static_cast<double>(sizes.samples - 1), DType::i64);
  add_case({.kernel = "update_forecasts",
            .name = name,
            .inputs = {{{sizes.samples}, forecasts},
                       integers(sizes.samples, 0, 5, DType::i32),
                       integers(sizes.bins, 0, 7, DType::i32),
                       rows,
                       {{sizes.batch}, forecasts},
                       {{}, {Pattern::uniform, 0.5, 3}}},
            .dtypes = {DType::f32},
            .call =
                [rule](Tensors in) {
                  const Tensor fresh =
                      update_forecasts(in[0], in[1], in[2], in[3], in[4], in[5], rule.age, rule.trend, rule.hard);
                  return std::vector{fresh, in[0], in[1], in[2]};
                },
            .reference = [rule](HostTensors in) { return visited(in, rule); },
            .tolerance = tolerance,
            .in_place = true,
            .fixed_shapes = true});
}

/// What SampleHistory's tables are written by: values are those of their places, so that equal places have equal ones.
void add_writes(int64_t size, int64_t count) {
  add_case({.kernel = "forecast_write",
            .name = std::to_string(count) + "_of_" + std::to_string(size),
            .inputs = {{{size}}, integers(count, 0, static_cast<double>(size) - 1, DType::i64)},
            .dtypes = {DType::f32},
            .call =
                [](Tensors in) {
                  launch(kernels::forecast_write, {.elements = {DType::f32}},
                         std::array{in[0], in[1], affine(in[1], 0.5, 0.0)}, {}, std::span(&in[0], 1));
                  return std::vector{in[0]};
                },
            .reference =
                [](HostTensors in) {
                  Expected table{in[0].shape, in[0].values, in[0].values};
                  for (const double place : in[1].values) table.values[static_cast<size_t>(place)] = 0.5 * place;
                  return std::vector{table};
                },
            .in_place = true,
            .fixed_shapes = true,
            .is_drawn = false});  // the kernel itself takes dense tensors alone
}

}  // namespace

void add_forecast_cases() {
  const Values losses{Pattern::uniform, 0, 4}, special{Pattern::special, 0, 4}, wide{Pattern::wide, 0, 4};
  add_drawing("1_of_1", {1, 1, 1, 1}, losses);
  add_drawing("8_of_5", {5, 7, 3, 8}, losses);
  add_drawing("3_of_64", {64, 2048, 1024, 3}, losses);
  add_drawing("33_of_65", {65, 2048, 1024, 33}, losses);
  add_drawing("128_of_5000", {5000, 2048, 1024, 128}, losses);
  add_drawing("70_of_20000_wide", {20000, 300, 100, 70}, wide);
  add_drawing("64_of_777_special", {777, 2048, 1024, 64}, special);
  add_drawing("64_of_777_all_limited", {777, 2048, 1024, 64}, losses, 0);
  add_drawing("none", {10, 16, 4, 0}, losses);
  add_visits("1_of_1", {1, 1, 1, 1}, {}, losses);
  add_visits("40_of_5", {5, 7, 3, 40}, {.trend = 0.5}, losses);
  add_visits("128_of_5000", {5000, 2048, 1, 128}, {}, losses);
  add_visits("33_of_900_trend", {900, 2048, 1, 33}, {.trend = 0.5}, losses);
  add_visits("33_of_900_average", {900, 2048, 1, 33}, {.trend = -0.5, .hard = 0.9}, losses);
  add_visits("300_of_300_special", {300, 2048, 1, 300}, {}, special);
  add_visits("65_of_300_wide", {300, 400, 1, 65}, {.hard = 1}, wide);
  // The level's power isn't exact: one bin, so that no count depends on it.
  add_visits("65_of_300_age", {300, 1, 1, 65}, {.age = 1}, losses, terms(2e-6));
  add_visits("65_of_300_half_age", {300, 1, 1, 65}, {.age = 0.5, .trend = 0.5}, losses, terms(2e-6));
  add_visits("none", {10, 16, 1, 0}, {}, losses);
  add_case({.kernel = "update_forecasts",
            .name = "rows_outside",
            .inputs = {{{70}, losses},
                       integers(70, 0, 5, DType::i32),
                       integers(64, 0, 7, DType::i32),
                       integers(200, -60, 130, DType::i64),
                       {{200}, losses},
                       {{}, {Pattern::uniform, 0.5, 3}}},
            .dtypes = {DType::f32},
            .call =
                [](Tensors in) {
                  const Tensor fresh = update_forecasts(in[0], in[1], in[2], in[3], in[4], in[5], 0, 0, 0.5);
                  return std::vector{fresh, in[0], in[1], in[2]};
                },
            .reference = [](HostTensors in) { return visited(in, {}); },
            .in_place = true,
            .fixed_shapes = true});
  add_writes(1, 1);
  add_writes(100, 7);
  add_writes(7, 100);  // each place several times
  add_writes(5000, 333);
}

}  // namespace ashlar::conformance
