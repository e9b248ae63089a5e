// Stable sorting along an axis: ties, NaN, zeros of both signs, rows around every block.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

const std::vector<DType> kAll{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                              DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};
const std::vector<DType> kFloats{DType::f32, DType::f16, DType::bf16, DType::f64};

// NaN is larger than all numbers, and -0 is 0.
bool is_less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

struct Order {
  Expected values, indices;
};

Order sorted(const HostTensor& x, int64_t axis, bool descending, int64_t first) {
  const int rank = x.shape.rank();
  const auto moved = [&](const HostTensor& t, int64_t from, int64_t to) {
    return rank == 0 ? t : with_axis_moved(t, from, to);
  };
  const HostTensor rows = moved(x, axis, -1);
  const int64_t n = rank == 0 ? 1 : rows.shape.back(), kept = first < 0 ? n : first;
  HostTensor values{rows.shape, {}, x.dtype}, indices{rows.shape, {}, DType::i64};
  if (rank > 0) values.shape[rank - 1] = indices.shape[rank - 1] = kept;
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t r = 0; n > 0 && r < rows.shape.numel() / n; ++r) {
    const double* row = rows.values.data() + r * n;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return descending ? is_less(row[b], row[a]) : is_less(row[a], row[b]);
    });
    for (int64_t j = 0; j < kept; ++j) {
      values.values.push_back(row[order[j]]);
      indices.values.push_back(static_cast<double>(order[j]));
    }
  }
  values = moved(values, -1, axis);
  indices = moved(indices, -1, axis);
  return {{values.shape, values.values}, {indices.shape, indices.values, {}, DType::i64}};
}

struct Sorting {
  std::string kernel = "sort";
  int64_t axis = -1;
  bool descending = false;
  int64_t first = -1;  ///< of topk
};

Case with_other_axis(const Case& like, const Sorting& how, Random& random);

Case example(const Sorting& how, std::string name, Input input) {
  Case item{.kernel = how.kernel,
            .name = std::move(name),
            .inputs = {std::move(input)},
            .dtypes = kAll,
            .reference =
                [how](HostTensors x) {
                  const Order order = sorted(x[0], how.axis, how.descending, how.first);
                  if (how.kernel == "argsort") return std::vector{order.indices};
                  return std::vector{order.values, order.indices};
                },
            .vary = [how](const Case& like, Random& random) { return with_other_axis(like, how, random); }};
  if (how.kernel == "argsort") {
    item.call = [how](Tensors x) { return std::vector{argsort(x[0], how.axis, how.descending)}; };
  } else if (how.kernel == "sort") {
    item.call = [how](Tensors x) {
      const auto [values, indices] = sort(x[0], how.axis, how.descending);
      return std::vector{values, indices};
    };
  } else {
    item.fixed_shapes = true;
    item.vary = {};
    item.call = [how](Tensors x) {
      const auto [values, indices] = topk(x[0], how.first, how.axis, how.descending);
      return std::vector{values, indices};
    };
  }
  return item;
}

Case differentiable_example(const Sorting& how, std::string name, Input input) {
  input.values.pattern = Pattern::distinct;
  Case item = example(how, std::move(name), std::move(input));
  item.dtypes = {DType::f32, DType::f16, DType::bf16};
  item.is_drawn = false;  // a drawn view may repeat elements, and there is no derivative where two are equal
  item.differentiable = [how](Vars x) {
    return how.kernel == "sort" ? ad::sort(x[0], how.axis, how.descending).values
                                : ad::topk(x[0], how.first, how.axis, how.descending).values;
  };
  return item;
}

Case with_other_axis(const Case& like, const Sorting& how, Random& random) {
  const int rank = static_cast<int>(random.pick<int64_t>({1, 2, 2, 2, 3, 3, 4, 6}));
  Sorting other = how;
  other.axis = random.chance(0.5) ? -1 : random.between(-rank, rank - 1);
  other.descending = random.chance(0.5);
  Input input = like.inputs[0];
  input.shape = symbols(rank, random);
  const std::string name = "along " + std::to_string(other.axis);
  Case item = example(other, name, input);
  item.dtypes = like.dtypes;
  return item;
}

}  // namespace

