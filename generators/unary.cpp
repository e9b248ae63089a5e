// Element-wise functions of one tensor that networks call most, a line each, for 16-bit floats, too. Others are in
// maths.cpp and activations.cpp.
#include "generators/unary_operator.h"

namespace ashlar::dsl {

template <class F>
bool add(const std::string& name, const std::string& formula, const std::string& second, F f) {
  return add_differentiated<f32, f16, bf16>(name, formula, second, f);
}

const bool registered = add("exp", "e^x", "exp_grad(p, x)", [](auto x) { return exp(x); }) &&
                        add("log", "ln x", "log_second(p, x)", [](auto x) { return log(x); }) &&
                        add("sqrt", "√x", "sqrt_second(p, x)", [](auto x) { return sqrt(x); }) &&
                        add("rsqrt", "1/√x", "rsqrt_second(p, x)", [](auto x) { return rsqrt(x); }) &&
                        add("tanh", "tanh x", "tanh_second(p, x)", [](auto x) { return tanh(x); }) &&
                        add("sigmoid", "1 / (1 + e^-x)", "sigmoid_second(p, x)", [](auto x) { return sigmoid(x); }) &&
                        add("relu", "max(x, 0)", kZeroGradient, [](auto x) { return relu(x); }) &&
                        add("gelu", "x/2 (1 + erf(x/√2))", "gelu_second(p, x)", [](auto x) { return gelu(x); }) &&
                        add("silu", "x sigmoid(x)", "silu_second(p, x)", [](auto x) { return silu(x); });

// y[i] = -x[i]
template <ElementType T>
class Neg : public Kernel<Neg<T>> {
 public:
  In<T, 2> x{"x", strided};
  Out<T, 1> y{"y", {any_size}};
  ElementwiseTunables tunables;

  Neg() {
    if (!is_value) this->widest_on_cpu(CodeTarget::cpu);
    this->formula("neg(x)[i] = -x[i]").form(Form::pointwise).gradient("x", "neg(dy)");
  }
  // By the sign's bit: OpenCL C gets 0 - x from Halide, which is +0 for x = +0.
  void algorithm() {
    const Value element = element_of(x, i);
    if constexpr (is_integer(Element<T>::dtype)) {
      y(i) = Value(0) - element;
    } else if constexpr (is_value) {
      y(i) = bit_cast<f32>(bit_cast<u32>(element) ^ 0x80000000u);
    } else {
      const Expr bits = Halide::reinterpret<uint64_t>(element.expr());
      y(i) = Value(Halide::reinterpret<double>(bits ^ Expr(uint64_t{1} << 63)));
    }
  }
  void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

 private:
  static constexpr bool is_value = is_floating(Element<T>::dtype) && Element<T>::dtype != DType::f64;
  Var i{"i"};
};

// y[i] = scale x[i] + shift
template <ElementType T>
class Affine : public Kernel<Affine<T>> {
 public:
  In<T, 2> x{"x", strided};
  Scalar<float> scale{"scale"}, shift{"shift"};
  Out<T, 1> y{"y", {any_size}};
  ElementwiseTunables tunables;

  Affine() {
    this->formula("affine(x, scale, shift)[i] = scale x[i] + shift").form(Form::pointwise);
    this->gradient("x", "affine(dy, scale, 0.0)");
  }
  void algorithm() { y(i) = element_of(x, i) * scale + shift; }
  void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

 private:
  Var i{"i"};
};

const bool others_registered =
    register_kernel<Neg, f32, f16, bf16, f64, i64>("neg") && register_kernel<Affine, f32, f16, bf16>("affine");

}  // namespace ashlar::dsl
