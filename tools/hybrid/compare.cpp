#include "tools/hybrid/compare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "ashlar/ashlar.h"
#include "nn/data/sample_forecast.h"
#include "nn/optim/adam.h"
#include "runtime/support/error.h"

namespace ashlar::tools {
namespace {

using nn::Forecaster;

constexpr double kAverage = 0.995;  // decay of the averaged weights
constexpr double kDecay = 0.3;      // part of a wsd run in which the rate falls
constexpr int64_t kWarmUp = 100;
constexpr uint64_t kTuningSeed = 1000;  // tuning seeds are from here, the comparison's from 1

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

nn::SampleForecastOptions sampling_of(const Run& run, int64_t batch, Device device) {
  nn::SampleForecastOptions options{.batch = batch, .steps = run.steps, .seed = run.seed, .device = device};
  if (run.sampler.starts_with("age")) options.age = 1;
  if (run.sampler.starts_with("average")) options.trend = -0.5;
  if (run.sampler.ends_with("unlimited")) options.patience = 0;
  return options;
}

HeldOut measure(const Task& task, nn::Sequential& model, Split split, Device device) {
  const NoGrad no_grad;
  model.eval();
  return task.evaluate(model, split, device);
}

Result train(const Task& task, const Run& run, Device device) {
  Result result;
  result.run = run;
  nn::Sequential model = task.model(run.seed);
  model.to(device);
  nn::Adam optimizer(model.parameters(), {.learning_rate = run.learning_rate, .beta2 = run.beta2});
  const int64_t warm_up = std::min(kWarmUp, run.steps / 10);
  const auto decay = static_cast<int64_t>(std::lround(kDecay * static_cast<double>(run.steps)));
  nn::Scheduler scheduler(optimizer,
                          run.schedule == "cosine"
                              ? nn::sequential_lr({nn::linear_lr(1.0 / static_cast<double>(warm_up), 1, warm_up),
                                                   nn::cosine_annealing_lr(run.steps - warm_up)},
                                                  {warm_up})
                              : nn::warm_up_stable_decay(run.steps, warm_up, decay));
  nn::DataLoader loader(task.training(),
                        {.batch = task.batch(), .shuffle = true, .seed = run.seed, .workers = 1, .drop_last = true});
  std::optional<nn::SampleForecast> sampler;
  if (!run.sampler.empty()) sampler.emplace(task.training_tensors(), sampling_of(run, task.batch(), device));
  Lookahead lookahead(optimizer, run.lookahead);
  const auto loss = [&](const std::vector<Tensor>& batch) {
    lookahead.before_step();
    return sampler ? task.losses(model, batch) : task.loss(model, batch);
  };
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
  options.average = kAverage;
  if (run.lookahead > 0) options.replay = false;  // it counts on the host
  nn::BatchSource& data = sampler ? static_cast<nn::BatchSource&>(*sampler) : loader;
  nn::HybridTrainer trainer({model, optimizer, data, loss, &scheduler}, options);
  try {
    const nn::HybridReport report = trainer.train();
    const nn::HybridStatistics& statistics = report.statistics;
    result.averaged = measure(task, model, run.split, device);
    trainer.use_trained_weights();
    result.last = measure(task, model, run.split, device);
    for (const nn::PhaseRecord& record : report.phases) result.seconds += record.seconds;
    result.predict_seconds = statistics.predict.seconds;
    result.computed = statistics.ordinary_steps();
    result.accepted = statistics.accepted;
    result.rejected = statistics.rejected;
    result.rolled_back = statistics.rolled_back;
  } catch (const nn::DivergenceError&) {
    result.diverged = true;
    const double never = 1e9;  // JSON has no infinity
    result.averaged = result.last = {never, never};
  }
  return result;
}

nlohmann::json to_json(const Result& result) {
  const Run& run = result.run;
  return {{"key", run.key()},
          {"task", run.task},
          {"schedule", run.schedule},
          {"learning_rate", run.learning_rate},
          {"beta2", run.beta2},
          {"steps", run.steps},
          {"seed", run.seed},
          {"split", run.split == Split::test ? "test" : "validation"},
          {"forecaster", std::string(nn::name_of(run.forecaster))},
          {"window", run.window},
          {"horizon", run.horizon},
          {"dense", run.dense},
          {"sampler", run.sampler},
          {"lookahead", run.lookahead},
          {"loss", result.averaged.loss},
          {"error", result.averaged.error},
          {"last_loss", result.last.loss},
          {"last_error", result.last.error},
          {"seconds", result.seconds},
          {"predict_seconds", result.predict_seconds},
          {"computed", result.computed},
          {"accepted", result.accepted},
          {"rejected", result.rejected},
          {"rolled_back", result.rolled_back},
          {"diverged", result.diverged}};
}

/// Results by key, as far as they are there.
class Results {
 public:
  explicit Results(const CompareOptions& options) : options_(options), start_(std::chrono::steady_clock::now()) {
    std::ifstream in(options.results);
    bool cut_off = false;  // its last line, by a kill
    for (std::string line; std::getline(in, line);) {
      cut_off = in.eof();
      const nlohmann::json row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (row.is_discarded() || !row.contains("key")) continue;  // a line that was cut off: made anew
      Result result;
      result.averaged = {row.value("loss", 1e9), row.value("error", 1e9)};
      result.computed = row.value("computed", int64_t{0});
      known_[row["key"].get<std::string>()] = result;
    }
    out_.open(options.results, std::ios::app);
    if (!out_) {
      throw DataError("ashlar-hybrid", options.results.string() + ", which can't be written", "a file for results",
                      "Name another with --results");
    }
    if (cut_off) out_ << '\n';
  }

