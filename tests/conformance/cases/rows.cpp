// Rows, each replaced: softmax and log_softmax
#include <algorithm>
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/forms/forms.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/many_rows.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

using Row = std::vector<double>;

// softmax(x)_i = e^(x_i − max x) / Σ_k e^(x_k − max x); the error is relative to the result.
void softmax_row(const Row& x, double* y, double* magnitude) {
  double largest = -std::numeric_limits<double>::infinity();
  for (double v : x) largest = max_of(largest, v);
  double sum = 0;
  for (double v : x) sum += std::exp(v - largest);
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = std::exp(x[i] - largest) / sum;
    magnitude[i] = y[i];
  }
}

// log_softmax(x)_i = (x_i − max x) − log Σ_k e^(x_k − max x). The terms: the difference, the logarithm, and 1 for the
// relative error of the sum inside of it.
void log_softmax_row(const Row& x, double* y, double* magnitude) {
  double largest = -std::numeric_limits<double>::infinity();
  for (double v : x) largest = max_of(largest, v);
  double sum = 0;
  for (double v : x) sum += std::exp(v - largest);
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] - largest - std::log(sum);
    magnitude[i] = std::abs(x[i] - largest) + std::log(sum) + 1;
  }
}

struct Function {
  const char* name;
  Tensor (*call)(const Tensor&, int64_t);
  Var (*record)(const Var&, int64_t);
  void (*exact)(const Row&, double*, double*);
};

const Function kFunctions[] = {{"softmax", softmax, ad::softmax, softmax_row},
                               {"log_softmax", log_softmax, ad::log_softmax, log_softmax_row}};

Case with_other_axis(const Function& f, const Case& like, Random& random);

Case example(const Function& f, std::string name, Input input, int64_t axis = -1) {
  return {.kernel = f.name,
          .name = std::move(name),
          .inputs = {std::move(input)},
          .call = [&f, axis](Tensors x) { return std::vector{f.call(x[0], axis)}; },
          .reference = [&f, axis](HostTensors x) { return std::vector{row_wise(x[0], axis, f.exact)}; },
          .tolerance = terms(),
          .vary = [&f](const Case& like, Random& random) { return with_other_axis(f, like, random); }};
}

Case differentiable_example(const Function& f, std::string name, Input input, int64_t axis = -1) {
  Case item = example(f, std::move(name), std::move(input), axis);
  item.differentiable = [&f, axis](Vars x) { return f.record(x[0], axis); };
  return item;
}

// Any rank of 1 or more and any axis, counted from either end.
Case with_other_axis(const Function& f, const Case& like, Random& random) {
  const int rank = static_cast<int>(random.pick<int64_t>({1, 2, 2, 2, 3, 3, 4, 6, 8}));
  const int64_t axis = random.chance(0.5) ? -1 : random.between(-rank, rank - 1);
  Input input = like.inputs[0];
  input.shape = symbols(rank, random);
  const std::string name = "along " + std::to_string(axis);
  Case item = like.differentiable ? differentiable_example(f, name, input, axis) : example(f, name, input, axis);
  item.dtypes = like.dtypes;
  // What rounding to 16 bits takes from a saved y can be as large as a gradient that is left when terms cancel. The
  // gradients' kernels have cases of their own in these types, with y as it is given.
  item.gradient_dtypes = {DType::f32};
  return item;
}

