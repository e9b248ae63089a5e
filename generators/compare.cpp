// Comparisons of two tensors with broadcasting, and logic of what isn't 0: a line each. Instances for the element types
// that hold all others: calls on 16-bit floats and on other integers are converted, which keeps their order.
#include "dsl/nonzero.h"
#include "dsl/operator.h"
#include "schedules/broadcast.h"

namespace ashlar::dsl {

struct ComparisonOperator {
  std::string name;
  std::string formula;
  Value (*holds)(Value, Value);
};

// y[i] = a[i] compared with b[i], as bool
template <ElementType T>
class Comparison : public Kernel<Comparison<T>> {
 public:
  In<T, 4> a{"a", strided}, b{"b", strided};
  Out<boolean, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  void bind(const ComparisonOperator& op) {
    operator_ = op;
    if (!std::is_same_v<T, f32>) this->widest_on_cpu(CodeTarget::cpu);
    this->formula(op.name + "(a, b) = " + op.formula + ", as bool, broadcasting").form(Form::broadcast);
  }
  void algorithm() {
    const Value left = a(p, q, r, s), right = b(p, q, r, s);
    y(p, q, r, s) = operator_.holds(left, right);
  }
  void schedule(auto target) { broadcast(target, y.func(), {p, q, r, s}, &tunables); }

 private:
  ComparisonOperator operator_;
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

template <ElementType... T, class F>
bool add_comparison(const std::string& name, const std::string& formula, F) {
  const ComparisonOperator op{name, formula, [](Value a, Value b) -> Value { return F{}(a, b); }};
  return register_bound_kernel<Comparison, f32, f64, i64, T...>(name, [op](auto& kernel) { kernel.bind(op); });
}

// A NaN equals nothing and has no order. Compiled for single elements on a CPU, a comparison alone takes it for equal.
Value are_numbers(const Value& a, const Value& b) { return !is_nan(a) && !is_nan(b); }

const bool registered = add_comparison("eq", "a = b", [](auto a, auto b) { return a == b && are_numbers(a, b); }) &&
                        add_comparison("ne", "a ≠ b", [](auto a, auto b) { return a != b || !are_numbers(a, b); }) &&
                        add_comparison("lt", "a < b", [](auto a, auto b) { return a < b && are_numbers(a, b); }) &&
                        add_comparison("le", "a ≤ b", [](auto a, auto b) { return a <= b && are_numbers(a, b); });

bool add_reversed(const std::string& name, const std::string& formula, const std::string& of) {
  return register_operator({.name = name,
                            .formula = name + "(a, b) = " + formula + ", as bool, broadcasting",
                            .dtypes = {DType::f32, DType::f64, DType::i64},
                            .inputs = {{"a"}, {"b"}},
                            .outputs = {{"y", DType::boolean}},
                            .calls = {of},
                            .composed = "operators/composed/comparisons.h"});
}
const bool reversed_registered = add_reversed("gt", "a > b", "lt") && add_reversed("ge", "a ≥ b", "le");

const bool logic_registered = add_comparison<boolean>("logical_and", "a ≠ 0 and b ≠ 0",
                                                      [](auto a, auto b) { return is_nonzero(a) && is_nonzero(b); }) &&
                              add_comparison<boolean>("logical_or", "a ≠ 0 or b ≠ 0",
                                                      [](auto a, auto b) { return is_nonzero(a) || is_nonzero(b); }) &&
                              add_comparison<boolean>("logical_xor", "either a ≠ 0 or b ≠ 0",
                                                      [](auto a, auto b) { return is_nonzero(a) != is_nonzero(b); });

}  // namespace ashlar::dsl