  /// The run's result, made now if need be; nothing once the time is over.
  std::optional<Result> of(const Task& task, const Run& run) {
    const auto found = known_.find(run.key());
    if (found != known_.end()) return found->second;
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (spent > options_.limit) {
      complete_ = false;
      return std::nullopt;
    }
    const Result result = train(task, run, options_.device);
    out_ << to_json(result).dump() << std::endl;
    std::cout << run.key() << ": loss " << result.averaged.loss << ", error " << result.averaged.error << ", "
              << result.computed << " steps in " << result.seconds << " s" << std::endl;
    known_[run.key()] = result;
    return result;
  }
  bool complete() const { return complete_; }

 private:
  const CompareOptions& options_;
  std::chrono::steady_clock::time_point start_;
  std::map<std::string, Result> known_;
  std::ofstream out_;
  bool complete_ = true;
};

/// The one of `candidates` with the least mean loss of its averaged weights over the tuning seeds, on the validation
/// split. Nothing when the time was over before all were known.
std::optional<Run> best_of(Results& results, const Task& task, const std::vector<Run>& candidates, int seeds) {
  std::optional<Run> best;
  double least = std::numeric_limits<double>::infinity();
  for (Run run : candidates) {
    run.split = Split::validation;
    double sum = 0;
    for (int i = 0; i < seeds; i++) {
      run.seed = kTuningSeed + static_cast<uint64_t>(i);
      const std::optional<Result> result = results.of(task, run);
      if (!result) return std::nullopt;
      sum += result->averaged.loss;
    }
    if (sum < least) {
      least = sum;
      best = run;
    }
  }
  return best;
}

void compare_task(const CompareOptions& options, const std::string& name, Results& results) {
  const std::unique_ptr<Task> task = make_task(name, options.data);
  const auto all =
      static_cast<std::ptrdiff_t>(std::min<size_t>(task->budgets().size(), static_cast<size_t>(options.budgets)));
  const std::vector<int64_t> budgets(task->budgets().begin(), task->budgets().begin() + all);
  const int64_t middle = budgets[budgets.size() / 2];
  const auto each_seed = [&](Run run, const std::function<void(const Run&, const Result&)>& then = {}) {
    run.split = Split::test;
    for (int seed = 1; seed <= options.seeds; seed++) {
      run.seed = static_cast<uint64_t>(seed);
      const std::optional<Result> result = results.of(*task, run);
      if (result && then) then(run, *result);
    }
  };

  // Plain training: rate and betas on seeds and a split of their own, for each schedule; then the frontier over
  // budgets.
  std::map<std::string, Run> tuned;
  for (const char* schedule : {"wsd", "cosine"}) {
    std::vector<Run> candidates;
    for (const double rate : options.wide ? std::vector<double>{5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2}
                                          : std::vector<double>{1e-3, 2e-3, 4e-3}) {
      for (const double beta2 : {0.999, 0.99}) {
        candidates.push_back(
            {.task = name, .schedule = schedule, .learning_rate = rate, .beta2 = beta2, .steps = middle});
      }
    }
    const std::optional<Run> best = best_of(results, *task, candidates, options.tuning_seeds);
    if (!best) return;
    tuned[schedule] = *best;
    for (const int64_t budget : budgets) {
      Run run = *best;
      run.steps = budget;
      each_seed(run);
    }
  }
  // Each forecaster with its own window and horizon, chosen likewise, at the middle budget and above. What it computed
  // is then what a plain run may compute.
  for (const auto& [forecaster, dense] : {std::pair(Forecaster::direction, false),
                                          {Forecaster::direction, true},
                                          {Forecaster::line, false},
                                          {Forecaster::modes, false},
                                          {Forecaster::last_move, false}}) {
    std::vector<Run> candidates;
    for (const auto& [window, horizon] : options.wide
                                             ? std::vector<std::pair<int64_t, int64_t>>{{40, 10}, {40, 20}, {16, 4}}
                                             : std::vector<std::pair<int64_t, int64_t>>{{40, 10}}) {
      Run run = tuned["wsd"];
      run.forecaster = forecaster;
      run.window = window;
      run.horizon = horizon;
      run.dense = dense;
      candidates.push_back(run);
    }
    const std::optional<Run> best = best_of(results, *task, candidates, options.tuning_seeds);
    if (!best) return;
    for (const int64_t budget : {middle, budgets.back()}) {
      Run run = *best;
      run.steps = budget;
      each_seed(run, [&](const Run& hybrid, const Result& result) {
        Run plain = tuned["wsd"];
        plain.split = Split::test;
        plain.seed = hybrid.seed;
        plain.steps = result.computed;
        if (result.computed > 0) results.of(*task, plain);
      });
    }
  }
  // Samples drawn by forecast in as many steps as plain training takes, the rule chosen on the tuning seeds' split too.
  // The limit's price where labels are right is shown beside it.
  std::vector<Run> candidates;
  for (const char* rule : {"last", "age", "average"}) {
    candidates.push_back(tuned["wsd"]);
    candidates.back().sampler = rule;
  }
  const std::optional<Run> best = best_of(results, *task, candidates, options.tuning_seeds);
  if (!best) return;
  Run unlimited = *best;
  unlimited.sampler += " unlimited";
  for (const int64_t budget : budgets) {
    for (Run run : {*best, unlimited}) {
      run.steps = budget;
      each_seed(run);
    }
  }
  Run lookahead = tuned["wsd"];
  lookahead.lookahead = 5;
  lookahead.steps = middle;
  each_seed(lookahead);
}

}  // namespace

std::string Run::key() const {
  std::ostringstream text;
  text << task << ' ' << schedule << " lr " << learning_rate << " b2 " << beta2 << " steps " << steps << " seed "
       << seed << (split == Split::test ? " test" : " validation");
  if (forecaster != Forecaster::none) text << ' ' << nn::name_of(forecaster) << ' ' << window << ' ' << horizon;
  if (dense) text << " dense";
  if (!sampler.empty()) text << " samples " << sampler;
  if (lookahead > 0) text << " lookahead " << lookahead;
  return text.str();
}

bool compare(const CompareOptions& options) {
  Results results(options);
  for (const std::string& task : options.tasks) compare_task(options, task, results);
  std::cout << (results.complete() ? "all runs are there" : "out of time: call again to go on") << std::endl;
  return results.complete();
}

}  // namespace ashlar::tools
