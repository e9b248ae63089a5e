// The ensemble that foretells samples' losses: its formulas in double, streams that can and that can't be foretold,
// what its disagreement does to draws, replays, states.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "ashlar/ashlar.h"
#include "nn/data/sample_ensemble.h"
#include "nn/data/sample_forecast.h"
#include "runtime/graph/graph.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

using Values = std::vector<double>;

/// What SampleEnsemble's formulas say of the windows [batch, visits]: [visits, members, batch].
Values reference(const SampleEnsemble& ensemble, const Values& windows, size_t visits) {
  std::map<std::string, Values> p;
  for (const auto& [name, tensor] : ensemble.state_dict()) p[name] = tensor.to_doubles();
  const size_t batch = windows.size() / visits, members = p["head_bias"].size(), n = p["head_weight"].size() / members;
  Values next(visits * members * batch);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (size_t b = 0; b < batch; b++) {
    for (size_t m = 0; m < members; m++) {
      Values h(n, 0.0);
      for (size_t t = 0; t < visits; t++) {
        const double *window = &windows[b * visits], *weight = &p["weight_hh"][m * n * 3 * n];
        const auto is_visit = [&](size_t i) { return window[i] > -50; };
        const bool before = t > 0 && is_visit(t - 1);
        const double y = is_visit(t) ? window[t] : 0;
        const Values x{y / 4, before ? y - window[t - 1] : 0, before ? 1.0 : 0.0};
        Values gates(3 * n), hidden(3 * n);
        for (size_t g = 0; g < 3 * n; g++) {
          gates[g] = p["input.bias"][m * 3 * n + g];
          for (size_t k = 0; k < 3; k++) gates[g] += x[k] * p["input.weight"][(m * 3 * n + g) * 3 + k];
          hidden[g] = p["bias_hh"][m * 3 * n + g];
          for (size_t k = 0; k < n; k++) hidden[g] += h[k] * weight[k * 3 * n + g];
        }
        double sum = y + p["head_bias"][m];
        for (size_t i = 0; i < n; i++) {
          const double r = sigmoid(gates[i] + hidden[i]), z = sigmoid(gates[n + i] + hidden[n + i]);
          h[i] = (1 - z) * std::tanh(gates[2 * n + i] + r * hidden[2 * n + i]) + z * h[i];
          sum += h[i] * p["head_weight"][m * n + i];
        }
        next[(t * members + m) * batch + b] = sum;
      }
    }
  }
  return next;
}

void draw_heads(const SampleEnsemble& ensemble, Random& random) {
  for (const auto& [name, parameter] : ensemble.named_parameters()) {
    if (name.starts_with("head")) parameter.value().copy_(Tensor::randn(parameter.shape(), random));
  }
}

/// Losses of visits that follow a rule: log loss of sample i at its visit v.
using Stream = std::function<double(size_t sample, int visit)>;
double wave(size_t sample, int visit) { return 2 * std::sin(0.7 * visit + 2.4 * static_cast<double>(sample)); }

/// Visits in random batches; what was foretold of each visit, and what the last value said of it.
struct Visited {
  double error = 0, last_error = 0;  // of the last quarter of the batches, root mean squares
  SampleEnsembleReport report;
  Values forecasts, losses;  // of the last batch
};
Visited visit(SampleHistory& history, Device device, const Stream& stream, int batches) {
  constexpr int64_t kBatch = 32;
  constexpr size_t kSamples = 100;
  Random random(9);
  std::vector<int> visits(kSamples);
  Visited result;
  double judged = 0;
  for (int step = 0; step < batches; step++) {
    std::vector<int64_t> rows;
    std::vector<float> losses;
    const Values known = history.state_dict()[0].second.to_doubles();  // a row of each sample, its forecast first
    const size_t width = known.size() / kSamples;
    for (int64_t j = 0; j < kBatch; j++) {
      const size_t sample = (random.below(kSamples / 4)) * 4 + static_cast<size_t>(j % 4);
      rows.push_back(static_cast<int64_t>(sample));
      const bool again = std::ranges::count(rows, rows.back()) > 1;
      const double value = stream(sample, again ? visits[sample] - 1 : visits[sample]);
      if (!again) visits[sample]++;
      losses.push_back(static_cast<float>(std::exp(value)));
      if (step < 3 * batches / 4 || again || visits[sample] < 2) continue;
      const double foretold = known[sample * width] - value, last = known[sample * width + width - 1] - value;
      result.error += foretold * foretold;
      result.last_error += last * last;
      judged++;
    }
    const Tensor next = history.visit(Tensor::from(rows, {kBatch}, device), Tensor::from(losses, {kBatch}, device));
    result.forecasts = next.to_doubles();
    result.losses.assign(losses.begin(), losses.end());
  }
  result.error = std::sqrt(result.error / judged);
  result.last_error = std::sqrt(result.last_error / judged);
  result.report = history.report();
  return result;
}

