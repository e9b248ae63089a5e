// Running sums, products, maxima and minima along an axis.
#include <limits>

#include "dsl/operator.h"
#include "schedules/scan.h"

namespace ashlar::dsl {

// y[r,c] = Σ_{k ≤ c} x[r,k]
struct RunningSum {
  static Merge merge(Halide::Type) {
    const auto plus = [](const Values& a, const Values& b) { return Values{a[0] + b[0]}; };
    return {.init = {0.0}, .step = plus, .merge = plus};
  }
  static void describe(auto& kernel) {
    kernel.formula("cumsum(x)[r,c] = Σ_{k ≤ c} x[r,k]");
    kernel.gradient("x", "cumsum_grad(dy, axis)").flops("static_cast<double>(shapes[0].numel())");
  }
};

// y[r,c] = Π_{k ≤ c} x[r,k]
struct RunningProduct {
  static Merge merge(Halide::Type type) {
    const auto times = [](const Values& a, const Values& b) { return Values{a[0] * b[0]}; };
    return {.init = {Value(Halide::Internal::make_one(type))}, .step = times, .merge = times};
  }
  static void describe(auto& kernel) {
    kernel.formula("cumprod(x)[r,c] = Π_{k ≤ c} x[r,k]");
    kernel.gradient("x", "cumprod_grad(dy, x, axis)").flops("static_cast<double>(shapes[0].numel())");
  }
};

// The larger of two elements, or the smaller one, and where it stands: of equal ones the later, of NaN the last.
//
//   merge(a, b) = b where b.value >= a.value or b.value is NaN, else a     b.index < 0: nothing, which is never taken
template <bool is_maximum>
struct RunningExtremum {
  static Merge merge(Halide::Type type) {
    const double last = is_maximum ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    const Expr none = type.is_float() ? Halide::Internal::make_const(type, last) : is_maximum ? type.min() : type.max();
    const auto later = [](const Values& a, const Values& b) {
      const Value reaches = is_maximum ? b[0] >= a[0] : b[0] <= a[0];
      const Value is_taken = b[1] >= 0 && (reaches || is_nan(b[0]));
      return Values{select(is_taken, b[0], a[0]), select(is_taken, b[1], a[1])};
    };
    return {.init = {none, -1}, .step = later, .merge = later};
  }

  template <ElementType T>
  class Rows : public Kernel<Rows<T>> {
   public:
    In<T, 2> x{"x"};
    OutTuple<2, T, i64> extremum{"extremum", {{{"values"}, {"indices"}}}, shape_of(x)};
    ScanScratch states{x.size(0), x.size(1), 2};

    Rows() {
      const std::string name = is_maximum ? "max" : "min";
      this->form(Form::rows)
          .formula("cum" + name + "(x): values[r,c] = " + name +
                   "_{k ≤ c} x[r,k], NaN from the first NaN on; indices[r,c] the last k ≤ c where it "
                   "stands");
      this->gradient("x", "sort_grad(dvalues, indices, x.shape(), axis)");
      this->flops("static_cast<double>(shapes[0].numel())");
    }
    void algorithm() {
      k = x.reduce(1);
      const Value element = x(r, k);
      running(r, k) = states.scan(k, {element, k}, merge(element.type()));
      extremum.define({r, c}, {running(r, c)[0], running(r, c)[1]});
    }
    void schedule(auto target) {
      scan(target, {running.func(), extremum.func(), states.blocks.func(), states.groups.func(), r, c});
    }

   private:
    Axis k;
    Stage running{"running"};
    Var r{"r"}, c{"c"};
  };
};

// Sums of s e^m, as pairs (m, s) of which the larger m stays: nothing overflows.
//
//   (m, s) + (n, t) = (m, s + t e^(n - m)) for m >= n     two infinities of one sign are equal: their difference is 0
Merge scaled_sum() {
  const auto plus = [](const Values& a, const Values& b) {
    const Value is_less = a[0] < b[0];
    const Value below = select(a[0] == b[0], 0.0, select(is_less, a[0] - b[0], b[0] - a[0]));
    const Value factor = exp(below);
    return Values{max(a[0], b[0]), select(is_less, a[1] * factor + b[1], a[1] + b[1] * factor)};
  };
  return {.init = {-std::numeric_limits<double>::infinity(), 0.0}, .step = plus, .merge = plus};
}

// y[r,c] = ln Σ_{k ≤ c} e^x[r,k]
struct RunningLogSum {
  static Merge merge(Halide::Type) {
    Merge sum = scaled_sum();
    sum.step = [plus = sum.merge](const Values& a, const Values& x) { return plus(a, {x[0], 1.0}); };
    return sum;
  }
  static Value finish(const Values& sum) { return sum[0] + log(sum[1]); }
  static void describe(auto& kernel) {
    kernel.formula("logcumsumexp(x)[r,c] = ln Σ_{k ≤ c} e^x[r,k]");
    kernel.gradient("x", "logcumsumexp_grad(dy, x, y, axis)").flops("static_cast<double>(shapes[0].numel())");
  }
};

// dx[r,c] = Σ_{k ≥ c} dy[r,k] e^(x[r,c] - y[r,k]), from the last column on: of columns counted from the end. The sum is
// one of scaled dy, so that no e^x or e^-y stands alone.
template <ElementType T>
class RunningLogSumGradient : public Kernel<RunningLogSumGradient<T>> {
 public:
  In<T, 2> dy{"dy"}, x{"x", shape_of(dy)}, y{"y", shape_of(dy)};
  Out<T, 2> dx{"dx", shape_of(dy)};
  ScanScratch states{dy.size(0), dy.size(1), 2};

  RunningLogSumGradient() {
    this->form(Form::rows).internal();
    this->formula("dx[r,n-1-c] = Σ_{k ≥ c} dy[r,k] e^(x[r,c] - y[r,k]) of n columns");
  }
  void algorithm() {
    k = dy.reduce(1);
    const auto from_end = [&](const Value& i) { return Value(dy.extent(1) - 1 - i.expr()); };
    running(r, k) = states.scan(k, {-y(r, from_end(k)), dy(r, from_end(k))}, scaled_sum());
    dx(r, c) = exp(x(r, from_end(c)) + running(r, c)[0]) * running(r, c)[1];
  }
  void schedule(auto target) {
    scan(target, {running.func(), dx.func(), states.blocks.func(), states.groups.func(), r, c});
  }

 private:
  Axis k;
  Stage running{"running"};
  Var r{"r"}, c{"c"};
};

const bool registered = register_scan<RunningSum, f32, f16, bf16, f64, i32, i64>("cumsum");
const bool others_registered = register_scan<RunningProduct, f32, i64>("cumprod") &&
                               register_scan<RunningLogSum, f32>("logcumsumexp") &&
                               register_kernel<RunningLogSumGradient, f32>("logcumsumexp_grad") &&
                               register_kernel<RunningExtremum<true>::template Rows, f32, i64>("cummax") &&
                               register_kernel<RunningExtremum<false>::template Rows, f32, i64>("cummin");

}  // namespace ashlar::dsl
