// The kernels behind gradients, called as such: sizes around every vector and tile, layouts, NaN and infinities, and
// rows too long for differences.
#include <cmath>
#include <limits>
#include <numbers>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/many_rows.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

// ---- dx = dy f'(x) --------------------------------------------------------------------------------------------------

double sigmoid_slope(double x) {
  const double e = std::exp(-std::abs(x));
  return e / ((1 + e) * (1 + e));
}
double sigmoid_of(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }

struct Function {
  const char* name;
  Tensor (*call)(const Tensor& dy, const Tensor& x);
  Var (*record)(const Var& dy, const Var& x);
  double (*slope)(double);
  double ulps;              // of f32, at |dy| times `scale`
  double (*scale)(double);  // what the slope's error is relative to; null: the slope
  Values domain;
  double furthest;  // arguments up to ±furthest are tried, tiny and huge ones too; 0: the domain says all
};

const Function kFunctions[] = {
    {"exp_grad", exp_grad, ad::exp_grad, [](double x) { return std::exp(x); }, 9, nullptr, {}, 88},
    {"log_grad", log_grad, ad::log_grad, [](double x) { return 1 / x; }, 4, nullptr, {.low = 0.1, .high = 4}, 0},
    {"sqrt_grad",
     sqrt_grad,
     ad::sqrt_grad,
     [](double x) { return 0.5 / std::sqrt(x); },
     6,
     nullptr,
     {.low = 0.1, .high = 4},
     0},
    {"rsqrt_grad",
     rsqrt_grad,
     ad::rsqrt_grad,
     [](double x) { return -0.5 * (1 / std::sqrt(x)) / x; },
     8,
     nullptr,
     {.low = 0.1, .high = 4},
     0},
    {"tanh_grad",
     tanh_grad,
     ad::tanh_grad,
     [](double x) {
       const double e = std::exp(-2 * std::abs(x));
       return 4 * e / ((1 + e) * (1 + e));
     },
     24,
     nullptr,
     {},
     200},
    {"sigmoid_grad", sigmoid_grad, ad::sigmoid_grad, sigmoid_slope, 24, nullptr, {.low = -4, .high = 4}, 200},
    {"relu_grad", relu_grad, ad::relu_grad, [](double x) { return x <= 0 ? 0.0 : 1.0; }, 1, nullptr, {}, 200},
    {"gelu_grad",
     gelu_grad,
     ad::gelu_grad,
     [](double x) { return normal_cdf(x) + x * normal_density(x); },
     8,
     [](double x) { return normal_cdf(x) + std::abs(x) * normal_density(x) + 1; },
     {.low = -4, .high = 4},
     200},
    {"silu_grad",
     silu_grad,
     ad::silu_grad,
     [](double x) { return sigmoid_of(x) + x * sigmoid_slope(x); },
     24,
     [](double x) { return sigmoid_of(x) + std::abs(x) * sigmoid_slope(x); },
     {.low = -4, .high = 4},
     200},
};

Case example(const Function& f, std::string name, Input dy, Input x) {
  return {.kernel = f.name,
          .name = std::move(name),
          .inputs = {std::move(dy), std::move(x)},
          .call = [&f](Tensors x) { return std::vector{f.call(x[0], x[1])}; },
          .reference =
              [&f](HostTensors x) {
                Expected dx{x[0].shape, {}, {}, {}, {}};
                for (size_t i = 0; i < x[0].values.size(); ++i) {
                  const double dy = x[0].values[i], v = x[1].values[i], slope = f.slope(v);
                  // NaN · 0 too is 0 where ReLU is flat.
                  dx.values.push_back(f.call == relu_grad && slope == 0 ? 0 : dy * slope);
                  // Of an exponential below the normal numbers few digits are left, and on a GPU it is 0.
                  const bool is_lost = std::abs(slope) < 256 * smallest_normal(DType::f32);
                  dx.magnitudes.push_back(std::abs(dy * (f.scale ? f.scale(v) : slope)) * (is_lost ? 0x1p24 : 1));
                }
                return std::vector{dx};
              },
          .tolerance = ulps(f.ulps)};
}

