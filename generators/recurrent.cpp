// Steps of recurrent networks, each one kernel forward and one back (the original GRU's, two): the product with the
// state and all that follows it. operators/recurrent.cpp makes sequences of them.
//
// Tensors have leading axes of steps, in the order in which they are made, and of members, networks of an ensemble that
// run side by side. Gates lie as blocks of n columns. A row whose sequence is over keeps its state.
#include "generators/step_product.h"

namespace ashlar::dsl {

// gate(g) of x[t,m,b,:] at unit c: x[t, m, b, g n + c]
template <class Gates>
auto gate_of(const Gates& x, const Expr& n, const StepIndex& at) {
  return [&x, n, at](int g) -> Value { return x(at.t, at.m, at.b, Value(Expr(at.c) + g * n)); };
}
template <class Bias>
auto bias_of_gate(const Bias& bias, const Expr& n, const StepIndex& at) {
  return [&bias, n, at](int g) -> Value { return bias(at.m, Value(Expr(at.c) + g * n)); };
}

/// Which rows a step is for; as a member, declared behind the inputs. Step t is the sequence's `first` + t `by`.
struct StepOf {
  Scalar<int32_t> first{"first"}, by{"by"}, is_bounded{"is_bounded"};

  /// Whether row b's sequence has such a step: all have, or `lengths` says.
  template <class Lengths>
  Value has(const Lengths& lengths, const StepIndex& at) const {
    const Expr step = Value(first).expr() + at.t * Value(by).expr();
    return Value(Value(is_bounded).expr() == 0 || step < lengths(at.b).expr());
  }
};

/// How a weight lies of which columns are outputs, and one of which rows are.
template <class Weight>
LieOfRight lie_of(const Weight& weight) {
  return {.columns_contiguous = weight.axis(2).stride() == 1, .terms_contiguous = weight.axis(1).stride() == 1};
}
const LieOfRight kByRows{.columns_contiguous = Halide::Internal::const_true(),
                         .terms_contiguous = Halide::Internal::const_false()};

/// state weight, of `gates` gates from gate `first` on; weight[m,k,g n + c]
template <class State, class Weight>
void define_forward(StepProduct& product, int gates, int first, const State& state, const Weight& weight) {
  const Expr n = state.extent(3);
  product.define(
      {gates, 1, n, state.extent(2), n, state.extent(0), state.extent(1)},
      [&](const Expr& t, const Expr& m, const Expr& b, const Expr& k) {
        return state(Value(t), Value(m), Value(b), Value(k));
      },
      [&, n, first](const Expr& m, const Expr& k, const Expr& g, const Expr& c) {
        return weight(Value(m), Value(k), Value((g + first) * n + c));
      });
}
/// slopes weight of `gates` gates, over `terms` of the slopes' columns and the weight's rows from `first` on;
/// weight[m,k,c]
template <class Slopes, class Weight>
void define_backward(StepProduct& product, int gates, const Slopes& slopes, const Weight& weight, const Expr& terms,
                     const Expr& first = 0) {
  product.define(
      {1, gates, terms, slopes.extent(2), weight.extent(2), slopes.extent(0), slopes.extent(1)},
      [&](const Expr& t, const Expr& m, const Expr& b, const Expr& k) {
        return slopes(Value(t), Value(m), Value(b), Value(k));
      },
      [&, first](const Expr& m, const Expr& k, const Expr&, const Expr& c) {
        return weight(Value(m), Value(first + k), Value(c));
      });
}

// What gates are made of: sigmoid and tanh, on the CPU by an exponential that costs half as much as exp, since its
// argument is never above 0 and results below 2^-126 may be 0.
inline Value gate_sigmoid(const Value& x) {
  if (on_gpu()) return sigmoid(x);
  const Value e = exp_below_zero(-abs(x));
  return select(x >= 0, 1.0, e) / (1.0 + e);
}
inline Value gate_tanh(const Value& x) {
  if (on_gpu()) return tanh(x);
  const Value size = abs(x), square = size * size, e = exp_below_zero(-2.0 * size);
  // near 0, where the exponentials cancel, x + x³ p(x²), p as tanh has it
  const Value near =
      size + size * square *
                 (-0.333332837 +
                  square * (0.133314908 + square * (-0.0537434965 + square * (0.0206505787 - square * 0.00571703399))));
  const Value result = select(size < 0.625, near, (1.0 - e) / (1.0 + e));
  return select(x < 0, -result, result);
}

// y = f(x + bias + h weight), f tanh or relu (Elman 1990)
template <ElementType T>
class RnnStep : public Kernel<RnnStep<T>> {
 public:
  In<T, 4> x{"x"};
  In<T, 4> h{"h", shape_of(x)};
  In<T, 3> weight{"weight", {x.size(1), x.size(3), x.size(3)}, strided};
  In<T, 2> bias{"bias", {x.size(1), x.size(3)}};
  In<i32, 1> lengths{"lengths", {x.size(2)}, strided};
  StepOf of;
  Scalar<int32_t> is_relu{"is_relu"};
  Out<T, 4> y{"y", shape_of(h)};

