// Operators that move elements: repeat, tile, flip, roll, tril, triu, masked_fill, one_hot, scatter, cat, stack, split,
// chunk, and slices with steps backwards. Of elements of every type; gradients are such moves themselves.
#include <algorithm>
#include <map>

#include "ashlar/ashlar.h"
#include "tests/conformance/cases/broadcasts.h"
#include "tests/conformance/cases/by_plan.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

const std::vector<DType> kMovable{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                                  DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};
const Values kWhole{Pattern::integers, 0, 9};

/// y[at] = x[place(at)], or 0 where `place` says nothing.
using Place = std::function<std::optional<Shape>(const Shape& at)>;
Expected moved(const HostTensor& x, const Shape& shape, const Place& place) {
  Expected y{shape, {}};
  const Shape strides = dense_strides(x.shape);
  for_each_index(shape, dense_strides(shape), [&](const Shape& at, int64_t) {
    const std::optional<Shape> from = place(at);
    int64_t position = 0;
    for (int i = 0; from && i < x.shape.rank(); i++) position += (*from)[i] * strides[i];
    y.values.push_back(from ? x.values[static_cast<size_t>(position)] : 0);
  });
  return y;
}

/// One operator of one tensor.
struct Move {
  std::function<Tensor(const Tensor&)> call;
  std::function<Var(const Var&)> record;
  std::function<Expected(const HostTensor&)> reference;
};

Case example(std::string kernel, std::string name, Input x, const Move& move) {
  if (x.values.pattern == Pattern::uniform) x.values = kWhole;
  return {.kernel = std::move(kernel),
          .name = std::move(name),
          .inputs = {std::move(x)},
          .dtypes = kMovable,
          .call = [move](Tensors in) { return std::vector{move.call(in[0])}; },
          .reference = [move](HostTensors in) { return std::vector{move.reference(in[0])}; },
          .differentiable = [move](Vars in) { return move.record(in[0]); },
          .gradient_is_rounded_once = true};
}

// ---- repeat and tile

Expected repeated(const HostTensor& x, Shape repeats) {
  while (repeats.rank() < x.shape.rank()) repeats.insert(0, 1);
  const int added = repeats.rank() - x.shape.rank();
  Shape shape = repeats;
  for (int i = 0; i < x.shape.rank(); i++) shape[added + i] *= x.shape[i];
  return moved(x, shape, [&](const Shape& at) {
    Shape from = x.shape;
    for (int i = 0; i < from.rank(); i++) from[i] = at[added + i] % x.shape[i];
    return from;
  });
}

Case repeat_example(std::string name, Input x, const Shape& repeats) {
  Case item = example(
      "repeat", std::move(name), std::move(x),
      {[=](const Tensor& t) { return repeat(t, repeats); }, [=](const Var& t) { return ad::repeat(t, repeats); },
       [=](const HostTensor& t) { return repeated(t, repeats); }});
  item.is_drawn = false;  // tile() draws the same, less of it
  return item;
}

Case tile_example(std::string name, Input x, const Shape& repeats) {
  return example("tile", std::move(name), std::move(x),
                 {[=](const Tensor& t) { return tile(t, repeats); }, [=](const Var& t) { return ad::tile(t, repeats); },
                  [=](const HostTensor& t) { return repeated(t, repeats); }});
}

// ---- flip and roll

Case flip_example(std::string name, Input x, const Shape& axes) {
  return example("flip", std::move(name), std::move(x),
                 {[=](const Tensor& t) { return flip(t, axes); }, [=](const Var& t) { return ad::flip(t, axes); },
                  [=](const HostTensor& t) {
                    return moved(t, t.shape, [&](Shape at) {
                      for (const int64_t axis : axes) {
                        const int i = normalize_axis("reference", axis, at.rank());
                        at[i] = t.shape[i] - 1 - at[i];
                      }
                      return at;
                    });
                  }});
}

Expected rolled(const HostTensor& x, const Shape& shifts, const Shape& axes) {
  if (axes.rank() == 0) {
    Expected y = rolled({{x.shape.numel()}, x.values, x.dtype}, shifts, {0});
    y.shape = x.shape;
    return y;
  }
  return moved(x, x.shape, [&](Shape at) {
    for (int i = 0; i < axes.rank(); i++) {
      const int axis = normalize_axis("reference", axes[i], at.rank());
      const int64_t size = x.shape[axis];
      at[axis] = ((at[axis] - shifts[i]) % size + size) % size;
    }
    return at;
  });
}

