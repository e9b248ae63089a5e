// fill, copy and cast: what the runtime itself calls. Bit-exact in every element type.
#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/forms/carrier.h"
#include "runtime/forms/movement.h"
#include "runtime/graph/graph.h"
#include "runtime/launch/launch.h"
#include "tests/conformance/cases/broadcasts.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

const std::vector<DType> kAllDTypes{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                                    DType::u8,  DType::u32, DType::i8,   DType::u16, DType::i16, DType::boolean};
const std::vector<DType> kIntegers{DType::i32, DType::i64, DType::u8, DType::u32, DType::i8, DType::u16, DType::i16};

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

// Elements of the type's whole range, so that no byte of them is always the same.
Case copy_case(std::string name, Input input) {
  if (input.values.pattern == Pattern::uniform) input.values = {Pattern::wide};
  return {.kernel = "copy",
          .name = std::move(name),
          .inputs = {std::move(input)},
          .dtypes = kAllDTypes,
          .call = [](Tensors x) { return std::vector{x[0].clone()}; },
          .reference = [](HostTensors x) { return std::vector{same_as(x[0])}; },
          .vary = any_rank};
}

Case permute_case(std::string name, Shape shape, Shape axes) {
  Case item = copy_case("permute_" + std::move(name), {.shape = shape});
  item.call = [axes](Tensors x) { return std::vector{x[0].permute(axes).contiguous()}; };
  item.reference = [axes](HostTensors x) { return std::vector{permuted(x[0], axes)}; };
  item.vary = [](const Case&, Random& random) {
    const int rank = static_cast<int>(random.pick<int64_t>({2, 2, 3, 3, 4, 4, 5, 6, 8}));
    const Shape order = random.permutation(rank);
    return permute_case(order.str(), symbols(rank, random), order);
  };
  return item;
}

// By the kernel of five axes: none of them may merge with the next.
Case permute_five_case(std::string name, Shape shape, Shape axes) {
  Case item = permute_case(std::move(name), shape, axes);
  item.kernel = "copy_of_five";
  item.dtypes = {DType::f32, DType::f16, DType::bf16, DType::i32, DType::u32, DType::u16, DType::i16};
  item.vary = [](const Case&, Random& random) {
    const Shape order = random.permutation(5);
    return permute_five_case("of_five_" + order.str(), symbols(5, random), order);
  };
  return item;
}

// Launch upon launch, each of which reads what blocks elsewhere have just written where it has read before: a GPU may
// begin one before the last has ended (dsl/build/ptx_overlap.h). A step transposes a matrix and moves its rows round.
Case chain_case(int64_t side, bool is_replayed) {
  constexpr int kSteps = 24;
  Case item = copy_case("chain_of_" + std::to_string(side) + (is_replayed ? "_replayed" : ""), {.shape = {side, side}});
  item.dtypes = {DType::f32, DType::u8};
  item.call = [=](Tensors x) {
    const Tensor a = x[0].clone(), b = x[0].clone();
    const auto step = [&] {
      b.copy_(a.transpose(0, 1));
      a.slice(0, 1).copy_(b.slice(0, 0, -1));
      a.select(0, 0).copy_(b.select(0, -1));
    };
    const Graph graph = is_replayed ? capture(a.device(), step) : Graph();
    for (int i = 0; i < kSteps; i++) is_replayed ? graph.replay() : step();
    return std::vector{a};
  };
  item.reference = [=](HostTensors x) {
    Expected y = same_as(x[0]);
    for (int i = 0; i < kSteps; i++) {
      const std::vector<double> before = y.values;
      const auto n = static_cast<size_t>(side);
      for (size_t r = 0; r < n; r++) {
        for (size_t c = 0; c < n; c++) y.values[(r + 1) % n * n + c] = before[c * n + r];
      }
    }
    return std::vector{y};
  };
  item.fixed_shapes = true;
  item.vary = {};
  return item;
}

Case scatter_into_any_view(Random& random);

// Writes the second input into a view of the first, of which everything else must stay as it was.
Case scatter_case(std::string name, Shape whole, Shape part, std::function<Tensor(const Tensor&)> view) {
  Case item = copy_case("into_" + std::move(name), {.shape = whole});
  item.inputs.push_back({.shape = std::move(part), .values = {Pattern::wide}});
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
  item.fixed_shapes = true;  // those of the view
  item.vary = [](const Case&, Random& random) { return scatter_into_any_view(random); };
  return item;
}

