// Gradients of the operators whose backward pass is a recipe (broadcasting, reductions, extrema, contractions, views),
// against finite differences. The pointwise and row kernels' own gradients are checked by tests/conformance.
//
// To add one: a line in its list, with a reference made of the functions in reference.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "autograd/backward.h"
#include "autograd/views.h"
#include "tests/autograd/gradient_check.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using reference::Array;
using Vars = std::vector<Var>;
using Arrays = std::vector<Array>;

double plus(double a, double b) { return a + b; }
double minus(double a, double b) { return a - b; }
double times(double a, double b) { return a * b; }
double over(double a, double b) { return a / b; }
double larger(double a, double b) { return std::max(a, b); }
double smaller(double a, double b) { return std::min(a, b); }
double rectified(double x) { return std::max(x, 0.0); }
constexpr double kLowest = -std::numeric_limits<double>::infinity();

void check_all(const std::vector<GradientCase>& cases) {
  for (const Device device : testing::usable_devices()) {
    for (const GradientCase& test : cases) check_gradients(test, device);
  }
}

TEST(Gradients, OfBroadcasting) {
  std::vector<GradientCase> cases;
  const std::vector<std::vector<Shape>> shapes = {{{3, 4}, {3, 4}},          {{3, 4}, {4}},    {{3, 1}, {1, 4}},
                                                  {{2, 3, 4}, {3, 1}},       {{}, {2, 3}},     {{1}, {}},
                                                  {{2, 1, 3, 1}, {5, 1, 2}}, {{1, 1, 3}, {3}}, {{2, 3}, {1, 1, 1, 1}}};
  for (const auto& pair : shapes) {
    const std::string text = pair[0].str() + pair[1].str();
    cases.push_back({"add" + text, pair, [](const Vars& x) { return ad::add(x[0], x[1]); },
                     [](const Arrays& x) { return combine(x[0], x[1], plus); }});
    cases.push_back({"sub" + text, pair, [](const Vars& x) { return ad::sub(x[0], x[1]); },
                     [](const Arrays& x) { return combine(x[0], x[1], minus); }});
    cases.push_back({"mul" + text, pair, [](const Vars& x) { return ad::mul(x[0], x[1]); },
                     [](const Arrays& x) { return combine(x[0], x[1], times); }});
    cases.push_back({"div" + text, pair, [](const Vars& x) { return ad::div(x[0], x[1]); },
                     [](const Arrays& x) { return combine(x[0], x[1], over); }, 0.5, 2});
    cases.push_back({"maximum" + text, pair, [](const Vars& x) { return ad::maximum(x[0], x[1]); },
                     [](const Arrays& x) { return combine(x[0], x[1], larger); }});
    cases.push_back({"minimum" + text, pair, [](const Vars& x) { return ad::minimum(x[0], x[1]); },
                     [](const Arrays& x) { return combine(x[0], x[1], smaller); }});
  }
  // In a tie the central difference is the mean of both one-sided derivatives: half to each operand, as the recipe
  // does.
  cases.push_back({"maximum with ties",
                   {{4, 5}, {4, 5}},
                   [](const Vars& x) { return ad::maximum(x[0], x[1]); },
                   [](const Arrays& x) { return combine(x[0], x[1], larger); },
                   -1,
                   1,
                   1});
  cases.push_back({"minimum with ties",
                   {{4, 5}, {5}},
                   [](const Vars& x) { return ad::minimum(x[0], x[1]); },
                   [](const Arrays& x) { return combine(x[0], x[1], smaller); },
                   -1,
                   1,
                   1});
  check_all(cases);
}

TEST(Gradients, OfReductions) {
  std::vector<GradientCase> cases;
  for (const Shape& axes : {Shape{}, Shape{0}, Shape{-1}, Shape{1}, Shape{0, 2}, Shape{2, 0}}) {
    for (const bool keepdim : {false, true}) {
      const std::string text = axes.str() + (keepdim ? " keepdim" : "");
      cases.push_back({"sum" + text,
                       {{2, 3, 4}},
                       [=](const Vars& x) { return ad::sum(x[0], axes, keepdim); },
                       [=](const Arrays& x) { return reduce(x[0], axes, keepdim, 0, plus); }});
      cases.push_back({"mean" + text,
                       {{2, 3, 4}},
                       [=](const Vars& x) { return ad::mean(x[0], axes, keepdim); },
                       [=](const Arrays& x) {
                         Array y = reduce(x[0], axes, keepdim, 0, plus);
                         const double count = 24.0 / static_cast<double>(y.values.size());
                         for (double& value : y.values) value /= count;
                         return y;
                       }});
      cases.push_back({"max" + text,
                       {{2, 3, 4}},
                       [=](const Vars& x) { return ad::max(x[0], axes, keepdim); },
                       [=](const Arrays& x) { return reduce(x[0], axes, keepdim, kLowest, larger); }});
    }
  }
  check_all(cases);
}

// A maximum shared by n elements is not differentiable; equal shares are what is promised.
TEST(Gradients, OfMaxAreSharedAmongTies) {
  for (const Device device : testing::usable_devices()) {
    const Var x(Tensor::from(std::vector<float>{3, 1, 3, 3, 5, 2, 2, 2}, {2, 4}, device), true);
    backward(ad::max(x, {1}), {.seed = Tensor::from(std::vector<float>{6, 7}, {2}, device)});
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 0, 2, 2, 7, 0, 0, 0}));
  }
}

