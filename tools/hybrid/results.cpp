#include "tools/hybrid/results.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/support/error.h"

namespace ashlar::tools {
namespace {

constexpr const char* kName = "ashlar-hybrid";
constexpr int64_t kShort = 400;  // steps in which every kind of run comes to all that it does

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
          {"length", std::string(nn::name_of(run.length))},
          {"residuals", run.residuals},
          {"sampler", run.sampler},
          {"lookahead", run.lookahead},
          {"label_noise", run.label_noise},
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
          {"held_back", result.held_back},
          {"diverged", result.diverged},
          {"alone", result.alone}};
}

}  // namespace

Results::Results(const ResultsOptions& options) : options_(options), start_(std::chrono::steady_clock::now()) {
  if (options.alone && options.jobs > 1) {
    throw ValueError(kName, "alone with " + std::to_string(options.jobs) + " jobs", "one job", "Leave --jobs out");
  }
  std::ifstream in(options.file);
  bool cut_off = false;  // its last line, by a kill
  for (std::string line; std::getline(in, line);) {
    cut_off = in.eof();
    const nlohmann::json row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_discarded() || !row.contains("key")) continue;  // a line that was cut off: made anew
    if (!row.contains("task")) {
      notes_.insert(row["key"].get<std::string>());
      continue;
    }
    Result result;
    result.averaged = {row.value("loss", 1e9), row.value("error", 1e9)};
    result.computed = row.value("computed", int64_t{0});
    result.alone = row.value("alone", false);
    known_[row["key"].get<std::string>()] = result;
  }
  out_.open(options.file, std::ios::app);
  if (!out_) {
    throw DataError(kName, options.file.string() + ", which can't be written", "a file for results",
                    "Name another with --results");
  }
  if (cut_off) out_ << '\n';
}

bool Results::is_known(const Run& run) const {
  const auto found = known_.find(run.key());
  if (found == known_.end()) return false;
  return !options_.alone || found->second.alone || run.split == Split::validation;
}

bool Results::is_over() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() > options_.limit;
}

const Result& Results::of(const Run& run) const {
  const auto found = known_.find(run.key());
  if (found == known_.end()) throw ValueError(kName, run.key(), "a run that was made", "Call make() before");
  return found->second;
}

bool Results::make(const Task& task, const std::vector<Run>& runs) {
  std::vector<Run> missing;
  std::set<std::string> keys;
  for (const Run& run : runs) {
    if (!is_known(run) && keys.insert(run.key()).second) missing.push_back(run);
  }
  if (options_.jobs > 1) {
    make_at_once(task, missing);
  } else {
    for (const Run& run : missing) {
      if (is_over()) break;
      make_one(task, run);
    }
  }
  return std::ranges::all_of(missing, [this](const Run& run) { return is_known(run); });
}

void Results::make_at_once(const Task& task, const std::vector<Run>& runs) {
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;  // the first one; guarded by mutex_
  const auto work = [&] {
    for (size_t i = next++; i < runs.size() && !is_over(); i = next++) {
      try {
        make_one(task, runs[i]);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure) failure = std::current_exception();
        next = runs.size();
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    const auto count = std::min(static_cast<size_t>(options_.jobs), runs.size());
    for (size_t i = 0; i < count; i++) workers.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
}

void Results::make_one(const Task& task, const Run& run) {
  const bool is_alone = options_.jobs == 1;
  if (is_alone && options_.device.kind != DeviceKind::cpu && warm_.insert(run.task + run.kind()).second) {
    Run brief = run;
    brief.steps = std::min(run.steps, kShort);
    train(task, brief, options_.device);
  }
  Result result = train(task, run, options_.device);
  result.alone = is_alone;
  const std::lock_guard lock(mutex_);
  out_ << to_json(result).dump() << std::endl;
  std::cout << run.key() << ": loss " << result.averaged.loss << ", error " << result.averaged.error << ", "
            << result.computed << " steps in " << result.seconds << " s" << std::endl;
  known_[run.key()] = result;
}

void Results::note(const std::string& key, const std::function<nlohmann::json()>& measure) {
  if (notes_.contains(key) || is_over()) return;
  nlohmann::json row = measure();
  row["key"] = key;
  out_ << row.dump() << std::endl;
  std::cout << row.dump() << std::endl;
  notes_.insert(key);
}

}  // namespace ashlar::tools
