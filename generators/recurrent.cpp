// Steps of recurrent networks: all that follows the products with the weights, as one kernel each way.
// operators/recurrent.cpp makes sequences of them.
#include "schedules/generic.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

// Gates lie as blocks of n columns: gate(x, g)[b,c] = x[b, g n + c].
template <class Gates, class Hidden>
auto gate_of(const Gates& x, const Hidden& like, const Var& b, const Var& c) {
  const Expr n = like.extent(1);
  return [&x, n, b, c](int g) -> Value { return x(b, Value(Expr(c) + g * n)); };
}

// A thread for each element of a step's gradients, in groups over batch, gate and column: all of it is worked out
// there.
void schedule_gates(Cpu target, const Halide::Func& gradients, const Var&, const Var&, const Var&) {
  generic(target, gradients);
}
void schedule_gates(auto, Halide::Func gradients, const Var& b, const Var& g, const Var& c) {
  index_arithmetic();
  Var line("line"), all("all"), thread("thread");
  gradients.fuse(c, g, line).fuse(line, b, all).gpu_tile(all, thread, 128, Halide::TailStrategy::GuardWithIf);
}

// y = n + z (h - n),  r = σ(x_r + a_r), z = σ(x_z + a_z), n = tanh(x_n + r a_n),  a = h weight_hhᵀ + bias_hh
// (Cho et al. 2014, with the reset gate behind the product, as in PyTorch and cuDNN)
template <ElementType T>
class GruStep : public Kernel<GruStep<T>> {
 public:
  In<T, 2> x{"x"};
  In<T, 2> a{"a", shape_of(x)};
  In<T, 2> h{"h", {x.size(0), x.size(1) / constant(3)}};
  Out<T, 2> y{"y", shape_of(h)};

  GruStep() {
    this->formula("y = n + z (h - n), r = σ(x_r + a_r), z = σ(x_z + a_z), n = tanh(x_n + r a_n)").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const auto x_of = gate_of(x, h, b, c), a_of = gate_of(a, h, b, c);
    const Value reset = sigmoid(x_of(0) + a_of(0)), update = sigmoid(x_of(1) + a_of(1));
    const Value candidate = tanh(x_of(2) + reset * a_of(2));
    y(b, c) = candidate + update * (h(b, c) - candidate);
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Var b{"b"}, c{"c"};
};

// With dh = dy + direct + back: dx and da of the three gates, and what reaches the state before without the product.
template <ElementType T>
class GruStepGradient : public Kernel<GruStepGradient<T>> {
 public:
  In<T, 2> x{"x"};
  In<T, 2> a{"a", shape_of(x)};
  In<T, 2> h{"h", {x.size(0), x.size(1) / constant(3)}};
  In<T, 2> dy{"dy", shape_of(h)}, direct{"direct", shape_of(h)}, back{"back", shape_of(h)};
  OutTuple<3, T, T, T> gradients{
      "gradients", {{{"dx"}, {"da"}, {"dh"}}}, {x.size(0), constant(3), x.size(1) / constant(3)}};

  GruStepGradient() {
    this->formula("dx_n = dh (1 - z) (1 - n²), dx_z = dh (h - n) z (1 - z), dx_r = dx_n a_n r (1 - r), dh z")
        .internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const auto x_of = gate_of(x, h, b, c), a_of = gate_of(a, h, b, c);
    const Value r = sigmoid(x_of(0) + a_of(0)), z = sigmoid(x_of(1) + a_of(1)), n = tanh(x_of(2) + r * a_of(2));
    const Value dh = dy(b, c) + direct(b, c) + back(b, c);
    const Value dn = dh * (1.0 - z) * (1.0 - n * n);
    const Value dz = dh * (h(b, c) - n) * z * (1.0 - z), dr = dn * a_of(2) * r * (1.0 - r);
    const auto gate = [&](const Value& of_n) { return select(Value(g) == 0, dr, select(Value(g) == 1, dz, of_n)); };
    gradients.define({b, g, c}, {gate(dn), gate(dn * r), dh * z});
  }
  void schedule(auto target) { schedule_gates(target, gradients.func(), b, g, c); }

 private:
  Var b{"b"}, g{"g"}, c{"c"};
};

// c' = f c + i g,  y = o tanh(c'),  i, f, o = σ(x + a) of their gates, g = tanh(x_g + a_g)
// (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000)
template <ElementType T>
class LstmStep : public Kernel<LstmStep<T>> {
 public:
  In<T, 2> x{"x"};
  In<T, 2> a{"a", shape_of(x)};
  In<T, 2> cell{"cell", {x.size(0), x.size(1) / constant(4)}};
  OutTuple<2, T, T> states{"states", {{{"y"}, {"new_cell"}}}, shape_of(cell)};

  LstmStep() {
    this->formula("c' = σ(f) c + σ(i) tanh(g), y = σ(o) tanh(c'), each gate x + a").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const auto x_of = gate_of(x, cell, b, c), a_of = gate_of(a, cell, b, c);
    const auto sum = [&](int g) { return x_of(g) + a_of(g); };
    const Value now = sigmoid(sum(1)) * cell(b, c) + sigmoid(sum(0)) * tanh(sum(2));
    states.define({b, c}, {sigmoid(sum(3)) * tanh(now), now});
  }
  void schedule(auto target) { generic(target, states); }

