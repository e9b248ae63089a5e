#include "nn/hybrid/options.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr std::array<std::pair<Forecaster, std::string_view>, 5> kNames{{{Forecaster::none, "none"},
                                                                         {Forecaster::last_move, "last_move"},
                                                                         {Forecaster::direction, "direction"},
                                                                         {Forecaster::line, "line"},
                                                                         {Forecaster::modes, "modes"}}};

void require(bool good, const std::string& came, const char* needed, const char* remedy) {
  if (!good) throw ValueError("HybridOptions", came, needed, remedy);
}

}  // namespace

std::string_view name_of(Forecaster forecaster) {
  for (const auto& [value, name] : kNames) {
    if (value == forecaster) return name;
  }
  return "unknown";
}

Forecaster parse_forecaster(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  throw ValueError("parse_forecaster", "\"" + std::string(name) + "\"", "none, last_move, direction, line or modes",
                   "The default is direction");
}

int64_t HybridOptions::count() const {
  const bool two = forecaster == Forecaster::direction || forecaster == Forecaster::last_move;
  return two ? 2 : snapshots;
}

int64_t HybridOptions::stride() const {
  return forecaster == Forecaster::direction ? window : window / (snapshots - 1);
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
  require(!average || (*average >= 0 && *average < 1), number("average", average.value_or(0)), "a number in [0, 1)",
          "Start with 0.995");
  const bool spaced =
      forecaster == Forecaster::last_move || forecaster == Forecaster::line || forecaster == Forecaster::modes;
  const int64_t least = forecaster == Forecaster::modes ? 3 : 2;
  require(!spaced || (snapshots >= least && window % (snapshots - 1) == 0),
          "window = " + std::to_string(window) + ", snapshots = " + std::to_string(snapshots),
          "2 snapshots or more (modes: 3) at equal distances", "window must be a multiple of snapshots - 1");
  require(forecaster != Forecaster::modes || horizon % stride() == 0,
          "horizon = " + std::to_string(horizon) + " with snapshots every " + std::to_string(stride()) + " steps",
          "a multiple of their distance for modes", "Change horizon, window or snapshots");
}

}  // namespace ashlar::nn
