// Forecasts of weights against closed forms in double, and the device's part of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "nn/hybrid/forecast.h"
#include "nn/hybrid/snapshots.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/sgd.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

using Path = std::vector<std::vector<double>>;  // [snapshot][weight]

std::vector<double> combine(const std::vector<double>& coefficients, const Path& path) {
  std::vector<double> result(path[0].size(), 0.0);
  for (size_t j = 0; j < path.size(); j++) {
    for (size_t i = 0; i < result.size(); i++) result[i] += coefficients[j] * path[j][i];
  }
  return result;
}

std::vector<double> gram_of(const Path& path) {
  std::vector<double> gram;
  for (size_t a = 0; a + 1 < path.size(); a++) {
    for (size_t b = 0; b + 1 < path.size(); b++) {
      double sum = 0;
      for (size_t i = 0; i < path[0].size(); i++) sum += (path[a + 1][i] - path[a][i]) * (path[b + 1][i] - path[b][i]);
      gram.push_back(sum);
    }
  }
  return gram;
}

TEST(Forecast, ExtendsMovesAndLines) {
  const auto last = line_coefficients(Forecaster::last_move, 5, 4, 6);
  EXPECT_EQ(last, (std::vector<double>{0, 0, 0, -1.5, 2.5}));
  const auto direction = line_coefficients(Forecaster::direction, 2, 40, 10);
  EXPECT_EQ(direction, (std::vector<double>{-0.25, 1.25}));
  // x(t) = 3 - 2t, seen at t = 0, 5, …, 40 and foretold for 50: all agree with the line.
  for (const Forecaster forecaster : {Forecaster::last_move, Forecaster::direction, Forecaster::line}) {
    Path path;
    for (int j = 0; j < 9; j++) path.push_back({3.0 - 2.0 * 5 * j});
    EXPECT_NEAR(combine(line_coefficients(forecaster, 9, 5, 10), path)[0], 3.0 - 2.0 * 50, 1e-10);
  }
  // Any points: the least-squares line by its normal equations.
  const std::vector<double> x{1, 4, -2, 0.5, 7};
  double t1 = 0, t2 = 0, y0 = 0, ty = 0;
  Path path;
  for (size_t j = 0; j < x.size(); j++) {
    const double t = 3.0 * static_cast<double>(j);
    t1 += t, t2 += t * t, y0 += x[j], ty += t * x[j];
    path.push_back({x[j]});
  }
  const double slope = (5 * ty - t1 * y0) / (5 * t2 - t1 * t1), start = (y0 - slope * t1) / 5;
  EXPECT_NEAR(combine(line_coefficients(Forecaster::line, 5, 3, 7), path)[0], start + slope * 19, 1e-10);
  EXPECT_THROW(line_coefficients(Forecaster::modes, 9, 5, 10), ValueError);
}

/// Two weights that turn about each other and one that decays, hidden in ten by a fixed mixture.
Path turning(int snapshots) {
  Path path;
  for (int j = 0; j < snapshots; j++) {
    const double t = j, r = std::pow(0.95, t);
    const double hidden[] = {r * std::cos(0.3 * t), r * std::sin(0.3 * t), 2 * std::pow(0.8, t)};
    std::vector<double> point;
    for (int i = 0; i < 10; i++) {
      point.push_back(5.0 + hidden[0] * std::cos(i) + hidden[1] * std::sin(2.0 * i) + hidden[2] * std::cos(3.0 * i));
    }
    path.push_back(point);
  }
  return path;
}

TEST(Forecast, ModesFollowALinearSystem) {
  const Path truth = turning(13), seen(truth.begin(), truth.begin() + 9);
  const auto coefficients = mode_coefficients(gram_of(seen), 3, 4);
  EXPECT_NEAR(std::accumulate(coefficients.begin(), coefficients.end(), 0.0), 1, 1e-9);
  const auto foretold = combine(coefficients, seen);
  for (size_t i = 0; i < foretold.size(); i++) EXPECT_NEAR(foretold[i], truth[12][i], 1e-6);
  // One direction isn't enough for three.
  const auto coarse = combine(mode_coefficients(gram_of(seen), 1, 4), seen);
  double off = 0;
  for (size_t i = 0; i < coarse.size(); i++) off = std::max(off, std::abs(coarse[i] - truth[12][i]));
  EXPECT_GT(off, 0.05);
}

