#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// y[r] = Σ_k a[r,k] b[r,k]
template <ElementType T>
class RowDots : public Kernel<RowDots<T>> {
 public:
  In<T, 2> a{"a"};
  In<T, 2> b{"b", shape_of(a)};
  RowTunables tunables;
  Out<T, 1> y{"y", {a.size(0)}};

  RowDots() {
    this->formula("row_dots(a, b)[r] = Σ_k a[r,k] b[r,k]").form(Form::rows).of_none(OfNone::zero).internal();
  }
  void algorithm() {
    k = a.reduce(1);
    total(r) = sum(k, a(r, k) * b(r, k));
    y(r) = total(r);
  }
  void schedule(auto target) { row_reduction(target, {{total}, y.func(), r, Var(), tunables}); }

 private:
  Axis k;
  Stage total{"total"};
  Var r{"r"};
};

const bool registered = register_kernel<RowDots, f32>("row_dots");

}  // namespace ashlar::dsl