// A gradient's own gradients, composed of operators.
Case with_gradients(Case item, std::function<Var(Vars)> record, std::vector<int> differentiated) {
  item.name += "_differentiated";
  item.differentiable = std::move(record);
  item.differentiated = std::move(differentiated);
  item.gradient_dtypes = {DType::f32};  // what lies between the operators is rounded
  item.is_drawn = false;
  return item;
}

void add_function(const Function& f) {
  const auto record = [&f](Vars x) { return f.record(x[0], x[1]); };
  const bool is_flat = f.call == relu_grad;  // its slope by x is 0, which is no gradient at all
  add_case(with_gradients(example(f, "37", {.shape = {37}}, {.shape = {37}, .values = f.domain}), record,
                          is_flat ? std::vector{0} : std::vector{0, 1}));
  for (const int64_t n : {0, 1, 15, 17, 33, 128, 129, 257, 1024, 1025, 4099, 100003}) {
    add_case(example(f, std::to_string(n), {.shape = {n}}, {.shape = {n}, .values = f.domain}));
  }
  for (const auto& [name, layout] : {std::pair{"offset", Layout::offset},
                                     {"transposed", Layout::transposed},
                                     {"stepped", Layout::stepped},
                                     {"flipped", Layout::flipped},
                                     {"broadcast_first", Layout::broadcast_first}}) {
    add_case(example(f, std::string("5x33_") + name, {.shape = {5, 33}}, {{5, 33}, f.domain, layout}));
    add_case(example(f, std::string("5x33_dy_") + name, {.shape = {5, 33}, .layout = layout}, {{5, 33}, f.domain}));
  }
  add_case(example(f, "263003_offset", {.shape = {263003}}, {{263003}, f.domain, Layout::offset}));
  Case many = example(f, "1100003", {.shape = {1100003}}, {{1100003}, f.domain});
  many.dtypes = {DType::f16, DType::bf16};
  add_case(many);
  const Values special{Pattern::special, f.domain.low, f.domain.high};
  add_case(example(f, "special", {.shape = {4099}}, {{4099}, special}));
  add_case(example(f, "special_dy", {{4099}, {Pattern::special}}, {{4099}, f.domain}));
  add_case(example(f, "special_both", {{4099}, {Pattern::special}}, {{4099}, special}));
  if (f.furthest == 0) return;
  for (const auto& [name, pattern] : {std::pair{"huge", Pattern::huge}, {"tiny", Pattern::tiny}}) {
    add_case(example(f, name, {.shape = {515}}, {{515}, {pattern, f.domain.low, f.domain.high}}));
  }
  add_case(example(f, "far", {.shape = {2050}}, {{2050}, {.low = -f.furthest, .high = f.furthest}}));
}

// ---- rows -----------------------------------------------------------------------------------------------------------

// softmax: dx_i = y_i (dy_i − Σ_k dy_k y_k);  log_softmax: dx_i = dy_i − e^y_i Σ_k dy_k
Expected softmax_gradient(const HostTensor& dy_in_place, const HostTensor& y_in_place, bool is_log, int64_t axis) {
  const HostTensor dy = with_axis_moved(dy_in_place, axis, -1), y = with_axis_moved(y_in_place, axis, -1);
  HostTensor dx{dy.shape, {}}, magnitudes{dy.shape, {}};
  const auto columns = static_cast<size_t>(dy.shape.back());
  for (size_t first = 0; first < dy.values.size(); first += columns) {
    double sum = 0, magnitude = 0;
    for (size_t i = first; i < first + columns; ++i) {
      const double term = is_log ? dy.values[i] : dy.values[i] * y.values[i];
      sum += term;
      magnitude += std::abs(term);
    }
    for (size_t i = first; i < first + columns; ++i) {
      const double factor = is_log ? std::exp(y.values[i]) : y.values[i];
      dx.values.push_back(is_log ? dy.values[i] - factor * sum : factor * (dy.values[i] - sum));
      magnitudes.values.push_back(is_log ? std::abs(dy.values[i]) + factor * magnitude
                                         : std::abs(factor) * (std::abs(dy.values[i]) + magnitude));
    }
  }
  return {dy_in_place.shape, with_axis_moved(dx, -1, axis).values, with_axis_moved(magnitudes, -1, axis).values};
}

