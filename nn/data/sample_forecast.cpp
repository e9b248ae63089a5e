#include "nn/data/sample_forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "nn/data/dataset.h"
#include "nn/data/host_memory.h"
#include "runtime/graph/graph.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "SampleForecast";
constexpr int64_t kRanks = 1024;     // that have a weight of their own
constexpr double kLargest = 65535;   // weight
constexpr double kLevelRate = 0.02;  // of the running mean: 50 batches

void require(bool good, const std::string& came, const char* needed, const char* remedy) {
  if (!good) throw ValueError("SampleForecastOptions", came, needed, remedy);
}

/// rank^sharpness + floor as an integer, the largest 65535.
int32_t weight_at(double rank, const SampleForecastOptions& options) {
  const double part = (std::pow(rank, options.sharpness) + options.floor) / (1 + options.floor);
  return static_cast<int32_t>(std::max(1.0, std::round(kLargest * part)));
}

std::vector<int32_t> weights_of(const SampleForecastOptions& options) {
  std::vector<int32_t> weights;
  for (int64_t k = 0; k < kRanks; k++) {
    weights.push_back(weight_at((static_cast<double>(k) + 0.5) / static_cast<double>(kRanks), options));
  }
  return weights;
}

}  // namespace

void SampleForecastOptions::validate() const {
  const auto number = [](const char* name, double value) { return std::string(name) + " = " + std::to_string(value); };
  const auto part = [&](const char* name, double value) {
    require(value >= 0 && value <= 1, number(name, value), "a number in [0, 1]", "Start with the default");
  };
  require(steps > 0, "steps = " + std::to_string(steps), "a positive number",
          "Say how long to train: epochs · (samples / batch)");
  require(sharpness >= 0 && std::isfinite(sharpness), number("sharpness", sharpness), "a finite number of 0 or more",
          "The default is 2; 0 draws uniformly");
  require(floor >= 0 && std::isfinite(floor) && (floor > 0 || sharpness == 0), number("floor", floor),
          "a finite number above 0", "The default is 0.1; without a floor easy samples would be forgotten");
  part("uniform_end", uniform_end);
  require(std::isfinite(age), number("age", age), "a finite number", "0 is the last loss, 1 goes with the mean");
  require(trend > -1 && trend <= 1, number("trend", trend), "a number in (-1, 1]", "0 is the last loss alone");
  if (ensemble) ensemble->validate();
  require(!ensemble || (age == 0 && trend == 0),
          number("age", age) + ", " + number("trend", trend) + " with an ensemble",
          "0 for both: it finds them out by itself", "Leave them at their defaults");
  part("hard", hard);
  part("cap", cap);
  require(patience >= 0, "patience = " + std::to_string(patience), "a number of visits, or 0 for no limit",
          "The default is 6");
  require(rising >= 0, "rising = " + std::to_string(rising), "a number of epochs, or 0 for none", "The default is 3");
  require(bins >= 1 && bins <= 65535, "bins = " + std::to_string(bins), "1 to 65535", "The default is 2048");
}

SampleForecast::SampleForecast(const std::vector<Tensor>& tensors, const SampleForecastOptions& options)
    : options_((options.validate(), options)),
      data_(tensors, {.batch = options.batch, .shuffle = true, .seed = options.seed, .device = options.device}) {
  const Device device = options.device;
  weights_ = Tensor::from(weights_of(options), {kRanks}, device);
  limit_ = weight_at(options.cap, options);
  patience_ = options.patience > 0 ? options.patience : std::numeric_limits<int32_t>::max();
  forecasts_ = Tensor::full({size()}, std::numeric_limits<double>::infinity(), DType::f32, device);
  streaks_ = Tensor::zeros({size()}, DType::i32, device);
  counts_ = Tensor::zeros({options.bins}, DType::i32, device);
  counts_.slice(0, options.bins - 1).copy_(Tensor::full({1}, size(), DType::i32, device));
  random_ = philox_state(static_cast<int64_t>(Dataset::Draw(options.seed, 0).of(-3).seed()), device);
  drawn_ = Tensor::zeros({1}, DType::i64, device);
  const double end = static_cast<double>(options.steps) * (1 - options.uniform_end);
  uniform_from_ = Tensor::full({1}, static_cast<int64_t>(std::ceil(end)), DType::i64, device);
  level_sum_ = Tensor::zeros({}, DType::f32, device);
  level_weight_ = Tensor::zeros({}, DType::f32, device);
  watched_ = Tensor::from({std::numeric_limits<double>::infinity(), 0.0});
  rows_ = Tensor::zeros({options.batch}, DType::i64, device);
  weigh();
  if (options.ensemble) {
    const uint64_t seed = Dataset::Draw(options.seed, 0).of(-4).seed();
    history_ = std::make_unique<SampleHistory>(*options.ensemble, size(), seed, device);
  }
}

void SampleForecast::start(uint64_t epoch, int64_t first) {
  data_.start(epoch, first);
  position_ = first;
  started_ = true;
}

