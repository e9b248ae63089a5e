// Kernels whose schedule is generic(target, …): one for each thing that it has to see to.
#include "schedules/generic.h"

namespace ashlar::dsl {

// y[i] = silu(x[i])
template <ElementType T>
class GenericSilu : public Kernel<GenericSilu<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};

  GenericSilu() { this->formula("y[i] = silu(x[i])").form(Form::pointwise); }
  void algorithm() { y(i) = silu(x(i)); }
  void schedule(auto target) { generic(target, y); }

 private:
  Var i{"i"};
};

// y = a + b, broadcast
template <ElementType T>
class GenericAdd : public Kernel<GenericAdd<T>> {
 public:
  In<T, 4> a{"a", strided}, b{"b", strided};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};

  GenericAdd() { this->formula("a + b, broadcasting").form(Form::broadcast); }
  void algorithm() { y(p, q, r, s) = a(p, q, r, s) + b(p, q, r, s); }
  void schedule(auto target) { generic(target, y); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

// y[o,p] = Σ_k x[o,p,k]: along memory
template <ElementType T>
class GenericRowSum : public Kernel<GenericRowSum<T>> {
 public:
  In<T, 3> x{"x"};
  Out<f32, 2> y{"y", {x.size(0), x.size(1)}};

  GenericRowSum() { this->formula("y[o,p] = Σ_k x[o,p,k]"); }
  void algorithm() {
    k = x.reduce(2);
    y(o, p) = sum(k, x(o, p, k));
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Var o{"o"}, p{"p"};
};

// y[o,i] = Σ_k x[o,k,i]: across it
template <ElementType T>
class GenericColumnSum : public Kernel<GenericColumnSum<T>> {
 public:
  In<T, 3> x{"x"};
  Out<f32, 2> y{"y", {x.size(0), x.size(2)}};

  GenericColumnSum() { this->formula("y[o,i] = Σ_k x[o,k,i]"); }
  void algorithm() {
    k = x.reduce(1);
    y(o, i) = sum(k, x(o, k, i));
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Var o{"o"}, i{"i"};
};

// softmax over a row: reductions that its elements share
template <ElementType T>
class GenericSoftmax : public Kernel<GenericSoftmax<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};

  GenericSoftmax() { this->formula("y[r,c] = e^x[r,c] / Σ_k e^x[r,k]"); }
  void algorithm() {
    k = x.reduce(1);
    j = x.reduce(1);
    largest(r) = max_of_numbers(k, x(r, k));
    total(r) = sum(j, exp_below_zero(x(r, j) - largest(r)));
    y(r, c) = exp_below_zero(x(r, c) - largest(r)) / total(r);
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  Var r{"r"}, c{"c"};
};

// Outputs of three ranks: mean[r] of a row, the largest distance from it of all, and the distances of one column more
// than x has, the last of which is 0. Two of them read one stage; the largest of all needs each row's in memory.
template <ElementType T>
class GenericOutputs : public Kernel<GenericOutputs<T>> {
 public:
  In<T, 2> x{"x"};
  Out<f32, 1> average{"average", {x.size(0)}};
  Out<f32, 0> farthest{"farthest", {}};
  Out<T, 2> distance{"distance", {x.size(0), x.size(1) + constant(1)}};
  Scratch<f32, 1> of_row{"of_row", {x.size(0)}};

  GenericOutputs() {
    this->formula("average[r] = Σ_k x[r,k] / n, distance[r,c] = |x[r,c] - average[r]|, farthest = max distance[r,c]");
  }
  void algorithm() {
    k = x.reduce(1);
    j = x.reduce(1);
    rows = x.reduce(0);
    total(r) = mean(k, x(r, k));
    average(r) = total(r);
    of_row(r) = max(j, abs(x(r, j) - total(r)));
    farthest() = max(rows, of_row(rows));
    const Bordered padded = bordered(x, Border::clamp);
    distance(r, c) = select(Value(c) < Value(x.extent(1)), abs(padded(r, c) - total(r)), 0.0);
  }
  void schedule(auto target) { generic(target, average, farthest, distance); }

 private:
  Axis k, j, rows;
  Stage total{"total"};
  Var r{"r"}, c{"c"};
};

// y[r,c] = Σ_{k <= c} x[r,k] in order, doubled in a last update
template <ElementType T>
class GenericRunning : public Kernel<GenericRunning<T>> {
 public:
  In<T, 2> x{"x"};
  Out<f32, 2> y{"y", shape_of(x)};

  GenericRunning() { this->formula("y[r,c] = 2 Σ_{k <= c} x[r,k]"); }
  void algorithm() {
    k = x.reduce(1);
    k.where(Value(k) > 0);
    y(r, c) = x(r, c);
    Halide::Func running = y.func();
    running(k.rvar(), r) = running(Halide::max(k.rvar() - 1, 0), r) + x(r, k).expr();
    y(r, c) = Value(y(r, c)) * 2.0;
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Var r{"r"}, c{"c"};
};

// y[r,c] = x[r,c] + 2 Σ_{k <= c} (x[r,k] - 0.5): a scan by blocks with plain stages before and behind it
template <ElementType T>
class GenericScan : public Kernel<GenericScan<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};
  ScanScratch states{x.size(0), x.size(1)};

  GenericScan() { this->formula("y[r,c] = x[r,c] + 2 Σ_{k <= c} (x[r,k] - 0.5)"); }
  void algorithm() {
    k = x.reduce(1);
    distance(r, c) = x(r, c) - 0.5;
    const auto plus = [](const Values& a, const Values& b) { return Values{a[0] + b[0]}; };
    running(r, k) = states.scan(k, {distance(r, k)}, {.init = {0.0}, .step = plus, .merge = plus});
    doubled(r, c) = running(r, c) * 2.0;
    y(r, c) = x(r, c) + doubled(r, c);
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Stage distance{"distance"}, running{"running"}, doubled{"doubled"};
  Var r{"r"}, c{"c"};
};

// How far east a turtle is that turns by x[r,k] / 2 and takes a step, for k = 0, 1, …, c: a scan of four values whose
// merge doesn't commute
//
//   (direction a, place a) (b, q) = (a b, place + a q) of complex numbers
template <ElementType T>
class GenericTurtle : public Kernel<GenericTurtle<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};
  ScanScratch states{x.size(0), x.size(1), 4};

  GenericTurtle() { this->formula("y[r,c] = Σ_{k <= c} cos(Σ_{j <= k} x[r,j] / 2)"); }
  void algorithm() {
    k = x.reduce(1);
    turn(r, c) = x(r, c) * 0.5;
    const auto then = [](const Values& a, const Values& b) {
      return Values{a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0], a[2] + a[0] * b[2] - a[1] * b[3],
                    a[3] + a[0] * b[3] + a[1] * b[2]};
    };
    const auto step = [then](const Values& a, const Values& turned) {
      const Value east = cos(turned[0]), north = sin(turned[0]);
      return then(a, {east, north, east, north});
    };
    path(r, k) = states.scan(k, {turn(r, k)}, {.init = {1.0, 0.0, 0.0, 0.0}, .step = step, .merge = then});
    y(r, c) = path(r, c)[2];
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Stage turn{"turn"}, path{"path"};
  Var r{"r"}, c{"c"};
};

