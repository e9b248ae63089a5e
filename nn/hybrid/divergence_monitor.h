// Alarms that take a jump back without waiting for its verdict.
#pragma once

#include <span>
#include <vector>

#include "nn/hybrid/options.h"
#include "nn/hybrid/statistics.h"

namespace ashlar::nn {

/// Looks at losses and gradient norms of the steps since a jump, beside those before it:
///
///   not finite      one of them isn't a finite number
///   loss            the losses' mean is above that before by more than `loss_deviations` deviations of single losses
///   gradient large  a norm is more than `gradient_most` times the mean before
///   gradient small  a norm is less than `gradient_least` times that
///   oscillation     of the last `oscillation_steps` losses' changes a part of `turns` and more goes the other way than
///                   the change before, and changes are larger than those before by the factor `swing`
///
/// All of it is arithmetic on the host with numbers that were read for other reasons.
class DivergenceMonitor {
 public:
  /// `has_overflows`: gradients that aren't finite are no alarm, since such a step is left out (loss scaling does it to
  /// find its scale). Throws ValueError on options that can't be.
  explicit DivergenceMonitor(const DivergenceMonitorOptions& options, bool has_overflows = false);

  /// The training jumps after these steps, a loss and a norm of each. Throws ValueError unless there is one at least,
  /// and as many of both.
  void jump(std::span<const double> losses, std::span<const double> gradients);
  /// Of all steps since the jump, the newest last, of which the last `looked_at` weren't looked at before: the first of
  /// the alarms above. None before a jump.
  Alarm check(std::span<const double> losses, std::span<const double> gradients, size_t looked_at) const;

  /// For checkpoints: what was before the jump.
  std::vector<double> state() const;
  /// Throws ValueError unless state() has as many.
  void restore(const std::vector<double>& state);

 private:
  bool oscillates(std::span<const double> losses) const;

  DivergenceMonitorOptions options_;
  bool has_overflows_;
  bool has_jumped_ = false;
  double loss_ = 0, deviation_ = 0, change_ = 0;  // of losses: mean, deviation, mean size of changes
  double gradient_ = 0;                           // mean norm
};

}  // namespace ashlar::nn
