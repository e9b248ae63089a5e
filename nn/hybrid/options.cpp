#include "nn/hybrid/options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr std::array<std::pair<Forecaster, std::string_view>, 6> kNames{{{Forecaster::none, "none"},
                                                                         {Forecaster::last_move, "last_move"},
                                                                         {Forecaster::direction, "direction"},
                                                                         {Forecaster::line, "line"},
                                                                         {Forecaster::modes, "modes"},
                                                                         {Forecaster::nowcast, "nowcast"}}};

constexpr std::array<std::pair<JumpLength, std::string_view>, 2> kLengths{
    {{JumpLength::fixed, "fixed"}, {JumpLength::forecast, "forecast"}}};

template <class Names, class Value>
std::string_view name_in(const Names& names, Value value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "unknown";
}
template <class Names>
auto parse_in(const Names& names, std::string_view name, const char* operation, const char* needed,
              const char* remedy) {
  for (const auto& [value, known] : names) {
    if (known == name) return value;
  }
  throw ValueError(operation, "\"" + std::string(name) + "\"", needed, remedy);
}

void require(bool good, const std::string& came, const char* needed, const char* remedy) {
  if (!good) throw ValueError("HybridOptions", came, needed, remedy);
}

}  // namespace

std::string_view name_of(Forecaster forecaster) { return name_in(kNames, forecaster); }

Forecaster parse_forecaster(std::string_view name) {
  return parse_in(kNames, name, "parse_forecaster", "none, last_move, direction, line, modes or nowcast",
                  "The default is direction");
}

std::string_view name_of(JumpLength length) { return name_in(kLengths, length); }

JumpLength parse_jump_length(std::string_view name) {
  return parse_in(kLengths, name, "parse_jump_length", "fixed or forecast", "The default is fixed");
}

int64_t HybridOptions::count() const {
  const bool two = forecaster == Forecaster::direction || forecaster == Forecaster::last_move;
  return two ? 2 : snapshots;
}

int64_t HybridOptions::stride() const {
  return forecaster == Forecaster::direction ? window : window / (snapshots - 1);
}

int64_t HybridOptions::jump_length(double forecast_confidence, int64_t consecutive) const {
  if (!(forecast_confidence >= confidence)) return 0;
  const double part =
      forecast_confidence * forecast_confidence * (1 - std::min(0.1 * static_cast<double>(consecutive), 0.5));
  const int64_t least = forecaster == Forecaster::modes ? stride() : 1;
  const auto steps_ahead = static_cast<int64_t>(std::lround(static_cast<double>(horizon) * part));
  return std::clamp(steps_ahead / least * least, least, horizon);
}

void NowcastOptions::validate() const {
  for (const auto& [name, value] :
       {std::pair("nowcast.hidden", hidden), {"nowcast.updates", updates}, {"nowcast.batch", batch}}) {
    require(value > 0, std::string(name) + " = " + std::to_string(value), "a positive number",
            "Start with the default");
  }
  require(learning_rate > 0 && std::isfinite(learning_rate), "nowcast.learning_rate = " + std::to_string(learning_rate),
          "a positive number", "The default is 0.003");
}

void LossForecastOptions::validate() const {
  for (const auto& [name, value] : {std::pair("members", members),
                                    {"hidden", hidden},
                                    {"encoded", encoded},
                                    {"horizon", horizon},
                                    {"block", block},
                                    {"every", every},
                                    {"batch", batch},
                                    {"memory", memory},
                                    {"held_out", held_out}}) {
    require(value > 0, std::string(name) + " = " + std::to_string(value), "a positive number",
            "Start with the default");
  }
  require(members > 1, "members = " + std::to_string(members), "2 or more: they have to disagree", "The default is 5");
  require(every % block == 0, "every = " + std::to_string(every) + ", block = " + std::to_string(block),
          "every a multiple of block", "Start with 16 and 4");
  require(held_out >= 16, "held_out = " + std::to_string(held_out), "16 or more", "The default is 64");
  require(memory >= batch, "memory = " + std::to_string(memory) + ", batch = " + std::to_string(batch),
          "as many states as a batch has", "Start with 512 and 32");
  require(horizon * block <= 512, "horizon = " + std::to_string(horizon) + " blocks of " + std::to_string(block),
          "a path of 512 steps at most", "Start with 10 and 4");
  require(learning_rate > 0 && std::isfinite(learning_rate), "learning_rate = " + std::to_string(learning_rate),
          "a positive number", "The default is 0.003");
  require(dropout >= 0 && dropout < 1, "dropout = " + std::to_string(dropout), "a part, in [0, 1)", "The default is 0");
  require(gain >= 0 && gain < 1, "gain = " + std::to_string(gain), "a number in [0, 1)", "The default is 0.1");
  require(rise >= 0 && std::isfinite(rise), "rise = " + std::to_string(rise), "a finite number of 0 or more",
          "The default is 0.5");
}

