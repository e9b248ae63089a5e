// batch_norm, group_norm, instance_norm and var_mean: means of channels, of groups of channels, of single ones.
#include <algorithm>
#include <cmath>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

enum class Of : uint8_t { batch, running, group, instance, instance_running };

struct ChannelNorm {
  Of of;
  bool has_weight = true, has_bias = true;
  int64_t groups = 1;
  double eps = 1e-5;

  bool has_running() const { return of != Of::group; }
  bool is_fixed() const { return of == Of::running || of == Of::instance_running; }
  bool is_batch() const { return of == Of::batch || of == Of::running; }
  const char* kernel() const { return of == Of::group ? "group_norm" : is_batch() ? "batch_norm" : "instance_norm"; }
  int64_t groups_of(int64_t channels) const { return of == Of::group ? groups : of == Of::instance ? channels : 0; }

  template <class T>
  T input(std::span<const T> in, size_t i, bool is_there) const {
    return is_there ? in[i] : T();
  }
  template <class T>
  T weight(std::span<const T> in) const {
    return input(in, has_running() ? 3 : 1, has_weight);
  }
  template <class T>
  T bias(std::span<const T> in) const {
    return input(in, (has_running() ? 3 : 1) + (has_weight ? 1 : 0), has_bias);
  }

  std::vector<Tensor> call(Tensors in) const {
    if (of == Of::group) {
      const auto [y, mean, rstd] = group_norm(in[0], weight(in), bias(in), groups, eps);
      return {y, mean, rstd};
    }
    const Tensor w = weight(in), b = bias(in);
    if (is_batch()) {
      const auto [y, mean, rstd] = batch_norm(in[0], in[1], in[2], w, b, of == Of::batch, 0.25, eps);
      return {y, mean, rstd, in[1], in[2]};
    }
    const auto [y, mean, rstd] = instance_norm(in[0], in[1], in[2], w, b, of == Of::instance, 0.25, eps);
    return {y, mean, rstd, in[1], in[2]};
  }
  Var record(Vars in) const {
    const Var w = weight(in), b = bias(in);
    if (of == Of::group) return ad::group_norm(in[0], w, b, groups, eps).y;
    if (is_batch()) return ad::batch_norm(in[0], in[1], in[2], w, b, of == Of::batch, 0.25, eps).y;
    return ad::instance_norm(in[0], in[1], in[2], w, b, of == Of::instance, 0.25, eps).y;
  }