Case softmax_example(bool is_log, std::string name, const Shape& shape, Pattern dy = Pattern::uniform,
                     Pattern y = Pattern::uniform, int64_t axis = -1) {
  const double low = is_log ? -12 : 0, high = is_log ? -8 : 0.1;
  return {
      .kernel = is_log ? "log_softmax_grad" : "softmax_grad",
      .name = std::move(name),
      .inputs = {{shape, {dy}}, {shape, {y, low, high}}},
      .call =
          [is_log, axis](Tensors x) {
            return std::vector{is_log ? log_softmax_grad(x[0], x[1], axis) : softmax_grad(x[0], x[1], axis)};
          },
      .reference = [is_log, axis](HostTensors x) { return std::vector{softmax_gradient(x[0], x[1], is_log, axis)}; },
      .tolerance = terms(),
      .vary =
          [is_log](const Case&, Random& random) {
            const int rank = static_cast<int>(random.pick<int64_t>({1, 2, 2, 3, 4, 8}));
            const int64_t other = random.between(-rank, rank - 1);
            return softmax_example(is_log, "along " + std::to_string(other), symbols(rank, random), Pattern::uniform,
                                   Pattern::uniform, other);
          }};
}

void add_softmax_gradients() {
  for (const bool is_log : {false, true}) {
    for (const int64_t axis : {-1, 0}) {
      const auto record = [is_log, axis](Vars x) {
        return is_log ? ad::log_softmax_grad(x[0], x[1], axis) : ad::softmax_grad(x[0], x[1], axis);
      };
      const std::string name = "along_" + std::to_string(axis);
      add_case(with_gradients(softmax_example(is_log, name, {5, 7}, Pattern::uniform, Pattern::uniform, axis), record,
                              {0, 1}));
    }
    // In every element type, and where rows are too long for differences.
    for (const int64_t n : {10,    32,    40,    64,   72,   128,  136,  256,   264,   512,   520,   1024,  1025,
                            1032,  2048,  2056,  4096, 5001, 8192, 8200, 16384, 20000, 32768, 40000, 50257, 65528,
                            65535, 65536, 65544, 13,   33,   101,  203,  301,   1001,  3001,  8191,  16383}) {
      add_case(softmax_example(is_log, "rows_of_" + std::to_string(n), {2, n}));
    }
    for (const Shape& shape : kManyRows) add_case(softmax_example(is_log, name_of_rows(shape), shape));
    for (const int64_t n : {3, 130, 1030, 8200, 40000}) {
      const Shape shape{n < 1000 ? 70 : 3, n};
      const std::string rows = "_rows_of_" + std::to_string(n);
      add_case(softmax_example(is_log, "special" + rows, shape, Pattern::uniform, Pattern::special));
      add_case(softmax_example(is_log, "special_dy" + rows, shape, Pattern::special, Pattern::uniform));
      if (is_log) add_case(softmax_example(is_log, "masked" + rows, shape, Pattern::uniform, Pattern::masked));
    }
  }
}