  RnnStep() { this->formula("y = tanh(x + bias + h weight), or relu").internal(); }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_forward(product, 1, 0, h, weight);
    const Values known = product.ahead(at, {x(t, m, b, c) + bias(m, c), h(t, m, b, c)});
    const Value a = known[0] + product.sum(at, 0);
    y(t, m, b, c) = select(of.has(lengths, at), select(Value(is_relu) != 0, relu(a), gate_tanh(a)), known[1]);
  }
  void schedule(auto target) { product.schedule(target, y.func(), at, {}, lie_of(weight)); }

 private:
  StepProduct product;
  StepIndex at;
};

// With dh = dy + direct + da weight of the step behind this one: dx = dh f', and what reaches the state before without
// the product.
template <ElementType T>
class RnnStepGradient : public Kernel<RnnStepGradient<T>> {
 public:
  In<T, 4> y{"y"};
  In<T, 4> dy{"dy", shape_of(y)}, direct{"direct", shape_of(y)};
  In<T, 4> da{"da", shape_of(y)};
  In<T, 3> weight{"weight", {y.size(1), y.size(3), y.size(3)}};
  In<i32, 1> lengths{"lengths", {y.size(2)}, strided};
  StepOf of;
  Scalar<int32_t> is_relu{"is_relu"};
  OutTuple<4, T, T> gradients{"gradients", {{{"dx"}, {"dh"}}}, shape_of(y)};

  RnnStepGradient() { this->formula("dx = dh (1 - y²), or dh where y > 0").internal(); }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_backward(product, 1, da, weight, da.extent(3));
    const Values known = product.ahead(at, {dy(t, m, b, c) + direct(t, m, b, c), y(t, m, b, c)});
    const Value dh = known[0] + product.sum(at, 0), out = known[1];
    const Value is_there = of.has(lengths, at);
    const Value slope = select(Value(is_relu) != 0, select(out > 0.0, dh, 0.0), dh * (1.0 - out * out));
    gradients.define({t, m, b, c}, {select(is_there, slope, 0.0), select(is_there, 0.0, dh)});
  }
  void schedule(auto target) { product.schedule(target, gradients.func(), at, {}, kByRows); }

 private:
  StepProduct product;
  StepIndex at;
};

// y = n + z (h - n),  r = σ(x_r + a_r), z = σ(x_z + a_z), n = tanh(x_n + r a_n),  a = h weight + bias
// (Cho et al. 2014, with the reset gate behind the product, as in PyTorch and cuDNN)
template <ElementType T>
class GruStep : public Kernel<GruStep<T>> {
 public:
  In<T, 4> x{"x"};
  In<T, 4> h{"h", {x.size(0), x.size(1), x.size(2), x.size(3) / constant(3)}};
  In<T, 3> weight{"weight", {x.size(1), h.size(3), x.size(3)}, strided};
  In<T, 2> bias{"bias", {x.size(1), x.size(3)}};
  In<i32, 1> lengths{"lengths", {x.size(2)}, strided};
  StepOf of;
  Out<T, 4> y{"y", shape_of(h)};

