// How a training stands, as 64 numbers that are comparable between trainings.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "nn/hybrid/statistics.h"

namespace ashlar::nn {

inline constexpr int64_t kStateFeatures = 64;
/// Steps that a state looks back over at most.
inline constexpr size_t kStateWindow = 256;

using TrainingState = std::array<float, kStateFeatures>;

/// Lengths of whole arenas, as they were read from the device.
struct ArenaNorms {
  double weights = 0;               ///< root mean square
  std::array<double, 2> moments{};  ///< Euclidean norms of the optimiser's first two; 0 of one that it hasn't
};

/// What a state is computed from: numbers of the steps so far, the newest last.
struct TrainingMeasures {
  std::span<const double> losses;     ///< at least one
  std::span<const double> gradients;  ///< norms, as many
  std::span<const double> rates;      ///< learning rates, as many
  ArenaNorms now, before;             ///< at the last two readings
  Phase phase = Phase::warm_up;
  int64_t steps_in_phase = 0;
  double progress = 0;  ///< part of the training that is over
};

/// Of one value at least.
double mean_of(std::span<const double> values);

/// A feature's name and what it is computed from.
struct StateFeature {
  std::string_view name, formula;
};
/// All of them, in the order of a state's numbers.
const std::array<StateFeature, kStateFeatures>& state_features();
/// The same as a table in Markdown; docs/hybrid.md has it.
std::string state_features_table();

/// Finite whatever comes, in [-8, 8]. Losses and norms enter as differences over their own spread, or as logarithms of
/// ratios: losses times any positive number have the same features but for loss.size. Where fewer steps were taken than
/// a window has, it is those. Throws ValueError without a loss, or where spans differ in length.
TrainingState training_state(const TrainingMeasures& measures);

}  // namespace ashlar::nn
