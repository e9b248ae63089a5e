// Forward and backward in 16 bits, weights and updates in f32 (Micikevicius et al. 2018).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "nn/optim/optimizer.h"

namespace ashlar::nn {

/// Loss scaling, as torch.amp.GradScaler, whose names and numbers these are.
struct LossScaling {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
};

/// While backward() runs, the optimiser's f32 parameters are 16-bit copies (one cast of each arena), so that all
/// modules compute in that dtype; their gradients then come to the f32 arenas. Before and after it the network is what
/// it was: evaluation, checkpoints, averages and the optimiser see f32 weights.
///
///   nn::MixedPrecision amp(optimizer, DType::f16);
///   optimizer.zero_grad();
///   const Var loss = amp.backward([&] { return nn::cross_entropy(model(x.to(amp.dtype())), labels); });
///   amp.step();
///
/// With loss scaling the loss' gradient begins at a scale instead of 1, so that small gradients don't vanish in f16.
/// Where a gradient isn't finite, the step changes nothing (no weight, moment or count) and the scale shrinks; after
/// `growth_interval` steps that went well it grows. All of it lies on the device: nothing waits for it, and a step may
/// be captured. It costs a copy of the optimiser's state. bf16 has f32's range and needs none.
///
/// A loss that is a sum over many elements, or a small difference, is better computed in f32: give it
/// `logits.to(DType::f32)`. Buffers (running statistics) stay f32.
class MixedPrecision {
  class Lent;

 public:
  /// The 16-bit copies in the parameters' place, for as long as it lives.
  class Autocast {
   public:
    Autocast();
    Autocast(Autocast&&) noexcept;
    ~Autocast();

   private:
    friend class MixedPrecision;
    std::vector<std::unique_ptr<Lent>> lent_;
  };

  /// `scaling` undefined: for f16 the defaults, for bf16 none. The optimiser must outlive it. Throws DTypeError unless
  /// dtype is f16 or bf16, ValueError where no parameter is f32, or on factors or an interval that can't be.
  MixedPrecision(Optimizer& optimizer, DType dtype, std::optional<LossScaling> scaling = {});

  DType dtype() const { return dtype_; }
  /// Adds the gradients of what `loss` computes (one element) to those at hand, as ashlar::backward() does. Returns the
  /// loss' value, f32. Throws what these throw; the parameters are themselves again then.
  Var backward(const std::function<Var()>& loss);
  /// To compute through these parameters where nothing is to be learnt: gradients that reach them meanwhile are lost.
  Autocast autocast();
  /// The optimiser's step, unless a gradient since the last one isn't finite.
  void step();

  /// Read from the device: waits for it. 1 without scaling.
  double scale() const;
  /// For checkpoints: "scale", "growth_tracker"; empty without scaling.
  NamedTensors state_dict() const;
  /// Throws ValueError, before anything is written.
  void load_state_dict(const NamedTensors& state) const;

 private:
  struct Twin {
    const ParameterArena* arena;
    Tensor values, gradients;  // rank 1, as the arena's, 16 bits
  };
  void make_twins();
  void take_gradients(const Twin& twin, const std::vector<bool>& had_gradient);
  void update_scale() const;

  Optimizer& optimizer_;
  DType dtype_;
  std::optional<LossScaling> scaling_;
  std::vector<Twin> twins_;
  Tensor scale_, growth_tracker_;  // rank 0, f32; with scaling
  Tensor finite_;                  // rank 0, bool: all gradients since the last step
};

}  // namespace ashlar::nn
