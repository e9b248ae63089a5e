// What the phases of a hybrid training did and cost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

enum class Phase : uint8_t { warm_up, full, predict, correct };
std::string_view name_of(Phase phase);

/// Of a jump, said when its corrections end; `none` of all other phases and of one that runs.
enum class Verdict : uint8_t { none, accepted, rejected, rolled_back };
std::string_view name_of(Verdict verdict);

/// Why a jump was rolled back, where a DivergenceMonitor said so; in the order that it looks at them.
enum class Alarm : uint8_t { none, not_finite, loss, gradient_large, gradient_small, oscillation };
std::string_view name_of(Alarm alarm);

/// One stay in a phase.
struct PhaseRecord {
  int64_t step = 0;  ///< of the training, predicted ones counted, when it began
  Phase phase = Phase::warm_up;
  int64_t steps = 0;   ///< in it so far
  double seconds = 0;  ///< forecasts, copies and looks at the loss included, validation and checkpoints not
  double loss = 0;     ///< mean of its last losses when it ended; of a predict phase, the last before it
  Verdict verdict = Verdict::none;
  double forecast_seconds = 0;  ///< of `seconds`: the loss forecaster's learning and foretelling
  double confidence = 0;        ///< of a predict phase whose length was forecast
  int64_t held_back = 0;        ///< times that a jump was due here and its forecast said no
  Alarm alarm = Alarm::none;    ///< with Verdict::rolled_back
};

/// Whether a record's steps were taken back: the phase behind it began where they did.
bool is_rolled_back(const std::vector<PhaseRecord>& records, size_t i);

struct PhaseTotal {
  int64_t visits = 0;
  int64_t steps = 0;
  double seconds = 0;
};

struct HybridStatistics {
  PhaseTotal warm_up, full, predict, correct;
  int64_t accepted = 0, rejected = 0, rolled_back = 0;  ///< jumps
  int64_t alarms = 0;                                   ///< of a monitor, among those rolled back
  int64_t held_back = 0;                                ///< jumps that were due and weren't made
  double seconds_saved = 0;     ///< steps of jumps that weren't rolled back, at the mean cost of an ordinary step
  double seconds_spent = 0;     ///< in jumps, in forecasts of the loss, and in corrections that were rolled back
  double forecast_seconds = 0;  ///< of these, in forecasts of the loss
  static HybridStatistics of(const std::vector<PhaseRecord>& records);
  /// What they were when each of the records ended. What became of a jump is counted from its own record on.
  static std::vector<HybridStatistics> after_each(const std::vector<PhaseRecord>& records);
  /// Steps with forward and backward pass.
  int64_t ordinary_steps() const { return warm_up.steps + full.steps + correct.steps; }
  /// Two lines for people; one more where a monitor had alarms, and with forecasts of the loss.
  std::string str() const;
};

/// CSV with a row for each record. Throws WriteError.
void write_phases(const std::filesystem::path& file, const std::vector<PhaseRecord>& records);

/// For checkpoints: f64 [records, 10], and back. Throws ValueError on another shape.
Tensor to_tensor(const std::vector<PhaseRecord>& records);
std::vector<PhaseRecord> records_from(const Tensor& table);

}  // namespace ashlar::nn