  std::vector<Expected> exact(HostTensors in) const {
    const HostTensor& x = in[0];
    const int64_t batch = x.shape[0], channels = x.shape[1];
    int64_t space = 1;
    for (int i = 2; i < x.shape.rank(); ++i) space *= x.shape[i];
    if (of == Of::batch && batch * space < 2) throw ShapeError("reference", "one value", "several", "Add some");
    if (of == Of::instance && space < 2) throw ShapeError("reference", "one value", "several", "Add some");
    const int64_t by = groups_of(channels), means = by > 0 ? batch * by : channels;
    const auto mean_of = [&](int64_t n, int64_t c) { return by > 0 ? n * by + c / (channels / by) : c; };
    const auto count = static_cast<double>(x.values.size()) / static_cast<double>(means);

    std::vector<double> mean(means), squares(means), largest(means), rstd(means), spread(means);
    const auto each = [&](auto&& f) {
      for (int64_t n = 0; n < batch; ++n) {
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t s = 0; s < space; ++s) f(mean_of(n, c), c, x.values[(n * channels + c) * space + s]);
        }
      }
    };
    each([&](int64_t m, int64_t, double v) {
      mean[m] += v / count;
      largest[m] = max_of(largest[m], std::abs(v));
    });
    each([&](int64_t m, int64_t, double v) { squares[m] += (v - mean[m]) * (v - mean[m]); });
    for (int64_t m = 0; m < means; ++m) {
      if (!x.values.empty() && !std::isfinite(mean[m])) mean[m] = std::nan("");  // an infinity leaves none
      if (is_fixed()) mean[m] = in[1].values[m];
      rstd[m] = 1 / std::sqrt((is_fixed() ? in[2].values[m] : squares[m] / count) + eps);
      spread[m] = 1 + largest[m] * rstd[m];
      if (x.values.empty() && !is_fixed()) mean[m] = rstd[m] = 0;
    }

    Expected y{x.shape, {}, {}};
    each([&](int64_t m, int64_t c, double v) {
      const size_t first = has_running() ? 3 : 1;
      const double w = has_weight ? in[first].values[c] : 1;
      const double b = has_bias ? in[first + (has_weight ? 1 : 0)].values[c] : 0;
      const double z = (v - mean[m]) * rstd[m];
      y.values.push_back(z * w + b);
      // Others of the channel don't count where its statistics are given.
      const double size = is_fixed() ? 1 + (std::abs(v) + std::abs(mean[m])) * rstd[m] : spread[m];
      y.magnitudes.push_back((std::abs(z) + size) * std::abs(w) + std::abs(b));
    });
    const Shape of_means = of == Of::group || of == Of::instance ? Shape{batch, by} : Shape{channels};
    Expected means_of{of_means, mean, {}, DType::f32}, rstds{of_means, rstd, {}, DType::f32};
    for (int64_t m = 0; m < means; ++m) {
      means_of.magnitudes.push_back(spread[m] / (rstd[m] == 0 ? 1 : rstd[m]));
      rstds.magnitudes.push_back(rstd[m] * spread[m]);
    }
    std::vector<Expected> all{y, means_of, rstds};
    if (!has_running()) return all;
    Expected running_mean{{channels}, in[1].values, {}, DType::f32},
        running_var{{channels}, in[2].values, {}, DType::f32};
    for (int64_t m = 0; m < means && !is_fixed() && !x.values.empty(); ++m) {
      const auto c = static_cast<size_t>(m % channels);
      // Of instances the mean of each image counts.
      const double share = 0.25 / (static_cast<double>(means) / static_cast<double>(channels));
      if (m < channels) {
        running_mean.values[c] *= 0.75;
        running_var.values[c] *= 0.75;
      }
      running_mean.values[c] += share * mean[m];
      running_var.values[c] += share * squares[m] / (count - 1);
    }
    for (size_t c = 0; c < running_mean.values.size(); ++c) {
      double size = 1;
      for (int64_t m = static_cast<int64_t>(c); m < means; m += channels) {
        size = max_of(size, (1 + largest[m]) * (1 + largest[m]));
      }
      running_mean.magnitudes.push_back(size + std::abs(running_mean.values[c]));
      running_var.magnitudes.push_back(size + std::abs(running_var.values[c]));
    }
    all.push_back(running_mean);
    all.push_back(running_var);
    return all;
  }
};

Case example(const ChannelNorm& norm, std::string name, Input x) {
  const Input of_channels{.shape = {x.shape[1]}};
  Case item{.kernel = norm.kernel(),
            .name = (norm.is_fixed() ? "running_" : "") + std::move(name),
            .inputs = {x},
            .call = [norm](Tensors in) { return norm.call(in); },
            .reference = [norm](HostTensors in) { return norm.exact(in); },
            .tolerance = terms()};
  if (norm.has_running()) {
    item.inputs.push_back({.shape = {x.shape[1]}, .dtype = DType::f32});
    item.inputs.push_back({{x.shape[1]}, {.low = 0.5, .high = 2}, Layout::dense, DType::f32});
    item.in_place = true;
  }
  if (norm.has_weight) item.inputs.push_back(of_channels);
  if (norm.has_bias) item.inputs.push_back(of_channels);
  return item;
}

Case differentiable_example(const ChannelNorm& norm, std::string name, Input x) {
  Case item = example(norm, std::move(name), std::move(x));
  item.differentiable = [norm](Vars in) { return norm.record(in); };
  for (int i = norm.has_running() ? 3 : 1; i < static_cast<int>(item.inputs.size()); ++i) {
    item.differentiated.push_back(i);
  }
  // Of a drawn channel whose elements are few or equal all terms cancel, which differences of values can't measure.
  item.is_drawn = false;
  return item;
}

