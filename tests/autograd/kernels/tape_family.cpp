// Kernels that say about their gradients what the library's own don't.
#include "schedules/elementwise.h"

namespace ashlar::dsl {

// powers(x)[i] = x[i]², x[i]³
template <ElementType T>
class Powers : public Kernel<Powers<T>> {
 public:
  In<T, 1> x{"x"};
  OutTuple<1, T, T> y{"y", {{{"squares"}, {"cubes"}}}, shape_of(x)};

  Powers() {
    this->formula("powers(x)[i] = x[i]², x[i]³").form(Form::pointwise);
    this->gradient("x", "add(affine(mul(dsquares, x), 2.0, 0.0), affine(mul(dcubes, squares), 3.0, 0.0))");
  }
  void algorithm() { y.define({i}, {x(i) * x(i), x(i) * x(i) * x(i)}); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

// root_and_inverse(x)[i] = √x[i], 1/√x[i], the second as a constant
template <ElementType T>
class RootAndInverse : public Kernel<RootAndInverse<T>> {
 public:
  In<T, 1> x{"x"};
  OutTuple<1, T, T> y{"y", {{{"root"}, {"inverse"}}}, shape_of(x)};

  RootAndInverse() {
    this->formula("root_and_inverse(x)[i] = √x[i], 1/√x[i]").form(Form::pointwise);
    this->gradient("x", "affine(mul(droot, inverse), 0.5, 0.0)");
  }
  void algorithm() { y.define({i}, {sqrt(x(i)), 1.0 / sqrt(x(i))}); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

// scales(a, b)[i] = a[i] b[i] and a[i] + b[i]; also the gradient of itself, with both results at once
template <ElementType T>
class Scales : public Kernel<Scales<T>> {
 public:
  In<T, 1> a{"a"}, b{"b"};
  OutTuple<1, T, T> y{"y", {{{"product"}, {"total"}}}, shape_of(a)};

  Scales() {
    this->formula("scales(a, b)[i] = a[i] b[i], a[i] + b[i]").form(Form::pointwise);
    this->gradient(kAllInputs, "scales_grad(dproduct, dtotal, a, b)");
  }
  void algorithm() { y.define({i}, {a(i) * b(i), a(i) + b(i)}); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

template <ElementType T>
class ScalesGradient : public Kernel<ScalesGradient<T>> {
 public:
  In<T, 1> dproduct{"dproduct"}, dtotal{"dtotal"}, a{"a"}, b{"b"};
  OutTuple<1, T, T> y{"y", {{{"da"}, {"db"}}}, shape_of(a)};

  ScalesGradient() {
    this->formula(
        "scales_grad(dproduct, dtotal, a, b)[i] = dproduct[i] b[i] + dtotal[i], dproduct[i] a[i] + dtotal[i]");
    this->form(Form::pointwise);
    this->gradient("dproduct", "add(mul(dda, b), mul(ddb, a))").gradient("dtotal", "add(dda, ddb)");
    this->gradient("a", "mul(ddb, dproduct)").gradient("b", "mul(dda, dproduct)");
  }
  void algorithm() { y.define({i}, {dproduct(i) * b(i) + dtotal(i), dproduct(i) * a(i) + dtotal(i)}); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

// y[i] = f(x[i]), with a gradient as `Derived` states it
template <class Derived, ElementType T>
class OfOne : public Kernel<Derived> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  void schedule(auto target) { elementwise(target, y.func(), i); }

 protected:
  Var i{"i"};
};

// cube(x)[i] = x[i]³, its gradient a function with a header of its own
template <ElementType T>
struct Cube : OfOne<Cube<T>, T> {
  Cube() {
    this->formula("cube(x)[i] = x[i]³").form(Form::pointwise);
    this->gradient("x", "tape_family::cube_slope(dy, x)", "tests/autograd/kernels/tape_family.h");
  }
  void algorithm() { this->y(this->i) = this->x(this->i) * this->x(this->i) * this->x(this->i); }
};

// triple(x)[i] = 3 x[i], its gradient a function that knows no Vars
template <ElementType T>
struct Triple : OfOne<Triple<T>, T> {
  Triple() {
    this->formula("triple(x)[i] = 3 x[i]").form(Form::pointwise);
    this->gradient("x", "tape_family::tripled(dy)", "tests/autograd/kernels/tape_family.h");
  }
  void algorithm() { this->y(this->i) = 3.0 * this->x(this->i); }
};

// half(x)[i] = x[i] / 2, without a word about a gradient
template <ElementType T>
struct Half : OfOne<Half<T>, T> {
  Half() { this->formula("half(x)[i] = x[i] / 2").form(Form::pointwise); }
  void algorithm() { this->y(this->i) = 0.5 * this->x(this->i); }
};

// weighted(x, weight)[i] = x[i] weight[i], with a gradient for x alone
template <ElementType T>
class Weighted : public Kernel<Weighted<T>> {
 public:
  In<T, 1> x{"x"}, weight{"weight"};
  Out<T, 1> y{"y", shape_of(x)};

  Weighted() {
    this->formula("weighted(x, weight)[i] = x[i] weight[i]").form(Form::pointwise);
    this->gradient("x", "weighted(dy, weight)");
  }
  void algorithm() { y(i) = x(i) * weight(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

const bool registered = register_kernel<Powers, f32>("powers") &&
                        register_kernel<RootAndInverse, f32>("root_and_inverse") &&
                        register_kernel<Scales, f32>("scales") && register_kernel<ScalesGradient, f32>("scales_grad") &&
                        register_kernel<Cube, f32>("cube") && register_kernel<Triple, f32>("triple") &&
                        register_kernel<Half, f32>("half") && register_kernel<Weighted, f32>("weighted");

}  // namespace ashlar::dsl
