#include "nn/hybrid/loss_forecaster.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <span>
#include <unordered_map>
#include <utility>

#include "ashlar/ad.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "LossForecaster";
constexpr int64_t kLevel = 16, kUnit = 64;  // losses
constexpr size_t kLeastJudged = 16;         // forecasts before anything is made of them
constexpr double kNineOfTen = 1.645, kFarthest = 10;
constexpr size_t kSampleNumbers = 7;  // of a sample beside its state and path

double variance_of(std::span<const double> values, double mean, double count) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return count > 0 ? squares / count : 0;
}
/// Φ
double normal_probability(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

template <class Values>
Tensor matrix_of(const std::vector<Values>& values, int64_t rows, int64_t columns) {
  return Tensor::from(values, {rows, columns});
}

}  // namespace

LossForecaster::LossForecaster(const LossForecastOptions& options, const Optimizer& optimizer, Device device,
                               std::optional<bool> replay)
    : options_((options.validate(), options)),
      device_(device),
      recorder_(optimizer, device, options.every),
      random_(options.seed),
      ensemble_({.encoded = options.encoded,
                 .members = options.members,
                 .hidden = options.hidden,
                 .dropout = options.dropout,
                 .layer_norm = options.layer_norm,
                 .device = device,
                 .random = &random_}),
      adam_(ensemble_.parameters(), {.learning_rate = options.learning_rate}),
      paths_(Tensor::zeros({options.horizon, options.members, options.every / options.block + 1}, DType::f32, device)),
      foretelling_(device, replay,
                   [this](const std::vector<Tensor>& batch) {
                     const NoGrad no_grad;
                     ensemble_.eval();
                     paths_.copy_(ensemble_(batch[0], options_.horizon).value());
                   }),
      updating_(device, replay, [this](const std::vector<Tensor>& batch) {
        ensemble_.train();  // dropout is for learning
        adam_.zero_grad();
        // paths [horizon, members, batch], what came to pass [horizon, 1, batch], weights [members, batch]
        const Var error = ad::sub(ensemble_(batch[0], options_.horizon), Var(batch[1]));
        ashlar::backward(ad::mean(ad::mul(ad::mul(error, error), Var(batch[2]))));
        adam_.step();
      }) {
  adam_.set_clipping({.norm = 1});
}

// States and what becomes of them.

LossForecaster::Sample LossForecaster::sample_at(int64_t count, const TrainingPlace& place) const {
  Sample sample;
  sample.count = count;
  TrainingMeasures measures = recorder_.measures(count);
  const int64_t ago = recorder_.count() - count;
  measures.phase = place.phase;
  measures.steps_in_phase = std::max<int64_t>(place.steps_in_phase - ago, 0);
  measures.progress = static_cast<double>(place.position - ago) / static_cast<double>(place.steps);
  sample.state = training_state(measures);
  const auto last = [&](int64_t steps) {
    return measures.losses.last(std::min(static_cast<size_t>(steps), measures.losses.size()));
  };
  sample.level = mean_of(last(kLevel));
  const std::span<const double> recent = last(kUnit);
  sample.unit = std::max({std::sqrt(variance_of(recent, mean_of(recent), static_cast<double>(recent.size()))),
                          1e-6 * std::abs(sample.level), 1e-30});
  return sample;
}

bool LossForecaster::is_calibrated() const { return judged_.size() >= kLeastJudged; }

/// What held-out errors had beyond the members' disagreement.
double LossForecaster::unexplained() const {
  double squares = 0, variances = 0;
  for (const Judgement& one : judged_) {
    squares += one.error * one.error;
    variances += one.variance;
  }
  const auto count = static_cast<double>(judged_.size());
  return std::max((squares - variances) / count, 0.05 * squares / count + 1e-12);
}