std::optional<std::vector<Tensor>> SampleForecast::next() {
  if (!started_ || position_ == batches()) return std::nullopt;
  position_++;
  return std::vector<Tensor>();
}

std::vector<Tensor> SampleForecast::draw() {
  return with_host_memory(kName, "a batch", [&] {
    const Tensor in_order = data_.next_rows();
    const Tensor chances = randint(random_, 0, int64_t{1} << 32, {batch()});
    const Tensor by_rank = draw_by_forecast(forecasts_, streaks_, bin_weights_, ends_, chances, patience_, limit_);
    rows_.copy_(where(lt(drawn_, uniform_from_), by_rank, in_order));
    drawn_ += 1;
    return data_.at(rows_);
  });
}

/// What a draw needs to know of all samples.
void SampleForecast::weigh() {
  const auto [bin_weights, ends] = forecast_weights(forecasts_, streaks_, counts_, weights_, patience_, limit_);
  if (!ends_.defined()) {
    bin_weights_ = bin_weights;
    ends_ = ends;
    return;
  }
  bin_weights_.copy_(bin_weights);
  ends_.copy_(ends);
}

/// The running mean of losses with this batch's, rank 0: as if all before the first had been as the others.
Tensor SampleForecast::level_after(const Tensor& losses) {
  level_sum_.copy_(affine(level_sum_, 1 - kLevelRate, 0.0) + affine(mean(losses), kLevelRate, 0.0));
  level_weight_.copy_(affine(level_weight_, 1 - kLevelRate, kLevelRate));
  return level_sum_ / level_weight_;
}

void SampleForecast::observe(const Tensor& losses) {
  if (losses.numel() != batch()) {
    throw ShapeError(kName, "losses: " + losses.str(), std::to_string(batch()) + " of them, one for each sample",
                     "Return losses without adding them up: Reduction::none");
  }
  beside(options_.device, [&] {
    Tensor of_samples = losses.to(DType::f32).contiguous().reshape({batch()});
    if (history_) of_samples = history_->visit(rows_, of_samples);
    const Tensor level = options_.age == 0 ? level_weight_ : level_after(of_samples);  // its power 0 is 1
    update_forecasts(forecasts_, streaks_, counts_, rows_, of_samples, level, options_.age, options_.trend,
                     options_.hard);
    weigh();
  });
}

void SampleForecast::watch(double held_out) {
  const std::vector<double> before = watched_.to_vector<double>();
  const bool is_least = held_out < before[0];
  const double since = is_least ? 0 : before[1] + 1;
  watched_.copy_(Tensor::from({is_least ? held_out : before[0], since}));
  if (options_.rising == 0 || since < static_cast<double>(options_.rising)) return;
  uniform_from_.copy_(minimum(uniform_from_, drawn_));
}

SampleEnsembleReport SampleForecast::ensemble_report() const {
  if (history_) return history_->report();
  throw ValueError("SampleForecast::ensemble_report", "no ensemble", "one", "Set SampleForecastOptions::ensemble");
}

NamedTensors SampleForecast::own_state() const {
  return {{"forecasts", forecasts_}, {"streaks", streaks_},
          {"counts", counts_},       {"random", random_},
          {"drawn", drawn_},         {"uniform_from", uniform_from_},
          {"level_sum", level_sum_}, {"level_weight", level_weight_},
          {"watched", watched_},     {"weights", weights_}};
}

NamedTensors SampleForecast::state_dict() const {
  NamedTensors result = own_state();
  if (!history_) return result;
  for (const auto& [name, tensor] : history_->state_dict()) result.emplace_back("ensemble." + name, tensor);
  return result;
}

void SampleForecast::load_state_dict(const NamedTensors& state) {
  constexpr const char* kLoad = "SampleForecast::load_state_dict";
  constexpr const char* kRemedy = "Load what was saved with the same data and options";
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  const NamedTensors targets = own_state();
  for (const auto& [name, tensor] : targets) {
    const auto found = given.find(name);
    if (found == given.end()) throw ValueError(kLoad, "no tensor \"" + name + "\"", "all of its own", kRemedy);
    if (found->second.shape() != tensor.shape() || found->second.dtype() != tensor.dtype()) {
      throw ShapeError(kLoad, "\"" + name + "\" as " + found->second.str(), tensor.str(), kRemedy);
    }
  }
  if (given.at("weights").to_vector<int32_t>() != weights_.to_vector<int32_t>()) {
    throw ValueError(kLoad, "other weights of ranks", "the sharpness and floor that it began with", kRemedy);
  }
  if (history_) {
    constexpr std::string_view kPrefix = "ensemble.";
    NamedTensors of_history;
    for (const auto& [name, tensor] : state) {
      if (name.starts_with(kPrefix)) of_history.emplace_back(name.substr(kPrefix.size()), tensor);
    }
    history_->load_state_dict(of_history);
  }
  for (const auto& [name, tensor] : targets) tensor.copy_(given.at(name));
  weigh();
}

}  // namespace ashlar::nn
