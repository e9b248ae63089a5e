// Kernels with one mistake each in what they say about their gradients (see algorithms.cpp).
#include "schedules/elementwise.h"

namespace ashlar::dsl {

// y[i] = x[i] g[i], the second input and the output being called what `Derived` wants.
template <class Derived, ElementType T>
class Weighted : public Kernel<Derived> {
 public:
  Weighted(const char* weight, const char* output) : g{weight}, y{output, shape_of(x)} {
    this->formula("y[i] = x[i] g[i]").form(Form::pointwise);
  }
  void algorithm() { y(i) = x(i) * g(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

  In<T, 1> x{"x"};
  In<T, 1> g;
  Out<T, 1> y;

 private:
  Var i{"i"};
};

template <ElementType T>
struct ReservedArgument : Weighted<ReservedArgument<T>, T> {
  ReservedArgument() : Weighted<ReservedArgument<T>, T>("dy", "y") { this->gradient("x", "mul(dy, dy)"); }
};

template <ElementType T>
struct ReservedNeeds : Weighted<ReservedNeeds<T>, T> {
  ReservedNeeds() : Weighted<ReservedNeeds<T>, T>("needs", "y") { this->gradient("x", "mul(dy, needs)"); }
};

template <ElementType T>
struct UpstreamOfNothing : Weighted<UpstreamOfNothing<T>, T> {
  UpstreamOfNothing() : Weighted<UpstreamOfNothing<T>, T>("g", "product") { this->gradient("x", "mul(dy, g)"); }
};

template <ElementType T>
struct GradientOfNothing : Weighted<GradientOfNothing<T>, T> {
  GradientOfNothing() : Weighted<GradientOfNothing<T>, T>("g", "y") { this->gradient("z", "mul(dy, g)"); }
};

template <ElementType T>
struct TwoGradients : Weighted<TwoGradients<T>, T> {
  TwoGradients() : Weighted<TwoGradients<T>, T>("g", "y") { this->gradient("x", "mul(dy, g)").gradient("x", "dy"); }
};

template <ElementType T>
struct JointAndSingle : Weighted<JointAndSingle<T>, T> {
  JointAndSingle() : Weighted<JointAndSingle<T>, T>("g", "y") {
    this->gradient(kAllInputs, "product_grad(dy, x, g)").gradient("x", "dy");
  }
};

// y = x² over x
template <ElementType T>
struct InPlaceGradient : Kernel<InPlaceGradient<T>> {
  In<T, 1> x{"x"};
  OutTuple<1, T> y{"y", {{{"squared", "x"}}}, shape_of(x)};
  InPlaceGradient() { this->formula("x[i] = x[i]²").gradient("x", "mul(dy, x)"); }
  void algorithm() { y.define({i}, {x(i) * x(i)}); }
  void schedule(auto target) { elementwise(target, y.func(), i); }
  Var i{"i"};
};

const bool registered_gradients = register_kernel<ReservedArgument, f32>("reserved_argument") &&
                                  register_kernel<ReservedNeeds, f32>("reserved_needs") &&
                                  register_kernel<UpstreamOfNothing, f32>("upstream_of_nothing") &&
                                  register_kernel<GradientOfNothing, f32>("gradient_of_nothing") &&
                                  register_kernel<TwoGradients, f32>("two_gradients") &&
                                  register_kernel<JointAndSingle, f32>("joint_and_single") &&
                                  register_kernel<InPlaceGradient, f32>("in_place_gradient");

}  // namespace ashlar::dsl
