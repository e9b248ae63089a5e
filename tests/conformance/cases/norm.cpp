// layer_norm and rms_norm along an axis, with and without a weight and a bias, of a sum with a residual, and the
// kernels of their gradients.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/norm.h"
#include "runtime/forms/rows.h"
#include "runtime/launch/launch.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/many_rows.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

constexpr double kEps = 1e-5;

// What a row comes to, and how far f32 may be off: `spread` is the size of the terms that cancel in x - mean, measured
// in standard deviations.
struct Row {
  double mean = 0, rstd = 0, spread = 0;
};

Row row_of(const double* x, int64_t columns, bool is_rms, double eps) {
  const auto n = static_cast<double>(columns);
  Row row;
  double squares = 0, largest = 0;
  for (int64_t k = 0; k < columns; ++k) largest = max_of(largest, std::abs(x[k]));
  for (int64_t k = 0; k < columns && !is_rms; ++k) row.mean += x[k] / n;
  for (int64_t k = 0; k < columns; ++k) squares += (x[k] - row.mean) * (x[k] - row.mean) / n;
  row.rstd = 1 / std::sqrt(squares + eps);
  row.spread = 1 + largest * row.rstd;
  return row;
}

struct Norm {
  bool is_rms;
  bool has_weight, has_bias;
  int64_t axis = -1;
  double eps = kEps;

  bool has_residual = false;

  const char* kernel() const {
    if (has_residual) return is_rms ? "add_rms_norm" : "add_layer_norm";
    return is_rms ? "rms_norm" : "layer_norm";
  }
  size_t weight_at() const { return has_residual ? 2 : 1; }
  template <class T>
  T weight(std::span<const T> in) const {
    return has_weight ? in[weight_at()] : T();
  }
  template <class T>
  T bias(std::span<const T> in) const {
    return has_bias ? in[weight_at() + 1] : T();
  }

  std::vector<Tensor> call(Tensors in) const {
    if (has_residual && is_rms) {
      const auto [y, h, rstd] = add_rms_norm(in[0], in[1], weight(in), eps, axis);
      return {y, h, rstd};
    }
    if (has_residual) {
      const auto [y, h, mean, rstd] = add_layer_norm(in[0], in[1], weight(in), bias(in), eps, axis);
      return {y, h, mean, rstd};
    }
    if (is_rms) {
      const auto [y, rstd] = rms_norm(in[0], weight(in), eps, axis);
      return {y, rstd};
    }
    const auto [y, mean, rstd] = layer_norm(in[0], weight(in), bias(in), eps, axis);
    return {y, mean, rstd};
  }
  Var record(Vars in) const {
    if (has_residual) {  // both results have gradients
      if (is_rms) {
        const auto recorded = ad::add_rms_norm(in[0], in[1], weight(in), eps, axis);
        return ad::add(recorded.y, recorded.h);
      }
      const auto recorded = ad::add_layer_norm(in[0], in[1], weight(in), bias(in), eps, axis);
      return ad::add(recorded.y, recorded.h);
    }
    return is_rms ? ad::rms_norm(in[0], weight(in), eps, axis).y
                  : ad::layer_norm(in[0], weight(in), bias(in), eps, axis).y;
  }
  std::vector<Expected> exact(HostTensors in) const {
    HostTensor stream = in[0];
    for (size_t i = 0; i < stream.values.size() && has_residual; ++i) stream.values[i] += in[1].values[i];
    const HostTensor x = stream.shape.rank() == 0 ? stream : with_axis_moved(stream, axis, -1);
    HostTensor y{x.shape, {}}, magnitudes{x.shape, {}};
    Shape rows = in[0].shape;
    if (rows.rank() > 0) rows.erase(normalize_axis("norm", axis, rows.rank()));
    Expected mean{rows, {}, {}, DType::f32}, rstd{rows, {}, {}, DType::f32};
    const int64_t columns = x.shape.rank() == 0 ? 1 : x.shape.back();
    for (int64_t first = 0, r = 0; r < rows.numel(); first += columns, ++r) {
      const Row row = columns == 0 ? Row{} : row_of(&x.values[first], columns, is_rms, eps);
      mean.values.push_back(row.mean);
      mean.magnitudes.push_back(row.spread / (row.rstd == 0 ? 1 : row.rstd));
      rstd.values.push_back(row.rstd);
      rstd.magnitudes.push_back(row.rstd * row.spread);
      for (int64_t c = 0; c < columns; ++c) {
        const double z = (x.values[first + c] - row.mean) * row.rstd;
        const double weight = has_weight ? in[weight_at()].values[c] : 1;
        const double bias = has_bias ? in[weight_at() + 1].values[c] : 0;
        y.values.push_back(has_bias || has_weight ? z * weight + bias : z);
        magnitudes.values.push_back((std::abs(z) + row.spread) * std::abs(weight) + std::abs(bias));
      }
    }
    if (rows.rank() < in[0].shape.rank()) {
      y = with_axis_moved(y, -1, axis);
      magnitudes = with_axis_moved(magnitudes, -1, axis);
    }
    std::vector<Expected> results{{in[0].shape, y.values, magnitudes.values}};
    if (has_residual) results.push_back({stream.shape, stream.values});
    if (!is_rms) results.push_back(mean);
    results.push_back(rstd);
    return results;
  }
};