Case roll_example(std::string name, Input x, const Shape& shifts, const Shape& axes = {}) {
  return example(
      "roll", std::move(name), std::move(x),
      {[=](const Tensor& t) { return roll(t, shifts, axes); }, [=](const Var& t) { return ad::roll(t, shifts, axes); },
       [=](const HostTensor& t) { return rolled(t, shifts, axes); }});
}

// ---- tril and triu

Case triangle_example(bool upper, std::string name, Input x, int64_t diagonal) {
  return example(upper ? "triu" : "tril", std::move(name), std::move(x),
                 {[=](const Tensor& t) { return upper ? triu(t, diagonal) : tril(t, diagonal); },
                  [=](const Var& t) { return upper ? ad::triu(t, diagonal) : ad::tril(t, diagonal); },
                  [=](const HostTensor& t) {
                    return moved(t, t.shape, [&](const Shape& at) -> std::optional<Shape> {
                      const int64_t across = at.back() - at[at.rank() - 2];
                      if (upper ? across >= diagonal : across <= diagonal) return at;
                      return std::nullopt;
                    });
                  }});
}

// ---- masked_fill

Case masked_example(std::string name, Input x, Input mask, double value) {
  if (x.values.pattern == Pattern::uniform) x.values = kWhole;
  mask.values = {Pattern::integers, 0, 1};
  mask.dtype = DType::boolean;
  return {.kernel = "masked_fill",
          .name = std::move(name),
          .inputs = {std::move(x), std::move(mask)},
          .dtypes = kMovable,
          .call = [value](Tensors in) { return std::vector{masked_fill(in[0], in[1], value)}; },
          .reference =
              [value](HostTensors in) {
                const double filled = rounded(value, in[0].dtype);
                return std::vector{
                    broadcasted(in[0], in[1], [&](double x, double hidden) { return hidden != 0 ? filled : x; })};
              },
          .differentiable = [value](Vars in) { return ad::masked_fill(in[0], in[1].value(), value); },
          .gradient_is_rounded_once = true,
          .vary = with_other_broadcasting};
}

// ---- scatter and one_hot

// The last element for a place counts; so the references' differences are 0 for all others.
Expected scattered(const HostTensor& x, const HostTensor& index, const HostTensor& src, int64_t axis) {
  const int along = normalize_reduced_axis("reference", axis, x.shape.rank());
  const int64_t extent = x.shape.rank() == 0 ? 1 : x.shape[along];
  if (!index.values.empty() && extent == 0) throw IndexError("reference", "an index", "none", "Skip the call");
  Expected y{x.shape, x.values};
  const Shape strides = dense_strides(x.shape);
  size_t i = 0;
  for_each_index(index.shape, dense_strides(src.shape), [&](Shape at, int64_t from) {
    const double place = index.values[i++];
    int64_t to = 0;
    for (int d = 0; d < x.shape.rank(); d++) to += (d == along ? static_cast<int64_t>(place) : at[d]) * strides[d];
    y.values[static_cast<size_t>(to)] = src.values[static_cast<size_t>(from)];
  });
  return y;
}

Case scatter_example(std::string name, Input x, const Shape& index, int64_t axis) {
  const int along = normalize_reduced_axis("example", axis, x.shape.rank());
  const int64_t extent = x.shape.rank() == 0 ? 1 : x.shape[along];
  Input places{index, {Pattern::integers, 0, static_cast<double>(extent - 1)}, Layout::dense, DType::i64};
  if (x.shape.rank() > 0) places.index_of = AxisOf{0, along};
  Input src{index, x.values};
  return {.kernel = "scatter",
          .name = std::move(name),
          .inputs = {std::move(x), places, std::move(src)},
          .dtypes = kMovable,
          .call = [axis](Tensors in) { return std::vector{scatter(in[0], in[1], in[2], axis)}; },
          .reference = [axis](HostTensors in) { return std::vector{scattered(in[0], in[1], in[2], axis)}; },
          .differentiable = [axis](Vars in) { return ad::scatter(in[0], in[1].value(), in[2], axis); },
          .differentiated = {0, 2},
          .gradient_is_rounded_once = true};
}

Case one_hot_example(std::string name, const Shape& index, int64_t classes) {
  return {.kernel = "one_hot",
          .name = std::move(name),
          .inputs = {{index, {Pattern::integers, 0, static_cast<double>(classes - 1)}, Layout::dense, DType::i64}},
          .dtypes = {DType::i64},
          .call = [classes](Tensors in) { return std::vector{one_hot(in[0], classes)}; },
          .reference =
              [classes](HostTensors in) {
                Expected y{in[0].shape, {}};
                y.shape.push_back(classes);
                for (const double chosen : in[0].values) {
                  for (int64_t c = 0; c < classes; c++) y.values.push_back(chosen == static_cast<double>(c));
                }
                return std::vector{y};
              }};
}

