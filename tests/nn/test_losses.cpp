// Losses with PyTorch's options, against their formulas in double; what is one kernel is in tests/conformance.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/autograd.h"
#include "nn/modules/losses.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

using Doubles = std::vector<double>;

class Losses : public testing::OnDevice {
 protected:
  Var var(const std::vector<float>& values, const Shape& shape) const {
    return Var(Tensor::from(values, shape, device()), true);
  }
  Tensor labels(const std::vector<int64_t>& values) const {
    return Tensor::from(values, {static_cast<int64_t>(values.size())}, device());
  }
  /// Logits of 4 rows and 3 classes.
  Var logits() const { return var({0.5F, -1, 2, 0, 0.25F, 1, -2, 3, 1, 1.5F, -0.5F, 0}, {4, 3}); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Losses, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

void expect_near(const Var& got, const Doubles& expected, double allowed = 1e-5) {
  const Doubles values = got.value().to_doubles();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); i++) EXPECT_NEAR(values[i], expected[i], allowed) << "element " << i;
}

/// log softmax of each row
std::vector<Doubles> log_softmax_of(const Doubles& x, size_t classes) {
  std::vector<Doubles> rows;
  for (size_t at = 0; at < x.size(); at += classes) {
    double sum = 0;
    for (size_t c = 0; c < classes; c++) sum += std::exp(x[at + c]);
    Doubles& row = rows.emplace_back();
    for (size_t c = 0; c < classes; c++) row.push_back(x[at + c] - std::log(sum));
  }
  return rows;
}

/// The gradients of `loss` by x agree with differences.
void expect_gradient(const Var& x, const std::function<Var(const Var&)>& loss) {
  x.clear_grad();
  backward(ad::sum(loss(x)));
  const Doubles gradient = x.grad().to_doubles(), values = x.value().to_doubles();
  for (size_t i = 0; i < values.size(); i++) {
    const auto at = [&](double step) {
      std::vector<float> moved(values.begin(), values.end());
      moved[i] += static_cast<float>(step);
      double sum = 0;
      for (const double y : loss(Var(Tensor::from(moved, x.shape(), x.device()))).value().to_doubles()) sum += y;
      return sum;
    };
    EXPECT_NEAR(gradient[i], (at(0.01) - at(-0.01)) / 0.02, 2e-3) << "element " << i;
  }
}

TEST_P(Losses, CrossEntropyHasPyTorchsOptions) {
  const Var x = logits();
  const std::vector<Doubles> log_p = log_softmax_of(x.value().to_doubles(), 3);
  const std::vector<int64_t> chosen{2, -100, 1, 0};
  const Doubles weight{0.5, 2, 1.5};
  const Tensor weights = Tensor::from(std::vector<float>{0.5F, 2, 1.5F}, {3}, device());
  for (const bool is_weighted : {false, true}) {
    for (const double smoothing : {0.0, 0.1}) {
      Doubles each;
      double sum = 0, counted = 0;
      for (size_t r = 0; r < 4; r++) {
        double loss = 0;
        if (chosen[r] >= 0) {
          const auto label = static_cast<size_t>(chosen[r]);
          for (size_t c = 0; c < 3; c++) {
            const double share = (c == label ? 1 - smoothing : 0) + smoothing / 3;
            loss -= share * (is_weighted ? weight[c] : 1) * log_p[r][c];
          }
          counted += is_weighted ? weight[label] : 1;
        }
        each.push_back(loss);
        sum += loss;
      }
      CrossEntropyOptions options{.label_smoothing = smoothing};
      if (is_weighted) options.weight = weights;
      expect_near(cross_entropy(x, labels(chosen), options), {sum / counted});
      expect_gradient(x, [&](const Var& v) { return cross_entropy(v, labels(chosen), options); });
      options.reduction = Reduction::sum;
      expect_near(CrossEntropyLoss(options)(x, labels(chosen)), {sum});
      options.reduction = Reduction::none;
      expect_near(cross_entropy(x, labels(chosen), options), each);
    }
  }
  // Twice differentiable: the gradient's own, by differences.
  const CrossEntropyOptions both{.weight = weights, .label_smoothing = 0.1};
  expect_gradient(x, [&](const Var& v) {
    const Var leaf = v.requires_grad() ? v : Var(v.value(), true);
    const Var slope = grad({cross_entropy(leaf, labels(chosen), both)}, {leaf}, {}, {.create_graph = true})[0];
    return ad::sum(ad::mul(slope, slope));
  });
  const CrossEntropyOptions plain;
  EXPECT_TRUE(std::isnan(cross_entropy(x, labels({-100, -100, -100, -100}), plain).item())) << "a mean of nothing";
  EXPECT_TRUE(std::isnan(cross_entropy(x, labels({0, 1, 3, 0}), plain).item())) << "no class";
  EXPECT_NEAR(cross_entropy(x, labels({2, 0, 1, 0}), plain).item(), cross_entropy(x, labels({2, 0, 1, 0})).item(),
              1e-6);
  EXPECT_THROW(cross_entropy(x, labels({0, 1}), plain), ShapeError);
  EXPECT_THROW(cross_entropy(x, labels(chosen), {.label_smoothing = 2}), ValueError);
  EXPECT_THROW(cross_entropy(x, labels(chosen), {.weight = weights.slice(0, 0, 2)}), ShapeError);
}

