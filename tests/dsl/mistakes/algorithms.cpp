// Kernels with one mistake each in what they compute. Building one must fail, in words that name it, the mistake and
// the remedy (tests/dsl/CMakeLists.txt has them).
#include "schedules/elementwise.h"
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// What is right in them all: y of x's shape.
template <class Derived, ElementType T>
class Pointwise : public Kernel<Derived> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  void schedule(auto target) { elementwise(target, y.func(), i); }

 protected:
  Pointwise() { this->formula("y[i] = x[i]").form(Form::pointwise); }
  Var i{"i"};
};

template <class Derived, ElementType T>
class Rows : public Kernel<Derived> {
 public:
  In<T, 2> x{"x"};
  In<T, 1> gain{"gain", {x.size(1)}};
  RowTunables tunables;
  Out<T, 2> y{"y", shape_of(x)};
  void schedule(auto target) { row_reduction(target, {{total}, y.func(), r, c, tunables}); }

 protected:
  Rows() { this->formula("y[r,c] = x[r,c] - Σ_k x[r,k]").form(Form::plain); }
  Axis k, j;
  Stage total{"total"}, largest{"largest"};
  Var r{"r"}, c{"c"};
};

template <ElementType T>
struct HalideMax : Pointwise<HalideMax<T>, T> {
  void algorithm() { this->y(this->i) = 2.0 * Value(Halide::max(this->x(this->i), 0.0f)); }
};

template <ElementType T>
struct HalideMaxOfRow : Rows<HalideMaxOfRow<T>, T> {
  void algorithm() {
    this->k = this->x.reduce(1);
    // The reduction may drop NaN, what it reduces may not.
    this->total(this->r) = max_of_numbers(this->k, Halide::clamp(this->x(this->r, this->k), -1.0f, 1.0f));
    this->y(this->r, this->c) = this->x(this->r, this->c) - this->total(this->r);
  }
};

template <ElementType T>
struct IntegerSilu : Pointwise<IntegerSilu<T>, T> {
  void algorithm() { this->y(this->i) = silu(this->x(this->i)); }
};

template <ElementType T>
struct IntegerHalf : Pointwise<IntegerHalf<T>, T> {
  void algorithm() { this->y(this->i) = this->x(this->i) * 0.5; }
};

template <ElementType T>
struct IntegerMax : Rows<IntegerMax<T>, T> {
  void algorithm() {
    this->k = this->x.reduce(1);
    this->total(this->r) = max(this->k, this->x(this->r, this->k));
    this->y(this->r, this->c) = this->x(this->r, this->c) - this->total(this->r);
  }
};

template <ElementType T>
struct ShortSum : Rows<ShortSum<T>, T> {
  void algorithm() {
    this->k = this->x.reduce(1);
    this->total(this->r) = sum(this->k, this->x(this->r, this->k));
    this->y(this->r, this->c) = this->x(this->r, this->c) - this->total(this->r);
  }
};

template <ElementType T>
struct NoValue : Pointwise<NoValue<T>, T> {
  void algorithm() {}
};

template <ElementType T>
struct UnboundAxis : Rows<UnboundAxis<T>, T> {
  void algorithm() {
    this->total(this->r) = sum(this->k, this->x(this->r, this->k));
    this->y(this->r, this->c) = this->x(this->r, this->c) - this->total(this->r);
  }
};

template <ElementType T>
struct EmptyAxis : Rows<EmptyAxis<T>, T> {
  Axis nothing{0, "nothing"};
  void algorithm() {}
};

template <ElementType T>
struct UnreadAxis : Rows<UnreadAxis<T>, T> {
  void algorithm() {
    this->k = this->x.reduce(1);
    this->total(this->r) = sum(this->k, this->x(this->r, 0));
    this->y(this->r, this->c) = this->x(this->r, this->c) - this->total(this->r);
  }
};

// Right numbers on square tensors.
template <ElementType T>
struct SwappedIndices : Rows<SwappedIndices<T>, T> {
  void algorithm() {
    this->k = this->x.reduce(1);
    this->total(this->r) = sum(this->k, this->x(this->r, this->k));
    this->y(this->r, this->c) = this->x(this->c, this->r) - this->total(this->r);
  }
};

template <ElementType T>
struct SwappedAxis : Rows<SwappedAxis<T>, T> {
  void algorithm() {
    this->k = this->x.reduce(1);
    this->total(this->r) = sum(this->k, this->x(this->k, this->r));
    this->y(this->r, this->c) = this->x(this->r, this->c) - this->total(this->r);
  }
};

template <ElementType T>
struct IndexOfOtherSize : Rows<IndexOfOtherSize<T>, T> {
  void algorithm() {
    this->k = this->x.reduce(1);
    this->total(this->r) = sum(this->k, this->x(this->r, this->k));
    this->y(this->r, this->c) = this->x(this->r, this->c) * this->gain(this->r) - this->total(this->r);
  }
};

