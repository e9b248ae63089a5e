// bincount and histc: how often values occur.
#include <algorithm>
#include <cmath>

#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

void add_bincount(const std::string& name, int64_t count, int64_t most, int64_t minlength) {
  add_case({.kernel = "bincount",
            .name = name,
            .inputs = {{{count}, {Pattern::integers, 0, static_cast<double>(most)}}},
            .dtypes = {DType::i64, DType::i32, DType::u8},
            .call = [minlength](Tensors in) { return std::vector{bincount(in[0], minlength)}; },
            .reference =
                [minlength](HostTensors in) {
                  const std::vector<double>& x = in[0].values;
                  const double places = x.empty() ? 0 : *std::ranges::max_element(x) + 1;
                  std::vector<double> counts(std::max(static_cast<size_t>(places), static_cast<size_t>(minlength)));
                  for (const double v : x) counts[static_cast<size_t>(v)]++;
                  const auto length = static_cast<int64_t>(counts.size());
                  return std::vector{Expected{{length}, counts, {}, DType::i64}};
                },
            .size_from_elements = true});
}

struct Bins {
  int64_t count;
  double low, high;
};

void add_histc(const std::string& name, Input input, Bins bins) {
  add_case({.kernel = "histc",
            .name = name,
            .inputs = {std::move(input)},
            .call = [bins](Tensors in) { return std::vector{histc(in[0], bins.count, bins.low, bins.high)}; },
            .reference =
                [bins](HostTensors in) {
                  double low = bins.low, high = bins.high;
                  const std::vector<double>& x = in[0].values;
                  if (low == high && !x.empty()) {
                    low = *std::ranges::min_element(x);
                    high = *std::ranges::max_element(x);
                    if (low == high) low -= 1, high += 1;
                  }
                  std::vector<double> counts(static_cast<size_t>(bins.count));
                  for (const double v : x) {
                    if (!(v >= low && v <= high)) continue;
                    const auto bin = static_cast<int64_t>((v - low) * static_cast<double>(bins.count) / (high - low));
                    counts[static_cast<size_t>(std::min(bin, bins.count - 1))]++;
                  }
                  return std::vector{Expected{{bins.count}, counts}};
                },
            // Numbers of steps that every dtype has: no draw lies on the edge of a bin but by rounding.
            .is_drawn = false});
}

}  // namespace

void add_histogram_cases() {
  add_bincount("1", 1, 5, 0);
  add_bincount("1000_of_20", 1000, 20, 0);
  add_bincount("5000_of_200_at_least_300", 5000, 200, 300);
  add_bincount("all_equal", 70, 0, 0);
  add_bincount("none", 0, 5, 0);
  add_bincount("none_at_least_7", 0, 5, 7);
  const auto grid = [](const Shape& shape) { return Input{shape, {Pattern::integers, -8, 8}}; };
  add_histc("given_range", grid({7, 300}), {8, -8, 8});
  add_histc("own_range", grid({2000}), {4, 0, 0});
  add_histc("outside", grid({2000}), {6, -3, 3});
  add_histc("one_bin", grid({33}), {1, -8, 8});
  add_histc("all_equal", {{50}, {Pattern::integers, 3, 3}}, {4, 0, 0});
  add_histc("none", {.shape = {0}}, {5, 0, 0});
  add_histc("special", {{300}, {Pattern::special}}, {1, -2, 2});
  Input view = grid({40, 9});
  view.layout = Layout::transposed;
  add_histc("transposed", view, {16, -8, 8});
}

}  // namespace ashlar::conformance
