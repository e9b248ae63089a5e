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

// NAdam (Dozat 2016), as torch.optim.NAdam; t is the step's number from 1, ψ the momentum's decay:
//   μ_t = β1 (1 - 0.96^(tψ) / 2);  mu_product is Π μ_1 … μ_t
//   m, v as Adam's;  p' = p - lr ((1-μ_t) / (1-mu_product) g + μ_{t+1} / (1 - mu_product μ_{t+1}) m')
//                         / (√(v' / (1-β2^t)) + eps)
template <ElementType T>
class NadamStep : public Kernel<NadamStep<T>> {
 public:
  In<T, 1> param{"param"};
  In<T, 1> grad{"grad", shape_of(param)};
  In<f32, 1> m{"m", shape_of(param)}, v{"v", shape_of(param)};
  In<f32, 0> lr{"lr"}, grad_scale{"grad_scale"}, step{"step"}, mu_product{"mu_product"};
  Scalar<float> one_minus_beta1{"one_minus_beta1"}, one_minus_beta2{"one_minus_beta2"}, eps{"eps"},
      weight_decay{"weight_decay"}, momentum_decay{"momentum_decay"}, max_grad{"max_grad"};
  OutTuple<1, T, f32, f32> updated{
      "updated", {{{"new_param", "param"}, {"new_m", "m"}, {"new_v", "v"}}}, shape_of(param)};
  Comptime<Decay> decay{"decay", {{"coupled", Decay::coupled}, {"decoupled", Decay::decoupled}}};

  NadamStep() {
    this->formula(
        "m += (1-β1)(g - m); v += (1-β2)(g² - v); param -= lr ((1-μ_t) / (1-Πμ) g + μ_{t+1} / (1-Πμ μ_{t+1}) m) / "
        "(√(v / (1-β2^t)) + eps)");
    this->flops("20.0 * shapes[0].numel()");
  }
  void algorithm() {
    const bool is_coupled = decay == Decay::coupled;
    const Value p = param(i);
    const Value clipped_grad = clipped(grad(i), grad_scale(), max_grad);
    const Value g = is_coupled ? clipped_grad + Value(weight_decay) * p : clipped_grad;
    new_m(i) = m(i) + Value(one_minus_beta1) * (g - m(i));
    new_v(i) = v(i) + Value(one_minus_beta2) * (square(g) - v(i));
    const Value kept = is_coupled ? p : p * (1.0 - lr() * Value(weight_decay));
    const Value now = momentum_at(step()), next = momentum_at(step() + 1.0);
    const Value of_g = (1.0 - now) / (1.0 - mu_product()), of_m = next / (1.0 - mu_product() * next);
    const Value correction2 = -expm1(step() * log1p(-Value(one_minus_beta2)));
    new_param(i) = kept - lr() * (of_g * g + of_m * new_m(i)) / (sqrt(new_v(i) / correction2) + Value(eps));
    updated.define({i}, {new_param(i), new_m(i), new_v(i)});
  }
  void schedule(auto target) { elementwise(target, updated.func(), i, {&new_m, &new_v, &new_param}); }

 private:
  static constexpr double kLog96 = -0.040821994520255166;  // ln 0.96
  Value momentum_at(const Value& t) {
    return (1.0 - Value(one_minus_beta1)) * (1.0 - exp(t * Value(momentum_decay) * kLog96) * 0.5);
  }
  Stage new_m{"new_m_stage"}, new_v{"new_v_stage"}, new_param{"new_param_stage"};
  Var i{"i"};
};

// RMSProp (Hinton, lecture 6e of 2012), as torch.optim.RMSprop:
//   g = clipped grad + decay p;  v' = v + (1-α)(g² - v);  b' = momentum b + g / (√v' + eps);  p' = p - lr b'
template <ElementType T>
class RmspropStep : public Kernel<RmspropStep<T>> {
 public:
  In<T, 1> param{"param"};
  In<T, 1> grad{"grad", shape_of(param)};
  In<f32, 1> v{"v", shape_of(param)}, buffer{"buffer", shape_of(param)};
  In<f32, 0> lr{"lr"}, grad_scale{"grad_scale"};
  Scalar<float> one_minus_alpha{"one_minus_alpha"}, eps{"eps"}, momentum{"momentum"}, weight_decay{"weight_decay"},
      max_grad{"max_grad"};
  OutTuple<1, T, f32, f32> updated{
      "updated", {{{"new_param", "param"}, {"new_v", "v"}, {"new_buffer", "buffer"}}}, shape_of(param)};

  RmspropStep() {
    this->formula("v += (1-α)(g² - v); buffer = momentum buffer + g / (√v + eps); param -= lr buffer");
    this->flops("12.0 * shapes[0].numel()");
  }
  void algorithm() {
    const Value g = clipped(grad(i), grad_scale(), max_grad) + Value(weight_decay) * param(i);
    new_v(i) = v(i) + Value(one_minus_alpha) * (square(g) - v(i));
    new_buffer(i) = Value(momentum) * buffer(i) + g / (sqrt(new_v(i)) + Value(eps));
    new_param(i) = param(i) - lr() * new_buffer(i);
    updated.define({i}, {new_param(i), new_v(i), new_buffer(i)});
  }
  void schedule(auto target) { elementwise(target, updated.func(), i, {&new_v, &new_buffer, &new_param}); }

