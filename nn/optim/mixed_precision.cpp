#include "nn/optim/mixed_precision.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "MixedPrecision";

void check(const LossScaling& scaling) {
  if (scaling.init_scale > 0 && std::isfinite(scaling.init_scale) && scaling.growth_factor > 1 &&
      scaling.backoff_factor > 0 && scaling.backoff_factor < 1 && scaling.growth_interval > 0) {
    return;
  }
  throw ValueError(
      kName,
      "init_scale " + std::to_string(scaling.init_scale) + ", growth_factor " + std::to_string(scaling.growth_factor) +
          ", backoff_factor " + std::to_string(scaling.backoff_factor) + ", growth_interval " +
          std::to_string(scaling.growth_interval),
      "a positive scale and interval, growth above 1 and backoff between 0 and 1", "Start with the defaults");
}

}  // namespace

/// A twin's values in the parameters' place, for a scope.
class MixedPrecision::Lent {
 public:
  explicit Lent(const Twin& twin) : twin_(twin) {
    const std::vector<Var>& parameters = twin.arena->parameters();
    for (size_t i = 0; i < parameters.size(); i++) {
      detail::VarState& state = *parameters[i].state();
      kept_.push_back({state.value, state.grad, state.grad_slot});
      state.value = twin.arena->part(twin.values, i);
      state.grad_slot = twin.arena->part(twin.gradients, i);
      state.grad = Tensor();
    }
  }
  ~Lent() {
    for (size_t i = 0; i < kept_.size(); i++) {
      detail::VarState& state = *twin_.arena->parameters()[i].state();
      state.value = kept_[i].value;
      state.grad = kept_[i].grad;
      state.grad_slot = kept_[i].grad_slot;
    }
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  /// Which parameters had gradients before.
  std::vector<bool> had_gradient() const {
    std::vector<bool> result;
    for (const Kept& kept : kept_) result.push_back(kept.grad.defined());
    return result;
  }
  /// The parameters that were reached will have (f32) gradients. False where none was.
  bool complete() {
    const std::vector<Var>& parameters = twin_.arena->parameters();
    bool any = false;
    for (size_t i = 0; i < kept_.size(); i++) {
      if (parameters[i].grad().defined()) {
        any = true;
        kept_[i].grad = kept_[i].grad_slot;
      } else {
        parameters[i].grad_slot().fill_(0);
      }
    }
    return any;
  }

 private:
  struct Kept {
    Tensor value, grad, grad_slot;
  };
  const Twin& twin_;
  std::vector<Kept> kept_;
};

MixedPrecision::Autocast::Autocast() = default;
MixedPrecision::Autocast::Autocast(Autocast&&) noexcept = default;
MixedPrecision::Autocast::~Autocast() = default;

MixedPrecision::MixedPrecision(Optimizer& optimizer, DType dtype, std::optional<LossScaling> scaling)
    : optimizer_(optimizer), dtype_(dtype), scaling_(scaling) {
  if (dtype != DType::f16 && dtype != DType::bf16) {
    throw DTypeError(kName, std::string(name_of(dtype)), "f16 or bf16", "bf16 needs no loss scaling");
  }
  if (!scaling_ && dtype == DType::f16) scaling_ = LossScaling();
  if (scaling_) check(*scaling_);
  make_twins();
  if (twins_.empty()) {
    throw ValueError(kName, "an optimiser without f32 parameters", "weights in f32, of which it makes copies",
                     "Call model.to(DType::f32) first");
  }
  const Device device = twins_[0].values.device();
  if (scaling_) {
    scale_ = Tensor::full({}, scaling_->init_scale, DType::f32, device);
    growth_tracker_ = Tensor::zeros({}, DType::f32, device);
    finite_ = Tensor::ones({}, DType::boolean, device);
  }
}

/// Anew where parameters have moved.
void MixedPrecision::make_twins() {
  std::vector<const ParameterArena*> arenas = optimizer_.parameter_arenas();
  std::erase_if(arenas, [](const ParameterArena* arena) { return arena->values().dtype() != DType::f32; });
  const bool same = std::ranges::equal(arenas, twins_, [](const ParameterArena* arena, const Twin& twin) {
    return arena == twin.arena && arena->values().shape() == twin.values.shape() &&
           arena->values().device() == twin.values.device();
  });
  if (same) return;
  twins_.clear();
  for (const ParameterArena* arena : arenas) {
    const Tensor& values = arena->values();
    twins_.push_back({arena, Tensor::zeros(values.shape(), dtype_, values.device()),
                      Tensor::zeros(values.shape(), dtype_, values.device())});
  }
}

MixedPrecision::Autocast MixedPrecision::autocast() {
  make_twins();
  Autocast result;
  for (const Twin& twin : twins_) {
    twin.values.copy_(twin.arena->values().to(dtype_));
    result.lent_.push_back(std::make_unique<Lent>(twin));
  }
  return result;
}

Var MixedPrecision::backward(const std::function<Var()>& loss) {
  Tensor value;
  std::vector<std::vector<bool>> had_gradient;
  std::vector<bool> reached;
  {
    const Autocast scope = autocast();
    const Var root = loss().to(DType::f32);
    value = root.value();
    BackwardOptions options;
    if (scaling_) options.seed = scale_.to(root.device()).broadcast_to(root.shape()).contiguous();
    ashlar::backward(root, options);
    for (const std::unique_ptr<Lent>& one : scope.lent_) {
      had_gradient.push_back(one->had_gradient());
      reached.push_back(one->complete());
    }
  }
  const NoGrad no_grad;
  for (size_t i = 0; i < twins_.size(); i++) {
    if (reached[i]) take_gradients(twins_[i], had_gradient[i]);
  }
  return Var(value);
}

/// The arena's gradients, f32, += the twin's / scale.
void MixedPrecision::take_gradients(const Twin& twin, const std::vector<bool>& had_gradient) {
  Tensor gradients = twin.gradients.to(DType::f32);
  if (scaling_) {
    finite_.copy_(logical_and(finite_, all(isfinite(gradients)).to(finite_.device())));
    gradients = div(gradients, scale_.to(gradients.device()));
  }
  const Tensor& sums = twin.arena->gradients();
  if (std::ranges::find(had_gradient, true) == had_gradient.end()) return sums.copy_(gradients);
  for (size_t i = 0; i < had_gradient.size(); i++) {
    if (!had_gradient[i]) twin.arena->part(sums, i).fill_(0);  // what lies there is of an earlier step
  }
  sums.copy_(add(sums, gradients));
}

void MixedPrecision::step() {
  if (!scaling_) return optimizer_.step();
  const NoGrad no_grad;
  static_cast<void>(optimizer_.parameter_arenas());  // the state is where it will be
  const std::vector<Tensor> state = optimizer_.arena_state();
  std::vector<Tensor> before;
  before.reserve(state.size());
  for (const Tensor& tensor : state) before.push_back(tensor.clone());
  optimizer_.step();
  // No factor of 0 could do it: 0 · NaN is NaN.
  for (size_t i = 0; i < state.size(); i++) {
    state[i].copy_(where(finite_.to(state[i].device()), state[i], before[i]));
  }
  update_scale();
  finite_.fill_(1);
}

// scale · backoff and tracker = 0 where a gradient wasn't finite; else tracker + 1, and at growth_interval scale ·
// growth (unless that is infinite) and tracker = 0
void MixedPrecision::update_scale() const {
  const Tensor count = affine(growth_tracker_, 1.0, 1.0), larger = affine(scale_, scaling_->growth_factor, 0.0);
  const Tensor due = ge(count, static_cast<double>(scaling_->growth_interval));
  const Tensor kept = where(logical_and(due, isfinite(larger)), larger, scale_);
  growth_tracker_.copy_(where(logical_and(finite_, logical_not(due)), count, 0.0));
  scale_.copy_(where(finite_, kept, affine(scale_, scaling_->backoff_factor, 0.0)));
}

double MixedPrecision::scale() const { return scaling_ ? scale_.item() : 1; }

NamedTensors MixedPrecision::state_dict() const {
  if (!scaling_) return {};
  return {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
}

void MixedPrecision::load_state_dict(const NamedTensors& state) const {
  const NamedTensors targets = state_dict();
  const bool fits = std::ranges::equal(state, targets, [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.shape() == b.second.shape() && a.second.dtype() == b.second.dtype();
  });
  if (!fits) {
    throw ValueError("MixedPrecision::load_state_dict", std::to_string(state.size()) + " tensors",
                     std::to_string(targets.size()) + " numbers of its own", "Load what was saved with the same dtype");
  }
  for (size_t i = 0; i < targets.size(); i++) targets[i].second.copy_(state[i].second);
}

}  // namespace ashlar::nn