// A view made of slices, selections, turns and permutations, and a part that fits it.
Case scatter_into_any_view(Random& random) {
  Shape whole = Shape::filled(static_cast<int>(random.between(1, 5)), 0);
  for (int64_t& size : whole) size = random.between(1, 12);
  std::vector<std::function<Tensor(const Tensor&)>> steps;
  std::string name;
  Tensor part = Tensor::empty(whole, DType::u8);
  for (int64_t left = random.between(1, 4); left > 0 && part.rank() > 0; --left) {
    const int64_t axis = random.below(part.rank()), size = part.size(axis);
    const int64_t first = random.below(size + 1), last = random.between(first, size), step = random.between(1, 3);
    const Shape order = random.permutation(part.rank());
    switch (random.below(4)) {
      case 0:
        steps.push_back([=](const Tensor& x) { return x.slice(axis, first, last, step); });
        name += " slice(" + Shape{axis, first, last, step}.str() + ")";
        break;
      case 1:
        if (size == 0) continue;
        steps.push_back([=](const Tensor& x) { return x.select(axis, first % size); });
        name += " select(" + Shape{axis, first % size}.str() + ")";
        break;
      case 2:
        steps.push_back([=](const Tensor& x) { return x.flip(axis); });
        name += " flip(" + std::to_string(axis) + ")";
        break;
      default:
        steps.push_back([=](const Tensor& x) { return x.permute(order); });
        name += " permute(" + order.str() + ")";
    }
    part = steps.back()(part);
  }
  return scatter_case(name, whole, part.shape(), [steps](Tensor x) {
    for (const auto& step : steps) x = step(x);
    return x;
  });
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
    add_case(copy_case(std::string("long_") + name, {.shape = {5, 1033}, .layout = layout}));
  }
  for (const Shape& shape : large_matrices()) {
    add_case(copy_case("stepped_" + shape.str(), {.shape = shape, .layout = Layout::stepped}));
  }
  add_case(copy_case("one_element_repeated", {.shape = {1025}, .layout = Layout::broadcast_first}));
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
  add_case(permute_case("2310_outside_tiles", {9, 500, 2, 10}, {2, 3, 1, 0}));
  // Pairs of 16-bit elements: whole tiles, the end of one, and extents, strides and starts that are odd.
  add_case(permute_case("10_whole_pairs", {128, 64}, {1, 0}));
  add_case(permute_case("10_pairs", {194, 130}, {1, 0}));
  add_case(permute_case("10_odd_inner", {66, 131}, {1, 0}));
  add_case(permute_case("10_large_tiles", {1030, 1031}, {1, 0}));
  add_case(permute_case("10_large_pairs", {1030, 1032}, {1, 0}));
  add_case(permute_case("10_narrow", {13, 90000}, {1, 0}));
  add_case(permute_case("10_wide", {90000, 13}, {1, 0}));
  add_case(permute_case("210_few_rows", {40, 6, 5}, {2, 1, 0}));
  add_case(permute_case("210_few_columns", {5, 6, 40}, {2, 1, 0}));
  add_case(permute_case("0231_pairs", {2, 34, 18, 20}, {0, 2, 3, 1}));
  add_case(permute_case("3210_pairs", {36, 6, 10, 70}, {3, 2, 1, 0}));
  Case odd_start = copy_case("permute_10_odd_start", {.shape = {66, 68}, .layout = Layout::offset});
  odd_start.call = [](Tensors x) { return std::vector{x[0].transpose(0, 1).clone()}; };
  odd_start.vary = {};
  odd_start.reference = [](HostTensors x) { return std::vector{permuted(x[0], {1, 0})}; };
  add_case(odd_start);
  // Rows that stay rows: long ones, short ones of whole vectors of every element type, and odd ones; of a matrix, too.
  // Of 65536 elements and more, since fewer go to a thread each.
  add_case(permute_case("102_long", {3, 6, 4096}, {1, 0, 2}));
  add_case(permute_case("102_long_odd", {5, 13, 1031}, {1, 0, 2}));
  add_case(permute_case("102_vectors", {31, 47, 48}, {1, 0, 2}));
  add_case(permute_case("102_odd", {5, 7, 33}, {1, 0, 2}));
  Case columns = copy_case("columns", {.shape = {2003, 35}});
  columns.fixed_shapes = true;
  columns.vary = {};
  columns.call = [](Tensors x) { return std::vector{x[0].slice(1, 1, 34).clone()}; };
  columns.reference = [](HostTensors x) {
    Expected y{{2003, 33}, {}};
    for_each_index(y.shape, {35, 1}, [&](const Shape&, int64_t at) { y.values.push_back(x[0].values[at + 1]); });
    return std::vector{y};
  };
  add_case(columns);
  add_case(permute_case("rank8", {2, 3, 2, 1, 2, 3, 2, 2}, {7, 5, 3, 1, 0, 2, 4, 6}));
  for (const int64_t side : {5, 67, 300}) {
    for (const bool is_replayed : {false, true}) add_case(chain_case(side, is_replayed));
  }
  add_case(permute_five_case("of_five", {7, 3, 19, 4, 5}, {0, 3, 1, 4, 2}));
  add_case(permute_five_case("of_five_tiles", {2, 3, 70, 5, 129}, {0, 3, 1, 4, 2}));
  // Of 2^20 elements and more.
  add_case(permute_five_case("of_five_many_tiles", {2, 70, 12, 3, 11}, {0, 3, 1, 4, 2}));
  add_case(permute_five_case("of_five_few_rows", {2, 70, 40, 3, 7}, {0, 3, 1, 4, 2}));
  add_case(permute_five_case("of_five_few_columns", {2, 70, 5, 3, 40}, {0, 3, 1, 4, 2}));
  add_case(permute_five_case("of_five_small_matrices", {20, 40, 5, 9, 6}, {0, 3, 1, 4, 2}));
  add_case(permute_five_case("of_five_large_tiles", {5, 3, 140, 4, 129}, {0, 3, 1, 4, 2}));
  add_case(permute_five_case("of_five_large_pairs", {5, 3, 140, 4, 130}, {0, 3, 1, 4, 2}));
  add_case(permute_five_case("of_five_narrow", {3, 2, 13, 4, 3400}, {0, 3, 1, 4, 2}));
  add_case(permute_five_case("of_five_wide", {3, 2, 3400, 4, 13}, {0, 3, 1, 4, 2}));
  add_case(permute_five_case("of_five_rows", {2, 3, 4, 5, 128}, {2, 0, 3, 1, 4}));
  add_case(permute_five_case("of_five_many_rows", {40, 3, 5, 7, 128}, {1, 3, 2, 0, 4}));
  add_case(permute_five_case("of_five_vectors", {7, 5, 11, 9, 48}, {2, 0, 3, 1, 4}));
  add_case(permute_five_case("of_five_odd", {7, 5, 11, 9, 33}, {2, 0, 3, 1, 4}));
  add_case(permute_five_case("of_five_odd_matrices", {2, 3, 11, 9, 133}, {1, 3, 0, 2, 4}));
  add_case(permute_five_case("of_five_long", {2, 3, 2, 3, 4096}, {2, 0, 3, 1, 4}));
  add_case(permute_five_case("of_five_long_odd", {2, 3, 2, 3, 4099}, {2, 0, 3, 1, 4}));

  add_case(scatter_case("rows", {9, 7}, {4, 7}, [](const Tensor& x) { return x.slice(0, 3, 7); }));
  add_case(scatter_case("columns", {9, 7}, {9, 3}, [](const Tensor& x) { return x.slice(1, 2, 5); }));
  add_case(scatter_case("every_second", {9, 10}, {9, 5}, [](const Tensor& x) { return x.slice(1, 1, 10, 2); }));
  add_case(scatter_case("transposed", {9, 7}, {7, 9}, [](const Tensor& x) { return x.transpose(0, 1); }));
  add_case(scatter_case("selected", {5, 6, 7}, {5, 7}, [](const Tensor& x) { return x.select(1, 3); }));

  // A view onto another of the same memory, which share elements.
  Case shift = copy_case("onto_itself_shifted", {.shape = {9, 35}});
  shift.in_place = true;
  shift.fixed_shapes = true;
  shift.vary = {};
  shift.call = [](Tensors x) {
    x[0].slice(0, 1).copy_(x[0].slice(0, 0, -1));
    return std::vector{x[0]};
  };
  shift.reference = [](HostTensors x) {
    Expected y = same_as(x[0]);
    std::copy(x[0].values.begin(), x[0].values.end() - 35, y.values.begin() + 35);
    return std::vector{y};
  };
  add_case(shift);
  Case turned = copy_case("onto_itself_transposed", {.shape = {37, 37}});
  turned.in_place = true;
  turned.fixed_shapes = true;
  turned.vary = {};
  turned.call = [](Tensors x) {
    x[0].copy_(x[0].transpose(0, 1));
    return std::vector{x[0]};
  };
  turned.reference = [](HostTensors x) { return std::vector{permuted(x[0], {1, 0})}; };
  add_case(turned);
  // Every second column onto its neighbours: the memory is interleaved, no element is shared.
  Case interleaved = copy_case("onto_interleaved_columns", {.shape = {9, 36}});
  interleaved.in_place = true;
  interleaved.fixed_shapes = true;
  interleaved.vary = {};
  interleaved.call = [](Tensors x) {
    x[0].slice(1, 1, 36, 2).copy_(x[0].slice(1, 0, 36, 2));
    return std::vector{x[0]};
  };
  interleaved.reference = [](HostTensors x) {
    Expected y = same_as(x[0]);
    for (size_t i = 1; i < y.values.size(); i += 2) y.values[i] = y.values[i - 1];
    return std::vector{y};
  };
  add_case(interleaved);

  Case bench = copy_case("16M", {.shape = {int64_t{1} << 24}});
  bench.dtypes = {DType::f32, DType::f16};
  bench.benchmark = true;
  add_case(bench);
  Case permute_five = permute_five_case("40x3x153x4x5", {40, 3, 153, 4, 5}, {0, 3, 1, 4, 2});
  permute_five.benchmark = true;
  permute_five.dtypes = {DType::f32, DType::f16};
  add_case(permute_five);
  Case permute = permute_case("4096x4096", {4096, 4096}, {1, 0});
  permute.dtypes = {DType::f32, DType::f16};
  permute.benchmark = true;
  add_case(permute);
}