  GruStep() {
    this->formula("y = n + z (h - n), r = σ(x_r + a_r), z = σ(x_z + a_z), n = tanh(x_n + r a_n), a = h weight + bias")
        .internal();
  }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_forward(product, 3, 0, h, weight);
    const auto x_of = gate_of(x, h.extent(3), at);
    const auto bias_of = bias_of_gate(bias, h.extent(3), at);
    const Values known =
        product.ahead(at, {x_of(0) + bias_of(0), x_of(1) + bias_of(1), x_of(2), bias_of(2), h(t, m, b, c)});
    const Value reset = gate_sigmoid(known[0] + product.sum(at, 0)),
                update = gate_sigmoid(known[1] + product.sum(at, 1)), old = known[4];
    const Value candidate = gate_tanh(known[2] + reset * (product.sum(at, 2) + known[3]));
    y(t, m, b, c) = select(of.has(lengths, at), candidate + update * (old - candidate), old);
  }
  void schedule(auto target) { product.schedule(target, y.func(), at, {}, lie_of(weight)); }

 private:
  StepProduct product;
  StepIndex at;
};

// With dh = dy + direct + da weight of the step behind this one: dx and da of the three gates, and what reaches the
// state before without the product. `a` is h weightᵀ.
template <ElementType T>
class GruStepGradient : public Kernel<GruStepGradient<T>> {
 public:
  In<T, 4> x{"x"};
  In<T, 4> a{"a", shape_of(x)};
  In<T, 2> bias{"bias", {x.size(1), x.size(3)}};
  In<T, 4> h{"h", {x.size(0), x.size(1), x.size(2), x.size(3) / constant(3)}};
  In<T, 4> dy{"dy", shape_of(h)}, direct{"direct", shape_of(h)};
  In<T, 4> next{"next", shape_of(x)};
  In<T, 3> weight{"weight", {x.size(1), x.size(3), h.size(3)}};
  In<i32, 1> lengths{"lengths", {x.size(2)}, strided};
  StepOf of;
  OutTuple<5, T, T, T> gradients{
      "gradients", {{{"dx"}, {"da"}, {"dh"}}}, {x.size(0), x.size(1), x.size(2), constant(3), x.size(3) / constant(3)}};

  GruStepGradient() {
    this->formula("dx_n = dh (1 - z) (1 - n²), dx_z = dh (h - n) z (1 - z), dx_r = dx_n a_n r (1 - r), dh z")
        .internal();
  }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_backward(product, 3, next, weight, next.extent(3));
    const auto x_of = gate_of(x, h.extent(3), at), product_of = gate_of(a, h.extent(3), at);
    const auto bias_of = bias_of_gate(bias, h.extent(3), at);
    const auto a_of = [&](int of_gate) { return product_of(of_gate) + bias_of(of_gate); };
    const Value r = gate_sigmoid(x_of(0) + a_of(0)), z = gate_sigmoid(x_of(1) + a_of(1)),
                n = gate_tanh(x_of(2) + r * a_of(2));
    // dh, but for the product, and by it the gates' gradients
    const Values known = product.ahead(at, {dy(t, m, b, c) + direct(t, m, b, c), (1.0 - z) * (1.0 - n * n),
                                            (h(t, m, b, c) - n) * z * (1.0 - z), a_of(2) * r * (1.0 - r), r, z});
    const Value dh = known[0] + product.sum(at, 0), is_there = of.has(lengths, at);
    const Value dn = dh * known[1], dz = dh * known[2], dr = dn * known[3];
    const Values of_unit = product.held(at, {dr, dz, dn, dn * known[4], dh * known[5], dh});
    const auto gate = [&](const Value& of_n) {
      return select(is_there, select(Value(g) == 0, of_unit[0], select(Value(g) == 1, of_unit[1], of_n)), 0.0);
    };
    gradients.define({t, m, b, g, c}, {gate(of_unit[2]), gate(of_unit[3]), select(is_there, of_unit[4], of_unit[5])});
  }
  void schedule(auto target) {
    gradients.func().bound(g, 0, 3);
    product.schedule(target, gradients.func(), at, {g}, kByRows);
  }

 private:
  StepProduct product;
  StepIndex at;
  Var g{"g"};
};