TEST_P(Losses, CrossEntropyOfAnySize) {
  // Rows beyond a vector, a warp and a block, along both axes, against loops; NaN stays in its row.
  for (const auto& [rows, classes] : {std::pair<int64_t, int64_t>{1, 1}, {3, 33}, {70, 5}, {2, 1025}, {5, 9001}}) {
    const Var x(Tensor::randn({rows, classes}).to(device()), true);
    std::vector<int64_t> chosen;
    for (int64_t r = 0; r < rows; r++) chosen.push_back(r % 3 == 1 ? 0 : r * 7 % classes);
    const Tensor weights = Tensor::rand({classes}).to(device());
    const Doubles values = x.value().to_doubles(), w = weights.to_doubles();
    const std::vector<Doubles> log_p = log_softmax_of(values, static_cast<size_t>(classes));
    const double smoothing = 0.2, share = smoothing / static_cast<double>(classes);
    double all = 0, sum = 0, counted = 0;
    for (const double v : w) all += v;
    for (size_t r = 0; r < log_p.size(); r++) {
      if (chosen[r] == 0) continue;
      sum -= (1 - smoothing) * w[static_cast<size_t>(chosen[r])] * log_p[r][static_cast<size_t>(chosen[r])];
      for (size_t c = 0; c < w.size(); c++) sum -= share * w[c] * log_p[r][c];
      counted += w[static_cast<size_t>(chosen[r])];
    }
    const CrossEntropyOptions options{.weight = weights, .ignore_index = 0, .label_smoothing = smoothing};
    x.clear_grad();
    const Var loss = cross_entropy(x, labels(chosen), options);
    backward(loss);
    if (counted == 0) {
      EXPECT_TRUE(std::isnan(loss.item()));
      continue;
    }
    EXPECT_NEAR(loss.item(), sum / counted, 1e-5 * (1 + std::abs(sum / counted)));
    const Doubles slope = x.grad().to_doubles();
    for (size_t r = 0; r < log_p.size(); r++) {
      for (size_t c = 0; c < w.size(); c++) {
        const auto label = static_cast<size_t>(chosen[r]);
        const double expected = label == 0 ? 0
                                           : (((1 - smoothing) * w[label] + share * all) * std::exp(log_p[r][c]) -
                                              (c == label ? (1 - smoothing) * w[label] : 0) - share * w[c]) /
                                                 counted;
        ASSERT_NEAR(slope[r * w.size() + c], expected, 2e-6) << "row " << r << " class " << c;
      }
    }
  }
  // Classes in the middle, in bf16.
  const Var middle(Tensor::randn({2, 5, 3}).to(device()).to(DType::bf16), true);
  const Tensor places = labels({0, 1, 2, 3, 4, 0}).reshape({2, 3});
  const CrossEntropyOptions smooth{.label_smoothing = 0.1, .reduction = Reduction::sum};
  const Var wide(middle.value().to(DType::f32), true);
  backward(cross_entropy(middle, places, smooth));
  const Var loss = cross_entropy(wide.permute({0, 2, 1}).reshape({6, 5}), places.reshape({6}), smooth);
  backward(loss);
  expect_near(Var(middle.grad().to(DType::f32)), wide.grad().to_doubles(), 1e-2);
  const std::vector<float> spoiled{0, 1, NAN, 2, 3, 4};
  const Var some =
      cross_entropy(var(spoiled, {2, 3}), labels({0, 1}), {.label_smoothing = 0.1, .reduction = Reduction::none});
  EXPECT_TRUE(std::isnan(some.value().to_doubles()[0]));
  EXPECT_FALSE(std::isnan(some.value().to_doubles()[1]));
}