// ---- copy_parts -----------------------------------------------------------------------------------------------------

// Up to eight tensors into one, `gap` elements apart, which keep what they held.
Case parts_case(Shape sizes, int64_t gap) {
  constexpr size_t kParts = 8;
  const auto length = [sizes, gap] {
    int64_t total = gap;
    for (const int64_t size : sizes) total += size + gap;
    return total;
  };
  Case item{.kernel = "copy_parts",
            .name = sizes.str() + "_gap_" + std::to_string(gap),
            .dtypes = {DType::f32, DType::f16, DType::bf16, DType::i32, DType::u16}};
  for (const int64_t size : sizes) item.inputs.push_back({.shape = {size}, .values = {Pattern::wide}});
  item.call = [=](Tensors x) {
    const Tensor y = Tensor::full({length()}, 3, x[0].dtype(), x[0].device());
    std::vector<Tensor> inputs;
    std::vector<Scalar> scalars;
    int64_t at = gap;
    for (size_t k = 0; k < kParts; k++) {
      inputs.push_back(forms::as_carrier(x[std::min(k, x.size() - 1)]));
      scalars.emplace_back(static_cast<int32_t>(at));
      if (k + 1 < x.size()) at += x[k].numel() + gap;
    }
    scalars.emplace_back(static_cast<int32_t>(x.size()));
    launch(kernels::copy_parts, {.elements = {inputs[0].dtype()}}, inputs, scalars, std::array{forms::as_carrier(y)});
    return std::vector{y};
  };
  item.reference = [=](HostTensors x) {
    Expected y{{length()}, std::vector<double>(static_cast<size_t>(length()), 3)};
    size_t at = static_cast<size_t>(gap);
    for (const HostTensor& part : x) {
      std::ranges::copy(part.values, y.values.begin() + static_cast<std::ptrdiff_t>(at));
      at += part.values.size() + static_cast<size_t>(gap);
    }
    return std::vector{std::move(y)};
  };
  item.fixed_shapes = true;
  item.is_drawn = false;
  return item;
}

