// The kernels of norms that their operators call: gradients of rows, sums of them, and rows that are groups of
// channels.
#include <algorithm>
#include <array>
#include <cmath>

#include "ashlar/ops.h"
#include "runtime/forms/rows.h"
#include "runtime/launch/launch.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/many_rows.h"

namespace ashlar::conformance {
namespace {

constexpr double kEps = 1e-5;

// Rows that are groups of channels of `space` places, dealt out in parts (operators/norm_passes.h).
struct RowsOfGroups {
  int64_t groups = 1, in_group = 0, space = 1, classes = 4, rows_of_part = 4;
  int64_t channel(int64_t row, int64_t column) const { return row % groups * in_group + column / space; }
  int64_t inverse_space() const { return ((int64_t{1} << 32) + space - 1) / space; }
  int64_t part(int64_t row) const { return row / classes / rows_of_part * classes + row % classes; }
  int64_t parts(int64_t rows) const {
    const int64_t of_class = (rows + classes - 1) / classes;
    return (of_class + rows_of_part - 1) / rows_of_part * classes;
  }
  std::string str() const {
    return (groups == 1 ? "" : std::to_string(groups) + " groups of " + std::to_string(in_group) + " channels ") +
           "by " + std::to_string(rows_of_part) + " of " + std::to_string(classes);
  }
};

// g = dy weight, z = (x - mean) rstd:  dx = rstd (g - Σ_k g / n - z Σ_k g z / n), of rms_norm without the first sum
// Of a sum with a residual its own upstream is added, which comes last.
std::vector<Expected> exact_gradient(HostTensors in, bool is_rms, bool has_residual, const RowsOfGroups& of = {}) {
  const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
  const auto n = static_cast<double>(columns);
  Expected dx{in[0].shape, {}, {}, {}, {}};
  for (int64_t r = 0; r < rows; ++r) {
    const double rstd = in[2].values[r], mean = is_rms ? 0 : in[4].values[r];
    const auto g = [&](int64_t c) { return in[0].values[r * columns + c] * in[3].values[of.channel(r, c)]; };
    const auto z = [&](int64_t c) { return (in[1].values[r * columns + c] - mean) * rstd; };
    double slope = 0, dot = 0, slope_size = 0, dot_size = 0;
    for (int64_t c = 0; c < columns; ++c) {
      slope += is_rms ? 0 : g(c) / n;
      dot += g(c) * z(c) / n;
      slope_size += is_rms ? 0 : std::abs(g(c)) / n;
      dot_size += std::abs(g(c) * z(c)) / n;
    }
    for (int64_t c = 0; c < columns; ++c) {
      const double dh = has_residual ? in.back().values[r * columns + c] : 0;
      dx.values.push_back(dh + rstd * (g(c) - slope - z(c) * dot));
      dx.magnitudes.push_back(std::abs(dh) +
                              std::abs(rstd) * (std::abs(g(c)) + slope_size + std::abs(z(c)) * dot_size));
    }
  }
  return {dx};
}

// Of dy, x, rstd, weight, and of layer_norm the mean.
std::vector<Tensor> call_gradient(Tensors in, bool is_rms, bool has_residual) {
  if (has_residual) {
    return {is_rms ? add_rms_norm_grad(in[0], in[4], in[1], in[2], in[3])
                   : add_layer_norm_grad(in[0], in[5], in[1], in[4], in[2], in[3])};
  }
  return {is_rms ? rms_norm_grad(in[0], in[1], in[2], in[3]) : layer_norm_grad(in[0], in[1], in[4], in[2], in[3])};
}

void add_gradient_kernel(bool is_rms, bool has_residual, const std::string& name, const Shape& shape,
                         Pattern dy = Pattern::uniform, Pattern x = Pattern::uniform) {
  const std::string kernel = is_rms ? "rms_norm_grad" : "layer_norm_grad";
  Case item{.kernel = has_residual ? "add_" + kernel : kernel,
            .name = name,
            .inputs = {{shape, {dy}},
                       {shape, {x}},
                       {{shape[0]}, {.low = 0.5, .high = 2}, Layout::dense, DType::f32},
                       {.shape = {shape[1]}}},
            .call = [=](Tensors in) { return call_gradient(in, is_rms, has_residual); },
            .reference = [=](HostTensors in) { return exact_gradient(in, is_rms, has_residual); },
            .tolerance = terms()};
  if (!is_rms) item.inputs.push_back({{shape[0]}, {}, Layout::dense, DType::f32});
  if (has_residual) item.inputs.push_back({.shape = shape});
  add_case(item);
}

void add_gradient_kernels(bool is_rms, bool has_residual) {
  const auto add = [&](const std::string& name, const Shape& shape, Pattern dy = Pattern::uniform,
                       Pattern x = Pattern::uniform) { add_gradient_kernel(is_rms, has_residual, name, shape, dy, x); };
  for (const int64_t n : {1,     3,     10,    32,   40,   64,   72,   128,  136,  256,   264,   512,   520,
                          1024,  1025,  1032,  2048, 2056, 4096, 4099, 8192, 8200, 16384, 20000, 32768, 40000,
                          50257, 65536, 65544, 13,   33,   101,  203,  301,  2047, 2051,  8191,  16383}) {
    add("rows_of_" + std::to_string(n), {2, n});
  }
  add("4099_rows_of_40", {4099, 40});
  for (const Shape& shape : kManyRows) add(name_of_rows(shape), shape);
  add("no_rows", {0, 40});
  for (const int64_t n : {3, 130, 1032, 8200, 40000}) {
    const Shape shape{n < 1000 ? 70 : 3, n};
    const std::string rows = "_rows_of_" + std::to_string(n);
    add("special" + rows, shape, Pattern::uniform, Pattern::special);
    add("special_dy" + rows, shape, Pattern::special, Pattern::uniform);
  }
}

// sums[p,0,c] = Σ_r dy[r,c] (x[r,c] - mean[r]) rstd[r] over parts of 256 rows
std::vector<Expected> exact_sums(HostTensors in) {
  const int64_t rows = in[0].shape[0], columns = in[0].shape[1], parts = (rows + 255) / 256;
  const auto size = static_cast<size_t>(parts * columns);
  Expected sums{{parts, 1, columns}, std::vector<double>(size), std::vector<double>(size), DType::f32};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const double dy = in[0].values[r * columns + c], x = in[1].values[r * columns + c];
      const double mean = in.size() > 3 ? in[3].values[r] : 0;
      sums.values[r / 256 * columns + c] += dy * (x - mean) * in[2].values[r];
      sums.magnitudes[r / 256 * columns + c] += std::abs(dy * in[2].values[r]) * (std::abs(x) + std::abs(mean));
    }
  }
  return {sums};
}

