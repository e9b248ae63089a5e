// layer_norm and rms_norm along an axis, with and without a weight and a bias, and of a sum with a residual.
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/norm.h"
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
  for (const Shape& shape : kRowsOfViews) {
    add_case(example(whole, "view_of_" + name_of_rows(shape), {.shape = shape, .layout = Layout::offset}));
  }
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
  for (const Shape& shape : kRowsOfViews) {
    add_case(example(whole, "view_of_" + name_of_rows(shape), {.shape = shape, .layout = Layout::offset}));
  }
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

}  // namespace

void add_norm_cases() {
  for (const bool is_rms : {false, true}) {
    add_norm(is_rms);
    add_residual_norm(is_rms);
  }
}

}  // namespace ashlar::conformance