TEST(Gradients, OfMatmul) {
  struct Sizes {
    Shape a, b;
  };
  const auto exchanged = [](Shape shape) {
    if (shape.rank() >= 2) std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
    return shape;
  };
  std::vector<GradientCase> cases;
  for (const Sizes& s : std::vector<Sizes>{{{3, 4}, {4, 5}},
                                           {{2, 3, 4}, {2, 4, 5}},
                                           {{2, 3, 4}, {4, 5}},
                                           {{3, 4}, {2, 4, 5}},
                                           {{2, 1, 3, 4}, {3, 4, 2}},
                                           {{4}, {4, 5}},
                                           {{3, 4}, {4}},
                                           {{4}, {4}},
                                           {{4}, {2, 4, 5}},
                                           {{2, 3, 4}, {4}}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const MatmulOptions options{.transpose_a = transpose_a, .transpose_b = transpose_b};
        const Shape a = transpose_a ? exchanged(s.a) : s.a, b = transpose_b ? exchanged(s.b) : s.b;
        const std::string text = a.str() + b.str() + (transpose_a ? " ta" : "") + (transpose_b ? " tb" : "");
        cases.push_back({"matmul" + text,
                         {a, b},
                         [=](const Vars& x) { return ad::matmul(x[0], x[1], options); },
                         [=](const Arrays& x) { return reference::matmul(x[0], x[1], transpose_a, transpose_b); }});
        if (s.b.rank() == 1) continue;
        for (const Activation activation : {Activation::none, Activation::relu}) {
          MatmulOptions fused = options;
          fused.activation = activation;
          cases.push_back({"matmul with bias" + text + (activation == Activation::relu ? " relu" : ""),
                           {a, b, {s.b.back()}},
                           [=](const Vars& x) { return ad::matmul(x[0], x[1], fused, x[2]); },
                           [=](const Arrays& x) {
                             const Array z =
                                 combine(reference::matmul(x[0], x[1], transpose_a, transpose_b), x[2], plus);
                             return activation == Activation::relu ? map(z, rectified) : z;
                           }});
        }
      }
    }
  }
  check_all(cases);
}

TEST(Gradients, OfViews) {
  check_all({
      {"reshape",
       {{2, 6}},
       [](const Vars& x) {
         return ad::reshape(x[0], {3, -1});
       },
       [](const Arrays& x) {
         return reshape(x[0], {3, 4});
       }},
      {"permute",
       {{2, 3, 4}},
       [](const Vars& x) {
         return ad::permute(x[0], {2, 0, 1});
       },
       [](const Arrays& x) {
         return permute(x[0], {2, 0, 1});
       }},
      {"transpose",
       {{2, 3, 4}},
       [](const Vars& x) { return ad::transpose(x[0], 0, -1); },
       [](const Arrays& x) {
         return permute(x[0], {2, 1, 0});
       }},
      {"slice",
       {{3, 7}},
       [](const Vars& x) { return ad::slice(x[0], 1, 1, 7, 2); },
       [](const Arrays& x) { return slice(x[0], 1, 1, 7, 2); }},
      {"select",
       {{3, 4}},
       [](const Vars& x) { return ad::select(x[0], 0, 1); },
       [](const Arrays& x) { return reshape(slice(x[0], 0, 1, 2, 1), {4}); }},
      {"broadcast_to",
       {{3, 1}},
       [](const Vars& x) {
         return ad::broadcast_to(x[0], {2, 3, 4});
       },
       [](const Arrays& x) {
         return broadcast_to(x[0], {2, 3, 4});
       }},
      {"a chain of views",
       {{2, 3, 4}},
       [](const Vars& x) {
         const Var y = ad::transpose(x[0], 0, 2);
         return ad::mul(ad::slice(y, 0, 1, 4), ad::reshape(ad::select(x[0], 2, 3), {3, 2}));
       },
       [](const Arrays& x) {
         const Array y = slice(permute(x[0], {2, 1, 0}), 0, 1, 4, 1);
         return combine(y, reshape(slice(x[0], 2, 3, 4, 1), {3, 2}), times);
       }},
  });
}

// y = softmax-like chain through many operators: exp, sum, div, log, mul.
TEST(Gradients, OfAComposition) {
  check_all({{"log of a normalised exponential",
              {{4, 5}, {5}},
              [](const Vars& x) {
                const Var e = ad::exp(ad::mul(x[0], x[1]));
                return ad::log(ad::div(e, ad::sum(e, {1}, true)));
              },
              [](const Arrays& x) {
                const Array e = map(combine(x[0], x[1], times), [](double v) { return std::exp(v); });
                return map(combine(e, reduce(e, {1}, true, 0, plus), over), [](double v) { return std::log(v); });
              }}});
}

TEST(Gradients, OfCrossEntropyAndItsMean) {
  for (const Device device : testing::usable_devices()) {
    const std::vector<int64_t> labels{2, 0, 4};
    const Tensor on_device = Tensor::from(labels, {3}, device);
    check_gradients({"cross_entropy",
                     {{3, 5}},
                     [&](const Vars& x) { return ad::mean(ad::cross_entropy(x[0], on_device)); },
                     [&](const Arrays& x) {
                       Array loss{Shape{}};
                       for (int64_t row = 0; row < 3; row++) {
                         double sum = 0;
                         for (int64_t c = 0; c < 5; c++) sum += std::exp(x[0].at({row, c}));
                         loss.values[0] += (std::log(sum) - x[0].at({row, labels[static_cast<size_t>(row)]})) / 3;
                       }
                       return loss;
                     }},
                    device);
  }
}

}  // namespace
}  // namespace ashlar
