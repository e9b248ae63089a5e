// Optimisers against their formulas in double, over several steps, on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "ashlar/ops.h"
#include "nn/optim/adagrad.h"
#include "nn/optim/adam.h"
#include "nn/optim/lion.h"
#include "nn/optim/muon.h"
#include "nn/optim/nadam.h"
#include "nn/optim/rmsprop.h"
#include "nn/optim/sgd.h"
#include "nn/optim/weight_average.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "runtime/tensor/random.h"
#include "tests/nn/optimizers.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class OptimizersOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, OptimizersOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

constexpr int kSteps = 7;

/// One scalar parameter: update(w, g, t) is the optimiser's formula, with what it remembers in its captures.
using Formula = std::function<double(double w, double g, int t)>;

/// Two parameters of 6 and 5 elements, stepped with the optimiser that `make` gives and, element by element, with
/// formulas from `reference`. Halfway the learning rate changes, to `later` (the reference gets it by its step number).
void compare(Device device, const std::function<std::unique_ptr<Optimizer>(std::vector<Var>)>& make,
             const std::function<Formula()>& reference, double later) {
  std::vector<float> first(6), second(5);
  for (size_t i = 0; i < 6; i++) first[i] = 0.5F * static_cast<float>(i) - 1;
  for (size_t i = 0; i < 5; i++) second[i] = 0.25F * static_cast<float>(i);
  const Var a(Tensor::from(first, {2, 3}, device), true), b(Tensor::from(second, {5}, device), true);
  const auto optimizer = make({a, b});

  std::vector<double> wanted(first.begin(), first.end());
  wanted.insert(wanted.end(), second.begin(), second.end());
  std::vector<Formula> formulas;
  for (size_t i = 0; i < wanted.size(); i++) formulas.push_back(reference());
  for (int t = 1; t <= kSteps; t++) {
    if (t == 4) optimizer->set_learning_rate(later);
    optimizer->zero_grad();
    a.set_grad(Tensor::from(gradients(6, 0, t), {2, 3}, device));
    b.set_grad(Tensor::from(gradients(5, 6, t), {5}, device));
    optimizer->step();
    for (size_t i = 0; i < wanted.size(); i++) {
      wanted[i] = formulas[i](wanted[i], static_cast<float>(gradient_at(i, t)), t);
    }
    std::vector<float> got = a.value().to_vector<float>();
    for (float value : b.value().to_vector<float>()) got.push_back(value);
    for (size_t i = 0; i < wanted.size(); i++) {
      ASSERT_NEAR(got[i], wanted[i], 2e-5 * (1 + std::abs(wanted[i]))) << "element " << i << " after step " << t;
    }
  }
  EXPECT_EQ(optimizer->steps(), kSteps);
}

double rate(int t, double early, double later) { return t < 4 ? early : later; }

TEST_P(OptimizersOnDevice, SgdFollowsItsFormula) {
  for (const bool nesterov : {false, true}) {
    const SgdOptions options{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = nesterov};
    compare(
        device(), [&](std::vector<Var> p) { return std::make_unique<SGD>(std::move(p), options); },
        [nesterov]() -> Formula {
          return [v = 0.0, nesterov](double w, double g, int t) mutable {
            g += 0.05 * w;
            v = 0.9 * v + g;
            return w - rate(t, 0.1, 0.01) * (nesterov ? g + 0.9 * v : v);
          };
        },
        0.01);
  }
  compare(
      device(), [&](std::vector<Var> p) { return std::make_unique<SGD>(std::move(p), SgdOptions{}); },
      []() -> Formula { return [](double w, double g, int t) { return w - rate(t, 0.1, 0.2) * g; }; }, 0.2);
}

TEST_P(OptimizersOnDevice, AdamAndAdamWFollowTheirFormulas) {
  for (const bool decoupled : {false, true}) {
    const AdamOptions options{.learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1};
    compare(
        device(),
        [&](std::vector<Var> p) -> std::unique_ptr<Optimizer> {
          if (decoupled) return std::make_unique<AdamW>(std::move(p), options);
          return std::make_unique<Adam>(std::move(p), options);
        },
        [decoupled]() -> Formula {
          return [m = 0.0, v = 0.0, decoupled](double w, double g, int t) mutable {
            const double lr = rate(t, 0.02, 0.05);
            if (decoupled)
              w -= lr * 0.1 * w;
            else
              g += 0.1 * w;
            m = 0.8 * m + 0.2 * g;
            v = 0.99 * v + 0.01 * g * g;
            return w - lr * (m / (1 - std::pow(0.8, t))) / (std::sqrt(v / (1 - std::pow(0.99, t))) + 1e-6);
          };
        },
        0.05);
  }
}

