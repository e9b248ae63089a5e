// Reads and sums at places that a tensor holds. What an index outside does differs from device to device and is tested
// in tests/tensor/indexing_test.cpp.
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "tests/conformance/cases/by_plan.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

const std::vector<DType> kMovable{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                                  DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};
// Added one after the other: a sum of n numbers of one sign is off by up to n 2⁻²⁴ of it.
constexpr Tolerance kInOrder = terms(1e-4);
const std::vector<DType> kSummable{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64};

// Where element `at` of an index stands in x: its own coordinates, along `axis` the index.
int64_t place(const Shape& x, Shape at, int axis, double index) {
  if (x.rank() == 0) return 0;
  at[axis] = static_cast<int64_t>(index);
  int64_t position = 0;
  for (int i = 0; i < x.rank(); ++i) position = position * x[i] + at[i];
  return position;
}

void refuse_outside(const HostTensor& index, int64_t extent) {
  if (!index.values.empty() && extent == 0) throw IndexError("reference", "an index", "none", "Skip the call");
}

Expected gathered(const HostTensor& x, const HostTensor& index, int64_t axis) {
  const int along = normalize_reduced_axis("reference", axis, x.shape.rank());
  refuse_outside(index, x.shape.rank() == 0 ? 1 : x.shape[along]);
  Expected y{index.shape, {}};
  for_each_index(index.shape, dense_strides(index.shape), [&](const Shape& at, int64_t) {
    y.values.push_back(x.values[place(x.shape, at, along, index.values[y.values.size()])]);
  });
  return y;
}

// Terms in the order of the source; magnitudes for the sums' error.
Expected scattered(const HostTensor& x, const HostTensor& index, const HostTensor& src, int64_t axis) {
  const int along = normalize_reduced_axis("reference", axis, x.shape.rank());
  refuse_outside(index, x.shape.rank() == 0 ? 1 : x.shape[along]);
  Expected y{x.shape, x.values, x.values};
  for (double& m : y.magnitudes) m = std::abs(m);
  size_t i = 0;
  for_each_index(index.shape, dense_strides(src.shape), [&](const Shape& at, int64_t from) {
    const int64_t to = place(x.shape, at, along, index.values[i++]);
    y.values[to] += src.values[from];
    y.magnitudes[to] += std::abs(src.values[from]);
  });
  return y;
}

// An index of rank 1 along `axis`, as one for each element of `shape`.
HostTensor repeated(const HostTensor& index, const Shape& shape, int64_t axis) {
  HostTensor all{shape, {}, DType::i64};
  const int along = normalize_reduced_axis("reference", axis, shape.rank());
  for_each_index(shape, dense_strides(shape), [&](const Shape& at, int64_t) {
    all.values.push_back(index.values[shape.rank() == 0 ? 0 : at[along]]);
  });
  return all;
}

Shape with_extent(Shape shape, int64_t axis, int64_t extent) {
  if (shape.rank() > 0) shape[normalize_axis("reference", axis, shape.rank())] = extent;
  return shape;
}

Input indices(const Shape& shape, const Shape& of, int64_t axis, int input = 0) {
  const int along = normalize_reduced_axis("example", axis, of.rank());
  const int64_t extent = of.rank() == 0 ? 1 : of[along];
  Input index{shape, {Pattern::integers, 0, static_cast<double>(extent - 1)}, Layout::dense, DType::i64};
  if (of.rank() > 0) index.index_of = AxisOf{input, along};
  return index;
}

Case gather_example(std::string name, Input x, const Shape& index, int64_t axis) {
  const Input places = indices(index, x.shape, axis);
  return {.kernel = "gather",
          .name = std::move(name),
          .inputs = {std::move(x), places},
          .dtypes = kMovable,
          .call = [axis](Tensors in) { return std::vector{gather(in[0], in[1], axis)}; },
          .reference = [axis](HostTensors in) { return std::vector{gathered(in[0], in[1], axis)}; },
          .differentiable = [axis](Vars in) { return ad::gather(in[0], in[1].value(), axis); },
          .gradient_is_rounded_once = true};
}