// The same where axes have names.
template <class Derived, ElementType T>
struct NamedRows : Kernel<Derived> {
  Dim rows{"rows"}, columns{"columns"}, unknown{"unknown"};
  In<T, 2> x{"x", {rows, columns}};
  In<T, 1> gain{"gain", {columns}};
  RowTunables tunables;
  Out<T, 2> y{"y", {rows, columns}};
  Stage total{"total"};
  Var r{"r"}, c{"c"};
  NamedRows() { this->formula("y[r,c] = x[r,c] - Σ_k x[r,k]").form(Form::rows); }
  void schedule(auto target) { row_reduction(target, {{total}, y, r, c, tunables}); }
};

template <ElementType T>
struct SwappedAxes : NamedRows<SwappedAxes<T>, T> {
  void algorithm() {
    const Axis k = this->columns.reduce();
    this->total(this->r) = sum(k, this->x(this->r, k));
    this->y(this->r, this->c) = this->x(this->c, this->r) - this->total(this->r);
  }
};

template <ElementType T>
struct GainOfRow : NamedRows<GainOfRow<T>, T> {
  void algorithm() {
    const Axis k = this->columns.reduce();
    this->total(this->r) = sum(k, this->x(this->r, k));
    this->y(this->r, this->c) = this->x(this->r, this->c) * this->gain(this->r) - this->total(this->r);
  }
};

template <ElementType T>
struct ReducedAxis : NamedRows<ReducedAxis<T>, T> {
  void algorithm() {
    const Axis k = this->rows.reduce();
    this->total(this->r) = sum(k, this->x(this->r, k));
    this->y(this->r, this->c) = this->x(this->r, this->c) - this->total(this->r);
  }
};

template <ElementType T>
struct UnknownAxis : NamedRows<UnknownAxis<T>, T> {
  void algorithm() {
    const Axis k = this->unknown.reduce();
    this->total(this->r) = sum(k, this->x(this->r, k));
    this->y(this->r, this->c) = this->x(this->r, this->c) - this->total(this->r);
  }
};

template <class Derived, ElementType T>
struct TwoReductions : Rows<Derived, T> {
  void algorithm() {
    this->k = this->x.reduce(1);
    this->j = this->x.reduce(1);
    this->largest(this->r) = max(this->j, this->x(this->r, this->j));
    this->total(this->r) = sum(this->k, this->x(this->r, this->k) - this->largest(this->r));
    this->y(this->r, this->c) = this->x(this->r, this->c) - this->total(this->r);
  }
};

template <ElementType T>
struct LeftOut : TwoReductions<LeftOut<T>, T> {};

// Both are given to the family, the one that needs the other first.
template <ElementType T>
struct WrongOrder : TwoReductions<WrongOrder<T>, T> {
  void schedule(auto target) {
    row_reduction(target, {{this->total, this->largest}, this->y.func(), this->r, this->c, this->tunables});
  }
};

// No family that places reductions: one for all elements is worked out for each of them.
template <ElementType T>
struct RepeatedTotal : Pointwise<RepeatedTotal<T>, T> {
  Stage total{"total"};
  void algorithm() {
    const Axis k = this->x.reduce(0);
    total() = sum(k, this->x(k));
    this->y(this->i) = this->x(this->i) - total();
  }
};

namespace {
const bool registered =
    register_kernel<HalideMax, f32>("halide_max") && register_kernel<HalideMaxOfRow, f32>("halide_max_of_row") &&
    register_kernel<IntegerSilu, i32>("integer_silu") && register_kernel<IntegerHalf, i32>("integer_half") &&
    register_kernel<IntegerMax, i32>("integer_max") && register_kernel<ShortSum, u8>("short_sum") &&
    register_kernel<NoValue, f32>("no_value") && register_kernel<UnboundAxis, f32>("unbound_axis") &&
    register_kernel<EmptyAxis, f32>("empty_axis") && register_kernel<UnreadAxis, f32>("unread_axis") &&
    register_kernel<SwappedIndices, f32>("swapped_indices") && register_kernel<SwappedAxis, f32>("swapped_axis") &&
    register_kernel<IndexOfOtherSize, f32>("index_of_other_size") &&
    register_kernel<SwappedAxes, f32>("swapped_axes") && register_kernel<GainOfRow, f32>("gain_of_row") &&
    register_kernel<ReducedAxis, f32>("reduced_axis") && register_kernel<UnknownAxis, f32>("unknown_axis") &&
    register_kernel<LeftOut, f32>("left_out") && register_kernel<WrongOrder, f32>("wrong_order") &&
    register_kernel<RepeatedTotal, f32>("repeated_total");
}

}  // namespace ashlar::dsl
