// Training in which some steps are computed and some are foretold.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "nn/hybrid/divergence_monitor.h"
#include "nn/hybrid/loss_forecaster.h"
#include "nn/hybrid/nowcaster.h"
#include "nn/hybrid/options.h"
#include "nn/hybrid/residuals.h"
#include "nn/hybrid/snapshots.h"
#include "nn/hybrid/statistics.h"
#include "nn/optim/precision.h"
#include "nn/optim/weight_average.h"
#include "nn/trainer/event_file.h"
#include "nn/trainer/fit.h"
#include "nn/trainer/replayed_step.h"
#include "nn/trainer/session.h"

namespace ashlar::nn {

struct HybridReport {
  std::vector<FitEpoch> epochs;  ///< as fit()'s; the last may be a part of one
  std::vector<PhaseRecord> phases;
  HybridStatistics statistics;
  LossForecastReport loss_forecast = {};  ///< with JumpLength::forecast
};

/// Trains in phases:
///
///   warm-up   ordinary steps, until training is under way
///   full      ordinary steps; the weights of the last `window` of them are kept as snapshots
///   predict   the weights go where the forecaster says they will be in `horizon` steps, and the schedule goes along;
///             no batch is read, nothing is computed forward or backward, the optimiser's state stays
///   correct   ordinary steps, then the jump is judged: accepted, unless the mean loss of the phase's second half is
///             larger than that before the jump by `tolerance` standard errors; then full again
///
/// A loss that is `divergence` times that before the jump, and `divergence_errors` standard errors above it, or not
/// finite, takes the training back to before the jump. A jump that fails, either way, doubles the full steps until the
/// next one. So a network that can't be foretold costs little more than without a forecaster. With
/// HybridOptions::monitor its alarms take the training back likewise.
///
/// With JumpLength::forecast a LossForecaster learns in all phases how this training's loss goes on, and says of each
/// jump that is due whether it is made and how far it goes (HybridOptions::confidence).
///
/// Weights, snapshots and losses stay on the device. The host reads the last losses before a jump, every `guard_every`
/// steps of corrections, and at checkpoints and epochs.
class HybridTrainer {
 public:
  /// Training::loss gets its batch on the parameters' device. All of `training` outlives the trainer. Throws ValueError
  /// on options that can't be, or an optimiser made before the model was moved.
  HybridTrainer(const Training& training, const HybridOptions& options);

  /// Trains to the end, from the checkpoint where there is one: killed at any moment and called again with the same
  /// arguments, everything anew, it ends with the same bits as one that nobody interrupted. With an average, the model
  /// has the averaged weights afterwards. To be called once.
  ///
  /// Throws DivergenceError where a loss isn't finite and no jump is to blame, ValueError on a checkpoint of another
  /// training or of other options.
  HybridReport train();
  /// After train(): puts the trained weights in the place of their average.
  void use_trained_weights();

 private:
  void resume();
  void save();
  std::vector<double> option_numbers() const;
  NamedTensors residual_state() const;
  void load_residual_state(const NamedTensors& state);

  void ordinary_step();
  void compute(const std::vector<Tensor>& batch);
  void finish_epoch(int64_t batches);

  Phase phase() const { return records_.back().phase; }
  void begin(Phase phase, int64_t steps = 0);
  void write_phase_events();
  void count_time();
  void start_full(int64_t interval);
  void take_snapshot_if_due();
  bool jump_is_due() const;
  int64_t forecast_length();
  void jump(int64_t steps);
  TrainingPlace place() const;
  void learn_losses();
  std::vector<double> coefficients(int64_t steps) const;
  std::vector<Tensor> weights_after(int64_t steps) const;
  bool roll_back_if_diverged();
  void judge();
  void longer_pause();
  void look();

  struct Mean {
    double value = 0;
    double variance = 0;  // of the mean
  };
  /// Of steps that were computed, the newest last.
  struct Steps {
    std::vector<double> losses, gradients;  // norms; none without a monitor
    Mean mean_of_last(int64_t count) const;
  };
  Steps recent(int64_t count) const;
  Mean recent_loss(int64_t count) const { return recent(count).mean_of_last(count); }

  Training training_;
  HybridOptions options_;
  Device device_;
  TrainingSession session_;
  Precision precision_;
  std::optional<WeightAverage> average_;
  SnapshotWindow window_;
  GoodState good_;
  std::optional<Nowcaster> nowcaster_;
  std::optional<LossForecaster> losses_ahead_;
  std::optional<ResidualStore> residuals_;
  std::optional<DivergenceMonitor> monitor_;
  struct {
    TrainingState key{};
    std::vector<Tensor> weights;  // for the end of corrections, of each arena; none between jumps
  } foretold_;                    // with residuals
  std::vector<PhaseRecord> records_;
  std::chrono::steady_clock::time_point mark_;  // time up to here is in records_

  int64_t position_ = 0;     // steps, predicted ones included
  int64_t ordinary_ = 0;     // steps that were computed
  int64_t since_ = 0;        // of these since the last jump, return or end of warm-up
  int64_t interval_ = 0;     // of these until the next jump
  int64_t pause_ = 1;        // factor of the full steps in it
  int64_t consecutive_ = 0;  // jumps, none of which failed or was held back
  int64_t discarded_ = 0;    // batches of this epoch that a return took back
  Mean before_;              // the jump
  int64_t jumped_ = 0;       // its steps
  double confidence_ = 0;    // of the forecast that made it
  struct {
    int64_t position = 0, schedule = 0, epoch = 0, discarded = 0;
    Tensor loss;
  } kept_;  // with good_
  bool epoch_started_ = false;
  std::vector<int64_t> epoch_ends_;  // positions
  std::optional<EventFile> events_;

  // Rings of the last steps on the device, f32 [1 or 2, correct]: losses and, with a monitor, gradient norms. One
  // tensor, so that a look is one transfer.
  Tensor steps_;
  Tensor last_loss_, last_norm_;  // rank 0, f32: where a step leaves its own
  ReplayedStep step_;
};

}  // namespace ashlar::nn