TEST_P(OptimizersOnDevice, AmsgradDividesByTheLargest) {
  for (const bool decoupled : {false, true}) {
    // v goes down again soon: the largest isn't the last.
    const AdamOptions options{
        .learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.3, .epsilon = 1e-6, .weight_decay = 0.1, .amsgrad = true};
    compare(
        device(),
        [&](std::vector<Var> p) -> std::unique_ptr<Optimizer> {
          if (decoupled) return std::make_unique<AdamW>(std::move(p), options);
          return std::make_unique<Adam>(std::move(p), options);
        },
        [decoupled]() -> Formula {
          return [m = 0.0, v = 0.0, most = 0.0, decoupled](double w, double g, int t) mutable {
            const double lr = rate(t, 0.02, 0.05);
            if (decoupled)
              w -= lr * 0.1 * w;
            else
              g += 0.1 * w;
            m = 0.8 * m + 0.2 * g;
            v = 0.3 * v + 0.7 * g * g;
            most = std::max(most, v);
            return w - lr * (m / (1 - std::pow(0.8, t))) / (std::sqrt(most / (1 - std::pow(0.3, t))) + 1e-6);
          };
        },
        0.05);
  }
  // Of two groups one has the third moment, which is in the state by PyTorch's name.
  const Var a(Tensor::ones({2}, DType::f32, device()), true), b(Tensor::ones({3}, DType::f32, device()), true);
  const Adam mixed({{{a}, {.amsgrad = true}}, {{b}, {}}});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : mixed.state_dict()) {
    if (name.ends_with("max_exp_avg_sq")) names.push_back(name);
  }
  EXPECT_EQ(names, std::vector<std::string>{"state.0.max_exp_avg_sq"});
}

TEST_P(OptimizersOnDevice, NAdamFollowsItsFormula) {
  for (const bool decoupled : {false, true}) {
    compare(
        device(),
        [&](std::vector<Var> p) {
          return std::make_unique<NAdam>(std::move(p), NAdamOptions{.learning_rate = 0.02,
                                                                    .weight_decay = 0.1,
                                                                    .momentum_decay = 0.02,
                                                                    .decoupled_weight_decay = decoupled});
        },
        [decoupled]() -> Formula {
          return [m = 0.0, v = 0.0, product = 1.0, decoupled](double w, double g, int t) mutable {
            const double lr = rate(t, 0.02, 0.05);
            const auto mu = [](int k) { return 0.9 * (1 - 0.5 * std::pow(0.96, k * 0.02)); };
            if (decoupled)
              w *= 1 - lr * 0.1;
            else
              g += 0.1 * w;
            product *= mu(t);
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            const double size = std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8;
            return w - lr * (1 - mu(t)) / (1 - product) * g / size -
                   lr * mu(t + 1) / (1 - product * mu(t + 1)) * m / size;
          };
        },
        0.05);
  }
}

TEST_P(OptimizersOnDevice, RmspropFollowsItsFormula) {
  compare(
      device(),
      [&](std::vector<Var> p) {
        return std::make_unique<RMSprop>(
            std::move(p), RMSpropOptions{.learning_rate = 0.01, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.5});
      },
      []() -> Formula {
        return [v = 0.0, b = 0.0](double w, double g, int t) mutable {
          g += 0.1 * w;
          v = 0.9 * v + 0.1 * g * g;
          b = 0.5 * b + g / (std::sqrt(v) + 1e-8);
          return w - rate(t, 0.01, 0.02) * b;
        };
      },
      0.02);
}

TEST_P(OptimizersOnDevice, AdagradFollowsItsFormula) {
  compare(
      device(),
      [&](std::vector<Var> p) {
        return std::make_unique<Adagrad>(
            std::move(p),
            AdagradOptions{
                .learning_rate = 0.1, .lr_decay = 0.25, .weight_decay = 0.1, .initial_accumulator_value = 2});
      },
      []() -> Formula {
        return [sum = 2.0](double w, double g, int t) mutable {
          g += 0.1 * w;
          sum += g * g;
          return w - rate(t, 0.1, 0.2) / (1 + (t - 1) * 0.25) * g / (std::sqrt(sum) + 1e-10);
        };
      },
      0.2);
}

