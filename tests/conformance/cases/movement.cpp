// fill, copy and cast: what the runtime itself calls. Bit-exact in every element type.
#include <cmath>

#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

const std::vector<DType> kAllDTypes{DType::f32, DType::f16, DType::bf16, DType::f64,
                                    DType::i32, DType::i64, DType::u8,   DType::boolean};

Expected same_as(const HostTensor& x) { return {x.shape, x.values}; }

// `x` with y's axis i being x's axis axes[i].
Expected permuted(const HostTensor& x, const Shape& axes) {
  const Shape dense = dense_strides(x.shape);
  Expected y;
  Shape strides;
  for (const int64_t axis : axes) {
    y.shape.push_back(x.shape[axis]);
    strides.push_back(dense[axis]);
  }
  for_each_index(y.shape, strides, [&](const Shape&, int64_t at) { y.values.push_back(x.values[at]); });
  return y;
}

// ---- copy -----------------------------------------------------------------------------------------------------------

Case copy_case(std::string name, Input input) {
  return {.kernel = "copy",
          .name = std::move(name),
          .inputs = {std::move(input)},
          .dtypes = kAllDTypes,
          .call = [](Tensors x) { return std::vector{x[0].clone()}; },
          .reference = [](HostTensors x) { return std::vector{same_as(x[0])}; }};
}

Case permute_case(std::string name, Shape shape, Shape axes) {
  Case item = copy_case("permute_" + std::move(name), {.shape = shape});
  item.call = [axes](Tensors x) { return std::vector{x[0].permute(axes).contiguous()}; };
  item.reference = [axes](HostTensors x) { return std::vector{permuted(x[0], axes)}; };
  return item;
}

// Writes the second input into a view of the first, of which everything else must stay as it was.
Case scatter_case(std::string name, Shape whole, Shape part, std::function<Tensor(const Tensor&)> view) {
  Case item = copy_case("into_" + std::move(name), {.shape = whole});
  item.inputs.push_back({.shape = std::move(part)});
  item.in_place = true;
  item.call = [view](Tensors x) {
    view(x[0]).copy_(x[1]);
    return std::vector{x[0]};
  };
  item.reference = [view](HostTensors x) {
    // The same view of a tensor on the CPU says which elements were overwritten.
    const Tensor base = Tensor::empty(x[0].shape, DType::u8);
    const Tensor part = view(base);
    Expected y = same_as(x[0]);
    size_t next = 0;
    for_each_index(part.shape(), part.strides(), [&](const Shape&, int64_t at) {
      y.values[part.offset() - base.offset() + at] = x[1].values[next++];
    });
    return std::vector{y};
  };
  return item;
}