void add_parts_copied() {
  for (const Shape& sizes : {Shape{1}, {5, 1, 1300}, {2000, 3, 1, 64, 1025, 7, 1, 512}, {40000, 2}}) {
    for (const int64_t gap : {0, 13}) add_case(parts_case(sizes, gap));
  }
}

// ---- fill -----------------------------------------------------------------------------------------------------------

// The input only says how large, of which type and where.
Case fill_case(std::string name, Shape shape, double value) {
  const auto vary = [](const Case& like, Random& random) {
    const auto any = static_cast<double>(random.below(128));  // in the range of every type
    return any_rank(fill_case("of " + std::to_string(any), like.inputs[0].shape, any), random);
  };
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
          },
      .vary = vary};
}

void add_fills() {
  for (const int64_t n : {0, 1, 5, 17, 1025, 100003}) add_case(fill_case(std::to_string(n), {n}, 2.7));
  add_case(fill_case("rank0", {}, 1));
  add_case(fill_case("zeros", {3, 5, 7}, 0));
  Case special = fill_case("nan", {33}, std::nan(""));
  special.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64};
  special.vary = any_rank;
  add_case(special);

  Case view = fill_case("column", {9, 7}, 3);
  view.in_place = true;
  view.fixed_shapes = true;
  view.vary = {};
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

