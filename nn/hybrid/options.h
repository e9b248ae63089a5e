// What a hybrid training can be told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string_view>

#include "runtime/tensor/dtype.h"

namespace ashlar::nn {

/// How the weights of a later step are forecast from those of earlier ones; nn/hybrid/forecast.h has the formulas.
enum class Forecaster : uint8_t {
  none,       ///< no jumps: an ordinary training, to the bit
  last_move,  ///< the last move between two snapshots, extended
  direction,  ///< the move over the whole window, extended
  line,       ///< a least-squares line through the snapshots for each weight
  modes,      ///< dynamic mode decomposition of the moves
  nowcast,    ///< a small network that reads each weight's own last moves (nowcaster.h)
};
/// "none", "last_move", …
std::string_view name_of(Forecaster forecaster);
/// Throws ValueError on another name.
Forecaster parse_forecaster(std::string_view name);

/// How far a jump goes, and when there is one.
enum class JumpLength : uint8_t {
  fixed,     ///< `horizon` steps, whenever one is due
  forecast,  ///< as far as the forecast of the training's loss says, which may hold a jump back
};
/// "fixed", "forecast".
std::string_view name_of(JumpLength length);
/// Throws ValueError on another name.
JumpLength parse_jump_length(std::string_view name);

/// Of the recurrent ensemble that forecasts the training's loss (loss_forecaster.h).
struct LossForecastOptions {
  int64_t members = 5;   ///< of the ensemble
  int64_t hidden = 256;  ///< of each member's units; 32 is enough for small trainings, and 20 times cheaper
  int64_t encoded = 128;
  int64_t horizon = 10;         ///< steps of the units: blocks of losses that are foretold
  int64_t block = 4;            ///< steps of the training in a block, whose mean loss is foretold
  int64_t every = 16;           ///< steps of the training for one of the ensemble's own
  int64_t batch = 32;           ///< past states in each of these
  int64_t memory = 512;         ///< past states that are learnt from, the last ones
  int64_t held_out = 64;        ///< forecasts, the last ones, that say how good they are
  double learning_rate = 3e-3;  ///< of the ensemble, by Adam
  double dropout = 0;           ///< of its units' outputs while it learns, in [0, 1); forecasts have none
  bool layer_norm = false;      ///< of its units' outputs
  double gain = 0.1;  ///< nothing is made of forecasts whose error isn't smaller than the last value's by this part
  double rise = 0.5;  ///< what counts as risen, in deviations of single losses
  uint64_t seed = 1;

  /// Throws ValueError that names the first option that can't be, and says what could.
  void validate() const;
};

/// Of the network that foretells weights (nowcaster.h). It learns before each jump, from that jump's snapshots.
struct NowcastOptions {
  int64_t hidden = 16;          ///< units
  int64_t updates = 20;         ///< of the network, before each jump
  int64_t batch = 4096;         ///< weights, drawn by chance, in each
  double learning_rate = 3e-3;  ///< of the network, by Adam
  uint64_t seed = 1;

  /// Throws ValueError that names the first option that can't be, and says what could.
  void validate() const;
};

/// Of the alarms that take a jump back beside HybridOptions::divergence; divergence_monitor.h says what each looks at.
/// "Before" are the last correct / 2 steps before the jump.
struct DivergenceMonitorOptions {
  double loss_deviations = 3;      ///< how far losses rise, in deviations of those before; infinity: no alarm
  double gradient_most = 100;      ///< norms of gradients over their mean before, above 1; infinity: no alarm
  double gradient_least = 0.01;    ///< the same, in [0, 1); 0: no alarm
  double turns = 0.9;              ///< part of the losses' changes that go the other way than the one before, in (0, 1]
  double swing = 2;                ///< size of those changes over that before; infinity: no alarm
  int64_t oscillation_steps = 16;  ///< whose losses turn; 8 or more, `correct` at most