TEST(Forecast, ModesOfNothingStayAndGrowthIsBounded) {
  // No move at all: stay.
  EXPECT_EQ(mode_coefficients(std::vector<double>(16, 0.0), 3, 2), (std::vector<double>{0, 0, 0, 0, 1}));
  // Moves that double each time would go 2 + 4 + 8 + 16 times the last one; held to 4 times it.
  Path doubling;
  for (int j = 0; j < 5; j++) doubling.push_back({std::pow(2.0, j)});
  EXPECT_NEAR(combine(mode_coefficients(gram_of(doubling), 1, 4), doubling)[0], 16 + 4 * 8, 1e-9);
  EXPECT_THROW(mode_coefficients(std::vector<double>(1, 1.0), 1, 1), ValueError);
  EXPECT_THROW(mode_coefficients(std::vector<double>(16, 1.0), 0, 1), ValueError);
}

TEST(Forecast, SnapshotsAreCombinedOnTheDevice) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    Random random(4);
    const Sequential model(Linear(7, 5, random), Linear(5, 3, random));
    model.to(dtype);
    const SGD optimizer(model.parameters(), {});
    const std::vector<Tensor> arenas = optimizer.arena_values();
    SnapshotWindow window(optimizer, 4);
    EXPECT_THROW(window.move_to({0, 0, 0, 1}), ValueError);
    Path path;
    for (int j = 0; j < 4; j++) {
      arenas[0].copy_(Tensor::randn(arenas[0].shape(), random).to(dtype));
      path.push_back(arenas[0].to_doubles());
      window.take();
    }
    EXPECT_THROW(window.take(), ValueError);
    const auto gram = window.gram(), wanted = gram_of(path);
    for (size_t i = 0; i < wanted.size(); i++) EXPECT_NEAR(gram[i], wanted[i], 1e-4 * std::abs(wanted[0]));
    const std::vector<double> coefficients{0.5, -1.25, 0.25, 1.5};
    window.move_to(coefficients);
    const auto got = arenas[0].to_doubles(), expected = combine(coefficients, path);
    for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], expected[i], dtype == DType::f32 ? 1e-5 : 1e-2);
    // The module's own parameters moved.
    EXPECT_EQ(model.parameters()[0].value().to_doubles()[0], got[0]);
  }
}

TEST(Forecast, OptionsAreChecked) {
  const auto refused = [](auto change) {
    HybridOptions options{.steps = 1000};
    change(options);
    EXPECT_THROW(options.validate(), ValueError);
  };
  HybridOptions{.steps = 1000}.validate();
  refused([](HybridOptions& o) { o.steps = 0; });
  refused([](HybridOptions& o) { o.horizon = 0; });
  refused([](HybridOptions& o) { o.start = std::numeric_limits<double>::quiet_NaN(); });
  refused([](HybridOptions& o) { o.guard_every = 7; });
  refused([](HybridOptions& o) { o.divergence = 1; });
  refused([](HybridOptions& o) { o.divergence_errors = -1; });
  refused([](HybridOptions& o) { o.average = 1.0; });
  refused([](HybridOptions& o) { o.forecaster = Forecaster::line, o.snapshots = 8; });
  refused([](HybridOptions& o) { o.forecaster = Forecaster::line, o.snapshots = 1; });
  refused([](HybridOptions& o) { o.forecaster = Forecaster::modes, o.horizon = 7; });
  EXPECT_EQ(parse_forecaster("modes"), Forecaster::modes);
  EXPECT_EQ(name_of(Forecaster::last_move), "last_move");
  EXPECT_THROW(parse_forecaster("oracle"), ValueError);
}

}  // namespace
}  // namespace ashlar::nn