// y[b] = how many of i32 x[i] are b: written at computed places, by one thread
class GenericHistogram : public Kernel<GenericHistogram> {
 public:
  In<i32, 1> x{"x"};
  In<f32, 1> bins{"bins"};
  Out<i32, 1> y{"y", {bins.size(0)}};

  GenericHistogram() { this->formula("y[b] = |{i: x[i] = b}|"); }
  void algorithm() {
    k = x.reduce(0);
    y(b) = 0;
    Halide::Func counts = y.func();
    const Expr bin = Halide::clamp(x(k).expr(), 0, bins.extent(0) - 1);
    counts(bin) = counts(bin) + 1;
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Var b{"b"};
};

// (a, b) = (a + b, a - b) in place
template <ElementType T>
class GenericRotate : public Kernel<GenericRotate<T>> {
 public:
  In<T, 1> a{"a"};
  In<T, 1> b{"b", shape_of(a)};
  OutTuple<1, T, T> out{"out", {{{"sum_of_both", "a"}, {"difference", "b"}}}, shape_of(a)};

  GenericRotate() { this->formula("a, b = a + b, a - b"); }
  void algorithm() { out.define({i}, {a(i) + b(i), a(i) - b(i)}); }
  void schedule(auto target) { generic(target, out); }

 private:
  Var i{"i"};
};

// The variance of a row by Welford's recurrence: a Tuple reduction, which stays in order
template <ElementType T>
class GenericWelford : public Kernel<GenericWelford<T>> {
 public:
  In<T, 2> x{"x"};
  Out<f32, 1> y{"y", {x.size(0)}};
  Out<f32, 2> standard{"standard", shape_of(x)};

  GenericWelford() {
    this->formula("y[r] = Σ_k (x[r,k] - mean[r])² / n, standard[r,c] = (x[r,c] - mean[r]) / sqrt(y[r] + 1)");
  }
  void algorithm() {
    k = x.reduce(1);
    moments(r) = Halide::Tuple(0.0f, 0.0f);
    const Expr mean = moments(r)[0], squares = moments(r)[1], distance = x(r, k).expr() - mean;
    const Expr next = mean + distance / Halide::cast<float>(k.rvar() + 1);
    moments(r) = Halide::Tuple(next, squares + distance * (x(r, k).expr() - next));
    const Expr n = Halide::cast<float>(x.extent(1));
    y(r) = Value(Expr(moments(r)[1]) / n);
    standard(r, c) = (x(r, c) - Value(Expr(moments(r)[0]))) / sqrt(Value(Expr(moments(r)[1]) / n) + 1.0);
  }
  void schedule(auto target) { generic(target, y, standard); }

 private:
  Axis k;
  Halide::Func moments{"moments"};
  Var r{"r"}, c{"c"};
};

const bool registered =
    register_kernel<GenericSilu, f32, f16>("test_generic_silu") &&
    register_kernel<GenericAdd, f32, f16>("test_generic_add") &&
    register_kernel<GenericRowSum, f32, f16>("test_generic_row_sum") &&
    register_kernel<GenericColumnSum, f32, f16>("test_generic_column_sum") &&
    register_kernel<GenericSoftmax, f32>("test_generic_softmax") &&
    register_kernel<GenericOutputs, f32>("test_generic_outputs") &&
    register_kernel<GenericRunning, f32>("test_generic_running") &&
    register_kernel<GenericScan, f32>("test_generic_scan") &&
    register_kernel<GenericTurtle, f32>("test_generic_turtle") &&
    add_kernel({"test_generic_histogram", {detail::make_instance<GenericHistogram>({DType::i32})}}) &&
    register_kernel<GenericRotate, f32>("test_generic_rotate") &&
    register_kernel<GenericWelford, f32>("test_generic_welford");

}  // namespace ashlar::dsl