class SampleEnsembles : public testing::OnDevice {};

TEST_P(SampleEnsembles, AsTheFormulasSay) {
  Random random(4);
  const SampleEnsembleOptions options{.members = 3, .hidden = 5, .visits = 4};
  const SampleEnsemble ensemble(options, random, Device::cpu());
  draw_heads(ensemble, random);
  const auto none = static_cast<double>(SampleEnsemble::kNone);
  // All visits; two; one; none at all.
  const Values windows{-1, 0.5, 2, -6, none, none, 3, -2, none, none, none, 1, none, none, none, none};
  const Values wanted = reference(ensemble, windows, 4);
  ensemble.to(device());
  const Tensor x = Tensor::from(windows, {4, 4}).to(DType::f32).to(device());
  const Tensor got = ensemble(x).value();
  ASSERT_EQ(got.shape(), (Shape{4, 3, 4}));
  const Values values = got.to_doubles();
  for (size_t i = 0; i < wanted.size(); i++) EXPECT_NEAR(values[i], wanted[i], 1e-5) << i;
}

TEST_P(SampleEnsembles, WhereATrendGoesOnItBeatsTheLastValue) {
  SampleHistory history({}, 100, 1, device());
  const Visited visited = visit(history, device(), wave, 400);
  EXPECT_LT(visited.error, 0.5 * visited.last_error);
  EXPECT_NEAR(visited.last_error, 4 * std::sin(0.35) / std::sqrt(2.0), 0.1);
  EXPECT_TRUE(visited.report.is_used) << visited.report.str();
  // The report's means fade: of the last 50 batches or so, which are half of those judged here.
  EXPECT_NEAR(visited.report.error, visited.error, 0.4 * visited.error);
  EXPECT_NEAR(visited.report.last_error, visited.last_error, 0.1 * visited.last_error);
}

TEST_P(SampleEnsembles, WhatCantBeForetoldIsTheLastLossToTheBit) {
  Random noise(12);
  SampleHistory history({}, 100, 1, device());
  // A random walk: nothing is better than the last value.
  Values place(100, 0.0);
  std::vector<int> at(100, 0);
  const auto walk = [&](size_t sample, int visit) {
    for (; at[sample] <= visit; at[sample]++) place[sample] = 0.98 * place[sample] + noise.uniform(-0.5, 0.5);
    return place[sample];
  };
  const Visited visited = visit(history, device(), walk, 200);
  EXPECT_FALSE(visited.report.is_used) << visited.report.str();
  EXPECT_GT(visited.error, 0.9 * visited.last_error);
  for (size_t i = 0; i < visited.losses.size(); i++) EXPECT_NEAR(visited.forecasts[i], visited.losses[i], 1e-12) << i;
}

TEST_P(SampleEnsembles, ForecastsAreTheMeanRaisedByTheDeviation) {
  const SampleEnsembleOptions options{.members = 3, .visits = 4, .disagreement = 2};
  SampleHistory history(options, 100, 1, device());
  ASSERT_TRUE(visit(history, device(), wave, 150).report.is_used);
  const std::vector<int64_t> rows{3, 17, 40, 99, 64, 3};
  const std::vector<float> losses{0.5F, 2, 1e-9F, std::numeric_limits<float>::quiet_NaN(), 0.1F, 7};
  const Values known = history.state_dict()[0].second.to_doubles();
  const Values least{std::log(7.0), std::log(2.0), std::log(0x1p-20), std::log(0x1p12), std::log(0.1F), std::log(7.0)};
  Values windows;
  for (size_t j = 0; j < 6; j++) {
    const double* row = &known[static_cast<size_t>(rows[j]) * 5];
    windows.insert(windows.end(), row + 2, row + 5);
    windows.push_back(least[j]);  // of sample 3 the last
  }
  const Values next = reference(history.ensemble(), windows, 4);  // before it learns
  const Values got = history.visit(Tensor::from(rows, {6}, device()), Tensor::from(losses, {6}, device())).to_doubles();
  const Values after = history.state_dict()[0].second.to_doubles();
  for (size_t j = 0; j < 6; j++) {
    double mean = 0, squares = 0;
    for (size_t m = 0; m < 3; m++) mean += next[(3 * 3 + m) * 6 + j] / 3;
    for (size_t m = 0; m < 3; m++) squares += std::pow(next[(3 * 3 + m) * 6 + j] - mean, 2);
    EXPECT_NEAR(std::log(got[j]), mean + 2 * std::sqrt(squares / 2), 1e-4) << j;
    const double* row = &after[static_cast<size_t>(rows[j]) * 5];
    EXPECT_NEAR(row[0], mean, 1e-4) << j;
    for (size_t t = 0; t < 4; t++) EXPECT_NEAR(row[1 + t], windows[j * 4 + t], 1e-5) << j << ", " << t;
  }
}