// The original GRU (Cho et al. 2014; Keras' reset_after = false), whose reset stands before the product, begins with
// r h and z:  r = σ(x_r + h weight_r + bias_r), z = σ(x_z + h weight_z + bias_z)
template <ElementType T>
class GruGates : public Kernel<GruGates<T>> {
 public:
  In<T, 4> x{"x"};
  In<T, 4> h{"h", {x.size(0), x.size(1), x.size(2), x.size(3) / constant(3)}};
  In<T, 3> weight{"weight", {x.size(1), h.size(3), x.size(3)}, strided};
  In<T, 2> bias{"bias", {x.size(1), x.size(3)}};
  OutTuple<4, T, T> gates{"gates", {{{"reset_state"}, {"z"}}}, shape_of(h)};

  GruGates() { this->formula("σ(x_r + h weight_r + bias_r) h, σ(x_z + h weight_z + bias_z)").internal(); }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_forward(product, 2, 0, h, weight);
    const auto x_of = gate_of(x, h.extent(3), at);
    const auto bias_of = bias_of_gate(bias, h.extent(3), at);
    const auto gate = [&](int g) { return gate_sigmoid(x_of(g) + bias_of(g) + product.sum(at, g)); };
    gates.define({t, m, b, c}, {gate(0) * h(t, m, b, c), gate(1)});
  }
  void schedule(auto target) { product.schedule(target, gates.func(), at, {}, lie_of(weight)); }

 private:
  StepProduct product{Steps::one};
  StepIndex at;
};

// and ends with  y = n + z (h - n), n = tanh(x_n + (r h) weight_n + bias_n)
template <ElementType T>
class GruCandidate : public Kernel<GruCandidate<T>> {
 public:
  In<T, 4> x{"x"};
  In<T, 4> h{"h", {x.size(0), x.size(1), x.size(2), x.size(3) / constant(3)}};
  In<T, 4> reset_state{"reset_state", shape_of(h)}, z{"z", shape_of(h)};
  In<T, 3> weight{"weight", {x.size(1), h.size(3), x.size(3)}, strided};
  In<T, 2> bias{"bias", {x.size(1), x.size(3)}};
  In<i32, 1> lengths{"lengths", {x.size(2)}, strided};
  StepOf of;
  Out<T, 4> y{"y", shape_of(h)};

  GruCandidate() { this->formula("y = n + z (h - n), n = tanh(x_n + reset_state weight_n + bias_n)").internal(); }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_forward(product, 1, 2, reset_state, weight);
    const Value before = gate_of(x, h.extent(3), at)(2) + bias_of_gate(bias, h.extent(3), at)(2), old = h(t, m, b, c);
    const Value candidate = gate_tanh(before + product.sum(at, 0));
    y(t, m, b, c) = select(of.has(lengths, at), candidate + z(t, m, b, c) * (old - candidate), old);
  }
  void schedule(auto target) { product.schedule(target, y.func(), at, {}, lie_of(weight)); }

 private:
  StepProduct product{Steps::one};
  StepIndex at;
};