 private:
  Stage new_v{"new_v_stage"}, new_buffer{"new_buffer_stage"}, new_param{"new_param_stage"};
  Var i{"i"};
};

// Adagrad (Duchi, Hazan and Singer 2011), as torch.optim.Adagrad; t is the step's number from 1:
//   g = clipped grad + decay p;  s' = s + g²;  p' = p - lr / (1 + (t-1) lr_decay) g / (√s' + eps)
template <ElementType T>
class AdagradStep : public Kernel<AdagradStep<T>> {
 public:
  In<T, 1> param{"param"};
  In<T, 1> grad{"grad", shape_of(param)};
  In<f32, 1> sum{"sum", shape_of(param)};
  In<f32, 0> lr{"lr"}, grad_scale{"grad_scale"}, step{"step"};
  Scalar<float> lr_decay{"lr_decay"}, eps{"eps"}, weight_decay{"weight_decay"}, max_grad{"max_grad"};
  OutTuple<1, T, f32> updated{"updated", {{{"new_param", "param"}, {"new_sum", "sum"}}}, shape_of(param)};

  AdagradStep() {
    this->formula("sum += g²; param -= lr / (1 + (t-1) lr_decay) g / (√sum + eps)");
    this->flops("9.0 * shapes[0].numel()");
  }
  void algorithm() {
    const Value g = clipped(grad(i), grad_scale(), max_grad) + Value(weight_decay) * param(i);
    new_sum(i) = sum(i) + square(g);
    const Value rate = lr() / (1.0 + (step() - 1.0) * Value(lr_decay));
    new_param(i) = param(i) - rate * g / (sqrt(new_sum(i)) + Value(eps));
    updated.define({i}, {new_param(i), new_sum(i)});
  }
  void schedule(auto target) { elementwise(target, updated.func(), i, {&new_sum, &new_param}); }

 private:
  Stage new_sum{"new_sum_stage"}, new_param{"new_param_stage"};
  Var i{"i"};
};

// Lion (Chen et al. 2023), where sign 0 = 0:
//   g = clipped grad;  p' = p (1 - lr decay) - lr sign(m + (1-β1)(g - m));  m' = m + (1-β2)(g - m)
template <ElementType T>
class LionStep : public Kernel<LionStep<T>> {
 public:
  In<T, 1> param{"param"};
  In<T, 1> grad{"grad", shape_of(param)};
  In<f32, 1> m{"m", shape_of(param)};
  In<f32, 0> lr{"lr"}, grad_scale{"grad_scale"};
  Scalar<float> one_minus_beta1{"one_minus_beta1"}, one_minus_beta2{"one_minus_beta2"}, weight_decay{"weight_decay"},
      max_grad{"max_grad"};
  OutTuple<1, T, f32> updated{"updated", {{{"new_param", "param"}, {"new_m", "m"}}}, shape_of(param)};

  LionStep() {
    this->formula("param -= lr (sign(m + (1-β1)(g - m)) + weight_decay param); m += (1-β2)(g - m)");
    this->flops("10.0 * shapes[0].numel()");
  }
  void algorithm() {
    const Value g = clipped(grad(i), grad_scale(), max_grad);
    const Value c = m(i) + Value(one_minus_beta1) * (g - m(i));
    const Value sign = select(c > 0, 1.0, select(c < 0, -1.0, c));  // NaN stays
    new_param(i) = param(i) * (1.0 - lr() * Value(weight_decay)) - lr() * sign;
    new_m(i) = m(i) + Value(one_minus_beta2) * (g - m(i));
    updated.define({i}, {new_param(i), new_m(i)});
  }
  void schedule(auto target) { elementwise(target, updated.func(), i, {&new_param, &new_m}); }

 private:
  Stage new_param{"new_param_stage"}, new_m{"new_m_stage"};
  Var i{"i"};
};

// average += weight (param - average): averages of weights, exponential ones and means
template <ElementType T>
class AverageStep : public Kernel<AverageStep<T>> {
 public:
  In<f32, 1> average{"average"};
  In<T, 1> param{"param", shape_of(average)};
  In<f32, 0> weight{"weight"};
  OutTuple<1, f32> updated{"updated", {{{"new_average", "average"}}}, shape_of(average)};

  AverageStep() {
    this->formula("average += weight (param - average)");
    this->flops("3.0 * shapes[0].numel()");
  }
  void algorithm() { updated.define({i}, {average(i) + weight() * (param(i) - average(i))}); }
  void schedule(auto target) { elementwise(target, updated.func(), i); }

 private:
  Var i{"i"};
};

const bool registered = register_kernel<SgdStep, f32, f16, bf16>("sgd_step") &&
                        register_kernel<AdamStep, f32, f16, bf16>("adam_step") &&
                        register_kernel<NadamStep, f32, f16, bf16>("nadam_step") &&
                        register_kernel<RmspropStep, f32, f16, bf16>("rmsprop_step") &&
                        register_kernel<AdagradStep, f32, f16, bf16>("adagrad_step") &&
                        register_kernel<LionStep, f32, f16, bf16>("lion_step") &&
                        register_kernel<AverageStep, f32, f16, bf16>("average_step");

}  // namespace ashlar::dsl