TEST_P(OptimizersOnDevice, LionFollowsItsFormula) {
  compare(
      device(),
      [&](std::vector<Var> p) {
        return std::make_unique<Lion>(std::move(p), LionOptions{.learning_rate = 0.01, .weight_decay = 0.5});
      },
      []() -> Formula {
        return [m = 0.0](double w, double g, int t) mutable {
          const double lr = rate(t, 0.01, 0.003), c = 0.9 * m + 0.1 * g;
          m = 0.99 * m + 0.01 * g;
          return w * (1 - lr * 0.5) - lr * (c > 0 ? 1 : c < 0 ? -1 : 0);
        };
      },
      0.003);
}

// Also as a part of a captured step.
/// Rows of a matrix in double.
using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size()));
  for (size_t i = 0; i < a.size(); i++) {
    for (size_t j = 0; j < c[i].size(); j++) {
      for (size_t k = 0; k < b.size(); k++) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix b(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); i++) {
    for (size_t j = 0; j < a[i].size(); j++) b[j][i] = a[i][j];
  }
  return b;
}

/// Newton-Schulz by its polynomial, which acts on either side alike.
Matrix newton_schulz(Matrix x) {
  double norm = 0;
  for (const auto& row : x) {
    for (const double value : row) norm += value * value;
  }
  for (auto& row : x) {
    for (double& value : row) value /= std::sqrt(norm);
  }
  for (int step = 0; step < 5; step++) {
    const Matrix a = product(x, transposed(x)), ax = product(a, x), aax = product(a, ax);
    for (size_t i = 0; i < x.size(); i++) {
      for (size_t j = 0; j < x[i].size(); j++) x[i][j] = 3.4445 * x[i][j] - 4.775 * ax[i][j] + 2.0315 * aax[i][j];
    }
  }
  return x;
}

TEST_P(OptimizersOnDevice, MuonFollowsItsFormula) {
  for (const bool nesterov : {false, true}) {
    // A wide and a tall matrix; a bias and an embedding that are AdamW's.
    std::vector<Matrix> wanted{Matrix(3, std::vector<double>(5)), Matrix(6, std::vector<double>(2))};
    std::vector<Matrix> average = wanted;
    std::vector<Var> matrices;
    for (Matrix& matrix : wanted) {
      std::vector<float> values;
      for (auto& row : matrix) {
        for (double& value : row) values.push_back(value = 0.25F * static_cast<float>(values.size() % 7) - 0.5F);
      }
      const Shape shape{static_cast<int64_t>(matrix.size()), static_cast<int64_t>(matrix[0].size())};
      matrices.emplace_back(Tensor::from(values, shape, device()), true);
    }
    const auto ones = [&](const Shape& shape) { return Var(Tensor::ones(shape, DType::f32, device()), true); };
    const Var bias = ones({4}), embedding = ones({3, 2}), bias2 = ones({4}), embedding2 = ones({3, 2});
    const AdamOptions adam{.learning_rate = 0.03, .weight_decay = 0.1};
    Muon optimizer({{{matrices[0], bias, matrices[1]}, {.learning_rate = 0.1, .nesterov = nesterov, .adamw = adam}},
                    {{embedding}, {.matrices = false, .adamw = adam}}});
    EXPECT_EQ(optimizer.group_count(), 4U);
    AdamW other({bias2, embedding2}, adam);
    for (int t = 1; t <= kSteps; t++) {
      size_t first = 0;
      for (size_t m = 0; m < 2; m++) {
        Matrix& w = wanted[m];
        const size_t rows = w.size(), columns = w[0].size();
        const std::vector<float> gradient = gradients(rows * columns, first, t);
        first += gradient.size();
        matrices[m].set_grad(Tensor::from(gradient, matrices[m].shape(), device()));
        Matrix update = w;
        for (size_t i = 0; i < rows; i++) {
          for (size_t j = 0; j < columns; j++) {
            const double g = gradient[i * columns + j];
            average[m][i][j] = 0.95 * average[m][i][j] + 0.05 * g;
            update[i][j] = nesterov ? 0.05 * g + 0.95 * average[m][i][j] : average[m][i][j];
          }
        }
        update = newton_schulz(update);
        const double size = std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
        for (size_t i = 0; i < rows; i++) {
          for (size_t j = 0; j < columns; j++) w[i][j] = w[i][j] * (1 - 0.1 * 0.1) - 0.1 * size * update[i][j];
        }
      }
      for (const auto& [mine, theirs] : {std::pair(bias, bias2), std::pair(embedding, embedding2)}) {
        const Tensor gradient = Tensor::full(mine.shape(), 0.1 * t, DType::f32, device());
        mine.set_grad(gradient.clone());
        theirs.set_grad(gradient);
      }
      optimizer.step();
      other.step();
      for (size_t m = 0; m < 2; m++) {
        const auto got = matrices[m].value().to_doubles();
        for (size_t k = 0; k < got.size(); k++) {
          const size_t columns = wanted[m][0].size();
          ASSERT_NEAR(got[k], wanted[m][k / columns][k % columns], 2e-4) << m << ", " << k << " after step " << t;
        }
      }
      EXPECT_EQ(bias.value().to_doubles(), bias2.value().to_doubles());
      EXPECT_EQ(embedding.value().to_doubles(), embedding2.value().to_doubles());
    }
    EXPECT_EQ(optimizer.steps(), kSteps);
    Muon again({{{matrices[0], bias, matrices[1]}, {.adamw = adam}}, {{embedding}, {.matrices = false}}});
    again.load_state_dict(optimizer.state_dict());
    EXPECT_EQ(again.learning_rate(0), 0.1);
    EXPECT_EQ(again.learning_rate(1), 0.03);
    EXPECT_EQ(again.state(0, 0).to_doubles(), optimizer.state(0, 0).to_doubles());
  }
}

