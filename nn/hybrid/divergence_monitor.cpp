#include "nn/hybrid/divergence_monitor.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "nn/hybrid/training_state.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "DivergenceMonitor";

bool are_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

double mean_change(std::span<const double> values) {
  double sum = 0;
  for (size_t i = 1; i < values.size(); i++) sum += std::abs(values[i] - values[i - 1]);
  return values.size() > 1 ? sum / static_cast<double>(values.size() - 1) : 0;
}

}  // namespace

DivergenceMonitor::DivergenceMonitor(const DivergenceMonitorOptions& options, bool has_overflows)
    : options_((options.validate(), options)), has_overflows_(has_overflows) {}

void DivergenceMonitor::jump(std::span<const double> losses, std::span<const double> gradients) {
  if (losses.empty() || losses.size() != gradients.size()) {
    throw ValueError(kName,
                     std::to_string(losses.size()) + " losses, " + std::to_string(gradients.size()) + " gradient norms",
                     "one of both for every step, of one step at least", "Jump after a step");
  }
  loss_ = mean_of(losses);
  // Losses that are all the same would make an alarm of the last digit.
  const double least = std::max(1e-6 * std::abs(loss_), 1e-30);
  double squares = 0;
  for (const double loss : losses) squares += (loss - loss_) * (loss - loss_);
  deviation_ = std::max(std::sqrt(squares / static_cast<double>(losses.size())), least);
  change_ = std::max(mean_change(losses), least);
  std::vector<double> finite;  // those of steps that loss scaling left out aren't
  std::ranges::copy_if(gradients, std::back_inserter(finite), [](double norm) { return std::isfinite(norm); });
  gradient_ = finite.empty() ? 0 : mean_of(finite);
  has_jumped_ = true;
}

bool DivergenceMonitor::oscillates(std::span<const double> losses) const {
  const auto steps = static_cast<size_t>(options_.oscillation_steps);
  if (losses.size() < steps) return false;
  const std::span<const double> seen = losses.last(steps);
  size_t turns = 0;
  for (size_t i = 2; i < steps; i++) turns += (seen[i] - seen[i - 1]) * (seen[i - 1] - seen[i - 2]) < 0 ? 1 : 0;
  return static_cast<double>(turns) >= options_.turns * static_cast<double>(steps - 2) &&
         mean_change(seen) > options_.swing * change_;
}

Alarm DivergenceMonitor::check(std::span<const double> losses, std::span<const double> gradients,
                               size_t looked_at) const {
  if (!has_jumped_ || losses.empty()) return Alarm::none;
  const std::span<const double> seen = losses.last(std::clamp<size_t>(looked_at, 1, losses.size()));
  const std::span<const double> norms = gradients.last(std::min(seen.size(), gradients.size()));
  if (!are_finite(seen) || (!has_overflows_ && !are_finite(norms))) return Alarm::not_finite;
  if (mean_of(seen) > loss_ + options_.loss_deviations * deviation_) return Alarm::loss;
  for (const double norm : norms) {
    if (gradient_ <= 0 || !std::isfinite(norm)) continue;
    if (norm > options_.gradient_most * gradient_) return Alarm::gradient_large;
    if (norm < options_.gradient_least * gradient_) return Alarm::gradient_small;
  }
  return oscillates(losses) ? Alarm::oscillation : Alarm::none;
}

std::vector<double> DivergenceMonitor::state() const {
  return {has_jumped_ ? 1.0 : 0.0, loss_, deviation_, change_, gradient_};
}

void DivergenceMonitor::restore(const std::vector<double>& state) {
  if (state.size() != 5) {
    throw ValueError(kName, std::to_string(state.size()) + " numbers", "5, as state() gives them",
                     "Remove the checkpoint to begin anew");
  }
  has_jumped_ = state[0] != 0;
  loss_ = state[1];
  deviation_ = state[2];
  change_ = state[3];
  gradient_ = state[4];
}

}  // namespace ashlar::nn
