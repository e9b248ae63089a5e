// Images in other sizes, and the gradient of that, on the CPU: sums of a few neighbours along each axis by itself,
// which the caller's tables name (nn/modules/upsample.cpp).
#include "generators/frame.h"

namespace ashlar::dsl {

// y[a,p,q] = Σ_j across[j,q] Σ_i down[p,i] x[a, first_row[p] + i, first_column[q] + j], i < rows[p], j < columns[q]
template <ElementType T>
class ResamplePlanes : public Kernel<ResamplePlanes<T>> {
 public:
  static constexpr bool on_cpu_alone = true;
  Dim high{"high"}, wide{"wide"}, terms_down{"terms_down"}, terms_across{"terms_across"};
  In<T, 3> x{"x", strided};
  In<i32, 1> first_row{"first_row", {high}}, rows{"rows", {high}};
  In<T, 2> down{"down", {high, terms_down}};
  In<i32, 1> first_column{"first_column", {wide}}, columns{"columns", {wide}};
  In<T, 2> across{"across", {terms_across, wide}};
  Out<T, 3> y{"y", {x.size(0), high, wide}};

  ResamplePlanes() {
    this->formula("y[a,p,q] = Σ_j across[j,q] Σ_i down[p,i] x[a, first_row[p] + i, first_column[q] + j]").internal();
  }
  void algorithm() {
    // The tables name what is there.
    const auto certain = [](const Expr& at, const Expr& size) {
      return Halide::unsafe_promise_clamped(at, 0, size - 1);
    };
    const Expr row = line.h, plane = line.a;
    line.define(
        x.extent(2), 1, 0, 0.0f, x.axis(2).stride() == 1,
        [&](const Expr& column, const Expr& i) -> Expr {
          const Expr from = certain(first_row(row).expr() + i, x.extent(1));
          const Expr term = x(Value(plane), Value(from), Value(column)).expr() * down(Value(row), Value(i)).expr();
          return Halide::select(i < rows(Value(row)).expr(), term, 0.0f);
        },
        down.extent(1));
    const Halide::RDom j(0, across.extent(0), "j");
    const Value own = Halide::min(Halide::likely(q), wide.extent() - 1);  // a vector may go on behind the last one
    const Expr at = certain(first_column(own).expr() + j, x.extent(2));
    total(q, p, a) = 0.0f;
    total(q, p, a) +=
        Halide::select(j < columns(own).expr(), Expr(line.func(at, p, a)) * across(j.x, own).expr(), 0.0f);
    y(a, p, q) = Value(total(q, p, a));
  }
  void schedule(Cpu target) {
    const Expr terms = across.extent(0);
    by_element(target, y.func(), q, p, a, wide.extent(), 4 * terms, {total}, {}, {terms == 1, terms == 2});
    line.compute_at({y.func(), row_of_outputs()});
  }

 private:
  Frame line;
  Halide::Func total{"total"};
  Var a{"a"}, p{"p"}, q{"q"};
};

// y[a,p,c] = the bits of x[a, p / times, c], twice: each of x's elements beside itself, `times` rows of them
template <ElementType T>
class DoublePlanes : public Kernel<DoublePlanes<T>> {
 public:
  static constexpr bool on_cpu_alone = true;
  In<i32, 3> x{"x", strided};
  Scalar<int32_t> times{"times"};
  Out<T, 3> y{"y", {x.size(0), any_size, x.size(2)}};

  DoublePlanes() { this->formula("y[a,p,c] = the bits of x[a, p / times, c], twice").internal(); }
  void algorithm() {
    const Expr row = Halide::unsafe_promise_clamped(p / Halide::max(Value(times).expr(), 1), 0, x.extent(1) - 1);
    const Expr once = Halide::cast<uint64_t>(Halide::reinterpret<uint32_t>(x(Value(a), Value(row), Value(c)).expr()));
    y(a, p, c) = Value(Halide::reinterpret<int64_t>(once | (once << 32)));
  }
  void schedule(Cpu target) { by_element(target, y.func(), c, p, a, x.extent(2), 1, {}, {x.axis(2).stride() == 1}); }

 private:
  Var a{"a"}, p{"p"}, c{"c"};
};

const bool registered =
    register_kernel<ResamplePlanes, f32>("resample_planes") && register_kernel<DoublePlanes, i64>("double_planes");

}  // namespace ashlar::dsl
