// Kernels with one mistake each in what they declare (see algorithms.cpp).
#include "schedules/elementwise.h"

namespace ashlar::dsl {

// y[r,c] = x[r,c], but for what `Sizes` declares.
template <class Derived, ElementType T>
class Copied : public Kernel<Derived> {
 public:
  In<T, 2> x{"x"};
  Var r{"r"}, c{"c"};
  void schedule(auto target) { elementwise(target, static_cast<Derived*>(this)->y.func(), c); }
};

template <ElementType T>
struct NoFormula : Copied<NoFormula<T>, T> {
  Out<T, 2> y{"y", shape_of(this->x)};
  void algorithm() { y(this->r, this->c) = this->x(this->r, this->c); }
};

template <ElementType T>
struct ShortRule : Copied<ShortRule<T>, T> {
  Out<T, 2> y{"y", {this->x.size(0)}};
  void algorithm() { y(this->r, this->c) = this->x(this->r, this->c); }
};

template <ElementType T>
struct LongInputRule : Copied<LongInputRule<T>, T> {
  In<T, 1> gain{"gain", {this->x.size(0), this->x.size(1)}};
  Out<T, 2> y{"y", shape_of(this->x)};
  void algorithm() { y(this->r, this->c) = this->x(this->r, this->c) * gain(this->c); }
};

template <ElementType T>
struct ThirdSize : Copied<ThirdSize<T>, T> {
  Out<T, 2> y{"y", {this->x.size(0), this->x.size(2)}};
  void algorithm() { y(this->r, this->c) = this->x(this->r, this->c); }
};

template <ElementType T>
struct ThirdAxis : Copied<ThirdAxis<T>, T> {
  Out<T, 2> y{"y", shape_of(this->x)};
  Stage total{"total"};
  ThirdAxis() { this->formula("y[r,c] = Σ_k x[r,k]"); }
  void algorithm() {
    const Axis k = this->x.reduce(2);
    total(this->r) = sum(k, this->x(this->r, k));
    y(this->r, this->c) = total(this->r);
  }
};

template <ElementType T>
struct NoIdentifier : Copied<NoIdentifier<T>, T> {
  In<T, 0> rate{"learning rate"};
  Out<T, 2> y{"y", shape_of(this->x)};
  NoIdentifier() { this->formula("y[r,c] = rate x[r,c]"); }
  void algorithm() { y(this->r, this->c) = this->x(this->r, this->c) * rate(); }
};

template <ElementType T>
struct AxisOfNoInput : Copied<AxisOfNoInput<T>, T> {
  Dim rows{"rows"};
  Out<T, 2> y{"y", {rows, this->x.size(1)}};
  void algorithm() { y(this->r, this->c) = this->x(this->r, this->c); }
};

template <ElementType T>
struct HalfOfNothing : Copied<HalfOfNothing<T>, T> {
  Dim columns{"columns"};
  In<T, 1> gain{"gain", {columns / constant(2)}};
  Out<T, 2> y{"y", shape_of(this->x)};
  void algorithm() { y(this->r, this->c) = this->x(this->r, this->c); }
};

template <ElementType T>
struct NeededLate : Copied<NeededLate<T>, T> {
  In<T, 1> gain{"gain", {this->x.size(1)}, absent_is(1)};
  Scalar<float> factor{"factor"};
  Out<T, 2> y{"y", shape_of(this->x)};
  NeededLate() { this->formula("y[r,c] = factor gain[c] x[r,c]").form(Form::rows); }
  void algorithm() { y(this->r, this->c) = this->x(this->r, this->c) * gain(this->c) * factor; }
};

template <ElementType T>
struct AbsentInPlain : Copied<AbsentInPlain<T>, T> {
  In<T, 1> gain{"gain", {this->x.size(1)}, absent_is(1)};
  Out<T, 2> y{"y", shape_of(this->x)};
  AbsentInPlain() { this->formula("y[r,c] = gain[c] x[r,c]"); }
  void algorithm() { y(this->r, this->c) = this->x(this->r, this->c) * gain(this->c); }
};

namespace {
const bool registered =
    register_kernel<NoFormula, f32>("no_formula") && register_kernel<ShortRule, f32>("short_rule") &&
    register_kernel<LongInputRule, f32>("long_input_rule") && register_kernel<ThirdSize, f32>("third_size") &&
    register_kernel<ThirdAxis, f32>("third_axis") && register_kernel<NoIdentifier, f32>("no_identifier") &&
    register_kernel<AxisOfNoInput, f32>("axis_of_no_input") && register_kernel<HalfOfNothing, f32>("half_of_nothing") &&
    register_kernel<NeededLate, f32>("needed_late") && register_kernel<AbsentInPlain, f32>("absent_in_plain");
}

}  // namespace ashlar::dsl
