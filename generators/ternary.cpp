// Element-wise functions of three tensors with broadcasting. f32 instances alone, through which calls of 16-bit floats
// go with the same bits; where, which computes nothing, takes integers and f64, too.
#include "dsl/operator.h"
#include "schedules/broadcast.h"

namespace ashlar::dsl {

// y[i] = condition[i] ? a[i] : b[i]
template <ElementType T>
class Where : public Kernel<Where<T>> {
 public:
  In<boolean, 4> condition{"condition", strided};
  In<T, 4> a{"a", strided}, b{"b", strided};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  Where() {
    if (!std::is_same_v<T, f32>) this->widest_on_cpu(CodeTarget::cpu);
    this->formula("where(condition, a, b) = a where the condition holds, else b, broadcasting").form(Form::broadcast);
    this->gradient("a", "where_grad(dy, condition, true, a.shape())");
    this->gradient("b", "where_grad(dy, condition, false, b.shape())");
  }
  void algorithm() { y(p, q, r, s) = select(condition(p, q, r, s) != 0, a(p, q, r, s), b(p, q, r, s)); }
  void schedule(auto target) { broadcast(target, y.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

// y[i] = start[i] + weight[i] (end[i] - start[i]), from the nearer end, so that weight = 1 gives end
template <ElementType T>
class Lerp : public Kernel<Lerp<T>> {
 public:
  In<T, 4> start{"start", strided}, end{"end", strided}, weight{"weight", strided};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  Lerp() {
    this->formula("lerp(start, end, weight) = start + weight (end - start), broadcasting").form(Form::broadcast);
    this->gradient("start", "lerp_start_grad(dy, weight, start.shape())");
    this->gradient("end", "scaled_factor_grad(dy, weight, 1.0, end.shape())");
    this->gradient("weight", "lerp_weight_grad(dy, start, end, weight.shape())");
  }
  void algorithm() {
    const Value a = start(p, q, r, s), b = end(p, q, r, s), w = weight(p, q, r, s);
    y(p, q, r, s) = select(abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1.0 - w));
  }
  void schedule(auto target) { broadcast(target, y.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

struct AddedOperator {
  std::string name;
  std::string formula;
  Value (*value)(Value, Value);
  std::vector<GradientRule> gradients;
};

// y[i] = x[i] + value f(a[i], b[i])
template <ElementType T>
class Added : public Kernel<Added<T>> {
 public:
  In<T, 4> x{"x", strided}, a{"a", strided}, b{"b", strided};
  Scalar<float> value{"value", 1.0f};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  void bind(const AddedOperator& op) {
    operator_ = op;
    this->formula(op.name + "(x, a, b, value) = x + value " + op.formula + ", broadcasting").form(Form::broadcast);
    this->gradient("x", "dy");
    for (const GradientRule& rule : op.gradients) this->gradient(rule.input, rule.expression);
  }
  void algorithm() { y(p, q, r, s) = x(p, q, r, s) + Value(value) * operator_.value(a(p, q, r, s), b(p, q, r, s)); }
  void schedule(auto target) { broadcast(target, y.func(), {p, q, r, s}, &tunables); }

 private:
  AddedOperator operator_;
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

bool add_added(const AddedOperator& op) {
  return register_bound_kernel<Added, f32>(op.name, [op](auto& kernel) { kernel.bind(op); });
}

const AddedOperator kAddcmul{"addcmul",
                             "a b",
                             [](Value a, Value b) -> Value { return a * b; },
                             {{"a", "scaled_factor_grad(dy, b, value, a.shape())", {}},
                              {"b", "scaled_factor_grad(dy, a, value, b.shape())", {}}}};
const AddedOperator kAddcdiv{
    "addcdiv",
    "a / b",
    [](Value a, Value b) -> Value { return a / b; },
    {{"a", "scaled_dividend_grad(dy, b, value, a.shape())", {}}, {"b", "scaled_divisor_grad(dy, a, b, value)", {}}}};

const bool registered = register_kernel<Where, f32, f64, i64>("where") && register_kernel<Lerp, f32>("lerp") &&
                        add_added(kAddcmul) && add_added(kAddcdiv) &&
                        register_operator({.name = "threshold",
                                           .formula = "threshold(x, threshold, value)[i] = x where it is more than the "
                                                      "threshold or NaN, else the value",
                                           .dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64},
                                           .inputs = {{"x"}},
                                           .scalars = {{"threshold", DType::f64}, {"value", DType::f64}},
                                           .outputs = {{"y"}},
                                           .calls = {"le", "where", "fill", "cast"},
                                           .composed = "operators/composed/comparisons.h"});

}  // namespace ashlar::dsl