void add_sort_cases() {
  const Sorting argsort{.kernel = "argsort"}, sort, largest{.kernel = "sort", .descending = true};
  const Values ties{Pattern::integers, 0, 5};
  // Around a row that is compared as a whole, a thread's and a task's block.
  for (const int64_t n : {0, 1, 2, 127, 128, 129, 144, 145, 1000, 8192, 8193, 40000}) {
    Case item = example(argsort, "ties_of_" + std::to_string(n), {{n}, ties});
    if (n > 1000) item.dtypes = {DType::f32, DType::i64, DType::u8};
    add_case(item);
  }
  for (const int64_t n : {7, 100, 500}) {
    add_case(example(sort, "rows_of_" + std::to_string(n), {{5, n}, {.low = 0, .high = 100}}));
    add_case(example(largest, "descending_rows_of_" + std::to_string(n), {{5, n}, ties}));
    for (const auto& [name, pattern] : {std::pair{"special", Pattern::special},
                                        {"denormal", Pattern::denormal},
                                        {"wide", Pattern::wide},
                                        {"masked", Pattern::masked}}) {
      for (const Sorting& how : {sort, largest}) {
        Case item = example(how, std::string(how.descending ? "descending_" : "") + name + "_" + std::to_string(n),
                            {{3, n}, {pattern}});
        item.dtypes = kFloats;
        add_case(item);
      }
    }
    Case integers = example(sort, "wide_integers_" + std::to_string(n), {{3, n}, {Pattern::wide}});
    integers.dtypes = {DType::i32, DType::i64, DType::i16, DType::i8, DType::u8, DType::u16, DType::u32};
    add_case(integers);
    integers = example(largest, "descending_wide_integers_" + std::to_string(n), {{3, n}, {Pattern::wide}});
    integers.dtypes = {DType::i32, DType::i64, DType::i16, DType::i8, DType::u8, DType::u16, DType::u32};
    add_case(integers);
  }
  add_case(example({.kernel = "argsort", .axis = 0}, "rank0", {.shape = {}}));
  add_case(example(argsort, "no_rows", {.shape = {0, 5}}));
  add_case(example({.kernel = "sort", .axis = 1}, "middle_of_3x200x7", {{3, 200, 7}, ties}));
  add_case(example({.kernel = "sort", .axis = 0, .descending = true}, "along_0_of_150x9", {{150, 9}, ties}));
  Case many = example(sort, "many_rows", {{70001, 3}, ties});  // more than a grid's second dimension has
  many.dtypes = {DType::f32};
  add_case(many);
  add_case(example(sort, "all_equal", {{2, 3000}, {Pattern::integers, 1, 1}}));
  for (const Layout layout : {Layout::offset, Layout::transposed, Layout::stepped, Layout::flipped,
                              Layout::broadcast_first, Layout::broadcast_last}) {
    Case view = example(sort, "view_" + std::to_string(static_cast<int>(layout)), {{9, 140}, ties, layout});
    view.dtypes = {DType::f32, DType::i64};
    add_case(view);
  }
  Case million = example(argsort, "1000000", {{1'000'000}, {.low = -1e6, .high = 1e6}});
  million.dtypes = {DType::f32};
  million.is_drawn = false;
  add_case(million);
  million = example(argsort, "1000000_duplicates", {{1'000'000}, {Pattern::integers, 0, 1000}});
  million.dtypes = {DType::u32};
  million.is_drawn = false;
  add_case(million);

  for (const int64_t k : {0, 1, 5, 140}) {
    add_case(
        example({.kernel = "topk", .descending = true, .first = k}, "largest_" + std::to_string(k), {{5, 140}, ties}));
  }
  add_case(example({.kernel = "topk", .axis = 0, .first = 3}, "smallest_3_along_0", {{40, 7}, ties}));

  add_case(differentiable_example(sort, "gradient", {.shape = {3, 11}}));
  add_case(
      differentiable_example({.kernel = "sort", .axis = 0, .descending = true}, "gradient_along_0", {.shape = {9, 4}}));
  add_case(differentiable_example({.kernel = "topk", .axis = 1, .descending = true, .first = 4}, "gradient",
                                  {.shape = {3, 9, 2}}));

  Case bench = example(argsort, "16777216", {{16'777'216}, {.low = -1e6, .high = 1e6}});
  bench.dtypes = {DType::f32};
  bench.benchmark = true;
  add_case(bench);
}

}  // namespace ashlar::conformance
