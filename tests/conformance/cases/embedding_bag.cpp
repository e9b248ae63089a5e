// Sums, means and maxima of bags of rows, and their gradients. What an index outside and wrong offsets do, which
// differs from device to device, is tested in tests/autograd/test_embedding_bag.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

const std::vector<DType> kFloats{DType::f32, DType::f16, DType::bf16, DType::f64};
// Added one after the other: a sum of n numbers of one sign is off by up to n 2⁻²⁴ of it.
constexpr Tolerance kInOrder = terms(1e-4);

/// Where each bag begins, and where the last one ends.
using Offsets = std::vector<int64_t>;

struct Bags {
  Offsets offsets = {};  ///< none: each row of the index is a bag
  bool gives_last = false;
  int64_t without = 0;  ///< indices behind the last bag

  bool are_rows() const { return offsets.empty(); }
  Shape index_shape(const Shape& rows) const { return are_rows() ? rows : Shape{offsets.back() + without}; }
  Tensor tensor(Device device) const {
    if (are_rows()) return {};
    const Offsets given(offsets.begin(), offsets.end() - (gives_last ? 0 : 1));
    return Tensor::from(given, {static_cast<int64_t>(given.size())}, device);
  }
  int64_t count(const Shape& index) const { return are_rows() ? index[0] : static_cast<int64_t>(offsets.size()) - 1; }
  int64_t begin(const Shape& index, int64_t bag) const {
    return are_rows() ? bag * index[1] : offsets[static_cast<size_t>(bag)];
  }
  /// The bag of each index, or -1.
  std::vector<int64_t> of_each(const Shape& index) const {
    std::vector<int64_t> bag(static_cast<size_t>(index.numel()), -1);
    for (int64_t b = 0; b < count(index); b++) {
      for (int64_t i = begin(index, b); i < begin(index, b + 1); i++) bag[static_cast<size_t>(i)] = b;
    }
    return bag;
  }
};

/// Bags of these sizes.
Offsets offsets_of(const std::vector<int64_t>& sizes) {
  Offsets sums{0};
  for (const int64_t size : sizes) sums.push_back(sums.back() + size);
  return sums;
}

void refuse_outside(const HostTensor& index, int64_t rows) {
  if (!index.values.empty() && rows == 0) throw IndexError("reference", "an index", "none", "Skip the call");
}

Input indices(const Shape& shape, int64_t rows, int weight) {
  Input index{shape, {Pattern::integers, 0, static_cast<double>(rows - 1)}, Layout::dense, DType::i64};
  index.index_of = AxisOf{weight, 0};
  return index;
}

struct How {
  EmbeddingBagMode mode = EmbeddingBagMode::sum;
  bool is_weighted = false;
  int64_t padding = -1;
};

/// in: index, weight and, if there are any, the samples' weights
std::vector<Expected> bagged(const Bags& bags, const How& how, HostTensors in) {
  const HostTensor &index = in[0], &weight = in[1];
  const int64_t rows = weight.shape[0], columns = weight.shape[1], count = bags.count(index.shape);
  refuse_outside(index, rows);
  Expected y{{count, columns}, {}, {}}, winners{{count, columns}, {}, {}, DType::i64};
  for (int64_t b = 0; b < count; b++) {
    for (int64_t c = 0; c < columns; c++) {
      double sum = 0, size = 0, best = 0, winner = -1;
      int64_t counted = 0;
      for (int64_t i = bags.begin(index.shape, b); i < bags.begin(index.shape, b + 1); i++) {
        const auto row = static_cast<int64_t>(index.values[static_cast<size_t>(i)]);
        if (row == how.padding) continue;
        const double value = weight.values[static_cast<size_t>(row * columns + c)];
        const double term = value * (how.is_weighted ? in[2].values[static_cast<size_t>(i)] : 1);
        sum += term;
        size += std::abs(term);
        const bool is_taken = counted == 0 || value > best || (std::isnan(value) && !std::isnan(best));
        counted++;
        if (!is_taken) continue;
        best = value;
        winner = static_cast<double>(row);
      }
      const double divisor =
          how.mode == EmbeddingBagMode::mean ? static_cast<double>(std::max<int64_t>(counted, 1)) : 1.0;
      y.values.push_back(how.mode == EmbeddingBagMode::max ? best : sum / divisor);
      y.magnitudes.push_back(how.mode == EmbeddingBagMode::max ? 1.0 : size / divisor);
      winners.values.push_back(winner);
    }
  }
  if (how.mode == EmbeddingBagMode::max) return {y, winners};
  return {y};
}

