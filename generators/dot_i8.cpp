#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// y[r] = Σ_k a[r,k] b[r,k] of 8-bit integers, added up in 32 bits: exact for up to 2^17 columns
template <ElementType T>
class DotI8 : public Kernel<DotI8<T>> {
 public:
  In<T, 2> a{"a"};
  In<T, 2> b{"b", shape_of(a)};
  RowTunables tunables;
  Out<i32, 1> y{"y", {a.size(0)}};

  DotI8() {
    this->formula("dot_i8(a, b)[r] = Σ_k a[r,k] b[r,k], added up in i32").form(Form::rows).of_none(OfNone::zero);
    this->flops("2.0 * shapes[0].numel()");
  }
  void algorithm() {
    k = a.reduce(1);
    total(r) = sum(k, mul_wide(a(r, k), b(r, k)));
    y(r) = total(r);
  }
  void schedule(auto target) { row_reduction(target, {{total}, y.func(), r, Var(), tunables}); }

 private:
  Axis k;
  Stage total{"total"};
  Var r{"r"};
};

const bool registered = register_kernel<DotI8, i8>("dot_i8");

}  // namespace ashlar::dsl