void add_copies() {
  for (const int64_t n : {0, 1, 3, 17, 257, 1025, 100003}) add_case(copy_case(std::to_string(n), {.shape = {n}}));
  add_case(copy_case("rank0", {.shape = {}}));
  for (const auto& [name, layout] : {std::pair{"offset", Layout::offset},
                                     {"transposed", Layout::transposed},
                                     {"stepped", Layout::stepped},
                                     {"flipped", Layout::flipped},
                                     {"broadcast_first", Layout::broadcast_first},
                                     {"broadcast_last", Layout::broadcast_last}}) {
    add_case(copy_case(name, {.shape = {3, 5, 35}, .layout = layout}));
    add_case(copy_case(std::string("wide_") + name, {.shape = {65, 130}, .layout = layout}));
  }
  for (const auto& [name, pattern] : {std::pair{"special", Pattern::special}, {"denormal", Pattern::denormal}}) {
    add_case(copy_case(name, {{33, 16}, {pattern}, Layout::transposed}));
  }
  add_case(permute_case("201", {3, 4, 5}, {2, 0, 1}));
  add_case(permute_case("3210", {6, 5, 7, 3}, {3, 2, 1, 0}));
  add_case(permute_case("0213_tiles", {2, 33, 17, 64}, {0, 2, 1, 3}));
  add_case(permute_case("10_tiles", {129, 257}, {1, 0}));
  add_case(permute_case("021_tiles", {3, 65, 130}, {0, 2, 1}));
  add_case(permute_case("0312_tiles", {2, 9, 17, 70}, {0, 3, 1, 2}));
  add_case(permute_case("3210_tiles", {70, 3, 5, 66}, {3, 2, 1, 0}));
  // Pairs of 16-bit elements: whole tiles, the end of one, and extents, strides and starts that are odd.
  add_case(permute_case("10_whole_pairs", {128, 64}, {1, 0}));
  add_case(permute_case("10_pairs", {194, 130}, {1, 0}));
  add_case(permute_case("10_odd_inner", {66, 131}, {1, 0}));
  add_case(permute_case("0231_pairs", {2, 34, 18, 20}, {0, 2, 3, 1}));
  add_case(permute_case("3210_pairs", {36, 6, 10, 70}, {3, 2, 1, 0}));
  Case odd_start = copy_case("permute_10_odd_start", {.shape = {66, 68}, .layout = Layout::offset});
  odd_start.call = [](Tensors x) { return std::vector{x[0].transpose(0, 1).clone()}; };
  odd_start.reference = [](HostTensors x) { return std::vector{permuted(x[0], {1, 0})}; };
  add_case(odd_start);
  // Rows that stay rows: long ones, short ones of whole vectors of every element type, and odd ones; of a matrix, too.
  add_case(permute_case("102_long", {3, 4, 4096}, {1, 0, 2}));
  add_case(permute_case("102_vectors", {5, 7, 48}, {1, 0, 2}));
  add_case(permute_case("102_odd", {5, 7, 33}, {1, 0, 2}));
  Case columns = copy_case("columns", {.shape = {70, 35}});
  columns.call = [](Tensors x) { return std::vector{x[0].slice(1, 1, 34).clone()}; };
  columns.reference = [](HostTensors x) {
    Expected y{{70, 33}, {}};
    for_each_index(y.shape, {35, 1}, [&](const Shape&, int64_t at) { y.values.push_back(x[0].values[at + 1]); });
    return std::vector{y};
  };
  add_case(columns);
  add_case(permute_case("rank8", {2, 3, 2, 1, 2, 3, 2, 2}, {7, 5, 3, 1, 0, 2, 4, 6}));

  add_case(scatter_case("rows", {9, 7}, {4, 7}, [](const Tensor& x) { return x.slice(0, 3, 7); }));
  add_case(scatter_case("columns", {9, 7}, {9, 3}, [](const Tensor& x) { return x.slice(1, 2, 5); }));
  add_case(scatter_case("every_second", {9, 10}, {9, 5}, [](const Tensor& x) { return x.slice(1, 1, 10, 2); }));
  add_case(scatter_case("transposed", {9, 7}, {7, 9}, [](const Tensor& x) { return x.transpose(0, 1); }));
  add_case(scatter_case("selected", {5, 6, 7}, {5, 7}, [](const Tensor& x) { return x.select(1, 3); }));

  Case bench = copy_case("16M", {.shape = {int64_t{1} << 24}});
  bench.dtypes = {DType::f32, DType::f16};
  bench.benchmark = true;
  add_case(bench);
  Case permute = permute_case("4096x4096", {4096, 4096}, {1, 0});
  permute.dtypes = {DType::f32, DType::f16};
  permute.benchmark = true;
  add_case(permute);
}

// ---- fill -----------------------------------------------------------------------------------------------------------

// The input only says how large, of which type and where.
Case fill_case(std::string name, Shape shape, double value) {
  return {
      .kernel = "fill",
      .name = std::move(name),
      .inputs = {{.shape = std::move(shape)}},
      .dtypes = kAllDTypes,
      .call =
          [value](Tensors x) { return std::vector{Tensor::full(x[0].shape(), value, x[0].dtype(), x[0].device())}; },
      .reference =
          [value](HostTensors x) {
            return std::vector{
                Expected{x[0].shape, std::vector<double>(x[0].values.size(), rounded(value, x[0].dtype))}};
          }};
}

