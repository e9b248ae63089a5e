// Forecasts of a training's own loss, by an ensemble that learns from that very training.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "nn/hybrid/loss_ensemble.h"
#include "nn/hybrid/options.h"
#include "nn/hybrid/step_recorder.h"
#include "nn/hybrid/training_state.h"
#include "nn/optim/adam.h"
#include "nn/trainer/replayed_step.h"

namespace ashlar::nn {

/// What is foretold at a state. A level is the mean of the last 16 losses, a unit the deviation of the last 64.
struct LossForecast {
  std::vector<double> path;  ///< mean loss of each of the coming blocks
  double change = 0;         ///< mean of the path minus the level, in units
  double deviation = 0;      ///< of that; 1.645 of them either way hold 9 of 10 outcomes
  double confidence = 0;     ///< probability that the path's mean isn't above the level by more than `rise` units
  bool is_used = false;      ///< whether held-out forecasts were good enough; without, confidence is 0
};

/// How good forecasts were that the ensemble hadn't learnt from.
struct LossForecastReport {
  int64_t forecasts = 0;   ///< whose outcome is known
  int64_t updates = 0;     ///< of the ensemble
  double error = 0;        ///< root mean square of the last held-out changes' errors, in units
  double level_error = 0;  ///< of the forecast that the level stays
  double coverage = 0;     ///< part of all outcomes within their 90 % interval, of those that had one
  double confidence = 0;   ///< mean of what was said, used or not
  double came_true = 0;    ///< part of the same whose loss didn't rise: the two agree when it is calibrated
  double gain() const { return level_error > 0 ? 1 - error / level_error : 0; }
  /// Two lines for people.
  std::string str() const;
};

/// Where the training is at the last step that was kept.
struct TrainingPlace {
  Phase phase = Phase::warm_up;
  int64_t steps_in_phase = 0;
  int64_t position = 0, steps = 1;  ///< of the whole training
};

/// At the end of each block of steps a state is made (training_state.h) and its path foretold. When the path has come
/// to pass, the forecast is judged, and only then is the state learnt from: so all judgements are of held-out
/// forecasts. Each member learns from its own half of the states (bootstrap, Lakshminarayanan et al. 2017).
///
///   deviation² = variance between members + what the last held-out errors had beyond it
///   confidence = Φ((rise - change) / deviation)
///
/// Losses and gradient norms are read in groups of `every` steps. The same numbers give the same bits.
class LossForecaster {
 public:
  /// The optimiser is that of the training, and outlives it. Throws ValueError on options that can't be.
  LossForecaster(const LossForecastOptions& options, const Optimizer& optimizer, Device device,
                 std::optional<bool> replay);

  /// Within a step, which may be captured: behind the update, with its loss (rank 0, f32).
  void measure(const Tensor& loss) const { recorder_.measure(loss); }
  /// The norm of gradients that it left, rank 0, on the device.
  Tensor last_norm() const { return recorder_.last().select(0, 1); }
  /// Behind each step.
  void keep() { recorder_.keep(); }
  /// Whether learn() has to be called before the next step.
  bool is_due() const { return recorder_.waiting() >= options_.every; }
  /// Reads, foretells, judges, learns. Waits for the device.
  void learn(const TrainingPlace& place);
  /// The forecast of now, after learn(). Without any, before 16 steps.
  LossForecast forecast(const TrainingPlace& place);
  /// The state of now, after learn() of one step at least. Throws ValueError without.
  TrainingState state(const TrainingPlace& place) const { return sample_at(recorder_.count(), place).state; }
  /// The training jumps: paths that began before don't go on behind it.
  void jump();
  /// It goes back to before that jump.
  void go_back();

  LossForecastReport report() const;
  const LossEnsemble& ensemble() const { return ensemble_; }

  /// For checkpoints.
  NamedTensors state_dict() const;
  /// Throws ValueError, ShapeError.
  void load_state_dict(const NamedTensors& state);

 private:
  struct Sample {
    int64_t count = 0;  // steps until then
    TrainingState state{};
    double level = 0, unit = 1;
    double change = 0, variance = 0, deviation = 0, confidence = 0;  // foretold; deviation 0: wasn't known
    std::vector<double> path;  // in units: foretold, and once it has come to pass what it was
  };
  struct Judgement {
    double count, error, truth, variance;
  };
  Sample sample_at(int64_t count, const TrainingPlace& place) const;
  void foretell(std::vector<Sample>& samples);
  bool come_to_pass(Sample& sample);
  void update();
  double unexplained() const;
  bool is_calibrated() const;
  std::vector<double> row_of(const Sample& sample) const;
  Sample sample_from(const double* row) const;

  LossForecastOptions options_;
  Device device_;
  StepRecorder recorder_;
  Random random_;  // of first values
  LossEnsemble ensemble_;
  Adam adam_;
  std::deque<Sample> waiting_, memory_;
  std::deque<Judgement> judged_;
  int64_t seen_ = 0, updates_ = 0;  // steps, ever
  int64_t segment_ = 0;             // steps at the last jump or return
  struct {
    double all = 0, with_interval = 0, covered = 0, confidence = 0, true_ones = 0;
  } totals_;
  Tensor paths_;  // f32 [horizon, members, rows]: what foretelling leaves
  ReplayedStep foretelling_, updating_;
};

}  // namespace ashlar::nn
