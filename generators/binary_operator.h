// Element-wise functions of two tensors with broadcasting: what a file of such functions registers, a line each.
#pragma once

#include "schedules/broadcast.h"

namespace ashlar::dsl {

struct BinaryOperator {
  std::string name;
  std::string formula;
  Value (*value)(Value, Value);
  std::vector<GradientRule> gradients = {};
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

}  // namespace ashlar::dsl
