#include "tools/hybrid/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <sstream>

#include "ashlar/ashlar.h"
#include "nn/data/device_batches.h"
#include "nn/data/sample_forecast.h"
#include "nn/hybrid/hybrid_trainer.h"
#include "nn/optim/adam.h"
#include "runtime/device/stream.h"

namespace ashlar::tools {
namespace {

using nn::Forecaster;

constexpr double kAverage = 0.995;  // decay of the averaged weights
constexpr double kDecay = 0.3;      // part of a wsd run in which the rate falls
constexpr int64_t kWarmUp = 100;
constexpr int64_t kHidden = 32;  // of the ensemble that forecasts the loss: these networks' steps are short

/// Adam with Lookahead: every k-th step moves half-way back to where the one before went.
class Lookahead {
 public:
  Lookahead(const nn::Optimizer& optimizer, int64_t every) : optimizer_(optimizer), every_(every) {}
  void before_step() {
    if (every_ == 0) return;
    const std::vector<Tensor> values = optimizer_.arena_values();
    if (slow_.empty()) {
      for (const Tensor& arena : values) slow_.push_back(arena.clone());
    } else if (steps_ % every_ == 0) {
      for (size_t i = 0; i < values.size(); i++) {
        slow_[i].copy_((slow_[i] + values[i]) * 0.5);
        values[i].copy_(slow_[i]);
      }
    }
    steps_++;
  }

 private:
  const nn::Optimizer& optimizer_;
  int64_t every_, steps_ = 0;
  std::vector<Tensor> slow_;
};

/// What a run trains on.
class Samples {
 public:
  Samples(const Task& task, const Run& run, Device device) : augment_(task.augmentation(device)) {
    if (run.sampler.empty()) {
      shuffled_.emplace(task.training(),
                        nn::DeviceDatasetOptions{.batch = task.batch(), .seed = run.seed, .device = device});
      return;
    }
    nn::SampleForecastOptions options{
        .batch = task.batch(), .steps = least_draws(hybrid_options(run)), .seed = run.seed, .device = device};
    if (run.sampler.starts_with("age")) options.age = 1;
    if (run.sampler.starts_with("average")) options.trend = -0.5;
    if (run.sampler.starts_with("ensemble")) options.ensemble.emplace();
    if (run.sampler.ends_with("unlimited")) options.patience = 0;
    chosen_.emplace(task.training(), options);
  }
  nn::BatchSource& source() {
    if (chosen_) return *chosen_;
    return *shuffled_;
  }
  /// `given` by the source within a step, made ready.
  std::vector<Tensor> batch(const std::vector<Tensor>& given) {
    std::vector<Tensor> batch = given;
    if (augment_) batch[0] = augment_(batch[0], chosen_ ? chosen_->random() : shuffled_->random());
    return batch;
  }

 private:
  Task::Augmentation augment_;
  std::optional<nn::DeviceBatches> shuffled_;
  std::optional<nn::SampleForecast> chosen_;
};

HeldOut measure(const Task& task, const Network& network, Split split, Device device) {
  const NoGrad no_grad;
  network.module->eval();
  return task.evaluate(network, split, device);
}

nn::Schedule schedule_of(const Run& run) {
  const int64_t warm_up = std::max<int64_t>(std::min(kWarmUp, run.steps / 10), 1);
  if (run.schedule == "cosine") {
    return nn::sequential_lr(
        {nn::linear_lr(1.0 / static_cast<double>(warm_up), 1, warm_up), nn::cosine_annealing_lr(run.steps - warm_up)},
        {warm_up});
  }
  return nn::warm_up_stable_decay(run.steps, warm_up,
                                  static_cast<int64_t>(std::lround(kDecay * static_cast<double>(run.steps))));
}

}  // namespace

std::string Run::kind() const {
  std::ostringstream text;
  if (forecaster != Forecaster::none) text << ' ' << nn::name_of(forecaster) << ' ' << window << ' ' << horizon;
  if (dense) text << " dense";
  if (length != nn::JumpLength::fixed) text << ' ' << nn::name_of(length);
  if (residuals > 0) text << " residuals " << residuals;
  if (!sampler.empty()) text << " samples " << sampler;
  if (lookahead > 0) text << " lookahead " << lookahead;
  return text.str();
}

std::string Run::key() const {
  std::ostringstream text;
  text << task << ' ' << schedule << " lr " << learning_rate << " b2 " << beta2 << " steps " << steps << " seed "
       << seed << (split == Split::test ? " test" : " validation") << kind();
  if (label_noise > 0) text << " noise " << label_noise;
  return text.str();
}

nn::HybridOptions hybrid_options(const Run& run) {
  nn::HybridOptions options;
  options.steps = run.steps;
  options.forecaster = run.forecaster;
  options.window = run.window;
  options.horizon = run.horizon;
  if (run.dense) {
    options.start = 0.2;
    options.full = 0;
    options.correct = (run.window + options.guard_every - 1) / options.guard_every * options.guard_every;
  }
  options.length = run.length;
  options.residuals = run.residuals;
  options.loss_forecast.hidden = kHidden;
  options.loss_forecast.seed = run.seed;
  options.average = kAverage;
  if (run.lookahead > 0) options.replay = false;  // it counts on the host
  return options;
}

int64_t least_draws(const nn::HybridOptions& options) {
  if (options.forecaster == Forecaster::none) return options.steps;
  const auto start = static_cast<int64_t>(std::ceil(options.start * static_cast<double>(options.steps)));
  int64_t position = std::max(options.warm_up, start), predicted = 0;
  int64_t interval = std::max(options.full, options.window);  // computed steps before the next jump
  while (position + interval + options.horizon + options.correct <= options.steps) {
    position += interval + options.horizon;
    predicted += options.horizon;
    interval = std::max(options.correct + options.full, options.window);
  }
  return options.steps - predicted;
}

Result train(const Task& task, const Run& run, Device device) {
  Result result;
  result.run = run;
  const Network network = task.network(run.seed);
  network.module->to(device);
  nn::Adam optimizer(network.module->parameters(), {.learning_rate = run.learning_rate, .beta2 = run.beta2});
  nn::Scheduler scheduler(optimizer, schedule_of(run));
  Samples samples(task, run, device);
  Lookahead lookahead(optimizer, run.lookahead);
  const auto losses = [&](const std::vector<Tensor>& given) {
    lookahead.before_step();
    return task.losses(network, samples.batch(given));
  };
  nn::HybridTrainer trainer({*network.module, optimizer, samples.source(), losses, &scheduler}, hybrid_options(run));
  const Stream stream = Stream::current(device);
  const auto now = [&] {
    stream.synchronize();
    return std::chrono::steady_clock::now();
  };
  try {
    const auto start = now();
    const nn::HybridReport report = trainer.train();
    result.seconds = std::chrono::duration<double>(now() - start).count();
    result.averaged = measure(task, network, run.split, device);
    trainer.use_trained_weights();
    result.last = measure(task, network, run.split, device);
    for (const nn::PhaseRecord& phase : report.phases) {
      result.predict_seconds += phase.phase == nn::Phase::predict ? phase.seconds : phase.forecast_seconds;
    }
    const nn::HybridStatistics& statistics = report.statistics;
    result.computed = statistics.ordinary_steps();
    result.accepted = statistics.accepted;
    result.rejected = statistics.rejected;
    result.rolled_back = statistics.rolled_back;
    result.held_back = statistics.held_back;
  } catch (const nn::DivergenceError&) {
    result.diverged = true;
    const double never = 1e9;  // JSON has no infinity
    result.averaged = result.last = {never, never};
  }
  return result;
}

}  // namespace ashlar::tools