void add_fills() {
  for (const int64_t n : {0, 1, 5, 17, 1025, 100003}) add_case(fill_case(std::to_string(n), {n}, 2.7));
  add_case(fill_case("rank0", {}, 1));
  add_case(fill_case("zeros", {3, 5, 7}, 0));
  Case special = fill_case("nan", {33}, std::nan(""));
  special.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64};
  add_case(special);

  Case view = fill_case("column", {9, 7}, 3);
  view.in_place = true;
  view.call = [](Tensors x) {
    x[0].select(1, 2).fill_(3);
    return std::vector{x[0]};
  };
  view.reference = [](HostTensors x) {
    Expected y = same_as(x[0]);
    for (size_t i = 2; i < y.values.size(); i += 7) y.values[i] = rounded(3, x[0].dtype);
    return std::vector{y};
  };
  add_case(view);

  Case bench = fill_case("16M", {int64_t{1} << 24}, 1.5);
  bench.dtypes = {DType::f32, DType::f16};
  bench.benchmark = true;
  add_case(bench);
}

// ---- cast -----------------------------------------------------------------------------------------------------------

Case cast_case(std::string name, Input input, DType to) {
  return {.kernel = "cast",
          .name = std::string("to_").append(name_of(to)) + "_" + std::move(name),
          .inputs = {std::move(input)},
          .dtypes = kAllDTypes,
          .call = [to](Tensors x) { return std::vector{x[0].to(to)}; },
          .reference =
              [to](HostTensors x) {
                Expected y = pointwise(x[0], [to](double v) { return rounded(v, to); });
                y.dtype = to;
                return std::vector{y};
              }};
}

void add_casts() {
  for (const DType to : kAllDTypes) {
    // In the range of every type: a float that an integer can't hold has no defined cast.
    const Values small{.low = 0, .high = 120};
    for (const int64_t n : {0, 1, 17, 257, 4099}) add_case(cast_case(std::to_string(n), {{n}, small}, to));
    add_case(cast_case("5x33_stepped", {{5, 33}, small, Layout::stepped}, to));
    add_case(cast_case("5x33_offset", {{5, 33}, small, Layout::offset}, to));
    if (to == DType::u8 || to == DType::boolean) continue;
    Case negative = cast_case("negative", {{515}, {.low = -120, .high = 120}}, to);
    negative.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64};
    add_case(negative);
    if (!is_floating(to)) continue;
    for (const auto& [text, pattern] : {std::pair{"special", Pattern::special}, {"huge", Pattern::huge}}) {
      Case extreme = cast_case(text, {{515}, {pattern}}, to);
      extreme.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64};
      add_case(extreme);
    }
    Case wide = cast_case("large_integers", {{515}, {.low = -2e9, .high = 2e9}}, to);
    wide.dtypes = {DType::i32, DType::i64};
    add_case(wide);
    // Subnormals of f16 are ordinary numbers of the others; f32's may flush.
    Case denormal = cast_case("denormal", {{515}, {Pattern::denormal}}, to);
    denormal.dtypes = {DType::f16};
    add_case(denormal);
    Case narrowing = cast_case("to_denormal", {{515}, {.low = -6e-5, .high = 6e-5}}, to);
    narrowing.dtypes = {DType::f32};
    add_case(narrowing);
  }
  Case bench = cast_case("16M", {.shape = {int64_t{1} << 24}}, DType::f16);
  bench.dtypes = {DType::f32};
  bench.benchmark = true;
  add_case(bench);
}

}  // namespace

void add_movement_cases() {
  add_copies();
  add_fills();
  add_casts();
}

}  // namespace ashlar::conformance