void DivergenceMonitorOptions::validate() const {
  const auto number = [](const char* name, double value) {
    return std::string("monitor.") + name + " = " + std::to_string(value);
  };
  require(loss_deviations > 0, number("loss_deviations", loss_deviations), "a number above 0, or infinity",
          "The default is 3");
  require(gradient_most > 1, number("gradient_most", gradient_most), "a number above 1, or infinity",
          "The default is 100");
  require(gradient_least >= 0 && gradient_least < 1, number("gradient_least", gradient_least), "a number in [0, 1)",
          "The default is 0.01");
  require(turns > 0 && turns <= 1, number("turns", turns), "a part of the changes, in (0, 1]", "The default is 0.9");
  require(swing > 0, number("swing", swing), "a number above 0, or infinity", "The default is 2");
  require(oscillation_steps >= 8, "monitor.oscillation_steps = " + std::to_string(oscillation_steps), "8 or more",
          "The default is 16");
}

void HybridOptions::validate() const {
  const auto number = [](const char* name, double value) { return std::string(name) + " = " + std::to_string(value); };
  const auto positive = [&](const char* name, int64_t value) {
    require(value > 0, std::string(name) + " = " + std::to_string(value), "a positive number",
            "Start with the default");
  };
  require(steps > 0, "steps = " + std::to_string(steps), "a positive number",
          "Say how long to train: epochs · loader.batches()");
  require(warm_up >= 0 && full >= 0, "warm_up = " + std::to_string(warm_up) + ", full = " + std::to_string(full),
          "0 or more", "Start with the defaults");
  positive("window", window);
  positive("horizon", horizon);
  positive("rank", rank);
  positive("guard_every", guard_every);
  positive("longest_pause", longest_pause);
  positive("checkpoint_every", checkpoint_every);
  require(start >= 0 && start <= 1, number("start", start), "a part of the steps, in [0, 1]", "The default is 0.5");
  require(correct >= 2 && correct % guard_every == 0,
          "correct = " + std::to_string(correct) + ", guard_every = " + std::to_string(guard_every),
          "2 steps or more, a multiple of guard_every", "Start with 50 and 5");
  require(tolerance >= 0 && std::isfinite(tolerance), number("tolerance", tolerance), "a finite number of 0 or more",
          "The default is 2");
  require(divergence > 1 && std::isfinite(divergence), number("divergence", divergence), "a finite number above 1",
          "The default is 1.6");
  require(divergence_errors >= 0 && std::isfinite(divergence_errors), number("divergence_errors", divergence_errors),
          "a finite number of 0 or more", "The default is 3");
  if (monitor) {
    monitor->validate();
    require(correct >= std::max<int64_t>(16, monitor->oscillation_steps),
            "correct = " + std::to_string(correct) +
                " with monitor.oscillation_steps = " + std::to_string(monitor->oscillation_steps),
            "16 steps or more, and as many as oscillate, with a monitor", "Start with 50 and 16");
  }
  require(!average || (*average >= 0 && *average < 1), number("average", average.value_or(0)), "a number in [0, 1)",
          "Start with 0.995");
  require(confidence > 0 && confidence <= 1, number("confidence", confidence), "a probability in (0, 1]",
          "The default is 0.85");
  if (length == JumpLength::forecast) loss_forecast.validate();
  positive("residual_rank", residual_rank);
  require(residuals >= 0, "residuals = " + std::to_string(residuals), "0 or more", "The default is 0");
  require(residuals == 0 || length == JumpLength::forecast,
          "residuals = " + std::to_string(residuals) + " with length = fixed",
          "length = JumpLength::forecast: only it knows which states are similar", "Leave residuals at 0");
  const bool in_strides = forecaster == Forecaster::modes || forecaster == Forecaster::nowcast;
  const bool spaced = in_strides || forecaster == Forecaster::last_move || forecaster == Forecaster::line;
  const int64_t least = in_strides ? 3 : 2;
  require(!spaced || (snapshots >= least && window % (snapshots - 1) == 0),
          "window = " + std::to_string(window) + ", snapshots = " + std::to_string(snapshots),
          "2 snapshots or more (modes, nowcast: 3) at equal distances", "window must be a multiple of snapshots - 1");
  require(!in_strides || horizon % stride() == 0,
          "horizon = " + std::to_string(horizon) + " with snapshots every " + std::to_string(stride()) + " steps",
          "a multiple of their distance for modes and nowcast", "Change horizon, window or snapshots");
  nowcast.validate();
  require(forecaster != Forecaster::nowcast || horizon / stride() + 2 <= snapshots,
          "horizon = " + std::to_string(horizon) + " with " + std::to_string(snapshots) + " snapshots every " +
              std::to_string(stride()) + " steps",
          "a horizon that is in the window, after one move, for nowcast", "Take more snapshots or a shorter horizon");
}

}  // namespace ashlar::nn