Case with_other_axis(const Norm& like, const Case& item, Random& random);

Case example(const Norm& norm, std::string name, Input x) {
  Case item{.kernel = norm.kernel(),
            .name = std::move(name),
            .inputs = {x},
            .call = [norm](Tensors in) { return norm.call(in); },
            .reference = [norm](HostTensors in) { return norm.exact(in); },
            .tolerance = terms(),
            .vary = [norm](const Case& like, Random& random) { return with_other_axis(norm, like, random); }};
  const Shape columns{x.shape.rank() == 0 ? 1 : x.shape[normalize_axis("norm", norm.axis, x.shape.rank())]};
  if (norm.has_residual) item.inputs.push_back({.shape = x.shape, .values = x.values});
  if (norm.has_weight) item.inputs.push_back({.shape = columns});
  if (norm.has_bias) item.inputs.push_back({.shape = columns});
  return item;
}

Case differentiable_example(const Norm& norm, std::string name, Input x) {
  Case item = example(norm, std::move(name), std::move(x));
  item.differentiable = [norm](Vars in) { return norm.record(in); };
  for (int i = 1; i < static_cast<int>(item.inputs.size()); ++i) item.differentiated.push_back(i);
  // Of a drawn row whose elements are equal all terms cancel, which differences of values can't measure: the gradients'
  // kernels are drawn, which know the terms' sizes.
  item.is_drawn = norm.is_rms;
  if (norm.has_residual) {  // the gradient of both results' sum, which alone is compared
    item.dtypes = {DType::f32};
    item.call = [norm](Tensors in) {
      const std::vector<Tensor> results = norm.call(in);
      return std::vector{add(results[0], results[1])};
    };
    item.reference = [norm](HostTensors in) {
      std::vector<Expected> results = norm.exact(in);
      for (size_t i = 0; i < results[0].values.size(); ++i) {
        results[0].values[i] += results[1].values[i];
        results[0].magnitudes[i] += std::abs(results[1].values[i]);
      }
      results.resize(1);
      return results;
    };
  }
  return item;
}

Case with_other_axis(const Norm& like, const Case& item, Random& random) {
  const int rank = static_cast<int>(random.pick<int64_t>({1, 2, 2, 2, 3, 3, 4, 8}));
  Norm norm = like;
  norm.axis = random.chance(0.5) ? -1 : random.between(-rank, rank - 1);
  // Of short rows nearly all of a gradient's terms cancel unless eps is a part of the variance.
  norm.eps = item.differentiable ? random.pick({0.25, 1.0}) : random.pick({kEps, 1e-6, 0.25});
  Input x = item.inputs[0];
  x.shape = symbols(rank, random);
  const std::string name = "along " + std::to_string(norm.axis) + " with eps " + std::to_string(norm.eps);
  Case varied = item.differentiable ? differentiable_example(norm, name, x) : example(norm, name, x);
  varied.gradient_dtypes = {DType::f32};
  return varied;
}

