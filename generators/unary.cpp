// Element-wise functions of one tensor: a line each. The gradient comes from the same line, called with a Dual.
#include "dsl/dual.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {

struct UnaryOperator {
  std::string name;
  std::string formula;
  Value (*value)(Value);
  Dual (*dual)(Dual);
  /// A function of (p, x), p f''(x): an operator or a recipe. Empty: not differentiable twice.
  std::string second;
};

// y[i] = f(x[i])
template <ElementType T>
class Unary : public Kernel<Unary<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  ElementwiseTunables tunables;

  void bind(const UnaryOperator& op) {
    operator_ = op;
    this->formula(op.name + "(x)[i] = " + op.formula).form(Form::pointwise);
    this->gradient("x", op.name + "_grad(dy, x)");
  }
  void algorithm() { y(i) = operator_.value(x(i)); }
  void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

 private:
  UnaryOperator operator_;
  Var i{"i"};
};

// dx[i] = dy[i] f'(x[i])
template <ElementType T>
class UnaryGradient : public Kernel<UnaryGradient<T>> {
 public:
  In<T, 1> dy{"dy"}, x{"x"};
  Out<T, 1> dx{"dx", shape_of(x)};
  ElementwiseTunables tunables;

  void bind(const UnaryOperator& op) {
    operator_ = op;
    this->formula(op.name + "_grad(dy, x)[i] = dy[i] (d/dx " + op.name + ")(x[i])").form(Form::pointwise);
    this->gradient("dy", op.name + "_grad(ddx, x)");
    if (op.second.empty()) return;
    this->gradient("x", op.second == kZeroGradient ? kZeroGradient : op.second + "(mul(ddx, dy), x)");
  }
  void algorithm() { dx(i) = dy(i) * operator_.dual(Dual(x(i), 1.0)).d; }
  void schedule(auto target) { elementwise(target, dx.func(), i, {}, &tunables); }

 private:
  UnaryOperator operator_;
  Var i{"i"};
};

template <class F>
bool add_unary(const std::string& name, const std::string& formula, const std::string& second, F f) {
  const UnaryOperator op{name, formula, [](Value x) -> Value { return F{}(x); }, [](Dual x) -> Dual { return F{}(x); },
                         second};
  static_cast<void>(f);
  const auto bind = [op](auto& kernel) { kernel.bind(op); };
  return register_bound_kernel<Unary, f32, f16, bf16>(name, bind) &&
         register_bound_kernel<UnaryGradient, f32, f16, bf16>(name + "_grad", bind);
}

const bool registered = add_unary("exp", "e^x", "exp_grad", [](auto x) { return exp(x); }) &&
                        add_unary("log", "ln x", "log_second", [](auto x) { return log(x); }) &&
                        add_unary("sqrt", "√x", "sqrt_second", [](auto x) { return sqrt(x); }) &&
                        add_unary("rsqrt", "1/√x", "rsqrt_second", [](auto x) { return rsqrt(x); }) &&
                        add_unary("tanh", "tanh x", "tanh_second", [](auto x) { return tanh(x); }) &&
                        add_unary("sigmoid", "1 / (1 + e^-x)", "sigmoid_second", [](auto x) { return sigmoid(x); }) &&
                        add_unary("relu", "max(x, 0)", kZeroGradient, [](auto x) { return relu(x); }) &&
                        add_unary("gelu", "x/2 (1 + erf(x/√2))", "gelu_second", [](auto x) { return gelu(x); }) &&
                        add_unary("silu", "x sigmoid(x)", "silu_second", [](auto x) { return silu(x); });

// y[i] = -x[i]
template <ElementType T>
class Neg : public Kernel<Neg<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  ElementwiseTunables tunables;

  Neg() { this->formula("neg(x)[i] = -x[i]").form(Form::pointwise).gradient("x", "neg(dy)"); }
  // By the sign's bit: OpenCL C gets 0 - x from Halide, which is +0 for x = +0.
  void algorithm() { y(i) = bit_cast<f32>(bit_cast<u32>(x(i)) ^ 0x80000000u); }
  void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

 private:
  Var i{"i"};
};

// y[i] = scale x[i] + shift
template <ElementType T>
class Affine : public Kernel<Affine<T>> {
 public:
  In<T, 1> x{"x"};
  Scalar<float> scale{"scale"}, shift{"shift"};
  Out<T, 1> y{"y", shape_of(x)};
  ElementwiseTunables tunables;

  Affine() {
    this->formula("affine(x, scale, shift)[i] = scale x[i] + shift").form(Form::pointwise);
    this->gradient("x", "affine(dy, scale, 0.0)");
  }
  void algorithm() { y(i) = x(i) * scale + shift; }
  void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

 private:
  Var i{"i"};
};

const bool others_registered =
    register_kernel<Neg, f32, f16, bf16>("neg") && register_kernel<Affine, f32, f16, bf16>("affine");

}  // namespace ashlar::dsl
