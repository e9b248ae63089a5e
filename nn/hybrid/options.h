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
};
/// "none", "last_move", …
std::string_view name_of(Forecaster forecaster);
/// Throws ValueError on another name.
Forecaster parse_forecaster(std::string_view name);

/// The defaults are those of the pilot that docs/hybrid.md tells of.
struct HybridOptions {
  int64_t steps = 0;  ///< of the training, predicted ones included; must be said

  Forecaster forecaster = Forecaster::direction;
  int64_t warm_up = 100;      ///< ordinary steps at least before the first jump may be prepared
  double start = 0.5;         ///< nor before this part of the steps; in [0, 1]
  int64_t window = 40;        ///< steps that a forecast looks back over
  int64_t horizon = 10;       ///< steps that a jump goes ahead
  int64_t snapshots = 9;      ///< in the window, for last_move (its last two), line and modes; the others need two
  int64_t rank = 3;           ///< of modes
  int64_t full = 20;          ///< ordinary steps between a jump's verdict and the next jump
  int64_t correct = 50;       ///< ordinary steps after which a jump is judged
  double tolerance = 2.0;     ///< a jump is rejected when the mean loss is larger by more than so many standard errors
  double divergence = 1.6;    ///< rolled back when it is larger by this factor, or not finite
  int64_t guard_every = 5;    ///< steps after a jump between looks at the loss; divides `correct`
  int64_t longest_pause = 8;  ///< each jump that fails doubles the full steps until the next, up to this factor

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
  std::ostream* log = nullptr;         ///< a line for each epoch and each jump

  /// Throws ValueError that names the first option that can't be, and says what could.
  void validate() const;
  /// Snapshots that the forecaster looks at, and steps between them.
  int64_t count() const;
  int64_t stride() const;
};

}  // namespace ashlar::nn
