// The network that foretells weights: its formula in double, trajectories that it learns to foretell, its state.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "ashlar/ashlar.h"
#include "nn/hybrid/nowcaster.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

using Values = std::vector<double>;

/// What the formula says of a window [snapshots, weights].
Values reference(const Nowcaster& nowcaster, const Values& window, size_t snapshots, double share) {
  std::map<std::string, Values> p;
  for (const auto& [name, tensor] : nowcaster.network().state_dict()) p[name] = tensor.to_doubles();
  const size_t n = window.size() / snapshots, moves = p["line"].size(), hidden = p["second"].size();
  Values result;
  for (size_t i = 0; i < n; i++) {
    Values v;
    double squares = 0;
    for (size_t j = snapshots - 1 - moves; j + 1 < snapshots; j++) {
      v.push_back(window[(j + 1) * n + i] - window[j * n + i]);
      squares += v.back() * v.back() / static_cast<double>(moves);
    }
    const double size = std::sqrt(squares);
    double way = 0;
    for (size_t h = 0; h < hidden && size > 0; h++) {
      double sum = 0;
      for (size_t j = 0; j < moves; j++) sum += v[j] / size * p["first"][j * hidden + h];
      way += std::tanh(sum) * p["second"][h];
    }
    for (size_t j = 0; j < moves && size > 0; j++) way += v[j] / size * p["line"][j];
    result.push_back(window[(snapshots - 1) * n + i] + share * size * way);
  }
  return result;
}

/// Weights that come nearer to their places exponentially, each at a rate of its own; rows are times.
Values approach(int64_t first, int64_t snapshots, int64_t stride, size_t weights) {
  Values result;
  for (int64_t j = 0; j < snapshots; j++) {
    for (size_t i = 0; i < weights; i++) {
      const double k = static_cast<double>(i), t = static_cast<double>(first + j * stride);
      result.push_back(std::sin(k) + std::cos(1.7 * k) * std::exp(-t / (15 + 40 * std::abs(std::sin(0.3 * k)))));
    }
  }
  return result;
}

double distance(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

Tensor window_of(const Values& values, int64_t snapshots, Device device) {
  return Tensor::from(values, {snapshots, static_cast<int64_t>(values.size()) / snapshots}).to(DType::f32).to(device);
}

class Nowcasters : public testing::OnDevice {};

TEST_P(Nowcasters, AsTheFormulaSays) {
  Random random(2);
  Nowcaster nowcaster({.hidden = 5}, 9, 2, device());
  ASSERT_EQ(nowcaster.moves(), 3);
  Values window = Tensor::randn({9, 40}, random).to_doubles();
  for (size_t j = 0; j < 9; j++) window[j * 40 + 7] = 3;  // a weight that stays
  const Tensor points = window_of(window, 9, device());
  // At first the mean of the last three moves goes on.
  const Values at_first = nowcaster.foretell({points})[0].to_doubles();
  for (size_t i = 0; i < 40; i++) {
    const double now = window[8 * 40 + i];
    EXPECT_NEAR(at_first[i], now + 2.0 / 3 * (now - window[5 * 40 + i]), 1e-5) << i;
  }
  for (const auto& [name, parameter] : nowcaster.network().named_parameters()) {
    parameter.value().copy_(Tensor::randn(parameter.shape(), random));
  }
  for (const double share : {1.0, 0.3}) {
    const std::vector<Tensor> got = nowcaster.foretell({points, points.slice(1, 0, 11), points.slice(1, 0, 0)}, share);
    const Values wanted = reference(nowcaster, window, 9, share), all = got[0].to_doubles(), some = got[1].to_doubles();
    for (size_t i = 0; i < 40; i++) EXPECT_NEAR(all[i], wanted[i], 1e-4) << i;
    for (size_t i = 0; i < 11; i++) EXPECT_NEAR(some[i], wanted[i], 1e-4) << i;
    EXPECT_EQ(got[2].shape(), Shape{0});
    EXPECT_EQ(all[7], 3);
  }
}

TEST_P(Nowcasters, LearnsHowWeightsComeToRest) {
  constexpr int64_t kSnapshots = 9, kStride = 5, kAhead = 2;
  constexpr size_t kWeights = 700;
  Nowcaster nowcaster({.updates = 40, .batch = 512}, kSnapshots, kAhead, device());
  for (int64_t jump = 0; jump < 8; jump++) {
    nowcaster.learn({window_of(approach(2 * jump, kSnapshots, kStride, kWeights), kSnapshots, device())});
  }
  // A later window, whose outcome it hasn't seen.
  const Values seen = approach(25, kSnapshots, kStride, kWeights);
  const Values truth = approach(25 + (kSnapshots - 1 + kAhead) * kStride, 1, kStride, kWeights);
  const Values foretold = nowcaster.foretell({window_of(seen, kSnapshots, device())})[0].to_doubles();
  const Values last(seen.end() - kWeights, seen.end());
  Values extended, direction;
  for (size_t i = 0; i < kWeights; i++) {
    extended.push_back(last[i] + kAhead * (last[i] - seen[(kSnapshots - 2) * kWeights + i]));
    direction.push_back(last[i] + kAhead / 8.0 * (last[i] - seen[i]));
  }
  const double error = distance(foretold, truth);
  EXPECT_LT(error, 0.2 * distance(last, truth));
  EXPECT_LT(error, 0.5 * distance(extended, truth));
  EXPECT_LT(error, 0.5 * distance(direction, truth));
}

TEST_P(Nowcasters, GoesOnWithTheSameBits) {
  const auto window = [&](int64_t first) { return window_of(approach(first, 9, 5, 50), 9, device()); };
  const NowcastOptions options{.updates = 7, .batch = 64};
  Nowcaster unbroken(options, 9, 2, device()), before(options, 9, 2, device()), after(options, 9, 2, device());
  unbroken.learn({window(0), window(3)});
  before.learn({window(0), window(3)});
  after.load_state_dict(before.state_dict());
  unbroken.learn({window(5)});
  after.learn({window(5)});
  EXPECT_EQ(after.foretell({window(9)})[0].to_doubles(), unbroken.foretell({window(9)})[0].to_doubles());
  NamedTensors state = before.state_dict();
  state.erase(state.begin());
  EXPECT_THROW(after.load_state_dict(state), ValueError);
}

INSTANTIATE_TEST_SUITE_P(Devices, Nowcasters, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST(Nowcaster, ChecksWhatItIsGiven) {
  testing::expect_error<ValueError>([] { Nowcaster({}, 3, 2, Device::cpu()); }, {"3 snapshots for 2 moves ahead"});
  testing::expect_error<ValueError>([] { Nowcaster({.hidden = 0}, 9, 2, Device::cpu()); }, {"nowcast.hidden = 0"});
  HybridOptions options{.steps = 1000, .forecaster = Forecaster::nowcast};
  options.validate();
  options.horizon = 35;
  options.validate();
  options.horizon = 40;
  testing::expect_error<ValueError>([&] { options.validate(); }, {"horizon = 40", "9 snapshots", "nowcast"});
  options.horizon = 7;
  testing::expect_error<ValueError>([&] { options.validate(); }, {"horizon = 7", "multiple"});
  options.horizon = 10;
  options.nowcast.learning_rate = 0;
  testing::expect_error<ValueError>([&] { options.validate(); }, {"nowcast.learning_rate"});
  EXPECT_EQ(parse_forecaster("nowcast"), Forecaster::nowcast);
}

}  // namespace
}  // namespace ashlar::nn