Case scatter_example(std::string name, Input x, const Shape& index, int64_t axis) {
  const Input places = indices(index, x.shape, axis);
  Input src{index, x.values};
  return {.kernel = "scatter_add",
          .name = std::move(name),
          .inputs = {std::move(x), places, std::move(src)},
          .dtypes = kSummable,
          .call = [axis](Tensors in) { return std::vector{scatter_add(in[0], in[1], in[2], axis)}; },
          .reference = [axis](HostTensors in) { return std::vector{scattered(in[0], in[1], in[2], axis)}; },
          .tolerance = kInOrder,
          .differentiable = [axis](Vars in) { return ad::scatter_add(in[0], in[1].value(), in[2], axis); },
          .differentiated = {0, 2}};
}

Case select_example(std::string name, Input x, int64_t count, int64_t axis) {
  const Input places = indices({count}, x.shape, axis);
  return {.kernel = "index_select",
          .name = std::move(name),
          .inputs = {std::move(x), places},
          .dtypes = kMovable,
          .call = [axis](Tensors in) { return std::vector{index_select(in[0], in[1], axis)}; },
          .reference =
              [axis](HostTensors in) {
                const HostTensor& x = in[0];
                const Shape shape = with_extent(x.shape, axis, in[1].shape.numel());
                if (x.shape.rank() > 0 && in[1].shape.numel() > 0) {
                  refuse_outside(in[1], x.shape[normalize_axis("reference", axis, x.shape.rank())]);
                }
                return std::vector{gathered(x, repeated(in[1], shape, axis), axis)};
              },
          .differentiable = [axis](Vars in) { return ad::index_select(in[0], in[1].value(), axis); },
          .gradient_is_rounded_once = true};
}

Case add_example(std::string name, Input x, int64_t count, int64_t axis) {
  const Input places = indices({count}, x.shape, axis);
  Input src{with_extent(x.shape, axis, count), x.values};
  return {.kernel = "index_add",
          .name = std::move(name),
          .inputs = {std::move(x), places, std::move(src)},
          .dtypes = kSummable,
          .call = [axis](Tensors in) { return std::vector{index_add(in[0], in[1], in[2], axis)}; },
          .reference =
              [axis](HostTensors in) {
                if (in[0].shape.rank() > 0 && in[1].shape.numel() > 0) {
                  refuse_outside(in[1], in[0].shape[normalize_axis("reference", axis, in[0].shape.rank())]);
                }
                return std::vector{scattered(in[0], repeated(in[1], in[2].shape, axis), in[2], axis)};
              },
          .tolerance = kInOrder,
          .differentiable = [axis](Vars in) { return ad::index_add(in[0], in[1].value(), in[2], axis); },
          .differentiated = {0, 2}};
}

Case embedding_example(std::string name, const Shape& index, Input weight) {
  const Input places = indices(index, weight.shape, 0, 1);
  return {.kernel = "embedding",
          .name = std::move(name),
          .inputs = {places, std::move(weight)},
          .dtypes = kMovable,
          .call = [](Tensors in) { return std::vector{embedding(in[0], in[1])}; },
          .reference =
              [](HostTensors in) {
                refuse_outside(in[0], in[1].shape[0]);
                Expected y{in[0].shape, {}};
                const int64_t columns = in[1].shape[1];
                y.shape.push_back(columns);
                for (const double row : in[0].values) {
                  for (int64_t c = 0; c < columns; ++c) {
                    y.values.push_back(in[1].values[static_cast<int64_t>(row) * columns + c]);
                  }
                }
                return std::vector{y};
              },
          .differentiable = [](Vars in) { return ad::embedding(in[0].value(), in[1]); },
          .differentiated = {1},
          .gradient_is_rounded_once = true};
}

Case embedding_grad_example(std::string name, const Shape& index, int64_t n, int64_t columns, int64_t padding) {
  Shape dy = index;
  dy.push_back(columns);
  return {
      .kernel = "embedding_grad",
      .name = std::move(name),
      .inputs = {{.shape = dy}, {index, {Pattern::integers, 0, static_cast<double>(n - 1)}, Layout::dense, DType::i64}},
      .dtypes = kSummable,
      .call = [n, padding](Tensors in) { return std::vector{embedding_grad(in[0], in[1], n, padding)}; },
      .reference =
          [n, padding](HostTensors in) {
            const int64_t width = in[0].shape.back();
            const auto size = static_cast<size_t>(n * width);
            Expected y{{n, width}, std::vector<double>(size), std::vector<double>(size)};
            for (size_t j = 0; j < in[1].values.size(); ++j) {
              const auto row = static_cast<int64_t>(in[1].values[j]);
              for (int64_t c = 0; row != padding && c < width; ++c) {
                const double term = in[0].values[j * width + c];
                y.values[row * width + c] += term;
                y.magnitudes[row * width + c] += std::abs(term);
              }
            }
            return std::vector{y};
          },
      .tolerance = kInOrder,
      .differentiable = [n, padding](Vars in) { return ad::embedding_grad(in[0], in[1].value(), n, padding); }};
}