Case bag_case(std::string name, const Bags& bags, const Shape& rows_of_index, Input weight, const How& how) {
  const Shape shape = bags.index_shape(rows_of_index);
  std::vector<Input> inputs{indices(shape, weight.shape[0], 1), std::move(weight)};
  if (how.is_weighted) inputs.push_back({.shape = shape});
  const bool is_max = how.mode == EmbeddingBagMode::max;
  return {.kernel = "embedding_bag",
          .name = std::move(name),
          .inputs = std::move(inputs),
          .dtypes = kFloats,
          .call =
              [=](Tensors in) {
                const auto [y, winners] =
                    embedding_bag(in[0], in[1], bags.tensor(in[0].device()), how.is_weighted ? in[2] : Tensor(),
                                  how.mode, how.padding, bags.gives_last);
                return is_max ? std::vector{y, winners} : std::vector{y};
              },
          .reference = [=](HostTensors in) { return bagged(bags, how, in); },
          .tolerance = is_max ? terms(0) : kInOrder,  // the element itself
          .differentiable =
              [=](Vars in) {
                return ad::embedding_bag(in[0].value(), in[1], bags.tensor(in[0].device()),
                                         how.is_weighted ? in[2] : Var(), how.mode, how.padding, bags.gives_last)
                    .y;
              },
          .differentiated = how.is_weighted ? std::vector{1, 2} : std::vector{1},
          .gradient_is_rounded_once = true,
          .fixed_shapes = !bags.are_rows() || how.padding >= 0};
}

/// in: dy, index and, if there are any, the samples' weights
Case grad_case(std::string name, const Bags& bags, const Shape& rows_of_index, int64_t rows, int64_t columns,
               const How& how) {
  const Shape shape = bags.index_shape(rows_of_index);
  const bool is_mean = how.mode == EmbeddingBagMode::mean;
  Input index = indices(shape, rows, 0);
  index.index_of.reset();
  std::vector<Input> inputs{{.shape = {bags.count(shape), columns}}, std::move(index)};
  if (how.is_weighted) inputs.push_back({.shape = shape});
  return {.kernel = "embedding_bag_grad",
          .name = std::move(name),
          .inputs = std::move(inputs),
          .dtypes = kFloats,
          .call =
              [=](Tensors in) {
                return std::vector{embedding_bag_grad(in[0], in[1], bags.tensor(in[0].device()),
                                                      how.is_weighted ? in[2] : Tensor(), rows, is_mean, how.padding,
                                                      bags.gives_last)};
              },
          .reference =
              [=](HostTensors in) {
                const auto size = static_cast<size_t>(rows * columns);
                Expected y{{rows, columns}, std::vector<double>(size), std::vector<double>(size)};
                const HostTensor& index = in[1];
                const std::vector<int64_t> bag = bags.of_each(index.shape);
                std::vector<double> counts(static_cast<size_t>(bags.count(index.shape)));
                const auto is_counted = [&](size_t i) {
                  return bag[i] >= 0 && static_cast<int64_t>(index.values[i]) != how.padding;
                };
                for (size_t i = 0; i < bag.size(); i++) {
                  if (is_counted(i)) counts[static_cast<size_t>(bag[i])]++;
                }
                for (size_t i = 0; i < bag.size(); i++) {
                  if (!is_counted(i)) continue;
                  const auto row = static_cast<int64_t>(index.values[i]);
                  const double share = is_mean ? 1 / counts[static_cast<size_t>(bag[i])] : 1.0;
                  for (int64_t c = 0; c < columns; c++) {
                    const double term = in[0].values[static_cast<size_t>(bag[i] * columns + c)] * share *
                                        (how.is_weighted ? in[2].values[i] : 1);
                    y.values[static_cast<size_t>(row * columns + c)] += term;
                    y.magnitudes[static_cast<size_t>(row * columns + c)] += std::abs(term);
                  }
                }
                return std::vector{y};
              },
          .tolerance = kInOrder,
          .differentiable =
              [=](Vars in) {
                return ad::embedding_bag_grad(in[0], in[1].value(), bags.tensor(in[0].device()),
                                              how.is_weighted ? in[2] : Var(), rows, is_mean, how.padding,
                                              bags.gives_last);
              },
          .differentiated = how.is_weighted ? std::vector{0, 2} : std::vector{0},
          .fixed_shapes = true};
}