  /// Throws ValueError that names the first option that can't be, and says what could.
  void validate() const;
};

/// The defaults are those of the pilot that docs/hybrid.md tells of.
struct HybridOptions {
  int64_t steps = 0;  ///< of the training, predicted ones included; must be said

  Forecaster forecaster = Forecaster::direction;
  int64_t warm_up = 100;  ///< ordinary steps at least before the first jump may be prepared
  double start = 0.5;     ///< nor before this part of the steps; in [0, 1]
  int64_t window = 40;    ///< steps that a forecast looks back over
  int64_t horizon = 10;   ///< steps that a jump goes ahead
  int64_t snapshots = 9;  ///< in the window, for last_move (its last two), line, modes and nowcast; the others need two
  int64_t rank = 3;       ///< of modes
  NowcastOptions nowcast = {};
  int64_t full = 20;        ///< ordinary steps between a jump's verdict and the next jump
  int64_t correct = 50;     ///< ordinary steps after which a jump is judged
  double tolerance = 2.0;   ///< a jump is rejected when the mean loss is larger by more than so many standard errors
  double divergence = 1.6;  ///< rolled back when it is larger by this factor and by the next, or not finite
  double divergence_errors = 3.0;  ///< standard errors, by which a few losses after the jump are off by chance
  int64_t guard_every = 5;         ///< steps after a jump between looks at the loss; divides `correct`
  int64_t longest_pause = 8;       ///< each jump that fails doubles the full steps until the next, up to this factor
  /// Further alarms, at the same looks. `correct` is 16 then, or more. None: docs/hybrid.md says why.
  std::optional<DivergenceMonitorOptions> monitor = {};

  JumpLength length = JumpLength::fixed;
  /// With JumpLength::forecast: a jump is made where LossForecast::confidence is at least this, and goes
  ///   horizon · confidence² · (1 - min(0.1 · consecutive, 0.5))
  /// steps, one at least (modes: a multiple of its stride), where `consecutive` counts the jumps in a row of which none
  /// was held back and none failed. One that is held back is asked for again after another window.
  double confidence = 0.85;
  LossForecastOptions loss_forecast = {};
  /// With JumpLength::forecast: how many of the last jumps' residuals are kept, for jumps from similar states
  /// (residuals.h). A jump of L steps with C corrections takes L / (L + C) of what the forecast of the corrections' end
  /// was off by. 0: none; docs/hybrid.md has a case where they did harm.
  int64_t residuals = 0;
  int64_t residual_rank = 8;

  std::optional<double> average = {};  ///< decay of an exponential average of the weights, which validate() sees
  /// Steps are captured once and replayed. Default: on CUDA, unless the loss does what can't be captured.
  std::optional<bool> replay = {};
  /// f16 or bf16: forward and backward compute in it, as fit()'s.
  std::optional<DType> amp = {};

  /// Written every `checkpoint_every` ordinary steps and at the end. Where the file is there, the training goes on from
  /// it, in the middle of a phase too.
  std::filesystem::path checkpoint = {};
  int64_t checkpoint_every = 1000;
  std::filesystem::path metrics = {};  ///< CSV with a row for each epoch, as fit()'s
  std::filesystem::path phases = {};   ///< CSV with a row for each phase
  std::filesystem::path plot = {};     ///< SVG of the phases (phase_plot.h), written anew with the CSV
  /// Folder for TensorBoard: epochs as fit()'s, and what each phase did, at the steps, predicted ones included.
  std::filesystem::path events = {};
  std::ostream* log = nullptr;  ///< a line for each epoch and each jump

  /// Throws ValueError that names the first option that can't be, and says what could.
  void validate() const;
  /// Snapshots that the forecaster looks at, and steps between them.
  int64_t count() const;
  int64_t stride() const;
  /// Steps of a jump by the formula above, 0 below the threshold.
  int64_t jump_length(double forecast_confidence, int64_t consecutive) const;
};

}  // namespace ashlar::nn
