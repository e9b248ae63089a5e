// Losses of two tensors, element by element, each as three kernels: the terms; their sum, which no memory is written
// for on the way; and their slope, for the gradient. f32 alone, through which calls of 16-bit floats go. How calls
// reach them: operators/losses.cpp.
#include "dsl/functions.h"
#include "schedules/broadcast.h"
#include "schedules/elementwise.h"
#include "schedules/reduction_kernel.h"

namespace ashlar::dsl {

enum class Upstream : uint8_t { of_all, of_each };

template <class L>
struct Loss {
  // y[i] = f(x[i], t[i])
  template <ElementType T>
  class Terms : public Kernel<Terms<T>> {
   public:
    In<T, 1> x{"x"}, t{"t", shape_of(x)};
    typename L::Options options;
    Out<T, 1> y{"y", shape_of(x)};

    Terms() {
      this->formula(std::string("y[i] = ") + L::formula).form(Form::movement).internal();
      this->widest_on_cpu(CodeTarget::cpu_avx2);
    }
    void algorithm() { y(i) = L::value(x(i), t(i), options); }
    void schedule(auto to) { elementwise(to, y.func(), i); }

   private:
    Var i{"i"};
  };

  // y[0,p,0] = scale Σ_k f(x[0,k,0], t[k]) over part p
  template <ElementType T>
  class Sum : public ReductionKernel<Sum<T>, T> {
   public:
    In<T, 1> t{"t", {this->x.size(1)}};
    typename L::Options options;
    Scalar<float> scale{"scale"};
    Out<T, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

    Sum() {
      this->formula(std::string("y[0,p,0] = scale Σ_k ") + L::formula + ", k in part p").form(Form::movement);
      this->internal().widest_on_cpu(CodeTarget::cpu_avx2);
    }
    void algorithm() {
      const Axis& k = this->make_axis();
      const Value at = t(Halide::unsafe_promise_clamped(Expr(this->index(k)), 0, this->x.extent(1) - 1));
      // One row, so that what the family has for columns isn't compiled.
      y.func().output_buffer().dim(0).set_bounds(0, 1);
      y.func().output_buffer().dim(2).set_bounds(0, 1);
      this->total(this->outer, this->part, this->inner) = sum(k, L::value(this->element(k), at, options));
      y(this->outer, this->part, this->inner) = Value(this->total(this->outer, this->part, this->inner)) * scale;
    }
  };

  // dx[i] = scale dy (d/dx f)(x[i], t[i]), dy[0] of all elements or dy[i] of each
  template <ElementType T>
  class Slope : public Kernel<Slope<T>> {
   public:
    In<T, 1> dy{"dy", {any_size}}, x{"x"}, t{"t", shape_of(x)};
    Comptime<Upstream> upstream{"upstream", {{"of_all", Upstream::of_all}, {"of_each", Upstream::of_each}}};
    typename L::Options options;
    Scalar<float> scale{"scale"};
    Out<T, 1> dx{"dx", shape_of(x)};

    Slope() {
      this->formula(std::string("dx[i] = scale dy (d/dx) ") + L::formula).form(Form::movement).internal();
      this->widest_on_cpu(CodeTarget::cpu_avx2);
    }
    void algorithm() {
      const bool of_each = upstream.value() == Upstream::of_each;
      const Value g = of_each ? dy(Halide::unsafe_promise_clamped(i, 0, dy.extent(0) - 1)) : dy(0);
      dx(i) = g * scale * L::slope(x(i), t(i), options);
    }
    void schedule(auto to) { elementwise(to, dx.func(), i); }