TEST_P(SampleEnsembles, DisagreementSendsSamplesBackForALook) {
  constexpr size_t kSamples = 200, kVisits = 4;
  const SampleEnsembleOptions options{.members = 3, .visits = kVisits, .disagreement = 10};
  SampleForecast data({Tensor::arange(kSamples)}, {.batch = 25,
                                                   .steps = 1'000'000,
                                                   .seed = 2,
                                                   .device = device(),
                                                   .uniform_end = 0,
                                                   .ensemble = options,
                                                   .patience = 0});
  data.start(0);
  // Three quarters go on as waves do, the others jump about.
  std::vector<int> visits(kSamples);
  Random random(5);
  for (int step = 0; step < 150; step++) {
    data.draw();
    std::vector<float> losses;
    for (const int64_t row : data.rows().to_vector<int64_t>()) {
      const auto i = static_cast<size_t>(row);
      const double value = i < 150 ? wave(i, visits[i]++) : 2 * std::sin(random.uniform(0, 6.28F));
      losses.push_back(static_cast<float>(std::exp(value)));
    }
    data.observe(Tensor::from(losses, {25}, device()));
  }
  ASSERT_TRUE(data.ensemble_report().is_used) << data.ensemble_report().str();
  // What each sample's members say now.
  SampleEnsemble ensemble(options, random, Device::cpu());
  NamedTensors network;
  Values windows;
  for (const auto& [name, tensor] : data.state_dict()) {
    if (name.starts_with("ensemble.network.")) network.emplace_back(name.substr(17), tensor);
    if (name != "ensemble.history") continue;
    const Values rows = tensor.to_doubles();
    for (size_t i = 0; i < rows.size(); i++) {
      if (i % (1 + kVisits) != 0) windows.push_back(rows[i]);
    }
  }
  ensemble.load_state_dict(network);
  const Values next = reference(ensemble, windows, kVisits);
  Values means(kSamples, 0.0), deviations(kSamples, 0.0);
  for (size_t i = 0; i < kSamples; i++) {
    const auto of_member = [&](size_t m) { return next[((kVisits - 1) * 3 + m) * kSamples + i]; };
    for (size_t m = 0; m < 3; m++) means[i] += of_member(m) / 3;
    for (size_t m = 0; m < 3; m++) deviations[i] += std::pow(of_member(m) - means[i], 2) / 2;
  }
  Values sorted = deviations;
  std::ranges::sort(sorted);
  const auto disagree = [&](size_t i) { return deviations[i] >= sorted[kSamples * 3 / 4]; };
  // How often these would be drawn by the means alone, and how often they are.
  double by_means = 0, all = 0, drawn = 0;
  for (size_t i = 0; i < kSamples; i++) {
    const auto below = static_cast<double>(std::ranges::count_if(means, [&](double x) { return x < means[i]; }));
    const double weight = std::pow((below + 0.5) / kSamples, 2) + 0.1;
    all += weight;
    by_means += disagree(i) ? weight : 0;
  }
  constexpr int kDraws = 100;
  for (int step = 0; step < kDraws; step++) {
    data.draw();
    for (const int64_t row : data.rows().to_vector<int64_t>()) drawn += disagree(static_cast<size_t>(row)) ? 1 : 0;
  }
  EXPECT_GT(drawn / (25 * kDraws), 1.2 * by_means / all);
}

