// Element-wise functions of one tensor with their gradients: what a file of such functions registers, a line each.
#pragma once

#include "dsl/dual.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {

struct UnaryOperator {
  std::string name;
  std::string formula;
  Value (*value)(Value);
  Value (*derivative)(Value) = nullptr;  ///< null: 0 wherever there is one
  /// p f''(x), an expression over tensors p and x; kZeroGradient; or empty: not differentiable twice.
  std::string second = {};
  bool is_rare = false;  ///< has no instances of 16 bits, and on the CPU none for AVX-512
};

/// A second derivative with what p is in the gradient of dy f'(x).
inline std::string with_upstream(std::string expression) {
  for (size_t at; (at = expression.find("(p,")) != std::string::npos;) {
    expression.replace(at, 3, "(mul(ddx, dy),");
  }
  return expression;
}

// y[i] = f(x[i])
template <ElementType T>
class Unary : public Kernel<Unary<T>> {
 public:
  In<T, 2> x{"x", strided};
  Out<T, 1> y{"y", {any_size}};
  ElementwiseTunables tunables;

  void bind(const UnaryOperator& op) {
    operator_ = op;
    if (op.is_rare) this->widest_on_cpu(CodeTarget::cpu_avx2);
    if (!is_floating(Element<T>::dtype)) this->widest_on_cpu(CodeTarget::cpu);  // few elements, and rare
    this->formula(op.name + "(x)[i] = " + op.formula).form(Form::pointwise);
    this->gradient("x", op.derivative ? op.name + "_grad(dy, x)" : kZeroGradient);
  }
  void algorithm() { y(i) = operator_.value(element_of(x, i)); }
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
    if (op.is_rare) this->widest_on_cpu(CodeTarget::cpu_avx2);
    this->formula(op.name + "_grad(dy, x)[i] = dy[i] (d/dx " + op.name + ")(x[i])").form(Form::pointwise);
    this->gradient("dy", op.name + "_grad(ddx, x)");
    if (!op.second.empty()) this->gradient("x", with_upstream(op.second));
  }
  void algorithm() { dx(i) = dy(i) * operator_.derivative(x(i)); }
  void schedule(auto target) { elementwise(target, dx.func(), i, {}, &tunables); }

 private:
  UnaryOperator operator_;
  Var i{"i"};
};

/// Adds an operator for element types T…, and its gradient for those of them that are floating.
template <ElementType... T>
bool add_unary(UnaryOperator op) {
  op.is_rare = !(std::is_same_v<T, f16> || ...);
  const auto bind = [op](auto& kernel) { kernel.bind(op); };
  if (!register_bound_kernel<Unary, T...>(op.name, bind)) return false;
  if (op.derivative == nullptr) return true;
  KernelEntry gradient{op.name + "_grad", {}};
  const auto add = [&]<class Floating>() {
    if constexpr (is_floating(Element<Floating>::dtype)) {
      gradient.instances.push_back(detail::make_instance<UnaryGradient<Floating>>({Element<Floating>::dtype}, bind));
    }
  };
  (add.template operator()<T>(), ...);
  return add_kernel(std::move(gradient));
}

/// The same with the derivative by dual numbers.
template <ElementType... T, class F>
bool add_differentiated(const std::string& name, const std::string& formula, const std::string& second, F) {
  return add_unary<T...>({name, formula, [](Value x) -> Value { return F{}(x); },
                          [](Value x) -> Value { return F{}(Dual(x, 1.0)).d; }, second});
}

/// A function with parameters: F has them as Scalars in a struct Options, f and its derivative over them, and p f''(x)
/// as UnaryOperator::second.
template <class F>
struct WithOptions {
  // y[i] = f(x[i])
  template <ElementType T>
  class Forward : public Kernel<Forward<T>> {
   public:
    In<T, 2> x{"x", strided};
    typename F::Options options;
    Out<T, 1> y{"y", {any_size}};
    ElementwiseTunables tunables;

    Forward() {
      const std::string name = F::name, parameters = F::parameters;
      this->formula(name + "(x, " + parameters + ")[i] = " + F::formula).form(Form::pointwise);
      this->gradient("x", name + "_grad(dy, x, " + parameters + ")");
    }
    void algorithm() { y(i) = F::value(element_of(x, i), options); }
    void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

   private:
    Var i{"i"};
  };

  // dx[i] = dy[i] f'(x[i])
  template <ElementType T>
  class Gradient : public Kernel<Gradient<T>> {
   public:
    In<T, 1> dy{"dy"}, x{"x"};
    typename F::Options options;
    Out<T, 1> dx{"dx", shape_of(x)};
    ElementwiseTunables tunables;

    Gradient() {
      const std::string name = F::name, parameters = F::parameters;
      this->formula(name + "_grad(dy, x, " + parameters + ")[i] = dy[i] (d/dx " + name + ")(x[i])");
      this->form(Form::pointwise).gradient("dy", name + "_grad(ddx, x, " + parameters + ")");
      this->gradient("x", with_upstream(F::second));
    }
    void algorithm() { dx(i) = dy(i) * F::derivative(x(i), options); }
    void schedule(auto target) { elementwise(target, dx.func(), i, {}, &tunables); }

   private:
    Var i{"i"};
  };
};

template <class F, ElementType... T>
bool add_with_options() {
  const std::string name = F::name;
  return register_kernel<WithOptions<F>::template Forward, T...>(name) &&
         register_kernel<WithOptions<F>::template Gradient, T...>(name + "_grad");
}

}  // namespace ashlar::dsl
