// Recurrent networks that foretell a sample's loss from those of its last visits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/module.h"
#include "nn/modules/linear.h"
#include "nn/optim/adam.h"
#include "runtime/tensor/random.h"

namespace ashlar::nn {

struct SampleEnsembleOptions {
  int64_t members = 4;
  int64_t hidden = 8;           ///< units of each member
  int64_t visits = 6;           ///< of a sample, the last ones, that are looked back at
  double learning_rate = 1e-2;  ///< of the ensemble, by Adam
  double disagreement = 1;      ///< deviations between the members by which a forecast is raised
  double gain = 0.1;  ///< nothing is made of forecasts whose error isn't smaller than the last value's by this

  /// Throws ValueError that names the first option that can't be, and says what could.
  void validate() const;
};

/// How good forecasts were whose outcome the ensemble hadn't learnt from: root mean squares over the last 50 batches or
/// so, in logarithms of losses.
struct SampleEnsembleReport {
  double error = 0;
  double last_error = 0;  ///< of the forecast that the loss is what it was at the last visit
  bool is_used = false;
  double gain() const { return last_error > 0 ? 1 - error / last_error : 0; }
  /// A line for people.
  std::string str() const;
};

/// Several gated recurrent units (Cho et al. 2014), the same for all samples, read the logarithms y of a sample's last
/// losses, and say at each visit t by how much the next one will differ:
///
///   h[m,t] = GRU_m((y[t] / 4, y[t] - y[t-1], 1 where there was a visit before), h[m,t-1])
///   next[m,t] = y[t] + head[m] · h[m,t]
///
/// They learn from the samples that are visited, as they are visited: all steps of a window but the last have their
/// outcome in it, so one pass forward both learns and foretells. Each member learns from its own half of the samples
/// (bootstrap, Lakshminarayanan et al. 2017), which is what makes them disagree. Heads are 0 at first: the last value.
class SampleEnsemble : public ModuleOf<SampleEnsemble> {
 public:
  /// Throws as options.validate().
  SampleEnsemble(const SampleEnsembleOptions& options, Random& random, Device device);

  /// windows [batch, visits], logarithms, kNone before a sample's first visit; to [visits, members, batch].
  Var forward(const Tensor& windows) const;

  static constexpr float kNone = -100;

 protected:
  void members(Members& members) override;

 private:
  int64_t members_, hidden_;
  Linear input_;
  Var weight_hh_, bias_hh_, head_weight_, head_bias_;
};

/// The ensemble with its training and each sample's history, on the device. Nothing comes to the host, and a visit may
/// be captured into a graph.
class SampleHistory {
 public:
  SampleHistory(const SampleEnsembleOptions& options, int64_t samples, uint64_t seed, Device device);

  /// The samples `rows` (i64 [batch]) have just had these losses (f32 [batch]; of several places of one sample the last
  /// counts): judges what was foretold of them, learns, and returns the forecasts of their next losses, f32 [batch]:
  ///
  ///   exp(mean of the members + disagreement · their deviation), or the losses while held-out errors aren't smaller
  ///   than the last value's by `gain`
  Tensor visit(const Tensor& rows, const Tensor& losses);

  /// Waits for the device.
  SampleEnsembleReport report() const;
  const SampleEnsemble& ensemble() const { return ensemble_; }

  /// For checkpoints. Tensors of the history and the errors share storage.
  NamedTensors state_dict() const;
  /// Throws ValueError or ShapeError, before anything is written, on another history's.
  void load_state_dict(const NamedTensors& state);

 private:
  Tensor learn(const Tensor& windows, const Tensor& rows);
  void judge(const Tensor& known, const Tensor& now);
  NamedTensors own_state() const;

  SampleEnsembleOptions options_;
  Random random_;  // of first values
  SampleEnsemble ensemble_;
  Adam adam_;
  Tensor history_;  // f32 [samples · (1 + visits)]: what was foretold at the last visit, then losses; logarithms
  Tensor halves_;   // u8 [samples, members]: whether a member learns from a sample
  Tensor order_;    // i64 [1, batch]: 0, 1, 2, …; made at the first visit
  Tensor columns_;  // i64 [1, 1 + visits]: 0, 1, 2, …
  Tensor error_, last_error_, judged_;  // f32, rank 0: fading sums of squares, and of how many
};

}  // namespace ashlar::nn