// Back, with dh = dy + direct + (dx_r, dx_z) (weight_r, weight_z) of the step behind this one:
// dx_n = dh (1 - z) (1 - n²), dx_z = dh (h - n) z (1 - z), and dh z
template <ElementType T>
class GruCandidateGradient : public Kernel<GruCandidateGradient<T>> {
 public:
  In<T, 4> z{"z"};
  In<T, 4> n{"n", shape_of(z)}, h{"h", shape_of(z)}, dy{"dy", shape_of(z)}, direct{"direct", shape_of(z)};
  In<T, 4> next{"next", {z.size(0), z.size(1), z.size(2), z.size(3) * constant(3)}};
  In<T, 3> weight{"weight", {z.size(1), next.size(3), z.size(3)}};
  In<i32, 1> lengths{"lengths", {z.size(2)}, strided};
  StepOf of;
  OutTuple<4, T, T, T> gradients{"gradients", {{{"dn"}, {"dz"}, {"dh"}}}, shape_of(z)};

  GruCandidateGradient() { this->formula("dx_n = dh (1 - z) (1 - n²), dx_z = dh (h - n) z (1 - z), dh z").internal(); }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_backward(product, 2, next, weight, 2 * z.extent(3));
    const Value dh = dy(t, m, b, c) + direct(t, m, b, c) + product.sum(at, 0), is_there = of.has(lengths, at);
    const Value update = z(t, m, b, c), candidate = n(t, m, b, c);
    const Value dn = dh * (1.0 - update) * (1.0 - candidate * candidate);
    const Value dz = dh * (h(t, m, b, c) - candidate) * update * (1.0 - update);
    gradients.define({t, m, b, c},
                     {select(is_there, dn, 0.0), select(is_there, dz, 0.0), select(is_there, dh * update, dh)});
  }
  void schedule(auto target) { product.schedule(target, gradients.func(), at, {}, kByRows); }

 private:
  StepProduct product{Steps::one};
  StepIndex at;
};

// and with d = dx_n weight_n: dx_r = d h r (1 - r), which makes dx whole, and direct + d r
template <ElementType T>
class GruGatesGradient : public Kernel<GruGatesGradient<T>> {
 public:
  In<T, 4> r{"r"};
  In<T, 4> h{"h", shape_of(r)}, dn{"dn", shape_of(r)}, dz{"dz", shape_of(r)}, direct{"direct", shape_of(r)};
  In<T, 3> weight{"weight", {r.size(1), r.size(3) * constant(3), r.size(3)}};
  OutTuple<5, T, T> gradients{
      "gradients", {{{"dx"}, {"dh"}}}, {r.size(0), r.size(1), r.size(2), constant(3), r.size(3)}};

  GruGatesGradient() { this->formula("d = dx_n weight_n, dx_r = d h r (1 - r), direct + d r").internal(); }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_backward(product, 1, dn, weight, r.extent(3), 2 * r.extent(3));
    const Value d = product.sum(at, 0), reset = r(t, m, b, c);
    const Value dr = d * h(t, m, b, c) * reset * (1.0 - reset);
    gradients.define({t, m, b, g, c}, {select(Value(g) == 0, dr, select(Value(g) == 1, dz(t, m, b, c), dn(t, m, b, c))),
                                       direct(t, m, b, c) + d * reset});
  }
  void schedule(auto target) {
    gradients.func().bound(g, 0, 3);
    product.schedule(target, gradients.func(), at, {g}, kByRows);
  }

 private:
  StepProduct product{Steps::one};
  StepIndex at;
  Var g{"g"};
};

// c' = f c + i g,  y = o tanh(c'),  i, f, o = σ(x + a) of their gates, g = tanh(x_g + a_g),  a = h weight + bias
// (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000)
template <ElementType T>
class LstmStep : public Kernel<LstmStep<T>> {
 public:
  In<T, 4> x{"x"};
  In<T, 4> h{"h", {x.size(0), x.size(1), x.size(2), x.size(3) / constant(4)}};
  In<T, 4> cell{"cell", shape_of(h)};
  In<T, 3> weight{"weight", {x.size(1), h.size(3), x.size(3)}, strided};
  In<T, 2> bias{"bias", {x.size(1), x.size(3)}};
  In<i32, 1> lengths{"lengths", {x.size(2)}, strided};
  StepOf of;
  OutTuple<4, T, T> states{"states", {{{"y"}, {"new_cell"}}}, shape_of(h)};

