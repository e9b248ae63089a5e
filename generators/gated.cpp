// Activations of two operands, which are written by hand around these kernels (operators/gated.cpp): what they bring
// into shapes that broadcast.
#include "dsl/operator.h"
#include "generators/binary_operator.h"
#include "schedules/halves.h"
#include "schedules/reduction_kernel.h"

namespace ashlar::dsl {

bool add_internal(const BinaryOperator& op) {
  return register_bound_kernel<Binary, f32>(op.name, [op](auto& kernel) {
    kernel.bind(op);
    kernel.internal();
  });
}

// dx[i] = x[i] > 0 ? dy[i] : weight[i] dy[i], broadcasting
template <ElementType T>
class PreluSlope : public Kernel<PreluSlope<T>> {
 public:
  In<T, 4> dy{"dy", strided}, x{"x", strided}, weight{"weight", strided};
  Out<T, 4> dx{"dx", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  PreluSlope() { this->formula("dy where x > 0, else weight dy, broadcasting").form(Form::broadcast).internal(); }
  void algorithm() {
    const Value g = dy(p, q, r, s);
    dx(p, q, r, s) = select(x(p, q, r, s) > 0.0, g, weight(p, q, r, s) * g);
  }
  void schedule(auto target) { broadcast(target, dx.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

// y[o,p,i] = Σ_k dy[o,k,i] x[o,k,i] over the k of part p where x isn't positive
template <ElementType T>
class PreluSums : public ReductionKernel<PreluSums<T>, T> {
 public:
  In<T, 3> dy{"dy", {this->x.size(0), this->x.size(1), this->x.size(2)}, strided};
  Out<T, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  PreluSums() {
    this->formula("Σ_k dy[o,k,i] x[o,k,i] where x[o,k,i] ≤ 0, k in part p").form(Form::movement).internal();
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    const Expr at = Halide::unsafe_promise_clamped(Expr(this->index(k)), 0, this->x.extent(1) - 1);
    const Value in = this->element(k);
    this->total(this->outer, this->part, this->inner) =
        sum(k, select(in > 0.0, 0.0, dy(this->outer, at, this->inner) * in));
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

// dx[o,0,i] = dy[o,i] sigmoid(b), dx[o,1,i] = dy[o,i] a sigmoid(b) (1 - sigmoid(b)), a = x[o,0,i], b = x[o,1,i]
template <ElementType T>
class GluSlope : public Kernel<GluSlope<T>> {
 public:
  In<T, 3> x{"x"};
  In<T, 2> dy{"dy", {x.size(0), x.size(2)}};
  Out<T, 3> dx{"dx", shape_of(x)};

  GluSlope() {
    this->formula("dx = dy sigmoid(b), dy a sigmoid(b) (1 - sigmoid(b)), a and b the halves of x");
    this->form(Form::movement).internal();
  }
  void algorithm() {
    const Value half = sigmoid(x(o, 1, i)), first = dy(o, i) * half;
    dx(o, h, i) = select(Value(Expr(h)) == 0, first, first * x(o, 0, i) * (1.0 - half));
  }
  void schedule(auto target) { in_halves(target, dx.func(), {o, h, i}); }

 private:
  Var o{"o"}, h{"h"}, i{"i"};
};

const bool registered =
    register_kernel<PreluSlope, f32>("prelu_slope") && register_kernel<GluSlope, f32>("glu_slope") &&
    register_kernel<PreluSums, f32>("prelu_sums") &&
    add_internal({"prelu_by_element", "a, where a ≤ 0 a b",
                  [](Value a, Value b) -> Value { return select(a > 0.0, a, b * a); }}) &&
    add_internal({"glu_by_element", "a sigmoid(b)", [](Value a, Value b) -> Value { return a * sigmoid(b); }}) &&
    register_operator(
        {.name = "prelu",
         .formula = "prelu(x, weight) = x, where x ≤ 0 weight x, one weight or one of each channel (axis 1)",
         .dtypes = {DType::f32},
         .inputs = {{"x"}, {"weight"}},
         .outputs = {{"y"}},
         .calls = {"prelu_by_element", "prelu_slope", "prelu_sums"},
         .gradients = {{"x", "prelu_input_grad(dy, x, weight)"}, {"weight", "prelu_weight_grad(dy, x, weight)"}}}) &&
    register_operator({.name = "glu",
                       .formula = "glu(x) = a sigmoid(b), a and b the halves of x along the axis",
                       .dtypes = {DType::f32},
                       .inputs = {{"x"}},
                       .options = {{.name = "axis", .default_value = -1}},
                       .outputs = {{"y"}},
                       .calls = {"glu_by_element", "glu_slope"},
                       .gradients = {{"x", "glu_grad(dy, x, axis)"}}});

}  // namespace ashlar::dsl