TEST_P(Losses, CrossEntropyOfMoreAxesAndOfProbabilities) {
  const Var x = logits();
  const std::vector<Doubles> log_p = log_softmax_of(x.value().to_doubles(), 3);
  // [1, 3, 4]: the classes along axis 1
  const Var turned(x.value().transpose(0, 1).contiguous().reshape({1, 3, 4}));
  const Tensor chosen = labels({2, 0, 1, 0}).reshape({1, 4});
  expect_near(cross_entropy(turned, chosen, {.reduction = Reduction::none}),
              {-log_p[0][2], -log_p[1][0], -log_p[2][1], -log_p[3][0]});
  const std::vector<float> shares{0.2F, 0.3F, 0.5F, 1, 0, 0, 0, 0.5F, 0.5F, 0.1F, 0.8F, 0.1F};
  double sum = 0, smoothed = 0;
  for (size_t i = 0; i < 12; i++) {
    sum -= shares[i] * log_p[i / 3][i % 3];
    smoothed -= (shares[i] * 0.9 + 0.1 / 3) * log_p[i / 3][i % 3];
  }
  const Var target = var(shares, {4, 3});
  const CrossEntropyOptions plain, smooth{.label_smoothing = 0.1};
  expect_near(cross_entropy(x, target, plain), {sum / 4});
  expect_near(cross_entropy(x, target, smooth), {smoothed / 4});
  expect_gradient(x, [&](const Var& v) { return cross_entropy(v, target, smooth); });
  expect_gradient(target, [&](const Var& t) { return cross_entropy(x, t, smooth); });
}

TEST_P(Losses, NllIsCrossEntropyOfLogarithms) {
  const Var x = logits();
  const Tensor weights = Tensor::from(std::vector<float>{0.5F, 2, 1.5F}, {3}, device());
  const CrossEntropyOptions options{.weight = weights, .ignore_index = 1};
  const Var log_p(ashlar::log_softmax(x.value(), 1), true);
  expect_near(nll_loss(log_p, labels({2, 1, 0, 0}), options), {cross_entropy(x, labels({2, 1, 0, 0}), options).item()});
  expect_gradient(log_p, [&](const Var& v) { return nll_loss(v, labels({2, 1, 0, 0}), options); });
  EXPECT_THROW(nll_loss(log_p, labels({2, 1, 0, 0}), {.label_smoothing = 0.1}), ValueError);
}

TEST_P(Losses, BinaryCrossEntropyIsWeighted) {
  const std::vector<float> x{-3, -0.5F, 0, 2}, t{0, 1, 0.3F, 1}, w{1, 2, 0.5F, 3}, p{2, 2, 0.25F, 5};
  Doubles plain, positive;
  for (size_t i = 0; i < 4; i++) {
    const double yes = std::log1p(std::exp(-double{x[i]})), no = std::log1p(std::exp(double{x[i]}));
    plain.push_back(w[i] * (t[i] * yes + (1 - t[i]) * no));
    positive.push_back(w[i] * (p[i] * t[i] * yes + (1 - t[i]) * no));
  }
  const auto tensor = [&](const std::vector<float>& values) { return Tensor::from(values, {4}, device()); };
  const Var input = var(x, {4}), target(tensor(t));
  const BinaryCrossEntropyOptions each{.weight = tensor(w), .reduction = Reduction::none};
  expect_near(binary_cross_entropy_with_logits(input, target, each), plain);
  expect_near(binary_cross_entropy(ad::sigmoid(input), target, each), plain);
  BinaryCrossEntropyOptions more = each;
  more.pos_weight = tensor(p);
  expect_near(BCEWithLogitsLoss(more)(input, target), positive);
  more.reduction = Reduction::mean;
  expect_near(binary_cross_entropy_with_logits(input, target, more),
              {(positive[0] + positive[1] + positive[2] + positive[3]) / 4});
  expect_gradient(input, [&](const Var& v) { return binary_cross_entropy_with_logits(v, target, more); });
  EXPECT_THROW(binary_cross_entropy(input, target, more), ValueError);
  // Certain and right, or wrong: 0 or 100, with a gradient.
  const Var certain = var({0, 1, 0, 1}, {4}), right = var({0, 1, 1, 0}, {4});
  expect_near(binary_cross_entropy(certain, right, {.reduction = Reduction::none}), {0, 0, 100, 100});
}