void add_weight_sums(const Shape& shape, bool has_mean, Pattern pattern = Pattern::uniform, bool is_drawn = true) {
  const std::string name = std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
  const bool is_special = pattern == Pattern::special;
  Case item{.kernel = "norm_weight_sums",
            .name = name + (has_mean ? "" : "_without_mean") + (is_special ? "_special" : ""),
            .inputs = {{shape, {pattern}}, {.shape = shape}, {{shape[0]}, {.low = 0.5}, Layout::dense, DType::f32}},
            .call =
                [has_mean](Tensors in) {
                  return std::vector{norm_weight_sums(in[0], in[1], in[2], has_mean ? in[3] : Tensor())};
                },
            .reference = [](HostTensors in) { return exact_sums(in); },
            .tolerance = terms(),
            .is_drawn = is_drawn};
  if (has_mean) item.inputs.push_back({{shape[0]}, {}, Layout::dense, DType::f32});
  add_case(item);
}

// dx as above and, over parts of rows, Σ_r dy z and Σ_r dy. in: as the gradients' kernels
std::vector<Expected> exact_row_gradients(HostTensors in, bool is_rms, const RowsOfGroups& of,
                                          bool has_stream = false) {
  const int64_t rows = in[0].shape[0], columns = in[0].shape[1], parts = of.parts(rows);
  const auto size = static_cast<size_t>(parts * columns);
  std::vector<Expected> all = exact_gradient(in, is_rms, has_stream, of);
  for (const bool is_weight : {true, false}) {
    Expected sums{{parts, columns}, std::vector<double>(size), std::vector<double>(size), DType::f32};
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const double dy = in[0].values[r * columns + c], x = in[1].values[r * columns + c];
        const double mean = is_rms ? 0 : in[4].values[r], rstd = in[2].values[r];
        const int64_t at = of.part(r) * columns + c;
        sums.values[at] += is_weight ? dy * (x - mean) * rstd : dy;
        sums.magnitudes[at] += std::abs(dy) * (is_weight ? rstd * (std::abs(x) + std::abs(mean)) : 1);
      }
    }
    all.push_back(sums);
  }
  return all;
}

