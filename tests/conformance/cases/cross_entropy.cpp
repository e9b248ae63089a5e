// loss[r] = log Σ_k e^logits[r,k] − logits[r, label[r]]
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/many_rows.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

// NaN where the label is no class. The terms: max − x_label, the logarithm, and 1 for the error of its sum.
Expected exact(HostTensors x, int64_t axis) {
  const HostTensor scores = with_axis_moved(x[0], axis, -1);
  const int64_t rows = x[1].shape.numel();
  const int64_t classes = scores.shape.back();
  if (rows > 0 && classes == 0) throw ShapeError("cross_entropy", "no classes", "one or more", "Skip the call");
  Expected loss{x[1].shape, {}, {}, DType::f32};
  for (int64_t r = 0; r < rows; ++r) {
    const double* logits = scores.values.data() + r * classes;
    const double label = x[1].values[r];
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < classes; ++k) largest = max_of(largest, logits[k]);
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(logits[k] - largest);
    const bool valid = label >= 0 && label < static_cast<double>(classes);
    const double chosen = valid ? logits[static_cast<int64_t>(label)] : std::numeric_limits<double>::quiet_NaN();
    loss.values.push_back(std::log(sum) - (chosen - largest));
    loss.magnitudes.push_back(std::abs(chosen - largest) + std::log(sum) + 1);
  }
  return loss;
}

Case with_other_axis(const Case& like, Random& random);

Case example(std::string name, Input logits, double low_label, double high_label, int64_t axis = -1) {
  const int classes = normalize_axis("example", axis, logits.shape.rank());
  Shape rows = logits.shape;
  rows.erase(classes);
  return {.kernel = "cross_entropy",
          .name = std::move(name),
          .inputs = {std::move(logits),
                     {.shape = rows,
                      .values = {Pattern::integers, low_label, high_label},
                      .dtype = DType::i64,
                      .index_of = AxisOf{0, classes}}},
          .call = [axis](Tensors x) { return std::vector{cross_entropy(x[0], x[1], axis)}; },
          .reference = [axis](HostTensors x) { return std::vector{exact(x, axis)}; },
          .tolerance = terms(),
          .vary = with_other_axis};
}

Case differentiable_example(std::string name, Input logits) {
  const auto classes = static_cast<double>(logits.shape[1]);
  Case item = example(std::move(name), std::move(logits), 0, classes - 1);
  item.differentiable = [](Vars x) { return ad::cross_entropy(x[0], x[1].value()); };
  return item;
}

// Logits of any rank, with the classes along any axis.
Case with_other_axis(const Case& like, Random& random) {
  const int rank = static_cast<int>(random.pick<int64_t>({1, 2, 2, 2, 3, 3, 4, 6}));
  const int64_t axis = random.chance(0.5) ? -1 : random.between(-rank, rank - 1);
  Input logits = like.inputs[0];
  logits.shape = symbols(rank, random);
  const auto extent = [](const Case& item) { return item.inputs[0].shape[item.inputs[1].index_of->axis]; };
  const Values& labels = like.inputs[1].values;
  Case item = example("along " + std::to_string(axis), logits, labels.low, labels.high, axis);
  item.inputs[1].values.high += static_cast<double>(extent(item) - extent(like));
  item.gradient_dtypes = like.gradient_dtypes;
  if (like.differentiable) {
    item.differentiable = [axis](Vars x) { return ad::cross_entropy(x[0], x[1].value(), axis); };
  }
  return item;
}

}  // namespace

void add_cross_entropy_cases() {
  for (const int64_t classes : {1,    2,    10,    15,   16,   17,    31,    32,    33,    64,    127,  128,
                                129,  256,  512,   520,  1000, 1023,  1024,  1025,  2048,  2051,  2056, 4096,
                                5001, 8191, 16383, 8192, 8200, 16384, 16392, 32768, 32776, 50257, 65544}) {
    add_case(example("classes_" + std::to_string(classes), {{5, classes}, {.low = -8, .high = 8}}, 0,
                     static_cast<double>(classes - 1)));
  }
  for (const int64_t rows : {0, 1, 16, 17, 257, 4099}) {
    add_case(example(std::to_string(rows) + "_rows_of_10", {{rows, 10}, {.low = -8, .high = 8}}, 0, 9));
  }
  for (const Shape& shape : kManyRows) {
    add_case(example(name_of_rows(shape), {shape, {.low = -8, .high = 8}}, 0, static_cast<double>(shape[1] - 1)));
  }
  add_case(example("labels_out_of_range", {.shape = {129, 10}}, -4, 13));
  add_case(example("far", {{9, 130}, {.low = -200, .high = 200}}, 0, 129));
  add_case(example("special", {{70, 5}, {Pattern::special}}, 0, 4));
  for (const int64_t classes : {5, 130, 1030, 8200, 40000}) {
    add_case(example("masked_" + std::to_string(classes) + "_classes",
                     {{classes < 1000 ? 70 : 5, classes}, {Pattern::masked}}, 0, static_cast<double>(classes - 1)));
  }
  add_case(example("integers", {{33, 10}, {Pattern::integers, -1, 1}}, 0, 9));
  add_case(example("offset", {.shape = {9, 33}, .layout = Layout::offset}, 0, 32));
  add_case(example("transposed", {.shape = {9, 33}, .layout = Layout::transposed}, 0, 32));
  add_case(example("stepped", {.shape = {9, 33}, .layout = Layout::stepped}, 0, 32));

  add_case(differentiable_example("gradient_10_classes", {.shape = {6, 10}}));
  add_case(differentiable_example("gradient_1025_classes", {.shape = {3, 1025}}));
  for (const int64_t classes : {4096, 8200}) {
    // In f32: of so many shares, differences see the label's.
    Case long_row = differentiable_example("gradient_" + std::to_string(classes) + "_classes", {.shape = {2, classes}});
    long_row.gradient_dtypes = {DType::f32};
    add_case(long_row);
  }
  add_case(differentiable_example("gradient_far", {{5, 9}, {.low = -100, .high = 100}}));

  Case bench = example("16384x1024", {.shape = {16384, 1024}}, 0, 1023);
  bench.benchmark = true;
  add_case(bench);
}

}  // namespace ashlar::conformance
