// The rows of cross_entropy with PyTorch's options, which nn::cross_entropy adds up, and their gradient.
//
// loss[r] = (1 - s) w[l] (lse - x[r,l]) + s / classes Σ_k w[k] (lse - x[r,k]),  l = label[r];  counted[r] = w[l]; both
// 0 where l is ignored;  lse[r] = ln Σ_k e^x[r,k];  all[r] = Σ_k w[k]
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ashlar/ops/cross_entropy.h"
#include "runtime/forms/rows.h"
#include "runtime/support/error.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/many_rows.h"

namespace ashlar::conformance {
namespace {

constexpr int64_t kIgnored = 2;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

bool is_class(double label, int64_t classes) { return label >= 0 && label < static_cast<double>(classes); }

// in: logits, labels, weights or none
std::vector<Expected> exact_rows(HostTensors in, double smoothing) {
  const int64_t rows = in[0].shape[0], classes = in[0].shape[1];
  if (rows > 0 && classes == 0) {
    throw ShapeError("cross_entropy_of_weighted", "no classes", "one or more", "Skip the call");
  }
  const auto weight = [&](int64_t k) { return in.size() > 2 ? in[2].values[static_cast<size_t>(k)] : 1.0; };
  std::vector<Expected> results(4, Expected{{rows}, {}, {}, DType::f32});
  const auto add = [&](size_t output, double value, double magnitude) {
    results[output].values.push_back(value);
    results[output].magnitudes.push_back(magnitude);
  };
  double all = 0;
  for (int64_t k = 0; k < classes; ++k) all += weight(k);
  for (int64_t r = 0; r < rows; ++r) {
    const double* x = in[0].values.data() + r * classes;
    const double label = in[1].values[static_cast<size_t>(r)];
    double largest = x[0], sum = 0, below = 0;
    for (int64_t k = 0; k < classes; ++k) largest = std::max(largest, x[k]);
    for (int64_t k = 0; k < classes; ++k) {
      sum += std::exp(x[k] - largest);
      below += weight(k) * (largest - x[k]);
    }
    const double logarithm = std::log(sum), share = smoothing / static_cast<double>(classes);
    const bool valid = is_class(label, classes), ignored = label == static_cast<double>(kIgnored);
    const int64_t at = std::clamp<int64_t>(static_cast<int64_t>(label), 0, classes - 1);
    const double of_label = (1 - smoothing) * weight(at) * (largest - x[at] + logarithm);
    const double loss = valid ? of_label + share * (below + logarithm * all) : kNone;
    const double magnitude = (1 - smoothing) * weight(at) * (largest - x[at] + logarithm + 1) +
                             share * (below + (logarithm + 1) * all) + 1e-30;
    add(0, ignored ? 0 : loss, magnitude);
    add(1, ignored ? 0 : weight(at), weight(at) + 1e-30);
    add(2, logarithm + largest, std::abs(largest) + logarithm + 1);
    add(3, all, all);
  }
  return results;
}

// in: logits, labels, dloss, logsumexp, all, weights or none
std::vector<Expected> exact_gradient(HostTensors in, double smoothing) {
  const int64_t rows = in[0].shape[0], classes = in[0].shape[1];
  const auto weight = [&](int64_t k) { return in.size() > 5 ? in[5].values[static_cast<size_t>(k)] : 1.0; };
  Expected dx{in[0].shape, {}, {}, DType::f32};
  const double share = smoothing / static_cast<double>(classes);
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<size_t>(r);
    const double label = in[1].values[row], dloss = in[2].values[row], logsumexp = in[3].values[row];
    const bool valid = is_class(label, classes), ignored = label == static_cast<double>(kIgnored);
    const double own = valid ? (1 - smoothing) * weight(static_cast<int64_t>(label)) : 0;
    for (int64_t c = 0; c < classes; ++c) {
      const double off = in[0].values[static_cast<size_t>(r * classes + c)] - logsumexp;
      const double of_all = (own + share * in[4].values[row]) * std::exp(off);
      const double of_label = label == static_cast<double>(c) ? own : 0, each = share * weight(c);
      dx.values.push_back(ignored ? 0 : valid ? dloss * (of_all - of_label - each) : kNone);
      dx.magnitudes.push_back(std::abs(dloss) * (of_all * (1 + std::abs(off)) + of_label + each) + 1e-30);
    }
  }
  return {dx};
}

std::vector<Tensor> run(const KernelInfo& kernel, Tensors x, size_t count, double smoothing) {
  std::vector<Tensor> inputs(x.begin(), x.end());
  inputs.resize(count);  // without weights: none
  return forms::Rows::call(kernel, {.inputs = inputs,
                                    .scalars = std::array<Scalar, 2>{kIgnored, smoothing},
                                    .options = std::array<OptionValue, 1>{int64_t{-1}}});
}

void add(const std::string& name, const Shape& shape, bool has_weights, double smoothing, double low, double high,
         const Values& logits = {.low = -8, .high = 8}) {
  const Input labels{
      .shape = {shape[0]}, .values = {Pattern::integers, low, high}, .dtype = DType::i64, .index_of = AxisOf{0, 1}};
  const Input weights{{shape[1]}, {.low = 0.5, .high = 2}, Layout::dense, DType::f32};
  Case rows{.kernel = "cross_entropy_of_weighted",
            .name = name,
            .inputs = {{shape, logits}, labels},
            .dtypes = {DType::f32},
            .call = [=](Tensors x) { return run(kernels::cross_entropy_of_weighted, x, 3, smoothing); },
            .reference = [=](HostTensors in) { return exact_rows(in, smoothing); },
            .tolerance = terms()};
  const Input each{{shape[0]}, {.low = -1, .high = 1}, Layout::dense, DType::f32};
  Case gradient{.kernel = "cross_entropy_of_weighted_grad",
                .name = name,
                .inputs = {{shape, logits},
                           labels,
                           each,
                           {{shape[0]}, {.low = 2, .high = 9}, Layout::dense, DType::f32},
                           {{shape[0]}, {.low = 1, .high = 5}, Layout::dense, DType::f32}},
                .dtypes = {DType::f32},
                .call = [=](Tensors x) { return run(kernels::cross_entropy_of_weighted_grad, x, 6, smoothing); },
                .reference = [=](HostTensors in) { return exact_gradient(in, smoothing); },
                .tolerance = terms()};
  for (Case* one : {&rows, &gradient}) {
    // Logits far above the sum of their exponentials, as only this gradient's inputs can be, have no finite slope.
    if (one == &gradient && logits.high > 100) continue;
    if (has_weights) one->inputs.push_back(weights);
    add_case(*one);
  }
}

}  // namespace

void add_weighted_cross_entropy_cases() {
  for (const int64_t classes : {1,    3,    10,   16,   17,   24,   33,   128,   130,  200,  512,  600,
                                1024, 2047, 2048, 2051, 4096, 5001, 8191, 16383, 8192, 8200, 16392}) {
    add("classes_" + std::to_string(classes), {5, classes}, classes % 2 == 0, 0.1, 0, static_cast<double>(classes - 1));
  }
  for (const int64_t rows : {0, 1, 33, 1025, 20000}) {
    add(std::to_string(rows) + "_rows_of_10", {rows, 10}, true, 0, 0, 9);
    add(std::to_string(rows) + "_rows_of_12_smoothed", {rows, 12}, false, 0.25, 0, 11);
  }
  for (const Shape& shape : kManyRows) {
    add(name_of_rows(shape), shape, true, 0.1, 0, static_cast<double>(shape[1] - 1));
  }
  add("labels_out_of_range", {129, 10}, true, 0.1, -4, 13);
  add("far", {9, 130}, true, 0.1, 0, 129, {.low = -200, .high = 200});
}

}  // namespace ashlar::conformance