// ---- cat, stack, split, chunk, slices backwards: all made by copies

Case sliced(std::string name, Input x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  return example("copy", "slice_" + std::move(name), std::move(x),
                 {[=](const Tensor& t) { return t.slice(axis, start, stop, step).clone(); },
                  [=](const Var& t) { return t.slice(axis, start, stop, step); },
                  [=](const HostTensor& t) {  // Python's rule, index by index
                    const int64_t size = t.shape[static_cast<int>(axis)];
                    const auto whole = [&](int64_t bound) { return bound < 0 ? bound + size : bound; };
                    const int64_t last = stop != Tensor::kEnd ? whole(stop) : step < 0 ? -1 : size;
                    std::vector<int64_t> kept;
                    for (int64_t k = std::clamp<int64_t>(whole(start), step < 0 ? -1 : 0, step < 0 ? size - 1 : size);
                         step < 0 ? k > std::max<int64_t>(last, -1) : k < std::min(last, size); k += step) {
                      kept.push_back(k);
                    }
                    Shape shape = t.shape;
                    shape[static_cast<int>(axis)] = static_cast<int64_t>(kept.size());
                    return moved(t, shape, [&](Shape at) {
                      at[static_cast<int>(axis)] = kept[static_cast<size_t>(at[static_cast<int>(axis)])];
                      return at;
                    });
                  }});
}

// Cut into three and put together with the last part first, which is a roll.
Case cut_and_joined(std::string name, Input x, const Shape& sizes, int64_t axis) {
  const auto turned = [=](const auto& t) {
    const auto parts = split(t, sizes, axis);
    using T = std::remove_cvref_t<decltype(t)>;
    const std::vector<T> order{parts[2], parts[0], parts[1]};
    if constexpr (std::same_as<T, Tensor>) {
      return cat(std::span<const T>(order), axis);
    } else {
      return ad::cat(std::span<const T>(order), axis);
    }
  };
  Case item = example("copy", "cat_" + std::move(name), std::move(x),
                      {[=](const Tensor& t) { return turned(t); }, [=](const Var& t) { return turned(t); },
                       [=](const HostTensor& t) { return rolled(t, {sizes[2]}, {axis}); }});
  item.fixed_shapes = true;
  return item;
}

Case stacked(std::string name, Input x, int64_t axis, int64_t chunks) {
  Case item = example("copy", "stack_" + std::move(name), std::move(x),
                      {[=](const Tensor& t) { return stack(std::span<const Tensor>(chunk(t, chunks)), axis); },
                       [=](const Var& t) { return ad::stack(std::span<const Var>(chunk(t, chunks)), axis); },
                       [=](const HostTensor& t) {
                         Shape shape = t.shape;
                         shape[0] /= chunks;
                         const int64_t rows = shape[0];
                         shape.insert(static_cast<int>(axis), chunks);
                         return moved(t, shape, [&](Shape at) {
                           const int64_t part = at[static_cast<int>(axis)];
                           at.erase(static_cast<int>(axis));
                           at[0] += part * rows;
                           return at;
                         });
                       }});
  item.fixed_shapes = true;
  return item;
}

}  // namespace

