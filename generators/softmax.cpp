// softmax and log_softmax over a row, with their gradients.
#include "dsl/operator.h"
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// What the two share: the row's maximum and the sum of e^(x - maximum), so that nothing overflows.
template <class Derived, ElementType T>
class SoftmaxKernel : public Kernel<Derived> {
 public:
  In<T, 2> x{"x"};
  RowTunables tunables;
  Out<T, 2> y{"y", shape_of(x)};

  void schedule(auto target) { row_reduction(target, {{largest, total}, y.func(), r, c, tunables}); }

 protected:
  void reduce() {
    k = x.reduce(1);
    j = x.reduce(1);
    largest(r) = max_of_numbers(k, x(r, k));  // a NaN reaches the sum in any case
    total(r) = sum(j, exp_below_zero(x(r, j) - largest(r)));
  }
  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  Var r{"r"}, c{"c"};
};

// softmax(x)[r,c] = e^(x[r,c] - m[r]) / Σ_k e^(x[r,k] - m[r]),  m[r] = max_k x[r,k]
template <ElementType T>
class Softmax : public SoftmaxKernel<Softmax<T>, T> {
 public:
  Softmax() {
    this->formula("softmax(x)[r,c] = e^x[r,c] / Σ_k e^x[r,k]").form(Form::rows);
    this->gradient("x", "softmax_grad(dy, y, axis)").flops("5.0 * shapes[0].numel()");
  }
  void algorithm() {
    this->reduce();
    this->y(this->r, this->c) =
        exp_below_zero(this->x(this->r, this->c) - this->largest(this->r)) * reciprocal(Value(this->total(this->r)));
  }
};

// log_softmax(x)[r,c] = x[r,c] - m[r] - ln Σ_k e^(x[r,k] - m[r])
template <ElementType T>
class LogSoftmax : public SoftmaxKernel<LogSoftmax<T>, T> {
 public:
  LogSoftmax() {
    this->formula("log_softmax(x)[r,c] = x[r,c] - ln Σ_k e^x[r,k]").form(Form::rows);
    this->gradient("x", "log_softmax_grad(dy, y, axis)").flops("5.0 * shapes[0].numel()");
  }
  void algorithm() {
    this->reduce();
    // Large values cancel first; the other order would lose the logarithm.
    this->y(this->r, this->c) =
        as_written(this->x(this->r, this->c) - this->largest(this->r) - log(this->total(this->r)));
  }
};

// dx[r,c] = y[r,c] (dy[r,c] - Σ_k dy[r,k] y[r,k])
template <ElementType T>
class SoftmaxGradient : public Kernel<SoftmaxGradient<T>> {
 public:
  In<T, 2> dy{"dy"};
  In<T, 2> y{"y", shape_of(dy)};
  RowTunables tunables;
  Out<T, 2> dx{"dx", shape_of(dy)};

  SoftmaxGradient() {
    this->formula("softmax_grad(dy, y)[r,c] = y[r,c] (dy[r,c] - Σ_k dy[r,k] y[r,k])").form(Form::rows);
    this->gradient("dy", "softmax_grad(ddx, y, axis)").gradient("y", "softmax_grad_of_y(ddx, dy, y, axis)");
    this->flops("4.0 * shapes[0].numel()");
  }
  void algorithm() {
    k = dy.reduce(1);
    dot(r) = sum(k, dy(r, k) * y(r, k));
    dx(r, c) = y(r, c) * (dy(r, c) - dot(r));
  }
  void schedule(auto target) { row_reduction(target, {{dot}, dx.func(), r, c, tunables}); }

 private:
  Axis k;
  Stage dot{"dot"};
  Var r{"r"}, c{"c"};
};

// dx[r,c] = dy[r,c] - e^y[r,c] Σ_k dy[r,k]
template <ElementType T>
class LogSoftmaxGradient : public Kernel<LogSoftmaxGradient<T>> {
 public:
  In<T, 2> dy{"dy"};
  In<T, 2> y{"y", shape_of(dy)};
  RowTunables tunables;
  Out<T, 2> dx{"dx", shape_of(dy)};

  LogSoftmaxGradient() {
    this->formula("log_softmax_grad(dy, y)[r,c] = dy[r,c] - e^y[r,c] Σ_k dy[r,k]").form(Form::rows);
    this->gradient("dy", "log_softmax_grad_of_dy(ddx, y, axis)");
    this->gradient("y", "log_softmax_grad_of_y(ddx, dy, y, axis)");
    this->flops("4.0 * shapes[0].numel()");
  }
  void algorithm() {
    k = dy.reduce(1);
    total(r) = sum(k, dy(r, k));
    dx(r, c) = dy(r, c) - exp(y(r, c)) * total(r);
  }
  void schedule(auto target) { row_reduction(target, {{total}, dx.func(), r, c, tunables}); }

 private:
  Axis k;
  Stage total{"total"};
  Var r{"r"}, c{"c"};
};

const bool registered = register_kernel<Softmax, f32, f16, bf16>("softmax") &&
                        register_kernel<SoftmaxGradient, f32, f16, bf16>("softmax_grad") &&
                        register_kernel<LogSoftmax, f32, f16, bf16>("log_softmax") &&
                        register_kernel<LogSoftmaxGradient, f32, f16, bf16>("log_softmax_grad") &&
                        register_operator({.name = "softmin",
                                           .formula = "softmin(x)[r,c] = e^-x[r,c] / Σ_k e^-x[r,k]",
                                           .dtypes = {DType::f32, DType::f16, DType::bf16},
                                           .inputs = {{"x"}},
                                           .options = {{"axis", FormOption::Kind::integer, -1}},
                                           .outputs = {{"y"}},
                                           .calls = {"neg", "softmax"},
                                           .composed = "operators/composed/rows.h"});

}  // namespace ashlar::dsl