void add_row_gradients(bool is_rms) {
  const auto add = [&](const Shape& shape, Pattern pattern) {
    Case item{
        .kernel = "row_norm_grads",
        .name = std::string(is_rms ? "rms_" : "") + std::to_string(shape[0]) + "x" + std::to_string(shape[1]) +
                (pattern == Pattern::special ? "_special" : ""),
        .inputs = {{shape, {pattern}},
                   {.shape = shape},
                   {{shape[0]}, {.low = 0.5, .high = 2}, Layout::dense, DType::f32},
                   {.shape = {shape[1]}}},
        .dtypes = {DType::f32},
        .call =
            [is_rms](Tensors in) {
              return forms::Rows::call(ashlar::kernels::row_norm_grads,
                                       {.inputs = std::array{in[0], in[1], in[2], is_rms ? Tensor() : in[4], in[3]},
                                        .scalars = std::array<Scalar, 1>{int64_t{!is_rms}},
                                        .options = std::array<OptionValue, 1>{int64_t{-1}}});
            },
        .reference =
            [is_rms](HostTensors in) { return exact_row_gradients(in, is_rms, {.classes = 1, .rows_of_part = 16}); },
        .tolerance = terms()};
    if (!is_rms) item.inputs.push_back({{shape[0]}, {}, Layout::dense, DType::f32});
    add_case(item);
  };
  for (const int64_t columns : {1, 3, 8, 13, 16, 33, 130, 1024, 4099, 40000}) {
    for (const int64_t rows : {1, 5, 16, 40}) add({rows, columns}, Pattern::uniform);
  }
  add({3000, 20}, Pattern::uniform);
  add({0, 8}, Pattern::uniform);
  add({8, 0}, Pattern::uniform);
  add({40, 70}, Pattern::special);
}

// A call of the kernels that GPUs have of rows which are read once.
struct RowCase {
  Shape shape;
  RowsOfGroups of = {};
  bool is_rms = false, has_stream = false, has_weight = true;
  Pattern pattern = Pattern::uniform;
  Layout layout = Layout::dense;

  RowsOfGroups rows() const {
    RowsOfGroups all = of;
    if (all.in_group == 0) all.in_group = shape[1];
    return all;
  }
  std::string name() const {
    return std::string(is_rms ? "rms_" : "") + std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + " " +
           rows().str() + (has_weight ? "" : " without weight") + (pattern == Pattern::special ? " special" : "") +
           (layout == Layout::dense ? "" : " offset") + (has_stream ? " of sum" : "");
  }
};