TEST_P(Losses, DivergenceByBatch) {
  const Var log_q(ashlar::log_softmax(logits().value(), 1), true);
  const Tensor p = ashlar::softmax(logits().value().flip(1).contiguous(), 1);
  const Doubles q = log_q.value().to_doubles(), ps = p.to_doubles();
  double sum = 0;
  for (size_t i = 0; i < q.size(); i++) sum += ps[i] * (std::log(ps[i]) - q[i]);
  expect_near(kl_div(log_q, p), {sum / 12});
  expect_near(kl_div(log_q, p, {.batchmean = true}), {sum / 4});
  expect_near(KLDivLoss({.batchmean = true, .log_target = true})(log_q, ashlar::log(p)), {sum / 4});
  expect_near(kl_div(var({-1, -2}, {2}), var({0, 1}, {2}), {.reduction = Reduction::none}), {0, 2});
}

TEST_P(Losses, OfPairsAndTriples) {
  const Var a = var({1, 2, 3, -1, 0.5F, 2}, {2, 3}), b = var({2, 0, 1, -2, 1, 4}, {2, 3});
  const double cosines[] = {5 / std::sqrt(14.0 * 5), 1.0};
  expect_near(cosine_similarity(a, b), {cosines[0], cosines[1]});
  const Tensor signs = Tensor::from(std::vector<int64_t>{1, -1}, {2}, device());
  expect_near(cosine_embedding_loss(a, b, signs, 0.25, Reduction::none), {1 - cosines[0], 0.75});
  expect_gradient(a, [&](const Var& v) { return cosine_embedding_loss(v, b, signs, 0.25); });
  expect_near(cosine_similarity(var({0, 0}, {1, 2}), var({1, 0}, {1, 2})), {0});
  expect_near(hinge_embedding_loss(var({0.3F, 0.4F}, {2}), signs, 1, Reduction::none), {0.3, 0.6});
  expect_near(margin_ranking_loss(var({1, 1}, {2}), var({3, 3}, {2}), signs, 0.5, Reduction::none), {2.5, 0});
  const auto far = [](const Doubles& x, const Doubles& y) {
    double sum = 0;
    for (size_t i = 0; i < 3; i++) sum += std::pow(x[i] - y[i] + 1e-6, 2);
    return std::sqrt(sum);
  };
  const Var n = var({1, 2, 2, 0, 0, 0}, {2, 3});
  Doubles plain, swapped;
  for (size_t r = 0; r < 2; r++) {
    const auto row = [&](const Var& x) {
      const Doubles all = x.value().to_doubles();
      return Doubles(all.begin() + static_cast<long>(3 * r), all.begin() + static_cast<long>(3 * r + 3));
    };
    const double near = far(row(a), row(b)), away = far(row(a), row(n)), other = far(row(b), row(n));
    plain.push_back(std::max(near - away + 1, 0.0));
    swapped.push_back(std::max(near - std::min(away, other) + 1, 0.0));
  }
  expect_near(triplet_margin_loss(a, b, n, {.reduction = Reduction::none}), plain);
  expect_near(TripletMarginLoss({.swap = true, .reduction = Reduction::none})(a, b, n), swapped);
  expect_gradient(a, [&](const Var& v) { return triplet_margin_loss(v, b, n); });
}

TEST_P(Losses, ModulesDoAsTheirFunctions) {
  const Var x = var({1, 2.5F, -1}, {3}), t = var({1, 1, 1}, {3});
  expect_near(MSELoss()(x, t), {(0 + 2.25 + 4) / 3});
  expect_near(L1Loss(Reduction::sum)(x, t), {3.5});
  expect_near(SmoothL1Loss(Reduction::sum, 2)(x, t), {1.5 * 1.5 / 4 + 1});
  expect_near(HuberLoss(Reduction::none, 1)(x, t), {0, 1, 1.5});
}

}  // namespace
}  // namespace ashlar::nn