void add_function(const Function& f) {
  for (const int64_t n :
       {1,   2,   3,   7,   8,   9,   10,  15,   16,   17,   31,   32,   33,   63,   64,   65,    127,  128,
        129, 255, 256, 257, 511, 512, 513, 1000, 1023, 1024, 1025, 2047, 2051, 4099, 8191, 16383, 50257}) {
    add_case(example(f, "rows_of_" + std::to_string(n), {{3, n}, {.low = -8, .high = 8}}));
  }
  for (const int64_t rows : {1, 2, 15, 16, 17, 255, 256, 257, 4099}) {
    add_case(example(f, std::to_string(rows) + "_rows_of_10", {{rows, 10}, {.low = -8, .high = 8}}));
  }
  for (const Shape& shape : kManyRows) {
    add_case(example(f, name_of_rows(shape), {shape, {.low = -8, .high = 8}}));
  }
  for (const Shape& shape : kRowsOfViews) {
    add_case(example(f, "view_of_" + name_of_rows(shape), {shape, {.low = -8, .high = 8}, Layout::offset}));
  }
  // Whole vectors in every shape that keeps a row in registers or shared memory, and rows beyond the last group of
  // rows.
  for (const int64_t n : {24,   40,    72,    136,   264,   520,   1032,  2048,  2056,  4096, 8192,
                          8200, 16384, 16392, 24576, 32768, 32776, 40000, 65528, 65536, 65544}) {
    add_case(example(f, "aligned_rows_of_" + std::to_string(n), {{3, n}, {.low = -8, .high = 8}}));
  }
  add_case(example(f, "odd_rows_of_65535", {{2, 65535}, {.low = -8, .high = 8}}));
  // More rows than a GPU has at once.
  Case many = example(f, "111_rows_of_33280", {{111, 33280}, {.low = -8, .high = 8}});
  many.dtypes = {DType::f32};
  add_case(many);
  for (const int64_t n : {32, 64, 128, 256}) {
    add_case(example(f, "257_rows_of_" + std::to_string(n), {{257, n}, {.low = -8, .high = 8}}));
  }
  const Shape shape{4, 5, 33};
  add_case(example(f, "rank1", {.shape = {129}}));
  add_case(differentiable_example(f, "rank0_over_0", {.shape = {}}, 0));
  add_case(differentiable_example(f, "rank0_over_last", {.shape = {}}, -1));
  add_case(example(f, "axis0", {.shape = shape}, 0));
  add_case(example(f, "axis1", {.shape = shape}, 1));
  add_case(example(f, "offset", {.shape = shape, .layout = Layout::offset}));
  add_case(example(f, "transposed", {.shape = shape, .layout = Layout::transposed}));
  add_case(example(f, "stepped", {.shape = shape, .layout = Layout::stepped}));
  add_case(example(f, "flipped", {.shape = shape, .layout = Layout::flipped}));
  add_case(example(f, "broadcast_first", {.shape = shape, .layout = Layout::broadcast_first}));
  add_case(example(f, "equal_elements", {.shape = shape, .layout = Layout::broadcast_last}));
  add_case(example(f, "no_rows", {.shape = {0, 7}}));
  add_case(example(f, "empty_rows", {.shape = {7, 0}}));
  // Differences beyond where exp under- and overflows; ties; rows with NaN and ±Inf.
  add_case(example(f, "far", {{9, 130}, {.low = -200, .high = 200}}));
  add_case(example(f, "huge", {{9, 130}, {Pattern::huge}}));
  add_case(example(f, "tiny", {{9, 130}, {Pattern::tiny}}));
  add_case(example(f, "denormal", {{9, 130}, {Pattern::denormal}}));
  add_case(example(f, "integers", {{9, 130}, {Pattern::integers, -2, 2}}));
  add_case(example(f, "special", {{70, 3}, {Pattern::special}}));
  add_case(example(f, "special_long", {{9, 257}, {Pattern::special}}));
  add_case(example(f, "special_very_long", {{3, 40000}, {Pattern::special}}));
  // Masks: -Inf but for one element in 64; short rows have nothing else, and give NaN.
  for (const int64_t n : {3, 64, 130, 257, 1030, 4096, 8200, 40000}) {
    add_case(example(f, "masked_rows_of_" + std::to_string(n), {{n < 1000 ? 70 : 5, n}, {Pattern::masked}}));
  }
  add_case(example(f, "masked_axis0", {{300, 5, 3}, {Pattern::masked}}, 0));

  add_case(differentiable_example(f, "gradient_rows_of_1", {.shape = {5, 1}}));
  add_case(differentiable_example(f, "gradient_rows_of_10", {.shape = {5, 10}}));
  add_case(differentiable_example(f, "gradient_rows_of_1025", {.shape = {3, 1025}}));
  // In f32: differences of many terms leave a saved y of 16 bits too few digits.
  for (const int64_t n : {32, 64, 128, 256, 512, 1024, 4096}) {
    Case aligned = differentiable_example(f, "gradient_rows_of_" + std::to_string(n), {.shape = {n < 4096 ? 2 : 1, n}});
    aligned.gradient_dtypes = {DType::f32};
    add_case(aligned);
  }
  add_case(differentiable_example(f, "gradient_axis1", {.shape = {3, 5, 4}}, 1));
  Case far = differentiable_example(f, "gradient_far", {{4, 9}, {.low = -100, .high = 100}});
  far.gradient_dtypes = {DType::f32};  // all terms but one cancel: a saved y in f16 has no digits left for them
  add_case(far);

  for (const auto& [name, shape] : {std::pair{"131072x128", Shape{131072, 128}},
                                    {"16384x1024", Shape{16384, 1024}},
                                    {"4096x4096", Shape{4096, 4096}}}) {
    Case bench = example(f, name, {.shape = shape});
    bench.benchmark = true;
    add_case(bench);
  }
}

// Σ_k a[r,k] b[r,k]
Case row_dots_example(std::string name, Shape shape, Layout layout = Layout::dense, Values values = {}) {
  return {.kernel = "row_dots",
          .name = std::move(name),
          .inputs = {{shape, values, layout}, {shape, values}},
          .dtypes = {DType::f32},
          .call = [](Tensors x) { return forms::rows(kernels::row_dots, x, -1); },
          .reference =
              [](HostTensors x) {
                const int64_t columns = x[0].shape.back();
                Shape rows = x[0].shape;
                rows.erase(rows.rank() - 1);
                Expected y{rows, std::vector<double>(static_cast<size_t>(rows.numel()))};
                y.magnitudes = y.values;
                for (size_t i = 0; i < x[0].values.size(); ++i) {
                  const double term = x[0].values[i] * x[1].values[i];
                  y.values[i / static_cast<size_t>(columns)] += term;
                  y.magnitudes[i / static_cast<size_t>(columns)] += std::abs(term);
                }
                return std::vector{y};
              },
          .tolerance = terms()};
}

}  // namespace

void add_row_cases() {
  for (const Function& f : kFunctions) add_function(f);
  for (const int64_t n : {1, 3, 8, 16, 17, 32, 64, 93, 128, 256, 1024, 1030, 8192, 40000}) {
    add_case(row_dots_example("rows_of_" + std::to_string(n), {9, n}));
  }
  for (const Shape& shape : {Shape{16400, 13}, {33000, 3}}) add_case(row_dots_example(name_of_rows(shape), shape));
  add_case(row_dots_example("of_heads", {2, 3, 5, 64}));
  add_case(row_dots_example("transposed", {33, 70}, Layout::transposed));
  add_case(row_dots_example("offset", {33, 70}, Layout::offset));
  add_case(row_dots_example("special", {70, 3}, Layout::dense, {Pattern::special}));
  add_case(row_dots_example("no_rows", {0, 7}));
  add_case(row_dots_example("empty_rows", {7, 0}));
}

}  // namespace ashlar::conformance