   private:
    Var i{"i"};
  };
};

struct NoOptions {};

struct Mse {
  static constexpr const char* formula = "(x - t)²";
  using Options = NoOptions;
  static Value value(const Value& x, const Value& t, const Options&) { return square(x - t); }
  static Value slope(const Value& x, const Value& t, const Options&) { return (x - t) * 2.0; }
};

struct L1 {
  static constexpr const char* formula = "|x - t|";
  using Options = NoOptions;
  static Value value(const Value& x, const Value& t, const Options&) { return abs(x - t); }
  static Value slope(const Value& x, const Value& t, const Options&) {
    const Value d = x - t;
    return select(d > 0.0, 1.0, select(d < 0.0, -1.0, d));  // 0, or NaN
  }
};

struct SmoothL1 {
  static constexpr const char* formula = "d² / (2 beta) where d = |x - t| < beta, else d - beta/2";
  struct Options {
    Scalar<float> beta{"beta"};
  };
  static Value value(const Value& x, const Value& t, const Options& o) {
    const Value beta = o.beta, d = abs(x - t);
    return select(d < beta, d * d * 0.5 / beta, d - beta * 0.5);
  }
  static Value slope(const Value& x, const Value& t, const Options& o) {
    const Value beta = o.beta, d = x - t;
    return select(abs(d) < beta, d / beta, L1::slope(x, t, {}));
  }
};

struct Huber {
  static constexpr const char* formula = "d² / 2 where d = |x - t| <= delta, else delta (d - delta/2)";
  struct Options {
    Scalar<float> delta{"delta"};
  };
  static Value value(const Value& x, const Value& t, const Options& o) {
    const Value delta = o.delta, d = abs(x - t);
    return select(d <= delta, d * d * 0.5, delta * (d - delta * 0.5));
  }
  static Value slope(const Value& x, const Value& t, const Options& o) {
    const Value delta = o.delta, d = x - t;
    return select(abs(d) <= delta, d, delta * L1::slope(x, t, {}));
  }
};

// ln(1 - x) for 0 <= x <= 1: ln u + c with u = 1 - x rounded and c what the rounding lost, which weighs where u is
// nearly 1. Half of what log1p costs, whose x may be anything.
Value log_of_rest(const Value& x) {
  const Value u = 1.0 - x;
  return sum_as_written(log(u), sum_as_written(sum_as_written(1.0, 0.0 - u), 0.0 - x));
}

// Logarithms are held at -100, as in PyTorch, so that x = 0 and 1 have a loss.
struct Bce {
  static constexpr const char* formula = "-(t ln x + (1 - t) ln(1 - x)), logarithms at least -100";
  using Options = NoOptions;
  static Value value(const Value& x, const Value& t, const Options&) {
    const Value yes = max(log(x), -100.0), no = max(log_of_rest(x), -100.0);
    return (t - 1.0) * no - t * yes;
  }
  static Value slope(const Value& x, const Value& t, const Options&) { return (x - t) / max((1.0 - x) * x, 1e-12); }
};

struct BceWithLogits {
  static constexpr const char* formula = "ln(1 + e^x) - t x";
  using Options = NoOptions;
  static Value value(const Value& x, const Value& t, const Options&) { return softplus(x) - t * x; }
  static Value slope(const Value& x, const Value& t, const Options&) { return sigmoid(x) - t; }
};

// y = weight ((1 - t) x + (1 + (pos_weight - 1) t) ln(1 + e^-x)), broadcasting
template <ElementType T>
class WeightedBce : public Kernel<WeightedBce<T>> {
 public:
  In<T, 4> x{"x", strided}, t{"t", strided}, weight{"weight", strided}, pos_weight{"pos_weight", strided};
  BroadcastTunables tunables;
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};