void add_norm(Of of) {
  const ChannelNorm whole{of}, plain{of, false, false}, weighted{of, true, false};
  ChannelNorm grouped = whole;
  grouped.groups = 2;
  const bool flat = of == Of::batch || of == Of::running;
  for (const Shape& shape : {Shape{2, 6, 3, 5}, Shape{3, 4, 7, 7}, Shape{5, 2, 1025}, Shape{1, 2, 9001},
                             Shape{64, 4, 2}, Shape{2, 4, 2, 3, 5}, Shape{33, 130, 4}, Shape{2, 2, 140'000}}) {
    Case item = example(grouped, shape.str(), {.shape = shape});
    if (shape.numel() > 200'000) item.dtypes = {DType::f32};
    item.is_drawn = of != Of::group;  // drawn channels may not be a multiple of the groups
    add_case(item);
  }
  if (flat || of == Of::group) {
    for (const Shape& shape : {Shape{17, 4}, Shape{300, 130}, Shape{5000, 2}}) {
      Case item = example(grouped, shape.str(), {.shape = shape});
      item.is_drawn = of != Of::group;
      add_case(item);
    }
  }
  add_case(example(plain, "without_weight", {.shape = {3, 4, 33}}));
  add_case(example(weighted, "without_bias", {.shape = {3, 4, 33}}));
  add_case(example({of, false, true}, "without_weight_with_bias", {.shape = {3, 4, 33}}));
  add_case(example(whole, "transposed", {.shape = {3, 4, 5, 6}, .layout = Layout::transposed}));
  add_case(example(whole, "stepped", {.shape = {3, 4, 33}, .layout = Layout::stepped}));
  add_case(example(whole, "far", {{5, 3, 130}, {.low = 100, .high = 104}}));
  // Rows that no vector divides are one run: from its beginning, and from an odd element on.
  for (const auto& [name, layout] : {std::pair{"run", Layout::dense}, {"run_from_element_3", Layout::offset}}) {
    Case item = example(grouped, name, {.shape = {9, 40, 225}, .layout = layout});
    item.is_drawn = false;
    add_case(item);
  }
  Case special = example(whole, "special", {{5, 30, 12}, {Pattern::special}});
  special.is_drawn = false;  // the mean of infinities is NaN or infinite, by the shape
  add_case(special);
  if (of == Of::running || of == Of::instance_running || of == Of::group) {
    add_case(example(whole, "no_images", {.shape = {0, 4, 5}}));
  }
  add_case(example(whole, "no_channels", {.shape = {3, 0, 5}}));
  add_case(differentiable_example(grouped, "gradient", {.shape = {3, 4, 5}}));
  add_case(differentiable_example(plain, "gradient_without_weight", {.shape = {3, 4, 6}}));
  add_case(differentiable_example(weighted, "gradient_of_images", {.shape = {2, 2, 3, 4}}));
  if (flat) add_case(differentiable_example(whole, "gradient_of_rows", {.shape = {9, 4}}));
  for (const Shape& shape : {Shape{2, 2, 600}, Shape{40, 3, 9}, Shape{7, 6, 35}}) {
    Case item = differentiable_example(whole, "gradient_" + shape.str(), {.shape = shape});
    item.gradient_dtypes = {DType::f32};
    add_case(item);
  }
  if (of == Of::batch) {
    // A reduction of long rows among the parts' moments, and of long rows and of columns among a gradient's sums.
    Case parts = example(plain, "many_images", {.shape = {2100, 3, 2}});
    Case rows = differentiable_example(plain, "gradient_of_long_rows", {.shape = {1, 2, 2100}});
    Case columns = differentiable_example(plain, "gradient_of_33_columns", {.shape = {40, 33}});
    for (Case item : {parts, rows, columns}) {
      item.dtypes = {DType::f32};
      item.is_drawn = false;
      add_case(item);
    }
  }
  // What the CPU does in one pass, of lines that are long enough.
  if (of == Of::batch || of == Of::group || of == Of::instance) {
    Case special = example(whole, "special", {{5, 30, 33}, {Pattern::special}});
    special.is_drawn = false;
    std::vector<Case> of_lines{special, differentiable_example(grouped, "gradient", {.shape = {3, 6, 40}}),
                               differentiable_example(plain, "gradient_of_one_image", {.shape = {1, 8, 35}})};
    for (Case& item : of_lines) {
      item.name = item.kernel + "_" + item.name;
      item.kernel = "norm_of_groups";
      item.dtypes = item.gradient_dtypes = {DType::f32};
      add_case(item);
    }
  }
  Case bench = example(grouped, "32x64x56x56", {.shape = {32, 64, 56, 56}});
  bench.benchmark = true;
  add_case(bench);
}

// ---- var_mean
// -----------------------------------------------------------------------------------------------------------------

Reduced mean_of(const std::vector<double>& x) {
  double sum = 0, size = 0;
  for (const double v : x) {
    sum += v;
    size += std::abs(v);
  }
  const auto n = static_cast<double>(x.size());
  return {std::isinf(sum) ? std::nan("") : sum / n, size / n};
}
Reduced variance_of(const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  const double mean = mean_of(x).value;
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  const double variance = squares / std::max(n - 1, 0.0);
  return {variance, variance + std::abs(mean) * std::sqrt(variance)};
}

Case var_mean_example(std::string name, Input x, Axes axes, bool keepdim) {
  return {.kernel = "var_mean",
          .name = std::move(name),
          .inputs = {x},
          .call =
              [axes, keepdim](Tensors in) {
                const auto [v, m] = var_mean(in[0], axes, keepdim);
                return std::vector{v, m};
              },
          .reference =
              [axes, keepdim](HostTensors in) {
                return std::vector{reduced(in[0], axes, keepdim, variance_of), reduced(in[0], axes, keepdim, mean_of)};
              },
          .tolerance = terms(),
          .fixed_shapes = true};
}

void add_var_mean() {
  for (const auto& [shape, axes] : {std::pair{Shape{3, 4, 5, 7}, Axes{}},
                                    {Shape{3, 4, 5, 7}, Axes{0, 2, 3}},
                                    {Shape{3, 4, 5, 7}, Axes{-1}},
                                    {Shape{3, 4, 5, 7}, Axes{1}},
                                    {Shape{}, Axes{}},
                                    {Shape{5, 0}, Axes{1}},
                                    {Shape{0, 5}, Axes{1}},
                                    {Shape{3, 1}, Axes{1}},
                                    {Shape{2, 9001}, Axes{1}},
                                    {Shape{2100, 5}, Axes{0}},
                                    {Shape{100'003}, Axes{0}}}) {
    add_case(var_mean_example(shape.str() + "_over_" + axes.str(), {.shape = shape}, axes, axes.rank() == 3));
  }
  Case special = var_mean_example("special", {{30, 12}, {Pattern::special}}, {1}, false);
  special.is_drawn = false;  // the mean of infinities is NaN or infinite, by their order
  add_case(special);
  Case far = var_mean_example("far", {{7, 1025}, {.low = 1000, .high = 1001}}, {1}, false);
  Case equal = var_mean_example("equal", {{7, 1025}, {.low = 1000.1, .high = 1000.1}}, {1}, false);
  for (Case item : {far, equal}) {
    item.dtypes = {DType::f32};
    add_case(item);
  }
  Case gradient = var_mean_example("gradient", {{3, 5, 4}, {Pattern::distinct, -2, 2}}, {0, 2}, true);
  gradient.differentiable = [](Vars in) { return ad::var_mean(in[0], {0, 2}, true).var; };
  add_case(gradient);
  // Of the mean alone.
  Case mean = var_mean_example("gradient_of_mean", {{3, 5, 4}, {Pattern::distinct, -2, 2}}, {1}, false);
  mean.call = [](Tensors in) { return std::vector{var_mean(in[0], {1}).mean}; };
  mean.reference = [](HostTensors in) { return std::vector{reduced(in[0], {1}, false, mean_of)}; };
  mean.differentiable = [](Vars in) { return ad::var_mean(in[0], {1}).mean; };
  add_case(mean);
}

}  // namespace

void add_channel_norm_cases() {
  for (const Of of : {Of::batch, Of::running, Of::group, Of::instance, Of::instance_running}) add_norm(of);
  add_var_mean();
}

}  // namespace ashlar::conformance