// The same for GPUs, whose sums are one tensor, [parts, 2, places]; with `has_stream` dh, the last input, is added.
void add_row_gradients_in_parts(const RowCase& one) {
  const RowsOfGroups rows = one.rows();
  const int64_t parts = rows.parts(one.shape[0]), columns = one.shape[1];
  Case item{.kernel = "row_norm_grads_in_parts",
            .name = one.name(),
            .inputs = {{one.shape, {one.pattern}, one.layout},
                       {one.shape, {}, one.layout},
                       {{one.shape[0]}, {.low = 0.5, .high = 2}, Layout::dense, DType::f32},
                       {.shape = {rows.groups * rows.in_group}, .layout = one.layout}},
            .dtypes = {DType::f32},
            .call =
                [=](Tensors in) {
                  const Device device = in[0].device();
                  const Tensor dx = Tensor::empty(one.shape, DType::f32, device),
                               sums = Tensor::empty({parts, 2, (columns + 6) / 4 * 4}, DType::f32, device);
                  const Tensor &mean = one.is_rms ? in[2] : in[4], &dh = one.has_stream ? in.back() : in[0];
                  const std::array inputs{in[0], in[1], in[2], mean, in[3], dh};
                  const std::array<Scalar, 7> scalars{int64_t{!one.is_rms}, int64_t{one.has_weight}, rows.groups,
                                                      rows.in_group,        rows.inverse_space(),    rows.classes,
                                                      rows.rows_of_part};
                  const KernelKey key{.elements = {DType::f32, DType::f32}, .variant = uint16_t{one.has_stream}};
                  launch(ashlar::kernels::row_norm_grads_in_parts, key, inputs, scalars, std::array{dx, sums});
                  return std::vector{dx, sums.slice(2, 0, columns).contiguous()};
                },
            .reference =
                [=](HostTensors given) {
                  std::vector<HostTensor> in(given.begin(), given.end());
                  if (!one.has_weight) std::ranges::fill(in[3].values, 1.0);
                  const std::vector<Expected> all = exact_row_gradients(in, one.is_rms, rows, one.has_stream);
                  Expected sums{{parts, 2, columns}, {}, {}, DType::f32};
                  for (int64_t p = 0; p < parts; ++p) {
                    for (const size_t which : {1, 2}) {
                      for (int64_t c = 0; c < columns; ++c) {
                        const auto at = static_cast<size_t>(p * columns + c);
                        sums.values.push_back(all[which].values[at]);
                        sums.magnitudes.push_back(all[which].magnitudes[at]);
                      }
                    }
                  }
                  return std::vector{all[0], sums};
                },
            .tolerance = terms()};
  item.fixed_shapes = true;
  item.is_drawn = false;
  if (!one.is_rms) item.inputs.push_back({{one.shape[0]}, {}, Layout::dense, DType::f32});
  if (one.has_stream) item.inputs.push_back({.shape = one.shape, .layout = one.layout});
  add_case(item);
}

// {y, mean, rstd, variance} of rows. in: x, weight, bias
std::vector<Expected> exact_row_norms(HostTensors in, const RowCase& one) {
  const int64_t rows = one.shape[0], columns = one.shape[1];
  const auto n = static_cast<double>(columns);
  Expected y{one.shape, {}, {}, {}, {}};
  std::array<Expected, 3> moments;
  for (Expected& moment : moments) moment = {{rows}, {}, {}, DType::f32};
  for (int64_t r = 0; r < rows; ++r) {
    const auto x = [&](int64_t c) { return in[0].values[r * columns + c]; };
    double mean = 0, variance = 0, size = 0;
    for (int64_t c = 0; c < columns; ++c) {
      mean += x(c) / n;
      size += std::abs(x(c)) / n;
    }
    for (int64_t c = 0; c < columns; ++c) variance += (x(c) - mean) * (x(c) - mean) / n;
    const double rstd = 1 / std::sqrt(variance + kEps);
    const double values[] = {std::isnan(variance) ? variance : mean, rstd, variance},
                 magnitudes[] = {size, rstd, variance};
    for (size_t i = 0; i < moments.size(); i++) {
      moments[i].values.push_back(values[i]);
      moments[i].magnitudes.push_back(magnitudes[i]);
    }
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t channel = one.rows().channel(r, c);
      const double weight = one.has_weight ? in[1].values[channel] : 1,
                   bias = one.has_weight ? in[2].values[channel] : 0;
      y.values.push_back((x(c) - mean) * rstd * weight + bias);
      y.magnitudes.push_back((std::abs(x(c)) + size) * rstd * std::abs(weight) + std::abs(bias));
    }
  }
  return {y, moments[0], moments[1], moments[2]};
}

void add_norm_of_group_rows(const RowCase& one) {
  const RowsOfGroups rows = one.rows();
  const Shape of_channels{rows.groups * rows.in_group};
  Case item{
      .kernel = "norm_of_group_rows",
      .name = one.name(),
      .inputs = {{one.shape, {one.pattern}, one.layout}, {.shape = of_channels}, {.shape = of_channels}},
      .dtypes = {DType::f32},
      .call =
          [=](Tensors in) {
            const auto empty = [&](const Shape& shape) { return Tensor::empty(shape, DType::f32, in[0].device()); };
            const Shape each{one.shape[0]};
            const std::vector<Tensor> outputs{empty(one.shape), empty(each), empty(each), empty(each)};
            const std::array<Scalar, 6> scalars{kEps,        int64_t{one.has_weight}, int64_t{one.has_weight},
                                                rows.groups, rows.in_group,           rows.inverse_space()};
            launch(ashlar::kernels::norm_of_group_rows, KernelKey{.elements = {DType::f32}}, in, scalars, outputs);
            return outputs;
          },
      .reference = [=](HostTensors in) { return exact_row_norms(in, one); },
      .tolerance = terms()};
  item.fixed_shapes = true;
  item.is_drawn = false;
  add_case(item);
}

