// One step of an optimiser over a flat arena of parameters, in place. What changes from step to step (learning rate,
// step count) is a rank-0 tensor on the device, so that a recorded step can be replayed.
//
// Gradients are scaled first (by what clipping to a norm, accumulation and loss scaling make together) and then held
// between -max_grad and max_grad: g = clamp(grad_scale grad, max_grad).
#include "schedules/elementwise.h"

namespace ashlar::dsl {

/// NaN and, without a limit, infinities stay what they are.
inline Value clipped(const Value& grad, const Value& scale, const Value& limit) {
  return clamp(grad * scale, -limit, limit);
}

// Weight decay is added to the gradient (coupled), or shrinks the parameter by itself (Loshchilov & Hutter 2019).
enum class Decay { coupled, decoupled };

enum class Momentum { classic, nesterov };

// SGD with momentum (Sutskever et al. 2013), as torch.optim.SGD without dampening:
//   g = clipped grad + decay p;  b' = momentum b + g;  p' = p - lr (b', or g + momentum b' for Nesterov's)
template <ElementType T>
class SgdStep : public Kernel<SgdStep<T>> {
 public:
  In<T, 1> param{"param"};
  In<T, 1> grad{"grad", shape_of(param)};
  In<f32, 1> buffer{"buffer", shape_of(param)};
  In<f32, 0> lr{"lr"}, grad_scale{"grad_scale"};
  Scalar<float> momentum{"momentum"}, weight_decay{"weight_decay"}, max_grad{"max_grad"};
  OutTuple<1, T, f32> updated{"updated", {{{"new_param", "param"}, {"new_buffer", "buffer"}}}, shape_of(param)};
  Comptime<Momentum> kind{"kind", {{"classic", Momentum::classic}, {"nesterov", Momentum::nesterov}}};

  SgdStep() {
    this->formula(
        "g = clamp(grad_scale grad, max_grad) + weight_decay param; buffer = momentum buffer + g; param -= lr buffer "
        "(nesterov: "
        "lr (g + momentum buffer))");
    this->flops("6.0 * shapes[0].numel()");
  }
  void algorithm() {
    const Value g = clipped(grad(i), grad_scale(), max_grad) + Value(weight_decay) * param(i);
    new_buffer(i) = momentum * buffer(i) + g;
    const Value direction = kind == Momentum::nesterov ? g + momentum * new_buffer(i) : Value(new_buffer(i));
    new_param(i) = param(i) - lr() * direction;
    updated.define({i}, {new_param(i), new_buffer(i)});
  }
  void schedule(auto target) { elementwise(target, updated.func(), i, {&new_buffer, &new_param}); }

 private:
  Stage new_buffer{"new_buffer_stage"}, new_param{"new_param_stage"};
  Var i{"i"};
};

// Adam (Kingma & Ba 2015) and, with decoupled decay, AdamW (Loshchilov & Hutter 2019); t is the step's number from 1:
//   g = clipped grad (+ decay p where coupled);  m' = m + (1-β1)(g - m);  v' = v + (1-β2)(g² - v)
//   p' = p (1 - lr decay where decoupled) - lr m' / (1-β1^t) / (√(v' / (1-β2^t)) + eps)
// 1-β is the argument, because β itself in f32 leaves few digits of it.
template <ElementType T>
class AdamStep : public Kernel<AdamStep<T>> {
 public:
  In<T, 1> param{"param"};
  In<T, 1> grad{"grad", shape_of(param)};
  In<f32, 1> m{"m", shape_of(param)}, v{"v", shape_of(param)};
  In<f32, 0> lr{"lr"}, grad_scale{"grad_scale"}, step{"step"};
  Scalar<float> one_minus_beta1{"one_minus_beta1"}, one_minus_beta2{"one_minus_beta2"}, eps{"eps"},
      weight_decay{"weight_decay"}, max_grad{"max_grad"};
  OutTuple<1, T, f32, f32> updated{
      "updated", {{{"new_param", "param"}, {"new_m", "m"}, {"new_v", "v"}}}, shape_of(param)};
  Comptime<Decay> decay{"decay", {{"coupled", Decay::coupled}, {"decoupled", Decay::decoupled}}};

  AdamStep() {
    this->formula("m += (1-β1)(g - m); v += (1-β2)(g² - v); param -= lr m / (1-β1^t) / (√(v / (1-β2^t)) + eps)");
    this->flops("14.0 * shapes[0].numel()");
  }
  void algorithm() {
    const bool is_coupled = decay == Decay::coupled;
    const Value p = param(i);
    const Value clipped_grad = clipped(grad(i), grad_scale(), max_grad);
    const Value g = is_coupled ? clipped_grad + Value(weight_decay) * p : clipped_grad;
    new_m(i) = m(i) + Value(one_minus_beta1) * (g - m(i));
    new_v(i) = v(i) + Value(one_minus_beta2) * (square(g) - v(i));
    const Value kept = is_coupled ? p : p * (1.0 - lr() * Value(weight_decay));
    const Value corrected_m = new_m(i) / bias_correction(one_minus_beta1);
    const Value corrected_v = new_v(i) / bias_correction(one_minus_beta2);
    new_param(i) = kept - lr() * corrected_m / (sqrt(corrected_v) + Value(eps));
    updated.define({i}, {new_param(i), new_m(i), new_v(i)});
  }
  void schedule(auto target) { elementwise(target, updated.func(), i, {&new_m, &new_v, &new_param}); }

 private:
  // 1 - β^t = -expm1(t ln β)
  Value bias_correction(const Value& one_minus_beta) { return -expm1(step() * log1p(-one_minus_beta)); }
  Stage new_m{"new_m_stage"}, new_v{"new_v_stage"}, new_param{"new_param_stage"};
  Var i{"i"};
};

const bool registered =
    register_kernel<SgdStep, f32, f16, bf16>("sgd_step") && register_kernel<AdamStep, f32, f16, bf16>("adam_step");

}  // namespace ashlar::dsl