  LstmStep() {
    this->formula("c' = σ(f) c + σ(i) tanh(g), y = σ(o) tanh(c'), each gate x + h weight + bias").internal();
  }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_forward(product, 4, 0, h, weight);
    const auto x_of = gate_of(x, h.extent(3), at);
    const auto bias_of = bias_of_gate(bias, h.extent(3), at);
    const auto before = [&](int g) { return x_of(g) + bias_of(g); };
    const Values known =
        product.ahead(at, {before(0), before(1), before(2), before(3), cell(t, m, b, c), h(t, m, b, c)});
    const auto sum = [&](int g) { return known[static_cast<size_t>(g)] + product.sum(at, g); };
    const Value old = known[4], is_there = of.has(lengths, at);
    const Value now = gate_sigmoid(sum(1)) * old + gate_sigmoid(sum(0)) * gate_tanh(sum(2));
    states.define({t, m, b, c},
                  {select(is_there, gate_sigmoid(sum(3)) * gate_tanh(now), known[5]), select(is_there, now, old)});
  }
  void schedule(auto target) { product.schedule(target, states.func(), at, {}, lie_of(weight)); }

 private:
  StepProduct product;
  StepIndex at;
};

// With dh = dy + direct + da weight of the step behind this one, and what comes back to the new cell: the gates'
// gradients, the old cell's, and what reaches the state before without the product. `a` is h weightᵀ.
template <ElementType T>
class LstmStepGradient : public Kernel<LstmStepGradient<T>> {
 public:
  In<T, 4> x{"x"};
  In<T, 4> a{"a", shape_of(x)};
  In<T, 2> bias{"bias", {x.size(1), x.size(3)}};
  In<T, 4> cell{"cell", {x.size(0), x.size(1), x.size(2), x.size(3) / constant(4)}};
  In<T, 4> dy{"dy", shape_of(cell)}, direct{"direct", shape_of(cell)};
  In<T, 4> dnew{"dnew", shape_of(cell)}, carried{"carried", shape_of(cell)};
  In<T, 4> next{"next", shape_of(x)};
  In<T, 3> weight{"weight", {x.size(1), x.size(3), cell.size(3)}};
  In<i32, 1> lengths{"lengths", {x.size(2)}, strided};
  StepOf of;
  OutTuple<5, T, T, T> gradients{"gradients",
                                 {{{"dx"}, {"dcell"}, {"dh"}}},
                                 {x.size(0), x.size(1), x.size(2), constant(4), x.size(3) / constant(4)}};