  WeightedBce() {
    this->formula("y = weight ((1 - t) x + (1 + (pos_weight - 1) t) ln(1 + e^-x)), broadcasting");
    this->form(Form::broadcast).internal();
  }
  void algorithm() {
    const Value logit = x(p, q, r, s), target = t(p, q, r, s), positive = 1.0 + (pos_weight(p, q, r, s) - 1.0) * target;
    y(p, q, r, s) = weight(p, q, r, s) * ((1.0 - target) * logit + positive * softplus(0.0 - logit));
  }
  void schedule(auto to) { broadcast(to, y.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

// dx = dy weight ((1 - t) - (1 + (pos_weight - 1) t) sigmoid(-x)), broadcasting
template <ElementType T>
class WeightedBceSlope : public Kernel<WeightedBceSlope<T>> {
 public:
  In<T, 4> dy{"dy", strided}, x{"x", strided}, t{"t", strided}, weight{"weight", strided};
  In<T, 4> pos_weight{"pos_weight", strided};
  BroadcastTunables tunables;
  Out<T, 4> dx{"dx", {any_size, any_size, any_size, any_size}};

  WeightedBceSlope() {
    this->formula("dx = dy weight ((1 - t) - (1 + (pos_weight - 1) t) sigmoid(-x)), broadcasting");
    this->form(Form::broadcast).internal();
  }
  void algorithm() {
    const Value target = t(p, q, r, s), positive = 1.0 + (pos_weight(p, q, r, s) - 1.0) * target;
    const Value slope = (1.0 - target) - positive * sigmoid(0.0 - x(p, q, r, s));
    dx(p, q, r, s) = dy(p, q, r, s) * weight(p, q, r, s) * slope;
  }
  void schedule(auto to) { broadcast(to, dx.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

struct KlDiv {
  static constexpr const char* formula = "t (ln t - x), 0 where t is 0";
  using Options = NoOptions;
  static Value value(const Value& x, const Value& t, const Options&) {
    return select(t == 0.0, 0.0, t * log(t)) - t * x;
  }
  static Value slope(const Value&, const Value& t, const Options&) { return 0.0 - t; }
};

struct KlDivOfLogs {
  static constexpr const char* formula = "e^t (t - x)";
  using Options = NoOptions;
  static Value value(const Value& x, const Value& t, const Options&) { return exp(t) * (t - x); }
  static Value slope(const Value&, const Value& t, const Options&) { return 0.0 - exp(t); }
};

struct HingeEmbedding {
  static constexpr const char* formula = "x where t is 1, max(margin - x, 0) where t is -1, else 0";
  struct Options {
    Scalar<float> margin{"margin"};
  };
  static Value value(const Value& x, const Value& t, const Options& o) {
    return select(t == 1.0, x, select(t == -1.0, relu(Value(o.margin) - x), 0.0));
  }
  static Value slope(const Value& x, const Value& t, const Options& o) {
    return select(t == 1.0, 1.0, select(t == -1.0 && x < Value(o.margin), -1.0, 0.0));
  }
};

template <class L>
bool add_kernels(const std::string& name) {
  return register_kernel<Loss<L>::template Terms, f32>(name + "_terms") &&
         register_kernel<Loss<L>::template Sum, f32>(name + "_sum") &&
         register_kernel<Loss<L>::template Slope, f32>(name + "_slope");
}

const OperatorOption kReduction{"reduction", FormOption::Kind::choice, 1, {"none", "mean", "sum"}};

enum class Target : uint8_t { number, label };
const std::string kRecipes = "autograd/recipes/losses.h";

/// `kernel` is also the loss' LossKind; `option` the scalar that it has, by default 1, or 0.0. Labels have no gradient.
bool add_loss(const std::string& name, const std::string& formula, const std::string& kernel,
              const std::string& option = {}, Target target = Target::number) {
  const std::string& header = kRecipes;
  const std::string call = "(LossKind::" + kernel + ", dy, input, target, " + (option.empty() ? "0.0" : option) +
                           ", static_cast<int>(reduction))";
  const GradientRule of_target = target == Target::label ? GradientRule{"target", kZeroGradient, {}}
                                                         : GradientRule{"target", "loss_target_grad" + call, header};
  std::vector<OperatorScalar> scalars;
  if (!option.empty()) scalars.push_back({option, DType::f64, "1.0"});
  return register_operator(
      {.name = name,
       .formula = name + "(input, target) = " + formula + ", x of input and t of target: each, their mean or their sum",
       .dtypes = {DType::f32, DType::f16, DType::bf16},
       .inputs = {{"input"}, {"target"}},
       .scalars = std::move(scalars),
       .options = {kReduction},
       .outputs = {{"y"}},
       .calls = {kernel + "_terms", kernel + "_sum", kernel + "_slope"},
       .gradients = {{"input", "loss_input_grad" + call, header}, of_target}});
}

/// Of probabilities, or of what their sigmoid is, with weights where they are given.
bool add_weighted_loss(const std::string& name, const std::string& formula, std::vector<std::string> weights,
                       std::vector<std::string> calls, const std::string& kernel) {
  std::vector<OperatorTensor> inputs{{"input"}, {"target"}};
  std::string given;
  for (const std::string& weight : weights) {
    inputs.push_back({.name = weight, .is_optional = true, .is_of_any_dtype = true});
    given += weight + ", ";
  }
  const std::string call = "(dy, input, target, " + given + "static_cast<int>(reduction))";
  for (const char* part : {"_terms", "_sum", "_slope"}) calls.push_back(kernel + part);
  return register_operator(
      {.name = name,
       .formula = name + "(input, target) = " + formula + ", x of input and t of target: each, their mean or their sum",
       .dtypes = {DType::f32, DType::f16, DType::bf16},
       .inputs = std::move(inputs),
       .options = {kReduction},
       .optional_last = true,
       .outputs = {{"y"}},
       .calls = std::move(calls),
       .gradients = {{"input", kernel + "_input_grad" + call, kRecipes},
                     {"target", kernel + "_target_grad" + call, kRecipes}}});
}

/// The divergence of targets, or of their logarithms.
bool add_kl_div() {
  OperatorOption reduction = kReduction;
  reduction.choices.emplace_back("batchmean");
  const std::string kind = "(log_target ? LossKind::kl_div_of_logs : LossKind::kl_div_of_target, ";
  const std::string call = kind + "dy, input, target, 0.0, static_cast<int>(reduction))";
  return register_operator(
      {.name = "kl_div",
       .formula =
           std::string("kl_div(input, target) = ") + KlDiv::formula + ", with log_target " + KlDivOfLogs::formula +
           ", x of input and t of target: each, their mean, their sum, or with batchmean that divided by the size "
           "of axis 0",
       .dtypes = {DType::f32, DType::f16, DType::bf16},
       .inputs = {{"input"}, {"target"}},
       .options = {reduction, {"log_target", FormOption::Kind::boolean}},
       .outputs = {{"y"}},
       .calls = {"kl_div_of_target_terms", "kl_div_of_target_sum", "kl_div_of_target_slope", "kl_div_of_logs_terms",
                 "kl_div_of_logs_sum", "kl_div_of_logs_slope"},
       .gradients = {{"input", "loss_input_grad" + call, kRecipes}, {"target", "loss_target_grad" + call, kRecipes}}});
}

const bool registered =
    add_kernels<Mse>("mse") && add_kernels<L1>("l1") && add_kernels<SmoothL1>("smooth_l1") &&
    add_kernels<Huber>("huber") && add_kernels<Bce>("bce") && add_kernels<BceWithLogits>("bce_with_logits") &&
    add_kernels<KlDiv>("kl_div_of_target") && add_kernels<KlDivOfLogs>("kl_div_of_logs") &&
    add_kernels<HingeEmbedding>("hinge") && register_kernel<WeightedBce, f32>("bce_with_logits_weighted") &&
    register_kernel<WeightedBceSlope, f32>("bce_with_logits_weighted_slope") &&
    add_loss("mse_loss", Mse::formula, "mse") && add_loss("l1_loss", L1::formula, "l1") &&
    add_loss("smooth_l1_loss", SmoothL1::formula, "smooth_l1", "beta") &&
    add_loss("huber_loss", Huber::formula, "huber", "delta") &&
    add_weighted_loss("binary_cross_entropy", std::string("weight (") + Bce::formula + ")", {"weight"},
                      {"mul", "mean", "sum", "affine"}, "bce") &&
    add_weighted_loss("binary_cross_entropy_with_logits",
                      std::string("weight (") + BceWithLogits::formula +
                          "), with a pos_weight p weight ((1 - t) x + (1 + (p - 1) t) ln(1 + e^-x))",
                      {"weight", "pos_weight"},
                      {"bce_with_logits_weighted", "bce_with_logits_weighted_slope", "mean", "sum", "affine"},
                      "bce_with_logits") &&
    add_kl_div() && add_loss("kl_div_of_log_target", KlDivOfLogs::formula, "kl_div_of_logs") &&
    add_loss("hinge_embedding_loss", HingeEmbedding::formula, "hinge", "margin", Target::label);

}  // namespace ashlar::dsl