void add_norm(bool is_rms) {
  const Norm plain{is_rms, false, false}, whole{is_rms, true, !is_rms}, weighted{is_rms, true, false};
  const auto over = [](Norm norm, int64_t axis) {
    norm.axis = axis;
    return norm;
  };
  for (const int64_t n :
       {1,    2,    3,    7,    8,    10,   16,    17,    31,    32,    33,    64,    65,    128, 129, 255,  256,
        512,  513,  1000, 1024, 1025, 2048, 2056,  4096,  4099,  8192,  8200,  12000, 16384, 264, 520, 1032, 4104,
        8208, 2047, 2051, 5000, 6144, 8191, 16383, 24576, 32768, 32776, 50257, 65536, 65544, 101, 203, 301}) {
    add_case(example(whole, "rows_of_" + std::to_string(n), {.shape = {3, n}}));
  }
  for (const int64_t n : {1, 5, 24, 96, 1024, 1030, 8192, 20000, 65544, 65537, 131072}) {
    add_case(example(plain, "without_weight_rows_of_" + std::to_string(n), {.shape = {2, n}}));
  }
  Case very_long = example(whole, "rows_of_3000001", {.shape = {2, 3000001}});
  very_long.dtypes = {DType::f32};
  add_case(very_long);
  if (!is_rms) add_case(example(weighted, "without_bias", {.shape = {5, 260}}));
  for (const int64_t rows : {0, 1, 2, 15, 17, 255, 257, 4099}) {
    add_case(example(whole, std::to_string(rows) + "_rows_of_48", {.shape = {rows, 48}}));
  }
  for (const Shape& shape : kManyRows) add_case(example(whole, name_of_rows(shape), {.shape = shape}));
  add_case(example(whole, "empty_rows", {.shape = {7, 0}}));
  const Shape shape{4, 5, 33};
  add_case(example(whole, "rank1", {.shape = {129}}));
  add_case(example(whole, "rank0", {.shape = {}}));
  add_case(example(over(whole, 0), "axis0", {.shape = shape}));
  add_case(example(over(whole, 1), "axis1", {.shape = shape}));
  for (const auto& [name, layout] : {std::pair{"offset", Layout::offset},
                                     {"transposed", Layout::transposed},
                                     {"stepped", Layout::stepped},
                                     {"flipped", Layout::flipped},
                                     {"broadcast_first", Layout::broadcast_first},
                                     {"equal_elements", Layout::broadcast_last}}) {
    add_case(example(whole, name, {.shape = shape, .layout = layout}));
  }
  Case offset_weight = example(whole, "offset_weight", {.shape = {5, 1024}});
  for (size_t i = 1; i < offset_weight.inputs.size(); ++i) offset_weight.inputs[i].layout = Layout::offset;
  add_case(offset_weight);
  // Far from 0 the deviations are what is left when the mean is taken off.
  add_case(example(whole, "far", {{9, 130}, {.low = 100, .high = 104}}));
  add_case(example(whole, "far_long", {{3, 8192}, {.low = 100, .high = 104}}));
  add_case(example(whole, "integers", {{9, 130}, {Pattern::integers, -2, 2}}));
  add_case(example(whole, "tiny", {{9, 130}, {Pattern::tiny}}));
  for (const int64_t n : {3, 130, 257, 1024, 4096, 40000}) {
    const Shape rows{n < 1000 ? 70 : 3, n};
    add_case(example(whole, "special_rows_of_" + std::to_string(n), {rows, {Pattern::special}}));
    add_case(example(whole, "masked_rows_of_" + std::to_string(n), {rows, {Pattern::masked}}));
  }

  // (Of layer_norm with one column all terms of dx cancel: gradient kernels' cases measure against their sizes.)
  if (is_rms) add_case(differentiable_example(whole, "gradient_rows_of_1", {.shape = {5, 1}}));
  add_case(differentiable_example(whole, "gradient_rows_of_10", {.shape = {5, 10}}));
  add_case(differentiable_example(plain, "gradient_without_weight", {.shape = {5, 12}}));
  if (!is_rms) add_case(differentiable_example(weighted, "gradient_without_bias", {.shape = {5, 12}}));
  add_case(differentiable_example(over(whole, 1), "gradient_axis1", {.shape = {3, 5, 4}}));
  add_case(differentiable_example(whole, "gradient_of_300_rows", {.shape = {300, 6}}));
  for (const int64_t n : {64, 257, 1024}) {
    Case item = differentiable_example(whole, "gradient_rows_of_" + std::to_string(n), {.shape = {3, n}});
    item.gradient_dtypes = {DType::f32};
    add_case(item);
  }
  for (const auto& [name, size] : {std::pair{"131072x128", Shape{131072, 128}},
                                   {"16384x1024", Shape{16384, 1024}},
                                   {"4096x4096", Shape{4096, 4096}}}) {
    Case bench = example(whole, name, {.shape = size});
    bench.benchmark = true;
    add_case(bench);
  }
}

