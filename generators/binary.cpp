// Element-wise functions of two tensors with broadcasting: a line each.
#include "schedules/broadcast.h"

namespace ashlar::dsl {

struct BinaryOperator {
  std::string name;
  std::string formula;
  Value (*value)(Value, Value);
  std::vector<GradientRule> gradients;
};

// y[i] = f(a[i], b[i]), each input broadcast where its stride is 0. Calls on integers shorter than i64 are converted to
// it and back.
template <ElementType T>
class Binary : public Kernel<Binary<T>> {
 public:
  In<T, 4> a{"a", strided}, b{"b", strided};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  void bind(const BinaryOperator& op) {
    operator_ = op;
    if (std::is_same_v<T, i64>) this->widest_on_cpu(CodeTarget::cpu);  // few elements, and rare
    this->formula(op.name + "(a, b) = " + op.formula + ", broadcasting").form(Form::broadcast);
    for (const GradientRule& rule : op.gradients) this->gradient(rule.input, rule.expression);
  }
  void algorithm() { y(p, q, r, s) = operator_.value(a(p, q, r, s), b(p, q, r, s)); }
  void schedule(auto target) { broadcast(target, y.func(), {p, q, r, s}, &tunables); }

 private:
  BinaryOperator operator_;
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

template <ElementType... T, class F>
bool add_binary(const std::string& name, const std::string& formula, F, std::vector<GradientRule> gradients) {
  const BinaryOperator op{name, formula, [](Value a, Value b) -> Value { return F{}(a, b); }, std::move(gradients)};
  return register_bound_kernel<Binary, T...>(name, [op](auto& kernel) { kernel.bind(op); });
}

// [a = b]; a NaN equals nothing. Compiled for single elements on a CPU, a comparison alone takes it for equal.
Value equals(const Value& a, const Value& b) { return select(a == b && !is_nan(a) && !is_nan(b), 1.0, 0.0); }

const std::string kExtremum = "extremum_of_two_grad(dy, a, b, y, needs)";

const bool registered =
    add_binary<f32, f16, bf16, f64, i64>("add", "a + b", [](auto a, auto b) { return a + b; },
                                         {{"a", "dy"}, {"b", "dy"}}) &&
    add_binary<f32, f16, bf16, f64, i64>("sub", "a - b", [](auto a, auto b) { return a - b; },
                                         {{"a", "dy"}, {"b", "neg(dy)"}}) &&
    add_binary<f32, f16, bf16, f64, i64>(
        "mul", "a b", [](auto a, auto b) { return a * b; },
        {{"a", "mul_to_shape(dy, b, a.shape())"}, {"b", "mul_to_shape(dy, a, b.shape())"}}) &&
    add_binary<f32, f16, bf16, f64>("div", "a / b", [](auto a, auto b) { return a / b; },
                                    {{"a", "div_to_shape(dy, b, a.shape())"}, {"b", "divisor_grad(dy, a, b)"}}) &&
    add_binary<f32, f16, bf16, f64, i64>("maximum", "max(a, b)", [](auto a, auto b) { return max(a, b); },
                                         {{kAllInputs, kExtremum}}) &&
    add_binary<f32, f16, bf16, f64, i64>("minimum", "min(a, b)", [](auto a, auto b) { return min(a, b); },
                                         {{kAllInputs, kExtremum}}) &&
    add_binary<f32, f16, bf16>("equal", "1 if a = b, else 0", [](auto a, auto b) { return equals(a, b); },
                               {{kAllInputs, kZeroGradient}});

}  // namespace ashlar::dsl