Case along_example(std::string name, Input x, const Shape& index, int64_t axis) {
  const Input places = indices(index, x.shape, axis);
  return {
      .kernel = "take_along",
      .name = std::move(name),
      .inputs = {std::move(x), places},
      .dtypes = kMovable,
      .call = [axis](Tensors in) { return std::vector{take_along(in[0], in[1], axis)}; },
      .reference =
          [axis](HostTensors in) {
            const int along = normalize_axis("reference", axis, in[0].shape.rank());
            Shape a = in[0].shape, b = in[1].shape;
            a[along] = b[along] = 1;
            Shape shape = broadcast("reference", a, b);
            shape[along] = in[1].shape[along];
            if (shape.numel() > 0) refuse_outside(in[1], in[0].shape[along]);
            const auto stretched = [&](const HostTensor& t, int64_t extent) {
              HostTensor all{with_extent(shape, along, extent), {}, t.dtype};
              for_each_index(all.shape, broadcast_strides(t.shape, all.shape),
                             [&](const Shape&, int64_t at) { all.values.push_back(t.values[at]); });
              return all;
            };
            return std::vector{gathered(stretched(in[0], in[0].shape[along]), stretched(in[1], shape[along]), axis)};
          },
      .differentiable = [axis](Vars in) { return ad::take_along(in[0], in[1].value(), axis); },
      .gradient_is_rounded_once = true};
}

// Of 16-bit elements and integers few: they share code.
Case large(Case item) {
  item.dtypes = {DType::f32, DType::bf16};
  item.differentiable = nullptr;
  item.is_drawn = false;
  return item;
}

}  // namespace