/// Rows that each plan of the kernels that read them once is for, whole and with threads left over, of quads and of
/// single elements; rows of a run that begin at each place of a quad, and groups of channels.
std::vector<RowCase> rows_read_once() {
  std::vector<RowCase> all;
  for (const int64_t columns : {1,   2,   3,   31,   32,   36,   64,   100,  128,  132,  256,  500,  512,  516,
                                641, 700, 766, 1021, 1024, 1026, 2000, 2045, 2046, 2048, 4096, 4100, 8192, 33,
                                127, 129, 511, 513,  1533, 2047, 2049, 3070, 4093, 4097, 6141, 8189, 8191}) {
    all.push_back({.shape = {37, columns}, .of = {.rows_of_part = 8}});
  }
  for (const int64_t rows : {1, 2, 3, 4, 5, 300}) {
    for (const int64_t columns : {48, 701, 2047}) all.push_back({.shape = {rows, columns}, .of = {.rows_of_part = 16}});
  }
  for (const int64_t columns : {48, 200, 701, 1024, 1533, 4099}) {
    all.push_back({.shape = {19, columns}, .has_weight = false});
    all.push_back({.shape = {19, columns}, .layout = Layout::offset});
    all.push_back({.shape = {19, columns}, .pattern = Pattern::special});
  }
  all.push_back({.shape = {70000, 8}, .of = {.classes = 1, .rows_of_part = 400}});
  using Groups = RowsOfGroups;
  for (const Groups& of : {Groups{.groups = 4, .in_group = 3, .space = 16, .classes = 4},
                           Groups{.groups = 3, .in_group = 5, .space = 9, .classes = 12},
                           Groups{.groups = 2, .in_group = 1, .space = 777, .classes = 8},
                           Groups{.groups = 6, .in_group = 7, .space = 190, .classes = 12},
                           Groups{.groups = 1, .in_group = 3, .space = 1501, .classes = 4},
                           Groups{.groups = 5, .in_group = 64, .space = 1, .classes = 5}}) {
    all.push_back({.shape = {of.groups * 14, of.in_group * of.space}, .of = of});
    all.push_back({.shape = {of.groups * 5, of.in_group * of.space}, .of = of, .layout = Layout::offset});
  }
  return all;
}

// Without a mean where a stream's gradient is added.
void add_rows_read_once() {
  for (const RowCase& one : rows_read_once()) {
    add_norm_of_group_rows(one);
    for (const bool is_other : {false, true}) {
      RowCase of_kernel = one;
      of_kernel.is_rms = of_kernel.has_stream = is_other;
      add_row_gradients_in_parts(of_kernel);
    }
  }
}

void add_weight_sums() {
  for (const int64_t columns : {1, 3, 8, 12, 13, 31, 33, 128, 130, 256, 1024, 1028, 4099}) {
    for (const int64_t rows : {1, 17, 255, 256, 257, 600}) add_weight_sums({rows, columns}, rows != 600);
  }
  add_weight_sums({5000, 64}, true);
  add_weight_sums({40000, 1}, true);
  add_weight_sums({(1 << 22) - 5, 1}, true, Pattern::uniform, false);  // parts enough for few threads to each
  add_weight_sums({0, 8}, true);
  add_weight_sums({8, 0}, true);
  add_weight_sums({300, 70}, true, Pattern::special);
}

}  // namespace

void add_norm_kernel_cases() {
  for (const bool is_rms : {false, true}) {
    for (const bool has_residual : {false, true}) add_gradient_kernels(is_rms, has_residual);
    add_row_gradients(is_rms);
  }
  add_rows_read_once();
  add_weight_sums();
}

}  // namespace ashlar::conformance
