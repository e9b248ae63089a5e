// Gated linear units of two tensors of one shape (Shazeer 2020): an activation of the one times the other, and both
// gradients in one pass.
#include "dsl/dual.h"
#include "dsl/functions.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {

template <class G>
struct GatedUnit {
  // y[i] = f(gate[i]) x[i]
  template <ElementType T>
  class Forward : public Kernel<Forward<T>> {
   public:
    In<T, 1> gate{"gate"}, x{"x", shape_of(gate)};
    Out<T, 1> y{"y", shape_of(gate)};
    ElementwiseTunables tunables;

    Forward() {
      const std::string name = G::name;
      this->formula(name + "(gate, x)[i] = " + G::formula + " x[i], g = gate[i]").form(Form::pointwise);
      this->gradient(kAllInputs, "gated_unit_grad(GatedUnitKind::" + name + ", dy, gate, x)",
                     "autograd/recipes/gated_units.h");
    }
    void algorithm() { y(i) = G::value(gate(i)) * x(i); }
    void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

   private:
    Var i{"i"};
  };

  // dgate[i] = dy[i] x[i] f'(gate[i]), dx[i] = dy[i] f(gate[i])
  template <ElementType T>
  class Gradient : public Kernel<Gradient<T>> {
   public:
    In<T, 1> dy{"dy"}, gate{"gate", shape_of(dy)}, x{"x", shape_of(dy)};
    OutTuple<1, T, T> gradients{"gradients", {{{"dgate"}, {"dx"}}}, shape_of(dy)};

    Gradient() {
      const std::string name = G::name;
      this->formula(name + "_grad(dy, gate, x) = dy x f'(gate), dy f(gate), f as in " + name).form(Form::pointwise);
    }
    void algorithm() {
      const Dual f = G::value(Dual(gate(i), 1.0));
      gradients.define({i}, {dy(i) * x(i) * f.d, dy(i) * f.v});
    }
    void schedule(auto target) { elementwise(target, gradients.func(), i); }

   private:
    Var i{"i"};
  };
};

struct Swiglu {
  static constexpr const char *name = "swiglu", *formula = "g sigmoid(g)";
  static auto value(const auto& gate) { return silu(gate); }
};

struct Geglu {
  static constexpr const char *name = "geglu", *formula = "g/2 (1 + erf(g/√2))";
  static auto value(const auto& gate) { return gelu(gate); }
};

template <class G>
bool add_unit() {
  const std::string name = G::name;
  return register_kernel<GatedUnit<G>::template Forward, f32, f16, bf16>(name) &&
         register_kernel<GatedUnit<G>::template Gradient, f32, f16, bf16>(name + "_grad");
}

const bool registered = add_unit<Swiglu>() && add_unit<Geglu>();

}  // namespace ashlar::dsl