// Sizes around each schedule of the family; the rest is the norms' own.
void add_residual_norm(bool is_rms) {
  Norm plain{is_rms, false, false}, whole{is_rms, true, !is_rms};
  plain.has_residual = whole.has_residual = true;
  for (const int64_t n :
       {1,    3,    8,    17,   24,    33,    64,    65,    128,   256, 264, 513, 1024,  1025,  1032, 2047, 2048, 4096,
        4099, 8192, 8200, 8208, 12000, 20000, 32768, 50257, 65544, 101, 203, 301, 16384, 16392, 2051, 8191, 16383}) {
    add_case(example(whole, "rows_of_" + std::to_string(n), {.shape = {3, n}}));
  }
  for (const int64_t n : {5, 96, 1030, 20000}) {
    add_case(example(plain, "without_weight_rows_of_" + std::to_string(n), {.shape = {2, n}}));
  }
  for (const int64_t rows : {0, 17, 4099}) {
    add_case(example(whole, std::to_string(rows) + "_rows_of_48", {.shape = {rows, 48}}));
  }
  for (const Shape& shape : kManyRows) add_case(example(whole, name_of_rows(shape), {.shape = shape}));
  add_case(example(whole, "empty_rows", {.shape = {7, 0}}));
  add_case(example(whole, "rank0", {.shape = {}}));
  Norm along = whole;
  along.axis = 1;
  add_case(example(along, "axis1", {.shape = {4, 5, 33}}));
  Case views = example(whole, "views", {.shape = {4, 5, 33}, .layout = Layout::transposed});
  views.inputs[1].layout = Layout::stepped;
  add_case(views);
  for (const int64_t n : {130, 1024, 40000}) {
    const Shape rows{n < 1000 ? 70 : 3, n};
    add_case(example(whole, "special_rows_of_" + std::to_string(n), {rows, {Pattern::special}}));
    add_case(example(whole, "masked_rows_of_" + std::to_string(n), {rows, {Pattern::masked}}));
  }
  add_case(differentiable_example(whole, "gradient_rows_of_10", {.shape = {5, 10}}));
  add_case(differentiable_example(plain, "gradient_without_weight", {.shape = {5, 12}}));
  add_case(differentiable_example(along, "gradient_axis1", {.shape = {3, 5, 4}}));
  add_case(differentiable_example(whole, "gradient_rows_of_257", {.shape = {3, 257}}));
}

// ---- the gradients' kernels: dy, x, rstd, weight, and of layer_norm the mean
// -----------------------------------------

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

void add_norm_cases() {
  for (const bool is_rms : {false, true}) {
    add_norm(is_rms);
    add_residual_norm(is_rms);
    for (const bool has_residual : {false, true}) add_gradient_kernels(is_rms, has_residual);
    add_row_gradients(is_rms);
  }
  add_rows_read_once();
  add_weight_sums();
}

}  // namespace ashlar::conformance