/// in: dy, index, weight
Case samples_case(std::string name, const Bags& bags, const Shape& rows_of_index, const Shape& weight,
                  int64_t padding) {
  const Shape shape = bags.index_shape(rows_of_index);
  return {.kernel = "embedding_bag_samples_grad",
          .name = std::move(name),
          .inputs = {{.shape = {bags.count(shape), weight[1]}}, indices(shape, weight[0], 2), {.shape = weight}},
          .dtypes = kFloats,
          .call =
              [=](Tensors in) {
                return std::vector{embedding_bag_samples_grad(in[0], in[1], in[2], bags.tensor(in[0].device()), padding,
                                                              bags.gives_last)};
              },
          .reference =
              [=](HostTensors in) {
                const HostTensor& index = in[1];
                const int64_t columns = in[2].shape[1];
                refuse_outside(index, in[2].shape[0]);
                Expected y{index.shape, {}, {}};
                const std::vector<int64_t> bag = bags.of_each(index.shape);
                for (size_t i = 0; i < bag.size(); i++) {
                  const auto row = static_cast<int64_t>(index.values[i]);
                  double dot = 0, size = 0;
                  for (int64_t c = 0; bag[i] >= 0 && row != padding && c < columns; c++) {
                    const double term = in[2].values[static_cast<size_t>(row * columns + c)] *
                                        in[0].values[static_cast<size_t>(bag[i] * columns + c)];
                    dot += term;
                    size += std::abs(term);
                  }
                  y.values.push_back(dot);
                  y.magnitudes.push_back(size);
                }
                return std::vector{y};
              },
          .tolerance = terms(),
          .differentiable =
              [=](Vars in) {
                return ad::embedding_bag_samples_grad(in[0], in[1].value(), in[2], bags.tensor(in[0].device()), padding,
                                                      bags.gives_last);
              },
          .differentiated = {0, 2},
          .fixed_shapes = true};
}

struct Named {
  std::string name;
  How how;
};

Case not_differentiated(Case item) {
  item.differentiable = nullptr;
  return item;
}

/// Of sizes from 0 to 6.
Offsets many(int64_t count) {
  std::vector<int64_t> sizes;
  for (int64_t b = 0; b < count; b++) sizes.push_back(b * b * 31 % 7);
  return offsets_of(sizes);
}

}  // namespace