  LstmStepGradient() {
    this->formula("do = dh tanh(c') o (1 - o), dc = dh o (1 - tanh(c')²) + dc', df = dc c f (1 - f), …").internal();
  }
  void algorithm() {
    const auto& [t, m, b, c] = at;
    define_backward(product, 4, next, weight, next.extent(3));
    const auto x_of = gate_of(x, cell.extent(3), at), a_of = gate_of(a, cell.extent(3), at);
    const auto bias_of = bias_of_gate(bias, cell.extent(3), at);
    const auto sum = [&](int of_gate) { return x_of(of_gate) + a_of(of_gate) + bias_of(of_gate); };
    const Value i = gate_sigmoid(sum(0)), f = gate_sigmoid(sum(1)), n = gate_tanh(sum(2)), o = gate_sigmoid(sum(3)),
                old = cell(t, m, b, c);
    const Value squashed = gate_tanh(f * old + i * n), is_there = of.has(lengths, at);
    // dh, but for the product, what reaches dc beside it, dc by dh, and by dc and dh the gates' gradients
    const Values known = product.ahead(at, {dy(t, m, b, c) + direct(t, m, b, c), dnew(t, m, b, c) + carried(t, m, b, c),
                                            o * (1.0 - squashed * squashed), n * i * (1.0 - i), old * f * (1.0 - f),
                                            i * (1.0 - n * n), squashed * o * (1.0 - o), f});
    const Value dh = known[0] + product.sum(at, 0), reaching = known[1], dc = dh * known[2] + reaching;
    const Values of_unit =
        product.held(at, {dc * known[3], dc * known[4], dc * known[5], dh * known[6], dc * known[7], reaching, dh});
    const Value of_gate = select(Value(g) < 2, select(Value(g) == 0, of_unit[0], of_unit[1]),
                                 select(Value(g) == 2, of_unit[2], of_unit[3]));
    gradients.define({t, m, b, g, c}, {select(is_there, of_gate, 0.0), select(is_there, of_unit[4], of_unit[5]),
                                       select(is_there, 0.0, of_unit[6])});
  }
  void schedule(auto target) {
    gradients.func().bound(g, 0, 4);
    product.schedule(target, gradients.func(), at, {g}, kByRows);
  }

 private:
  StepProduct product;
  StepIndex at;
  Var g{"g"};
};