void add_rearranged_cases() {
  add_case(repeat_example("rows", {{3, 5}}, {4, 1}));
  add_case(repeat_example("columns", {{3, 5}}, {1, 7}));
  add_case(repeat_example("both", {{3, 33}}, {2, 3}));
  add_case(repeat_example("more_axes", {{3, 5}}, {2, 1, 3, 2}));
  add_case(repeat_example("rank0", {{}}, {5}));
  add_case(repeat_example("never", {{3, 5}}, {0, 2}));
  add_case(repeat_example("of_none", {{3, 0}}, {2, 2}));
  add_case(repeat_example("once", {{4, 6}}, {1, 1}));
  add_case(repeat_example("seven_axes", {{2, 1, 2, 3, 1, 2}}, {2, 3, 1, 2, 2, 1, 2}));
  add_case(repeat_example("transposed", {{9, 13}, {}, Layout::transposed}, {2, 2}));
  add_case(tile_example("last", {{3, 4, 5}}, {3}));
  add_case(tile_example("two", {{3, 4, 5}}, {2, 3}));
  add_case(tile_example("more_axes", {{7}}, {2, 2, 2}));

  add_case(flip_example("last", {{5, 37}}, {-1}));
  add_case(flip_example("all", {{3, 4, 5}}, {0, 1, 2}));
  add_case(flip_example("outer", {{3, 4, 33}}, {0, -2}));
  add_case(flip_example("none", {{3, 4}}, {}));
  add_case(flip_example("of_none", {{3, 0}}, {1}));
  add_case(roll_example("row", {{5, 33}}, {4}, {1}));
  add_case(roll_example("back", {{5, 33}}, {-4}, {0}));
  add_case(roll_example("far", {{7}}, {37}, {0}));
  add_case(roll_example("by_nothing", {{7, 3}}, {14}, {0}));
  add_case(roll_example("two_axes", {{6, 9, 5}}, {2, -3}, {0, 1}));
  add_case(roll_example("three_axes", {{6, 9, 5}}, {2, -3, 1}, {2, 1, 0}));
  add_case(roll_example("one_axis_twice", {{9, 5}}, {2, 3}, {0, -2}));
  add_case(roll_example("flat", {{3, 4, 5}}, {17}));
  add_case(roll_example("rank0", {{}}, {3}));
  add_case(roll_example("of_none", {{3, 0}}, {2}, {1}));
  add_case(roll_example("transposed", {{9, 13}, {}, Layout::transposed}, {4}, {1}));

  for (const bool upper : {false, true}) {
    for (const int64_t diagonal : {-3, 0, 2}) {
      add_case(triangle_example(upper, "diagonal_" + std::to_string(diagonal), {{6, 9}}, diagonal));
    }
    add_case(triangle_example(upper, "tall", {{40, 7}}, 0));
    add_case(triangle_example(upper, "batch", {{2, 3, 17, 33}}, 1));
    add_case(triangle_example(upper, "large", {{130, 270}}, -1));
    add_case(triangle_example(upper, "far", {{4, 4}}, INT64_MAX));
    add_case(triangle_example(upper, "of_none", {{3, 0}}, 0));
    for (const Layout layout : {Layout::offset, Layout::transposed, Layout::stepped, Layout::flipped}) {
      add_case(
          triangle_example(upper, "view_" + std::to_string(static_cast<int>(layout)), {{3, 18, 21}, {}, layout}, 0));
    }
  }

  // Of 65536 elements and more, since fewer go to a thread each. Rows of vectors, long and many, and rows of none: an
  // element of each width.
  for (const Input& x :
       {Input{{17, 4096}}, Input{{67, 1031}}, Input{{1367, 48}}, Input{{521, 128}}, Input{{2003, 33}},
        Input{{1, 66003}}, Input{.shape = {2003, 34}, .layout = Layout::stepped},
        Input{.shape = {1, 1027}, .layout = Layout::stepped}, Input{.shape = {67, 1030}, .layout = Layout::stepped},
        Input{.shape = {5, 40}, .layout = Layout::transposed}, Input{.shape = {40, 5}, .layout = Layout::transposed}}) {
    Case rows = triangle_example(true, "rows_of_" + std::to_string(x.shape[1]), x, 1);
    rows.dtypes = {DType::u8, DType::f16, DType::i32, DType::i64};
    rows.differentiable = {};
    add_case(rows);
  }

  for (const Shape& shape : large_matrices()) {
    for (const Layout layout : {Layout::dense, Layout::stepped, Layout::transposed}) {
      const Input x{.shape = shape, .layout = layout};
      Case item = triangle_example(true, shape.str() + "_" + std::to_string(static_cast<int>(layout)), x, 1);
      item.dtypes = {DType::u8, DType::f16, DType::i32, DType::i64};
      item.differentiable = {};
      add_case(item);
    }
    Case apart = masked_example("stepped_" + shape.str(), {shape, {}, Layout::stepped}, {shape}, 3);
    apart.dtypes = {DType::i64};
    apart.differentiable = {};
    add_case(std::move(apart));
  }

  // Of whole vectors of so few elements, other branches see rows whose elements lie apart alone.
  for (const auto& [name, shape] :
       {std::pair{"stepped_long_rows", Shape{67, 1031}}, {"stepped_short_rows", {2003, 33}}}) {
    Case apart = masked_example(name, {shape, {}, Layout::stepped}, {{shape[1]}, {}, Layout::stepped}, 3);
    apart.dtypes = {DType::i64};
    apart.differentiable = {};
    add_case(std::move(apart));
  }
  Case dense = masked_example("66003", {{66003}}, {{66003}}, 3);
  dense.dtypes = {DType::f16, DType::i32, DType::i64, DType::u8};
  dense.differentiable = {};
  add_case(std::move(dense));
  add_case(masked_example("same", {{7, 33}}, {{7, 33}}, 3));
  add_case(masked_example("rows", {{7, 33}}, {{33}}, 0));
  add_case(masked_example("columns", {{7, 33}}, {{7, 1}}, 1));
  add_case(masked_example("wider_mask", {{5}}, {{4, 5}}, 2));
  add_case(masked_example("heads", {{2, 3, 9, 16}}, {{2, 1, 1, 16}}, 7));
  add_case(masked_example("rank0", {{}}, {{}}, 3));
  add_case(masked_example("of_none", {{0, 4}}, {{4}}, 3));
  for (const auto& [name, shapes] : broadcasts_of_two()) {
    Case item = masked_example("broadcast_" + name, {shapes[0]}, {shapes[1]}, 5);
    item.dtypes = {DType::f16, DType::i32, DType::i64, DType::u8};  // an element of each size
    item.differentiable = {};
    add_case(std::move(item));
  }
  Case infinite = masked_example("infinite", {{9, 20}, {Pattern::special}}, {{9, 20}}, -HUGE_VAL);
  infinite.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64};
  infinite.differentiable = nullptr;
  add_case(infinite);

  add_case(scatter_example("rows", {{5, 33}, kWhole}, {5, 20}, -1));
  add_case(scatter_example("columns", {{40, 9}, kWhole}, {17, 9}, 0));
  add_case(scatter_example("few", {{40, 9}, kWhole}, {7, 9}, 0));
  add_case(scatter_example("middle", {{3, 13, 20}, kWhole}, {3, 29, 20}, 1));
  add_case(scatter_example("rank0", {{}, kWhole}, {}, 0));
  add_case(scatter_example("none", {{5, 7}, kWhole}, {5, 0}, 1));
  for (const char* plan : {"lines", "segments"}) {
    add_case(by_plan(scatter_example("middle", {{3, 13, 20}, kWhole}, {3, 29, 20}, 1), plan));
  }
  Case smaller = scatter_example("smaller_index", {{9, 7, 6}, kWhole}, {4, 11, 5}, 1);
  smaller.fixed_shapes = true;
  add_case(smaller);
  for (const Layout layout : {Layout::offset, Layout::transposed, Layout::flipped, Layout::broadcast_first}) {
    Case item =
        scatter_example("view_" + std::to_string(static_cast<int>(layout)), {{9, 14}, kWhole, layout}, {9, 20}, 1);
    item.inputs[1].layout = item.inputs[2].layout = layout;
    item.dtypes = {DType::f32, DType::f16};
    item.differentiable = nullptr;
    add_case(item);
  }
  Case large = scatter_example("200000_of_1000000", {{1'000'000}, kWhole}, {200'000}, 0);
  large.dtypes = {DType::f32, DType::u8};
  large.differentiable = nullptr;
  large.is_drawn = false;
  add_case(large);
  add_case(one_hot_example("labels", {37}, 10));
  add_case(one_hot_example("pictures", {2, 3, 4}, 5));
  add_case(one_hot_example("one", {}, 3));
  add_case(one_hot_example("none", {0}, 3));

  add_case(sliced("backwards", {{5, 12}}, 1, -1, Tensor::kEnd, -1));
  add_case(sliced("backwards_by_3", {{5, 12}}, 1, 10, 1, -3));
  add_case(sliced("backwards_from_beyond", {{7, 3}}, 0, 100, Tensor::kEnd, -2));
  add_case(sliced("backwards_to_before", {{7, 3}}, 0, 4, -100, -1));
  add_case(sliced("backwards_empty", {{7, 3}}, 0, 2, 4, -1));
  add_case(sliced("by_3", {{7, 10}}, 1, 1, -1, 3));
  add_case(cut_and_joined("rows", {{9, 6}}, {2, 3, 4}, 0));
  add_case(cut_and_joined("columns", {{5, 33}}, {7, 0, 26}, 1));
  add_case(cut_and_joined("middle", {{2, 10, 5}}, {1, 4, 5}, -2));
  add_case(stacked("first", {{6, 5}}, 0, 3));
  add_case(stacked("last", {{8, 5}}, 2, 2));
}

}  // namespace ashlar::conformance
