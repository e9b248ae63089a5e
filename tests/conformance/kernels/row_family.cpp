// Row reductions that read what the library's own don't: a tensor of the columns alone, one that a single reduction
// needs, the column's number, and an axis with a condition; and that have further outputs. Names of the tests' kernels
// begin with test_.
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// y[r,c] = x[r,c] gain[c] + max_k (x[r,k] + gain[k]) - Σ_k (x[r,k] gain[k] + w[r,k])
template <ElementType T>
class WeightedRows : public Kernel<WeightedRows<T>> {
 public:
  In<T, 2> x{"x"};
  In<T, 1> gain{"gain", {x.size(1)}};
  In<T, 2> w{"w", shape_of(x)};
  RowTunables tunables;
  Out<T, 2> y{"y", shape_of(x)};

  WeightedRows() {
    this->formula("y[r,c] = x[r,c] gain[c] + max_k (x[r,k] + gain[k]) - Σ_k (x[r,k] gain[k] + w[r,k])");
  }
  void algorithm() {
    k = x.reduce(1);
    j = x.reduce(1);
    largest(r) = max(k, x(r, k) + gain(k));
    total(r) = sum(j, x(r, j) * gain(j) + w(r, j));
    y(r, c) = x(r, c) * gain(c) + largest(r) - total(r);
  }
  void schedule(auto target) { row_reduction(target, {{largest, total}, y.func(), r, c, tunables}); }

 private:
  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  Var r{"r"}, c{"c"};
};

// top[r] = max_k x[r,k] gain[k],  y[r] = top[r] + Σ_k x[r,k] gain[k] (1 + k / 1024)
template <ElementType T>
class WeightedTotals : public Kernel<WeightedTotals<T>> {
 public:
  In<T, 2> x{"x"};
  In<T, 1> gain{"gain", {x.size(1)}};
  RowTunables tunables;
  Out<T, 1> y{"y", {x.size(0)}};
  Out<f32, 1> top{"top", {x.size(0)}};

  WeightedTotals() { this->formula("y[r] = max_k x[r,k] gain[k] + Σ_k x[r,k] gain[k] (1 + k / 1024)"); }
  void algorithm() {
    k = x.reduce(1);
    j = x.reduce(1);
    largest(r) = max_of_numbers(k, x(r, k) * gain(k));
    total(r) = sum(j, x(r, j) * gain(j) * (1.0 + to_float(j) / 1024.0));
    y(r) = largest(r) + total(r);
    top(r) = largest(r);
  }
  void schedule(auto target) { row_reduction(target, {{largest, total}, y.func(), r, Var(), tunables, {top}}); }

 private:
  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  Var r{"r"};
};

// y[r,c] = x[r,c] max_{k even} x[r,k] - Σ_{k <= 37 r} x[r,k],  rest[r,c] = max_{k even} x[r,k] - x[r,c]
template <ElementType T>
class MaskedRows : public Kernel<MaskedRows<T>> {
 public:
  In<T, 2> x{"x"};
  RowTunables tunables;
  Out<T, 2> y{"y", shape_of(x)};
  Out<f32, 1> total_of_row{"total_of_row", {x.size(0)}};
  Out<T, 2> rest{"rest", shape_of(x)};

  MaskedRows() { this->formula("y[r,c] = x[r,c] max_{k even} x[r,k] - Σ_{k <= 37 r} x[r,k]"); }
  void algorithm() {
    k = x.reduce(1);
    j = x.reduce(1);
    k.where(Value(Expr(k) % 2) == 0);
    j.where(Value(j) < Value(r) * 37 + 1);
    largest(r) = max_of_numbers(k, x(r, k));
    total(r) = sum(j, x(r, j));
    y(r, c) = x(r, c) * largest(r) - total(r);
    total_of_row(r) = total(r);
    rest(r, c) = largest(r) - x(r, c);
  }
  void schedule(auto target) {
    row_reduction(target, {{largest, total}, y.func(), r, c, tunables, {total_of_row, rest}});
  }

 private:
  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  Var r{"r"}, c{"c"};
};

const bool registered = register_kernel<WeightedRows, f32, f16>("test_weighted_rows") &&
                        register_kernel<WeightedTotals, f32>("test_weighted_totals") &&
                        register_kernel<MaskedRows, f32>("test_masked_rows");

}  // namespace ashlar::dsl