// dlogits[r,c] = dloss[r] (softmax(logits)[r,c] − [c = label[r]]); NaN where the label is no class
Expected cross_entropy_gradient(HostTensors x) {
  const int64_t rows = x[0].shape[0], classes = x[0].shape[1];
  Expected dx{x[0].shape, {}, {}, {}, {}};
  for (int64_t r = 0; r < rows; ++r) {
    const double* logits = x[0].values.data() + r * classes;
    const double label = x[1].values[r], dloss = x[2].values[r];
    const bool is_valid = label >= 0 && label < static_cast<double>(classes);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t k = 0; k < classes; ++k) largest = max_of(largest, logits[k]);
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(logits[k] - largest);
    for (int64_t k = 0; k < classes; ++k) {
      const double share = std::exp(logits[k] - largest) / sum, hit = static_cast<double>(k) == label ? 1 : 0;
      dx.values.push_back(is_valid ? dloss * (share - hit) : std::numeric_limits<double>::quiet_NaN());
      dx.magnitudes.push_back(std::abs(dloss) * (share + hit));
    }
  }
  return dx;
}

Case cross_entropy_example(std::string name, Shape shape, Values logits, Values dloss, double first, double last) {
  return {.kernel = "cross_entropy_grad",
          .name = std::move(name),
          .inputs = {{shape, logits},
                     {{shape[0]}, {Pattern::integers, first, last}, Layout::dense, DType::i64},
                     {{shape[0]}, dloss, Layout::dense, DType::f32}},
          .call = [](Tensors x) { return std::vector{cross_entropy_grad(x[0], x[1], x[2], -1)}; },
          .reference = [](HostTensors x) { return std::vector{cross_entropy_gradient(x)}; },
          .tolerance = terms()};
}

void add_cross_entropy_gradient(std::string name, Shape shape, Values logits, Values dloss, double first, double last) {
  add_case(cross_entropy_example(std::move(name), shape, logits, dloss, first, last));
}

void add_cross_entropy_gradients() {
  const auto record = [](Vars x) { return ad::cross_entropy_grad(x[0], x[1].value(), x[2], -1); };
  add_case(with_gradients(cross_entropy_example("5x7", {5, 7}, {}, {}, 0, 6), record, {0, 2}));
  for (const int64_t classes : {1,    2,    10,    17,    32,    40,    64,    72,   128,  136,  256,  264,
                                512,  520,  1000,  1024,  1025,  1032,  2048,  2056, 4096, 5001, 8191, 16383,
                                8192, 8200, 16384, 32768, 40000, 50257, 65544, 33,   101,  203,  301,  2051}) {
    add_cross_entropy_gradient("classes_" + std::to_string(classes), {3, classes}, {.low = -8, .high = 8}, {}, 0,
                               static_cast<double>(classes - 1));
  }
  add_cross_entropy_gradient("4099_rows_of_10", {4099, 10}, {.low = -8, .high = 8}, {}, 0, 9);
  for (const Shape& shape : kManyRows) {
    add_cross_entropy_gradient(name_of_rows(shape), shape, {.low = -8, .high = 8}, {}, 0,
                               static_cast<double>(shape[1] - 1));
  }
  add_cross_entropy_gradient("labels_out_of_range", {129, 10}, {}, {}, -4, 13);
  add_cross_entropy_gradient("far", {9, 130}, {.low = -200, .high = 200}, {}, 0, 129);
  for (const int64_t classes : {5, 130, 1030, 8200, 40000}) {
    const Shape shape{classes < 1000 ? 70 : 3, classes};
    const std::string rows = "_rows_of_" + std::to_string(classes);
    const auto last = static_cast<double>(classes - 1);
    add_cross_entropy_gradient("masked" + rows, shape, {Pattern::masked}, {}, 0, last);
    add_cross_entropy_gradient("special" + rows, shape, {Pattern::special}, {}, 0, last);
    add_cross_entropy_gradient("special_dloss" + rows, shape, {}, {Pattern::special}, 0, last);
  }
}

}  // namespace

void add_gradient_kernel_cases() {
  for (const Function& f : kFunctions) add_function(f);
  add_softmax_gradients();
  add_cross_entropy_gradients();
}

}  // namespace ashlar::conformance