/// Singular values of what Muon moves by are about 1 (Jordan: between 0.7 and 1.2).
TEST_P(OptimizersOnDevice, MuonMovesByOrthogonalMatrices) {
  Random random(3);
  const Var w(Tensor::zeros({16, 16}, DType::f32, device()), true);
  Muon optimizer({w}, {.learning_rate = 1, .weight_decay = 0});
  w.set_grad(Tensor::randn({16, 16}, random).to(device()));
  optimizer.step();
  const auto values = w.value().to_doubles();
  double squares = 0;
  for (const double value : values) squares += value * value;
  EXPECT_GT(squares / 16, 0.5 * 0.5);  // mean of squared singular values
  EXPECT_LT(squares / 16, 1.25 * 1.25);
  // A replayed step is a step.
  const Var twin(w.value().clone(), true);
  Muon other({twin}, {.learning_rate = 1, .weight_decay = 0});
  other.load_state_dict(optimizer.state_dict());
  twin.set_grad(w.grad().clone());
  other.step();
  const Graph graph = capture(device(), [&] { optimizer.step(); });
  graph.replay();
  EXPECT_EQ(w.value().to_doubles(), twin.value().to_doubles());
  EXPECT_THROW(Muon({w}, {.momentum = 1}), ValueError);
}

TEST_P(OptimizersOnDevice, WeightsAreAveraged) {
  for (const bool replays : {false, true}) {
    const Var a(Tensor::full({3}, 8, DType::f32, device()), true);
    SGD optimizer({a}, {.learning_rate = 1});
    WeightAverage smooth(optimizer, 0.75), mean(optimizer);
    a.set_grad(Tensor::ones({3}, DType::f32, device()));
    EXPECT_THROW(mean.apply(), ValueError) << "no update yet";
    const auto work = [&] {
      optimizer.step();
      smooth.update();
      mean.update();
    };
    work();  // 7
    Graph graph;
    if (replays) graph = capture(device(), work);
    for (int t = 0; t < 3; t++) replays ? graph.replay() : work();  // 6, 5, 4
    const auto now = [&] { return a.value().to_vector<float>()[1]; };
    smooth.apply();
    EXPECT_FLOAT_EQ(now(), ((7 * 0.75F + 6 * 0.25F) * 0.75F + 5 * 0.25F) * 0.75F + 4 * 0.25F);
    EXPECT_THROW(smooth.apply(), ValueError);
    smooth.restore();
    EXPECT_EQ(now(), 4);
    mean.apply();
    EXPECT_FLOAT_EQ(now(), 5.5F);
    mean.restore();
    WeightAverage other(optimizer);
    other.load_state_dict(mean.state_dict());
    other.apply();
    EXPECT_FLOAT_EQ(now(), 5.5F);
    other.restore();
  }
}

}  // namespace
}  // namespace ashlar::nn