TEST_P(SampleEnsembles, ReplaysAndRestoredStatesGiveTheSameBits) {
  SampleForecastOptions options{.batch = 6, .steps = 30, .seed = 3, .device = device()};
  options.ensemble = SampleEnsembleOptions{.members = 2, .visits = 3, .gain = 0};
  const auto trained = [&](bool replays, int interrupted) {
    auto data = std::make_unique<SampleForecast>(std::vector{Tensor::arange(40, DType::f32)}, options);
    Tensor factor = Tensor::ones({}, DType::f32, device());
    const auto step = [&] {
      factor.copy_(affine(factor, 0.9, 0.0));
      data->observe(mul(affine(data->draw()[0], 0.1, 0.5), factor));
    };
    Graph graph;
    std::vector<std::vector<int64_t>> rows;
    data->start(0);
    for (int i = 0; i < 30; i++) {
      if (i == interrupted) {
        NamedTensors state;
        for (const auto& [name, tensor] : data->state_dict()) state.emplace_back(name, tensor.clone());
        data = std::make_unique<SampleForecast>(std::vector{Tensor::arange(40, DType::f32)}, options);
        data->load_state_dict(state);
        data->start(0, i % 6);
      } else if (i % 6 == 0) {
        data->start(static_cast<uint64_t>(i / 6));
      }
      if (replays && i > 0 && !graph.defined()) graph = capture(device(), step);
      graph.defined() ? graph.replay() : step();
      rows.push_back(data->rows().to_vector<int64_t>());
    }
    return std::pair(rows, data->forecasts().to_vector<float>());
  };
  const auto wanted = trained(false, -1);
  EXPECT_EQ(trained(true, -1), wanted);
  EXPECT_EQ(trained(false, 18), wanted);
}

TEST_P(SampleEnsembles, NearlyTheSameOnEveryDevice) {
  SampleHistory here({}, 100, 1, device()), host({}, 100, 1, Device::cpu());
  const Visited a = visit(here, device(), wave, 60), b = visit(host, Device::cpu(), wave, 60);
  for (size_t i = 0; i < a.forecasts.size(); i++) EXPECT_NEAR(a.forecasts[i], b.forecasts[i], 1e-2 * b.forecasts[i]);
}

INSTANTIATE_TEST_SUITE_P(Devices, SampleEnsembles, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

TEST(SampleEnsemble, RefusesWhatCantBe) {
  const auto with = [](auto change) {
    return [change] {
      SampleForecastOptions options{.batch = 4, .steps = 10, .ensemble = SampleEnsembleOptions{}};
      change(options);
      SampleForecast data({Tensor::arange(20)}, options);
    };
  };
  using Options = SampleForecastOptions;
  testing::expect_error<ValueError>(with([](Options& o) { o.ensemble->members = 1; }), {"members = 1", "disagree"});
  testing::expect_error<ValueError>(with([](Options& o) { o.ensemble->hidden = 0; }), {"hidden = 0"});
  testing::expect_error<ValueError>(with([](Options& o) { o.ensemble->visits = 1; }), {"visits = 1"});
  testing::expect_error<ValueError>(with([](Options& o) { o.ensemble->learning_rate = 0; }), {"learning_rate"});
  testing::expect_error<ValueError>(with([](Options& o) { o.ensemble->disagreement = -1; }), {"disagreement"});
  testing::expect_error<ValueError>(with([](Options& o) { o.ensemble->gain = 1; }), {"gain"});
  testing::expect_error<ValueError>(with([](Options& o) { o.age = 1; }), {"age", "ensemble"});
  testing::expect_error<ValueError>(with([](Options& o) { o.trend = 0.5; }), {"trend", "ensemble"});
  SampleForecast plain({Tensor::arange(20)}, {.batch = 4, .steps = 10});
  testing::expect_error<ValueError>([&] { plain.ensemble_report(); }, {"no ensemble"});
  SampleForecast data({Tensor::arange(20)}, {.batch = 4, .steps = 10, .ensemble = SampleEnsembleOptions{}});
  testing::expect_error<ValueError>([&] { data.load_state_dict(plain.state_dict()); }, {"no tensor \"history\""});
  SampleForecast other({Tensor::arange(20)}, {.batch = 4, .steps = 10, .ensemble = SampleEnsembleOptions{.visits = 3}});
  testing::expect_error<ShapeError>([&] { data.load_state_dict(other.state_dict()); }, {"history"});
}

}  // namespace
}  // namespace ashlar::nn
