// Dot products of the rows of two matrices.
#pragma once

#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// y[r] = Σ_k a[r,k] b[r,k], of 8-bit integers added up in 32 bits: exact for up to 2^17 columns
template <ElementType T>
class RowDots : public Kernel<RowDots<T>> {
  static constexpr bool kWidens = std::is_same_v<T, i8>;

 public:
  In<T, 2> a{"a"};
  In<T, 2> b{"b", shape_of(a)};
  RowTunables tunables;
  Out<std::conditional_t<kWidens, i32, T>, 1> y{"y", {a.size(0)}};

  RowDots() {
    const std::string name = NamedKernel::current();
    this->formula(name + "(a, b)[r] = Σ_k a[r,k] b[r,k]" + (kWidens ? ", added up in i32" : ""));
    this->form(Form::rows).of_none(OfNone::zero).flops("2.0 * shapes[0].numel()");
    if (!kWidens) this->internal();
  }
  void algorithm() {
    k = a.reduce(1);
    if constexpr (kWidens) {
      total(r) = sum(k, mul_wide(a(r, k), b(r, k)));
    } else {
      total(r) = sum(k, a(r, k) * b(r, k));
    }
    y(r) = total(r);
  }
  void schedule(auto target) { row_reduction(target, {{total}, y.func(), r, Var(), tunables}); }

 private:
  Axis k;
  Stage total{"total"};
  Var r{"r"};
};

}  // namespace ashlar::dsl