void LossForecaster::foretell(std::vector<Sample>& samples) {
  if (samples.empty()) return;
  const int64_t rows = paths_.size(2);
  const auto capacity = static_cast<size_t>(rows);
  for (size_t first = 0; first < samples.size(); first += capacity) {
    const size_t here = std::min(capacity, samples.size() - first);
    std::vector<float> states(capacity * kStateFeatures, 0.0F);
    for (size_t i = 0; i < here; i++) {
      std::ranges::copy(samples[first + i].state, states.begin() + static_cast<std::ptrdiff_t>(i * kStateFeatures));
    }
    foretelling_.run({matrix_of(states, rows, kStateFeatures)});
    const std::vector<float> paths = paths_.to_vector<float>();
    const auto horizon = static_cast<size_t>(options_.horizon), members = static_cast<size_t>(options_.members);
    for (size_t i = 0; i < here; i++) {
      Sample& sample = samples[first + i];
      sample.path.assign(horizon, 0.0);
      std::vector<double> changes(members, 0.0);
      for (size_t t = 0; t < horizon; t++) {
        for (size_t m = 0; m < members; m++) {
          const double value = paths[(t * members + m) * capacity + i];
          sample.path[t] += value / static_cast<double>(members);
          changes[m] += value / static_cast<double>(horizon);
        }
      }
      sample.change = mean_of(changes);
      sample.variance = variance_of(changes, sample.change, static_cast<double>(members) - 1);
      if (!is_calibrated()) continue;
      sample.deviation = std::sqrt(sample.variance + unexplained());
      sample.confidence = normal_probability((options_.rise - sample.change) / sample.deviation);
    }
  }
}

/// Whether the path's losses are all there: judges the forecast, and replaces it by them.
bool LossForecaster::come_to_pass(Sample& sample) {
  if (sample.count + options_.horizon * options_.block > recorder_.count()) return false;
  for (int64_t t = 0; t < options_.horizon; t++) {
    const int64_t first = sample.count + t * options_.block;
    const double mean = mean_of(recorder_.losses(first, first + options_.block));
    sample.path[static_cast<size_t>(t)] = std::clamp((mean - sample.level) / sample.unit, -kFarthest, kFarthest);
  }
  const double truth = mean_of(sample.path), error = sample.change - truth;
  if (!std::isfinite(truth) || !std::isfinite(error)) return true;
  totals_.all++;
  if (sample.deviation > 0) {
    totals_.with_interval++;
    totals_.covered += std::abs(error) <= kNineOfTen * sample.deviation ? 1 : 0;
    totals_.confidence += sample.confidence;
    totals_.true_ones += truth <= options_.rise ? 1 : 0;
  }
  judged_.push_back({static_cast<double>(sample.count), error, truth, sample.variance});
  if (judged_.size() > static_cast<size_t>(options_.held_out)) judged_.pop_front();
  memory_.push_back(std::move(sample));
  if (memory_.size() > static_cast<size_t>(options_.memory)) memory_.pop_front();
  return true;
}

void LossForecaster::learn(const TrainingPlace& place) {
  const int64_t steps = recorder_.read();
  seen_ += steps;
  while (!waiting_.empty() && come_to_pass(waiting_.front())) waiting_.pop_front();
  std::vector<Sample> made;
  for (int64_t count = recorder_.count() - steps + 1; count <= recorder_.count(); count++) {
    const int64_t here = count - segment_;
    if (here >= kLevel && here % options_.block == 0) made.push_back(sample_at(count, place));
  }
  foretell(made);
  for (Sample& sample : made) waiting_.push_back(std::move(sample));
  while (seen_ / options_.every > updates_ && memory_.size() >= static_cast<size_t>(options_.batch)) update();
  updates_ = std::max(updates_, seen_ / options_.every);  // what couldn't be learnt yet isn't made up for
}