 private:
  Var b{"b"}, c{"c"};
};

// With dh = dy + back and what comes back to the new cell: the gates' gradients, and the old cell's.
template <ElementType T>
class LstmStepGradient : public Kernel<LstmStepGradient<T>> {
 public:
  In<T, 2> x{"x"};
  In<T, 2> a{"a", shape_of(x)};
  In<T, 2> cell{"cell", {x.size(0), x.size(1) / constant(4)}};
  In<T, 2> dy{"dy", shape_of(cell)}, back{"back", shape_of(cell)};
  In<T, 2> dnew{"dnew", shape_of(cell)}, carried{"carried", shape_of(cell)};
  OutTuple<3, T, T> gradients{"gradients", {{{"dx"}, {"dcell"}}}, {x.size(0), constant(4), x.size(1) / constant(4)}};

  LstmStepGradient() {
    this->formula("do = dh tanh(c') o (1 - o), dc = dh o (1 - tanh(c')²) + dc', df = dc c f (1 - f), …").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const auto x_of = gate_of(x, cell, b, c), a_of = gate_of(a, cell, b, c);
    const auto sum = [&](int of) { return x_of(of) + a_of(of); };
    const Value i = sigmoid(sum(0)), f = sigmoid(sum(1)), n = tanh(sum(2)), o = sigmoid(sum(3)), old = cell(b, c);
    const Value t = tanh(f * old + i * n), dh = dy(b, c) + back(b, c);
    const Value dc = dh * o * (1.0 - t * t) + dnew(b, c) + carried(b, c);
    const Value di = dc * n * i * (1.0 - i), df = dc * old * f * (1.0 - f), dn = dc * i * (1.0 - n * n);
    const Value of_gate =
        select(Value(g) < 2, select(Value(g) == 0, di, df), select(Value(g) == 2, dn, dh * t * o * (1.0 - o)));
    gradients.define({b, g, c}, {of_gate, dc * f});
  }
  void schedule(auto target) { schedule_gates(target, gradients.func(), b, g, c); }

 private:
  Var b{"b"}, g{"g"}, c{"c"};
};

const std::vector<DType> kRecurrent{DType::f32, DType::f16, DType::bf16};
const OperatorOption kReverse{.name = "reverse", .kind = FormOption::Kind::boolean};
const bool registered =
    register_kernel<GruStep, f32>("gru_step") && register_kernel<GruStepGradient, f32>("gru_step_grad") &&
    register_kernel<LstmStep, f32>("lstm_step") && register_kernel<LstmStepGradient, f32>("lstm_step_grad") &&
    register_operator(
        {.name = "gru_sequence",
         .formula = "gru_sequence(x, h, weight_hh, bias_hh)[t] = (1 - z) n + z y[t-1], y[-1] = h, r, z, n of x[t] and "
                    "y[t-1] weight_hhᵀ + bias_hh; from the last t on with reverse",
         .dtypes = kRecurrent,
         .inputs = {{"x"}, {"h"}, {"weight_hh"}, {"bias_hh"}},
         .options = {kReverse},
         .outputs = {{"y"}},
         .calls = {"gru_step", "matmul", "copy"},
         .gradients = {{kAllInputs, "gru_grad(dy, x, h, weight_hh, bias_hh, y, reverse, needs)"}}}) &&
    register_operator({.name = "gru_sequence_grad",
                       .formula = "the gradients of gru_sequence: dx, dh, dweight_hh, dbias_hh",
                       .dtypes = kRecurrent,
                       .inputs = {{"dy"}, {"x"}, {"h"}, {"weight_hh"}, {"bias_hh"}, {"y"}},
                       .options = {kReverse},
                       .outputs = {{"dx"}, {"dh"}, {"dweight_hh"}, {"dbias_hh"}},
                       .calls = {"gru_step_grad", "matmul", "copy", "sum"}}) &&
    register_operator(
        {.name = "lstm_sequence",
         .formula = "lstm_sequence(x, h, c, weight_hh, bias_hh): c[t] = f c[t-1] + i g, y[t] = o tanh(c[t]), gates of "
                    "x[t] and y[t-1] weight_hhᵀ + bias_hh; from the last t on with reverse",
         .dtypes = kRecurrent,
         .inputs = {{"x"}, {"h"}, {"c"}, {"weight_hh"}, {"bias_hh"}},
         .options = {kReverse},
         .outputs = {{"y"}, {"cells"}},
         .calls = {"lstm_step", "matmul", "copy"},
         .gradients = {{kAllInputs,
                        "lstm_grad(dy, dcells, x, h, c, weight_hh, bias_hh, y, cells, reverse, needs)"}}}) &&
    register_operator(
        {.name = "lstm_sequence_grad",
         .formula = "the gradients of lstm_sequence: dx, dh, dc, dweight_hh, dbias_hh",
         .dtypes = kRecurrent,
         .inputs = {{"dy"}, {"dcells"}, {"x"}, {"h"}, {"c"}, {"weight_hh"}, {"bias_hh"}, {"y"}, {"cells"}},
         .options = {kReverse},
         .outputs = {{"dx"}, {"dh"}, {"dc"}, {"dweight_hh"}, {"dbias_hh"}},
         .calls = {"lstm_step_grad", "matmul", "copy", "sum"}});

}  // namespace ashlar::dsl