void add_indexing_cases() {
  const Values whole{Pattern::integers, 0, 9};
  add_case(gather_example("rows", {{5, 33}, whole}, {5, 70}, -1));
  add_case(gather_example("columns", {{40, 9}, whole}, {17, 9}, 0));
  add_case(gather_example("middle", {{3, 13, 20}, whole}, {3, 29, 20}, 1));
  add_case(gather_example("one", {{1}, whole}, {1}, 0));
  add_case(gather_example("rank0", {{}, whole}, {}, 0));
  add_case(gather_example("none", {{5, 7}, whole}, {5, 0}, 1));
  add_case(gather_example("none_from_none", {{5, 0}, whole}, {5, 0}, 1));
  Case smaller = gather_example("smaller_index", {{9, 7, 6}, whole}, {4, 11, 5}, 1);
  smaller.fixed_shapes = true;
  add_case(smaller);
  add_case(gather_example("long_row", {{1, 50000}, whole}, {1, 9000}, 1));
  add_case(scatter_example("rows", {{5, 33}, whole}, {5, 70}, -1));
  add_case(scatter_example("columns", {{40, 9}, whole}, {17, 9}, 0));
  add_case(scatter_example("middle", {{3, 13, 20}, whole}, {3, 29, 20}, 1));
  add_case(scatter_example("one", {{1}, whole}, {1}, 0));
  add_case(scatter_example("rank0", {{}, whole}, {}, 0));
  add_case(scatter_example("none", {{5, 7}, whole}, {5, 0}, 1));
  Case fractions = scatter_example("fractions", {.shape = {2, 9}}, {2, 200}, 1);
  fractions.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64};
  add_case(fractions);
  smaller = scatter_example("smaller_index", {{9, 7, 6}, whole}, {4, 11, 5}, 1);
  smaller.fixed_shapes = true;
  add_case(smaller);
  // A source larger than its index: what is beyond isn't read.
  smaller = scatter_example("larger_source", {{9, 7}, whole}, {4, 11}, 1);
  smaller.inputs[2].shape = {5, 13};
  smaller.fixed_shapes = true;
  smaller.differentiated = {0};
  add_case(smaller);
  Case one_place = scatter_example("one_place", {.shape = {300}}, {2000}, 0);
  one_place.inputs[1].values.high = 0;
  one_place.inputs[1].index_of.reset();
  one_place.fixed_shapes = true;
  one_place.dtypes = {DType::f32, DType::f16};
  one_place.differentiable = nullptr;
  add_case(one_place);
  for (const int64_t axis : {0, 1, 2}) {
    const std::string name = "along_" + std::to_string(axis);
    add_case(select_example(name, {{6, 10, 23}, whole}, 15, axis));
    add_case(add_example(name, {{6, 10, 23}, whole}, 15, axis));
    for (const char* plan : {"segments", "lines"}) {
      add_case(by_plan(add_example(name, {{6, 10, 23}, whole}, 15, axis), plan));
      smaller = scatter_example(name, {{6, 10, 23}, whole}, {5, 9, 21}, axis);
      smaller.fixed_shapes = true;
      add_case(by_plan(smaller, plan));
    }
  }
  add_case(select_example("none", {{6, 10}, whole}, 0, 0));
  add_case(add_example("none", {{6, 10}, whole}, 0, 0));
  add_case(along_example("rows", {{5, 33}, whole}, {5, 70}, -1));
  add_case(along_example("broadcast_index", {{5, 12}, whole}, {1, 7}, 1));
  add_case(along_example("broadcast_x", {{1, 12}, whole}, {6, 7}, 1));
  add_case(embedding_example("tokens", {3, 20}, {{50, 24}, whole}));
  for (const int64_t columns : {33, 64}) {  // of 65536 elements and more, since of fewer a thread has one
    Case many = embedding_example("many_of_" + std::to_string(columns), {2003}, {{50, columns}, whole});
    many.differentiable = {};
    add_case(std::move(many));
  }
  add_case(embedding_example("one", {}, {{4, 3}, whole}));
  add_case(embedding_example("none", {0}, {{4, 3}, whole}));
  for (const int64_t padding : {-1, 0, 2}) {
    Case item = embedding_grad_example("padding_" + std::to_string(padding), {3, 50}, 4, 9, padding);
    item.fixed_shapes = true;
    add_gradient_case(std::move(item));
  }
  Case many = embedding_grad_example("many", {7, 600}, 37, 65, -1);
  Case sparse = embedding_grad_example("sparse", {3, 50}, 401, 33, -1);
  for (Case* one : {&many, &sparse}) {
    one->fixed_shapes = true;
    one->differentiable = {};
    add_gradient_case(std::move(*one));
  }
  for (const Layout layout : {Layout::offset, Layout::transposed, Layout::stepped, Layout::flipped,
                              Layout::broadcast_first, Layout::broadcast_last}) {
    const std::string name = "view_" + std::to_string(static_cast<int>(layout));
    for (Case item : {gather_example(name, {{9, 14}, whole, layout}, {9, 20}, 1),
                      scatter_example(name, {{9, 14}, whole, layout}, {9, 20}, 0)}) {
      if (item.kernel == "scatter_add") {
        item.inputs[1].shape = item.inputs[2].shape = {20, 14};
        item.inputs[1].layout = item.inputs[2].layout = layout;
      } else {
        item.inputs[1].layout = layout;
      }
      item.dtypes = {DType::f32, DType::f16};
      item.differentiable = nullptr;
      add_case(item);
    }
  }
  add_case(large(scatter_example("1000000", {.shape = {1000}}, {1'000'000}, 0)));
  add_case(large(scatter_example("1000000_places", {.shape = {1'000'000}}, {200'000}, 0)));
  add_case(large(add_example("4096_rows_of_300", {.shape = {500, 300}}, 4096, 0)));
  add_case(large(gather_example("1000000", {.shape = {1000}}, {1'000'000}, 0)));

  Case bench = scatter_example("16777216_into_1000000", {.shape = {1'000'000}}, {16'777'216}, 0);
  bench.dtypes = {DType::f32};
  bench.benchmark = true;
  add_case(bench);
  bench = embedding_example("32768_of_50257x768", {32768}, {.shape = {50257, 768}});
  bench.dtypes = {DType::f32};
  bench.benchmark = true;
  add_case(bench);
}

}  // namespace ashlar::conformance
