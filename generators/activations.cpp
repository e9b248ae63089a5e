// Activations of networks, as PyTorch defines and names them. The common ones have instances for 16-bit floats; calls
// of the others go through f32, with the same bits.
#include "generators/unary_operator.h"

namespace ashlar::dsl {

// ---- without parameters: a line each

const bool plain =
    add_unary<f32, f16, bf16>(
        {"gelu_tanh", "x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))", [](Value x) -> Value { return gelu_tanh(x); },
         // y = x s(z), z = c₁ x + c₃ x³:  s + x s (1 - s) (c₁ + 3 c₃ x²), where s (1 - s) is 0 before x² overflows
         [](Value x) -> Value {
           const Value held = min(max(x, -1e6), 1e6), square = held * held;
           const Dual s = sigmoid(Dual(held * (1.5957691216057308 + 0.0713548162726009 * square), 1.0));
           return s.v + held * s.d * (1.5957691216057308 + 0.2140644488178027 * square);
         },
         "gelu_tanh_second(p, x)"}) &&
    add_unary<f32, f16, bf16>({"mish", "x tanh(ln(1 + e^x))", [](Value x) -> Value { return mish(x); },
                               [](Value x) -> Value { return mish_slope(x); }, "mish_second(p, x)"}) &&
    add_unary<f32, f16, bf16>(
        {"hardswish", "x min(max(x + 3, 0), 6) / 6", [](Value x) -> Value { return hardswish(x); },
         [](Value x) -> Value { return select(x <= -3.0, 0.0, select(x >= 3.0, 1.0, x * (1.0 / 3) + 0.5)); },
         "hardswish_second(p, x)"}) &&
    add_unary<f32>({"hardsigmoid", "min(max(x + 3, 0), 6) / 6", [](Value x) -> Value { return hardsigmoid(x); },
                    [](Value x) -> Value { return select(x > -3.0 && x < 3.0, 1.0 / 6, 0.0); }, kZeroGradient}) &&
    add_unary<f32>({"relu6", "min(max(x, 0), 6)", [](Value x) -> Value { return relu6(x); },
                    [](Value x) -> Value { return select(x <= 0.0 || x >= 6.0, 0.0, 1.0); }, kZeroGradient}) &&
    add_unary<f32>({"selu", "1.0507 x, below 0 1.0507 · 1.6733 (e^x - 1)", [](Value x) -> Value { return selu(x); },
                    [](Value x) -> Value { return kSeluScale * select(x > 0.0, 1.0, kSeluAlpha * exp(x)); },
                    "selu_second(p, x)"}) &&
    add_unary<f32>({"logsigmoid", "ln(1 / (1 + e^-x))", [](Value x) -> Value { return logsigmoid(x); },
                    [](Value x) -> Value { return sigmoid(-x); }, "neg(sigmoid_grad(p, x))"}) &&
    add_unary<f32>({"softsign", "x / (1 + |x|)", [](Value x) -> Value { return softsign(x); },
                    [](Value x) -> Value { return square(1.0 / (1.0 + abs(x))); }, "softsign_second(p, x)"}) &&
    add_unary<f32>({"tanhshrink", "x - tanh x", [](Value x) -> Value { return tanhshrink(x); },
                    [](Value x) -> Value { return square(tanh(x)); }, "neg(tanh_second(p, x))"});

// ---- with parameters

struct LeakyRelu {
  static constexpr const char *name = "leaky_relu", *parameters = "negative_slope",
                              *formula = "x, below 0 negative_slope x";
  static constexpr const char* second = kZeroGradient;
  struct Options {
    Scalar<float> negative_slope{"negative_slope", 0.01f};
  };
  static Value value(Value x, const Options& o) { return leaky_relu(x, o.negative_slope); }
  static Value derivative(Value x, const Options& o) { return select(x <= 0.0, o.negative_slope, 1.0); }
};

struct Elu {
  static constexpr const char *name = "elu", *parameters = "alpha", *formula = "x, below 0 alpha (e^x - 1)";
  static constexpr const char* second = "elu_second(p, x, alpha)";
  struct Options {
    Scalar<float> alpha{"alpha", 1.0f};
  };
  static Value value(Value x, const Options& o) { return elu(x, o.alpha); }
  static Value derivative(Value x, const Options& o) { return select(x <= 0.0, o.alpha * exp(x), 1.0); }
};

struct Celu {
  static constexpr const char *name = "celu", *parameters = "alpha", *formula = "x, below 0 alpha (e^(x/alpha) - 1)";
  static constexpr const char* second = "celu_second(p, x, alpha)";
  struct Options {
    Scalar<float> alpha{"alpha", 1.0f};
  };
  static Value value(Value x, const Options& o) { return celu(x, o.alpha); }
  static Value derivative(Value x, const Options& o) { return select(x <= 0.0, exp(x / Value(o.alpha)), 1.0); }
};

struct Hardtanh {
  static constexpr const char *name = "hardtanh", *parameters = "min_val, max_val",
                              *formula = "min(max(x, min_val), max_val)";
  static constexpr const char* second = kZeroGradient;
  struct Options {
    Scalar<float> min_val{"min_val", -1.0f}, max_val{"max_val", 1.0f};
  };
  static Value value(Value x, const Options& o) { return hardtanh(x, o.min_val, o.max_val); }
  static Value derivative(Value x, const Options& o) { return select(x <= o.min_val || x >= o.max_val, 0.0, 1.0); }
};

struct Hardshrink {
  static constexpr const char *name = "hardshrink", *parameters = "lambd", *formula = "x, 0 where |x| ≤ lambd";
  static constexpr const char* second = kZeroGradient;
  struct Options {
    Scalar<float> lambd{"lambd", 0.5f};
  };
  static Value value(Value x, const Options& o) { return hardshrink(x, o.lambd); }
  static Value derivative(Value x, const Options& o) { return select(abs(x) <= o.lambd, 0.0, 1.0); }
};

struct Softshrink {
  static constexpr const char *name = "softshrink", *parameters = "lambd",
                              *formula = "x - lambd above lambd, x + lambd below -lambd, else 0";
  static constexpr const char* second = kZeroGradient;
  struct Options {
    Scalar<float> lambd{"lambd", 0.5f};
  };
  static Value value(Value x, const Options& o) { return softshrink(x, o.lambd); }
  static Value derivative(Value x, const Options& o) { return select(abs(x) <= o.lambd, 0.0, 1.0); }
};

struct Softplus {
  static constexpr const char *name = "softplus", *parameters = "beta, threshold",
                              *formula = "ln(1 + e^(beta x)) / beta, x where beta x > threshold";
  static constexpr const char* second = "softplus_second(p, x, beta, threshold)";
  struct Options {
    Scalar<float> beta{"beta", 1.0f}, threshold{"threshold", 20.0f};
  };
  static Value value(Value x, const Options& o) {
    const Value beta = o.beta, scaled = beta * x;
    return select(scaled > o.threshold, x, softplus(scaled) * (1.0 / beta));
  }
  static Value derivative(Value x, const Options& o) {
    const Value scaled = Value(o.beta) * x;
    return select(scaled > o.threshold, 1.0, sigmoid(scaled));
  }
};

const bool with_options = add_with_options<LeakyRelu, f32, f16, bf16>() && add_with_options<Elu, f32>() &&
                          add_with_options<Celu, f32>() && add_with_options<Hardtanh, f32>() &&
                          add_with_options<Hardshrink, f32>() && add_with_options<Softshrink, f32>() &&
                          add_with_options<Softplus, f32>();

}  // namespace ashlar::dsl