const std::vector<DType> kRecurrent{DType::f32, DType::f16, DType::bf16};
const OperatorTensor kLengths{.name = "lengths", .dtype = DType::i64, .is_optional = true};
const OperatorOption kReverse{.name = "reverse", .kind = FormOption::Kind::boolean};
const OperatorOption kResetAfter{.name = "reset_after", .kind = FormOption::Kind::boolean, .default_value = 1};
const OperatorOption kUseRelu{.name = "use_relu", .kind = FormOption::Kind::boolean};
/// One launch for all steps (few, where there are very many), or one for each.
const std::vector<std::string> kPlans{"all_steps", "each_step"};
const std::vector<std::string> kPlanSizes{"steps", "members", "batch", "hidden"};
const bool registered =
    register_kernel<RnnStep, f32>("rnn_step") && register_kernel<RnnStepGradient, f32>("rnn_step_grad") &&
    register_kernel<GruStep, f32>("gru_step") && register_kernel<GruStepGradient, f32>("gru_step_grad") &&
    register_kernel<GruGates, f32>("gru_gates") && register_kernel<GruGatesGradient, f32>("gru_gates_grad") &&
    register_kernel<GruCandidate, f32>("gru_candidate") &&
    register_kernel<GruCandidateGradient, f32>("gru_candidate_grad") && register_kernel<LstmStep, f32>("lstm_step") &&
    register_kernel<LstmStepGradient, f32>("lstm_step_grad") &&
    register_operator(
        {.name = "rnn_sequence",
         .formula = "rnn_sequence(x, h, weight_hh, bias_hh, lengths)[t] = tanh(x[t] + y[t-1] weight_hhᵀ + bias_hh), "
                    "y[-1] = h, or relu with use_relu; y[t-1] where t >= lengths; from the last t on with reverse",
         .dtypes = kRecurrent,
         .inputs = {{"x"}, {"h"}, {"weight_hh"}, {"bias_hh"}, kLengths},
         .options = {kReverse, kUseRelu},
         .outputs = {{"y"}},
         .calls = {"rnn_step", "copy", "cast"},
         .gradients = {{kAllInputs, "rnn_grad(dy, x, h, weight_hh, bias_hh, y, lengths, reverse, use_relu, needs)"}},
         .plans = kPlans,
         .plan_sizes = kPlanSizes}) &&
    register_operator({.name = "rnn_sequence_grad",
                       .formula = "the gradients of rnn_sequence: dx, dh, dweight_hh, dbias_hh",
                       .dtypes = kRecurrent,
                       .inputs = {{"dy"}, {"x"}, {"h"}, {"weight_hh"}, {"bias_hh"}, {"y"}, kLengths},
                       .options = {kReverse, kUseRelu},
                       .outputs = {{"dx"}, {"dh"}, {"dweight_hh"}, {"dbias_hh"}},
                       .calls = {"rnn_step_grad", "matmul", "copy", "cast", "sum"},
                       .plans = kPlans,
                       .plan_sizes = kPlanSizes}) &&
    register_operator(
        {.name = "gru_sequence",
         .formula = "gru_sequence(x, h, weight_hh, bias_hh, lengths)[t] = (1 - z) n + z y[t-1], y[-1] = h, r, z, n of "
                    "x[t] and y[t-1] weight_hhᵀ + bias_hh (n of (r y[t-1]) weight_hhᵀ + bias_hh without reset_after); "
                    "y[t-1] where t >= lengths; from the last t on with reverse",
         .dtypes = kRecurrent,
         .inputs = {{"x"}, {"h"}, {"weight_hh"}, {"bias_hh"}, kLengths},
         .options = {kReverse, kResetAfter},
         .outputs = {{"y"}},
         .calls = {"gru_step", "gru_gates", "gru_candidate", "copy", "cast"},
         .gradients = {{kAllInputs, "gru_grad(dy, x, h, weight_hh, bias_hh, y, lengths, reverse, reset_after, needs)"}},
         .plans = kPlans,
         .plan_sizes = kPlanSizes}) &&
    register_operator({.name = "gru_sequence_grad",
                       .formula = "the gradients of gru_sequence: dx, dh, dweight_hh, dbias_hh",
                       .dtypes = kRecurrent,
                       .inputs = {{"dy"}, {"x"}, {"h"}, {"weight_hh"}, {"bias_hh"}, {"y"}, kLengths},
                       .options = {kReverse, kResetAfter},
                       .outputs = {{"dx"}, {"dh"}, {"dweight_hh"}, {"dbias_hh"}},
                       .calls = {"gru_step_grad", "gru_gates_grad", "gru_candidate_grad", "matmul", "copy", "cast",
                                 "sum", "add", "mul", "sigmoid", "tanh"},
                       .plans = kPlans,
                       .plan_sizes = kPlanSizes}) &&
    register_operator(
        {.name = "lstm_sequence",
         .formula = "lstm_sequence(x, h, c, weight_hh, bias_hh, lengths): c[t] = f c[t-1] + i g, y[t] = o tanh(c[t]), "
                    "gates of x[t] and y[t-1] weight_hhᵀ + bias_hh; both of t-1 where t >= lengths; from the last t "
                    "on with reverse",
         .dtypes = kRecurrent,
         .inputs = {{"x"}, {"h"}, {"c"}, {"weight_hh"}, {"bias_hh"}, kLengths},
         .options = {kReverse},
         .outputs = {{"y"}, {"cells"}},
         .calls = {"lstm_step", "copy", "cast"},
         .gradients = {{kAllInputs,
                        "lstm_grad(dy, dcells, x, h, c, weight_hh, bias_hh, y, cells, lengths, reverse, needs)"}},
         .plans = kPlans,
         .plan_sizes = kPlanSizes}) &&
    register_operator(
        {.name = "lstm_sequence_grad",
         .formula = "the gradients of lstm_sequence: dx, dh, dc, dweight_hh, dbias_hh",
         .dtypes = kRecurrent,
         .inputs = {{"dy"}, {"dcells"}, {"x"}, {"h"}, {"c"}, {"weight_hh"}, {"bias_hh"}, {"y"}, {"cells"}, kLengths},
         .options = {kReverse},
         .outputs = {{"dx"}, {"dh"}, {"dc"}, {"dweight_hh"}, {"dbias_hh"}},
         .calls = {"lstm_step_grad", "matmul", "copy", "cast", "sum"},
         .plans = kPlans,
         .plan_sizes = kPlanSizes});

}  // namespace ashlar::dsl