// What a cast gives: floats to integers towards zero, saturated, NaN as 0; integers to narrower ones modulo 2^bits.
double converted(double value, DType from, DType to) {
  if (is_floating(to) || to == DType::boolean) return rounded(value, to);
  if (!is_floating(from)) {
    if (to == DType::i64) return value;
    const int64_t count = int64_t{1} << 8 * size_of(to);
    const int64_t rest = static_cast<int64_t>(value) & (count - 1);
    return static_cast<double>(is_signed(to) && rest >= count / 2 ? rest - count : rest);
  }
  if (std::isnan(value)) return 0;
  const int bits = 8 * static_cast<int>(size_of(to)) - is_signed(to);
  const double low = is_signed(to) ? -std::ldexp(1, bits) : 0, high = std::ldexp(1, bits) - (to == DType::i64 ? 0 : 1);
  return std::clamp(std::trunc(value), low, high) + 0.0;
}

Case cast_case(std::string name, Input input, DType to) {
  return {.kernel = "cast",
          .name = std::string("to_").append(name_of(to)) + "_" + std::move(name),
          .inputs = {std::move(input)},
          .dtypes = kAllDTypes,
          .call = [to](Tensors x) { return std::vector{x[0].to(to)}; },
          .reference =
              [to](HostTensors x) {
                Expected y = pointwise(x[0], [&](double v) { return converted(v, x[0].dtype, to); });
                y.dtype = to;
                return std::vector{y};
              },
          .vary = any_rank};
}

void add_casts() {
  for (const DType to : kAllDTypes) {
    // In the range of every type.
    const Values small{.low = 0, .high = 120};
    for (const int64_t n : {0, 1, 17, 257, 4099}) add_case(cast_case(std::to_string(n), {{n}, small}, to));
    add_case(cast_case("5x33_stepped", {{5, 33}, small, Layout::stepped}, to));
    add_case(cast_case("5x33_offset", {{5, 33}, small, Layout::offset}, to));
    for (const auto& [name, n, layout] : {std::tuple{"263003", 263003, Layout::dense},
                                          {"263003_offset", 263003, Layout::offset},
                                          {"1100003", 1100003, Layout::dense}}) {
      Case large = cast_case(name, {{n}, small, layout}, to);
      if (layout == Layout::offset) large.dtypes = {DType::u8, DType::f16, DType::f32};
      add_case(std::move(large));
    }
    if (!is_floating(to) && to != DType::boolean) {
      // Beyond what the integer holds, and at its ends.
      for (const auto& [text, values] : {std::pair{"special", Values{Pattern::special}},
                                         {"huge", Values{Pattern::huge}},
                                         {"wide", Values{Pattern::wide}},
                                         {"beyond_bytes", Values{.low = -600, .high = 600}},
                                         {"beyond_i32", Values{.low = -0x1p33, .high = 0x1p33}},
                                         {"beyond_i64", Values{.low = -0x1p65, .high = 0x1p65}}}) {
        Case beyond = cast_case(text, {{515}, values}, to);
        beyond.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64};
        add_case(beyond);
      }
      Case narrowed = cast_case("modulo", {{515}, {Pattern::wide}}, to);
      narrowed.dtypes = kIntegers;
      add_case(narrowed);
    }
    if (!is_floating(to) && !is_signed(to)) continue;
    Case negative = cast_case("negative", {{515}, {.low = -120, .high = 120}}, to);
    negative.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::i8, DType::i16};
    add_case(negative);
    if (!is_floating(to)) continue;
    for (const auto& [text, pattern] : {std::pair{"special", Pattern::special}, {"huge", Pattern::huge}}) {
      Case extreme = cast_case(text, {{515}, {pattern}}, to);
      extreme.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64};
      add_case(extreme);
    }
    Case wide = cast_case("large_integers", {{515}, {.low = -2e9, .high = 2e9}}, to);
    wide.dtypes = {DType::i32, DType::i64};
    Case unsigned_wide = cast_case("large_unsigned", {{515}, {Pattern::wide}}, to);
    unsigned_wide.dtypes = {DType::u32, DType::u16};
    add_case(unsigned_wide);
    add_case(wide);
    // So many that some lie where rounding to f32 first would round the wrong way.
    if (to == DType::f16 || to == DType::bf16) {
      const double largest = to == DType::f16 ? 6e4 : 2e9;
      Case near_ties = cast_case("near_ties", {{300'007}, {.low = -largest, .high = largest}}, to);
      near_ties.dtypes = {DType::f64, DType::i32, DType::i64};
      add_case(near_ties);
    }
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
  add_parts_copied();
  add_fills();
  add_casts();
}

}  // namespace ashlar::conformance