void LossForecaster::update() {
  updates_++;
  const auto batch = static_cast<size_t>(options_.batch), members = static_cast<size_t>(options_.members),
             horizon = static_cast<size_t>(options_.horizon);
  Random choice(options_.seed ^ (0x9E3779B97F4A7C15 * static_cast<uint64_t>(updates_)));
  std::vector<float> states, weights(members * batch), paths(horizon * batch);
  for (size_t i = 0; i < batch; i++) {
    const Sample& sample = memory_[choice.below(memory_.size())];
    states.insert(states.end(), sample.state.begin(), sample.state.end());
    for (size_t t = 0; t < horizon; t++) paths[t * batch + i] = static_cast<float>(sample.path[t]);
    const uint32_t halves = Random::philox({static_cast<uint32_t>(sample.count), 0, 0, 1}, options_.seed)[0];
    for (size_t m = 0; m < members; m++) weights[m * batch + i] = (halves >> (m % 32) & 1) != 0 ? 2.0F : 0.0F;
  }
  updating_.run({matrix_of(states, options_.batch, kStateFeatures),
                 Tensor::from(paths, {options_.horizon, 1, options_.batch}),
                 matrix_of(weights, options_.members, options_.batch)});
}

LossForecast LossForecaster::forecast(const TrainingPlace& place) {
  LossForecast result;
  if (recorder_.count() - segment_ < kLevel) return result;
  std::vector<Sample> now{sample_at(recorder_.count(), place)};
  foretell(now);
  for (const double value : now[0].path) result.path.push_back(now[0].level + now[0].unit * value);
  result.change = now[0].change;
  result.deviation = now[0].deviation;
  result.is_used = is_calibrated() && report().gain() >= options_.gain;
  result.confidence = result.is_used ? now[0].confidence : 0;
  return result;
}

void LossForecaster::jump() {
  waiting_.clear();
  segment_ = recorder_.count();
}

void LossForecaster::go_back() {
  recorder_.go_back(segment_);
  waiting_.clear();
  while (!memory_.empty() && memory_.back().count > segment_) memory_.pop_back();
  while (!judged_.empty() && judged_.back().count > static_cast<double>(segment_)) judged_.pop_back();
}

LossForecastReport LossForecaster::report() const {
  LossForecastReport result{.forecasts = static_cast<int64_t>(totals_.all), .updates = adam_.steps()};
  double errors = 0, truths = 0;
  for (const Judgement& one : judged_) {
    errors += one.error * one.error;
    truths += one.truth * one.truth;
  }
  const auto count = static_cast<double>(std::max<size_t>(judged_.size(), 1));
  result.error = std::sqrt(errors / count);
  result.level_error = std::sqrt(truths / count);
  const double of = std::max(totals_.with_interval, 1.0);
  result.coverage = totals_.covered / of;
  result.confidence = totals_.confidence / of;
  result.came_true = totals_.true_ones / of;
  return result;
}

std::string LossForecastReport::str() const {
  char text[300];
  std::snprintf(text, sizeof text,
                "loss forecasts: %lld, %lld updates; error %.3f against %.3f of the last value (%.0f %% smaller)\n"
                "within their 90 %% interval %.0f %%; confidence %.2f on average, came true %.2f",
                static_cast<long long>(forecasts), static_cast<long long>(updates), error, level_error, 100 * gain(),
                100 * coverage, confidence, came_true);
  return text;
}

// Checkpoints.

std::vector<double> LossForecaster::row_of(const Sample& sample) const {
  std::vector<double> row{static_cast<double>(sample.count),
                          sample.level,
                          sample.unit,
                          sample.change,
                          sample.variance,
                          sample.deviation,
                          sample.confidence};
  row.insert(row.end(), sample.state.begin(), sample.state.end());
  row.insert(row.end(), sample.path.begin(), sample.path.end());
  return row;
}

LossForecaster::Sample LossForecaster::sample_from(const double* row) const {
  Sample sample{.count = static_cast<int64_t>(row[0]),
                .level = row[1],
                .unit = row[2],
                .change = row[3],
                .variance = row[4],
                .deviation = row[5],
                .confidence = row[6],
                .path = {}};
  const double* state = row + kSampleNumbers;
  for (size_t i = 0; i < sample.state.size(); i++) sample.state[i] = static_cast<float>(state[i]);
  const double* path = state + kStateFeatures;
  sample.path.assign(path, path + options_.horizon);
  return sample;
}