void add_embedding_bag_cases() {
  const std::vector<Named> all{{"sum", {EmbeddingBagMode::sum}},
                               {"weighted", {EmbeddingBagMode::sum, true}},
                               {"mean", {EmbeddingBagMode::mean}},
                               {"max", {EmbeddingBagMode::max}}};
  const Bags some{offsets_of({3, 0, 5, 1, 31, 0})};
  for (const auto& [name, how] : all) {
    How padded = how;
    padded.padding = 2;
    for (const int64_t columns : {1, 3, 5, 15, 16, 33}) {
      add_case(bag_case(name + "_" + std::to_string(columns), some, {}, {{7, columns}}, how));
    }
    for (const int64_t columns : {1, 9, 40}) {
      add_case(bag_case(name + "_padding_" + std::to_string(columns), some, {}, {{4, columns}}, padded));
    }
    add_case(bag_case(name + "_all_padding", {offsets_of({4, 1})}, {}, {{1, 5}}, {how.mode, how.is_weighted, 0}));
    add_case(bag_case(name + "_rows", {}, {4, 6}, {{9, 17}}, how));
    add_case(bag_case(name + "_rows_of_one", {}, {5, 1}, {{3, 2}}, how));
    add_case(bag_case(name + "_rows_padding", {}, {4, 6}, {{5, 8}}, padded));
    add_case(bag_case(name + "_one_bag", {offsets_of({9})}, {}, {{6, 4}}, how));
    add_case(bag_case(name + "_last_offset", {offsets_of({2, 0, 7}), true}, {}, {{6, 20}}, how));
    add_case(bag_case(name + "_beyond_last_offset", {offsets_of({2, 0, 7}), true, 3}, {}, {{6, 6}}, padded));
    add_case(bag_case(name + "_no_indices", {offsets_of({0, 0, 0})}, {}, {{6, 4}}, how));
    add_case(bag_case(name + "_no_bags", {{0}}, {}, {{6, 4}}, how));
    add_case(bag_case(name + "_rows_of_none", {}, {3, 0}, {{6, 4}}, how));
    add_case(not_differentiated(bag_case(name + "_1000_columns", some, {}, {{23, 1000}}, how)));
    add_case(not_differentiated(bag_case(name + "_many", {many(2000)}, {}, {{300, 20}}, how)));
    add_case(not_differentiated(bag_case(name + "_many_padding", {many(700)}, {}, {{5, 70}}, padded)));
    add_case(not_differentiated(bag_case(name + "_long", {offsets_of({1000, 0, 700})}, {}, {{50, 65}}, how)));
    for (const Layout layout : {Layout::offset, Layout::transposed, Layout::stepped, Layout::broadcast_first}) {
      const std::string view = name + "_view_" + std::to_string(static_cast<int>(layout));
      Case item = not_differentiated(bag_case(view, some, {}, {{7, 18}, {}, layout}, how));
      item.dtypes = {DType::f32, DType::f16};
      add_case(std::move(item));
    }
  }
  for (const int64_t columns : {3, 33}) {  // the first of equals, of NaN and of infinities
    const How how{EmbeddingBagMode::max};
    const std::string name = std::to_string(columns);
    add_case(
        not_differentiated(bag_case("max_ties_" + name, some, {}, {{7, columns}, {Pattern::integers, 0, 2}}, how)));
    add_case(not_differentiated(bag_case("max_special_" + name, some, {}, {{7, columns}, {Pattern::special}}, how)));
  }
  Case special = not_differentiated(bag_case("mean_special", some, {}, {{7, 20}, {Pattern::special}}, all[2].how));
  add_case(std::move(special));

  for (const auto& [name, how] : all) {
    if (how.mode == EmbeddingBagMode::max) continue;
    for (const int64_t columns : {2, 7, 24}) {
      add_gradient_case(grad_case(name + "_" + std::to_string(columns), some, {}, 9, columns, how));
      Case sparse =
          grad_case(name + "_sparse_" + std::to_string(columns), some, {}, 95, columns, {how.mode, how.is_weighted, 2});
      add_gradient_case(not_differentiated(std::move(sparse)));
    }
    add_gradient_case(grad_case(name + "_rows", {}, {4, 6}, 5, 9, {how.mode, how.is_weighted, 1}));
    add_gradient_case(
        grad_case(name + "_last_offset", {offsets_of({2, 0, 7}), true, 3}, {}, 6, 17, {how.mode, how.is_weighted, 1}));
    add_gradient_case(not_differentiated(grad_case(name + "_many", {many(700)}, {}, 37, 65, how)));
    add_case(grad_case(name + "_no_indices", {offsets_of({0, 0})}, {}, 4, 3, how));
  }
  for (const int64_t columns : {1, 16, 33}) {
    const std::string name = std::to_string(columns);
    add_gradient_case(samples_case("columns_" + name, some, {}, {7, columns}, -1));
    add_gradient_case(samples_case("padding_" + name, {offsets_of({2, 0, 7}), true, 3}, {}, {5, columns}, 2));
  }
  add_gradient_case(samples_case("rows", {}, {4, 6}, {9, 20}, -1));
  add_gradient_case(not_differentiated(samples_case("2100_columns", {offsets_of({3, 4})}, {}, {6, 2100}, -1)));
  add_gradient_case(not_differentiated(samples_case("many", {many(700)}, {}, {60, 100}, 3)));
  add_case(samples_case("no_indices", {offsets_of({0, 0})}, {}, {4, 3}, -1));

  Case bench =
      not_differentiated(bag_case("8192_bags_of_32_of_100000x64", {}, {8192, 32}, {{100'000, 64}}, all[0].how));
  bench.dtypes = {DType::f32};
  bench.benchmark = true;
  add_case(std::move(bench));
}

}  // namespace ashlar::conformance