NamedTensors LossForecaster::state_dict() const {
  NamedTensors result = recorder_.state_dict();
  for (const auto& [name, tensor] : ensemble_.state_dict(Saved::with_checkpoints)) {
    result.emplace_back("ensemble." + name, tensor);
  }
  for (const auto& [name, tensor] : adam_.state_dict()) result.emplace_back("adam." + name, tensor);
  const auto add_samples = [&](const char* name, const std::deque<Sample>& samples) {
    std::vector<double> rows;
    for (const Sample& sample : samples) {
      const std::vector<double> row = row_of(sample);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const auto columns = static_cast<int64_t>(kSampleNumbers) + kStateFeatures + options_.horizon;
    result.emplace_back(name, matrix_of(rows, static_cast<int64_t>(samples.size()), columns));
  };
  add_samples("samples.waiting", waiting_);
  add_samples("samples.memory", memory_);
  std::vector<double> judged;
  for (const Judgement& one : judged_) judged.insert(judged.end(), {one.count, one.error, one.truth, one.variance});
  result.emplace_back("judged", matrix_of(judged, static_cast<int64_t>(judged_.size()), 4));
  result.emplace_back("totals", Tensor::from({totals_.all, totals_.with_interval, totals_.covered, totals_.confidence,
                                              totals_.true_ones}));
  result.emplace_back("counts", Tensor::from({seen_, updates_, segment_}));
  return result;
}

void LossForecaster::load_state_dict(const NamedTensors& state) {
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  const auto refuse = [](const std::string& what) {
    throw ValueError(kName, what, "what a training with the same options saved", "Remove the checkpoint to begin anew");
  };
  const auto rows_of = [&](const char* name, int64_t columns) {
    const auto found = given.find(name);
    if (found == given.end()) refuse(std::string("no tensor \"") + name + "\"");
    const Tensor& table = found->second;
    if (table.rank() != 2 || table.size(1) != columns) refuse(std::string(name) + " as " + table.str());
    return table.to_vector<double>();
  };
  const auto part = [&](const std::string& prefix) {
    NamedTensors result;
    for (const auto& [name, tensor] : state) {
      if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
    }
    return result;
  };
  const auto columns = static_cast<int64_t>(kSampleNumbers) + kStateFeatures + options_.horizon;
  const auto samples_of = [&](const char* name) {
    const std::vector<double> rows = rows_of(name, columns);
    std::deque<Sample> samples;
    for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(columns)) samples.push_back(sample_from(&rows[i]));
    return samples;
  };
  std::deque<Sample> waiting = samples_of("samples.waiting"), memory = samples_of("samples.memory");
  const std::vector<double> judged = rows_of("judged", 4);
  if (!given.contains("totals") || !given.contains("counts")) refuse("no totals");
  const std::vector<double> totals = given.at("totals").to_vector<double>();
  const std::vector<int64_t> counts = given.at("counts").to_vector<int64_t>();
  if (totals.size() != 5 || counts.size() != 3) refuse("other totals");
  recorder_.load_state_dict(state);
  ensemble_.load_state_dict(part("ensemble."), Saved::with_checkpoints);
  adam_.load_state_dict(part("adam."));
  waiting_ = std::move(waiting);
  memory_ = std::move(memory);
  judged_.clear();
  for (size_t i = 0; i < judged.size(); i += 4) {
    judged_.push_back({judged[i], judged[i + 1], judged[i + 2], judged[i + 3]});
  }
  totals_ = {totals[0], totals[1], totals[2], totals[3], totals[4]};
  seen_ = counts[0];
  updates_ = counts[1];
  segment_ = counts[2];
}

}  // namespace ashlar::nn
