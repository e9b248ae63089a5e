// sum, mean, max, min, prod, argmax and argmin in the canonical form [outer, reduced, inner].
#include <limits>
#include <optional>

#include "dsl/nonzero.h"
#include "dsl/operator.h"
#include "schedules/reduction_kernel.h"

namespace ashlar::dsl {

// Order-preserving i64 of a double, as detail::ordered_key() of a float: -0 as +0, and every NaN at the top, of either
// Sign.
constexpr int64_t kTop = std::numeric_limits<int64_t>::max();
template <int Sign>
Value ordered(const Value& x) {
  const Expr bits = Halide::reinterpret<int64_t>(x.expr()), magnitude = bits & Expr(kTop);
  const Expr number = Halide::select((bits < Expr(int64_t{0})) == (Sign > 0), -magnitude, magnitude);
  return Halide::select(magnitude > Expr(int64_t{0x7ff} << 52), Expr(kTop), number);
}
template <int Sign>
Value from_ordered(const Value& key) {
  const Expr number = Sign > 0 ? key.expr() : -key.expr(), zero = Expr(int64_t{0});
  const Expr magnitude = Halide::select(number < zero, -number, number);
  const Expr bits = Halide::select(number < zero, magnitude | Expr(std::numeric_limits<int64_t>::min()), magnitude);
  return Halide::reinterpret<double>(Halide::select(key.expr() == Expr(kTop), Expr(kTop), bits));
}
template <int Sign>
Reduction extremum_of_doubles(const Axis& k, const Value& x) {
  Reduction largest = max_of_numbers(k, ordered<Sign>(x));
  largest.finish = [](Value key) { return from_ordered<Sign>(key); };
  return largest;
}

// y[o,p,i] = Σ_k x[o,k,i] over part p
template <ElementType T, ElementType A>
class Sum : public ReductionKernel<Sum<T, A>, T> {
 public:
  Out<A, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  Sum() {
    this->formula("y[o,p,i] = Σ_k x[o,k,i], k in part p").form(Form::reduction);
    this->of_none(OfNone::zero).of_one(OfOne::element);
    this->gradient("x", "sum_grad(dy, axes, keepdim, x.shape())");
    this->flops("static_cast<double>(shapes[0].numel())");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) = sum(k, this->element(k));
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

// y[o,p,i] = scale Σ_k x[o,k,i] over part p;  scale is 1/n in the last pass and 1 before
template <ElementType T, ElementType A>
class Mean : public ReductionKernel<Mean<T, A>, T> {
 public:
  Scalar<float> scale{"scale"};
  Out<A, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  Mean() {
    this->formula("y[o,p,i] = scale Σ_k x[o,k,i], k in part p").form(Form::reduction);
    this->of_none(OfNone::nan).of_one(OfOne::element);
    this->gradient("x", "mean_grad(dy, axes, keepdim, x.shape())");
    this->flops("static_cast<double>(shapes[0].numel())");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) = sum(k, this->element(k));
    y(this->outer, this->part, this->inner) = Value(this->total(this->outer, this->part, this->inner)) * scale;
  }
};

// y[o,p,i] = max_k x[o,k,i] over part p, NaN if any is NaN
template <ElementType T, ElementType A>
class Max : public ReductionKernel<Max<T, A>, T> {
 public:
  Out<A, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  Max() {
    this->formula("y[o,p,i] = max_k x[o,k,i], k in part p").form(Form::reduction).of_one(OfOne::element);
    this->gradient("x", "max_grad(dy, x, y, axes, keepdim)");
    this->flops("static_cast<double>(shapes[0].numel())");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    if constexpr (std::is_same_v<T, i64>) {
      this->total(this->outer, this->part, this->inner) = max_of_numbers(k, this->element(k));
    } else if constexpr (std::is_same_v<T, f64>) {
      this->total(this->outer, this->part, this->inner) = extremum_of_doubles<1>(k, this->element(k));
    } else {
      this->total(this->outer, this->part, this->inner) = max(k, this->element(k));
    }
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

// y[o,p,i] = min_k x[o,k,i] over part p, NaN if any is NaN
template <ElementType T, ElementType A>
class Min : public ReductionKernel<Min<T, A>, T> {
 public:
  Out<A, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  Min() {
    this->formula("y[o,p,i] = min_k x[o,k,i], k in part p").form(Form::reduction).of_one(OfOne::element);
    this->gradient("x", "max_grad(dy, x, y, axes, keepdim)");
    this->flops("static_cast<double>(shapes[0].numel())");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    if constexpr (std::is_same_v<T, i64>) {
      // ~x = -1 - x turns the order round, of every integer.
      Reduction flipped = max_of_numbers(k, ~this->element(k));
      flipped.finish = [](Value v) { return ~v; };
      this->total(this->outer, this->part, this->inner) = flipped;
    } else if constexpr (std::is_same_v<T, f64>) {
      this->total(this->outer, this->part, this->inner) = extremum_of_doubles<-1>(k, this->element(k));
    } else {
      // A smallest 0 is +0, whatever the order of zeros. By its bits: LLVM takes -0 for 0.
      Reduction smallest = max(k, -this->element(k));
      smallest.finish = [positive = smallest.finish](Value v) {
        const Value bits = Halide::reinterpret<uint32_t>(positive(v).expr()), zero = Expr(0u);
        const Value negative = select(bits == zero, zero, bits ^ Value(Expr(0x80000000u)));
        return Value(Halide::reinterpret<float>(negative.expr()));
      };
      this->total(this->outer, this->part, this->inner) = smallest;
    }
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

// y[o,p,i] = Π_k x[o,k,i] over part p
template <ElementType T, ElementType A>
class Product : public ReductionKernel<Product<T, A>, T> {
 public:
  Out<A, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  Product() {
    this->formula("y[o,p,i] = Π_k x[o,k,i], k in part p").form(Form::reduction);
    this->of_none(OfNone::one).of_one(OfOne::element);
    this->gradient("x", "prod_grad(dy, x, axes, keepdim)");
    this->flops("static_cast<double>(shapes[0].numel())");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    const auto times = [](const Values& a, const Values& b) { return Values{a[0] * b[0]}; };
    this->total(this->outer, this->part, this->inner) =
        reduce(k, {this->element(k)},
               {.init = {Value(Halide::Internal::make_one(this->element(k).type()))}, .step = times, .merge = times});
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

// y[o,0,i] = the first k of the largest (Sign 1) or smallest (Sign -1) x[o,k,i], or of the first NaN. In two passes
// when there are parts: …_parts gives each one's key, the value with its index packed into 64 bits, and argmax_last the
// largest key's index. Values of 64 bits leave no room for an index: they stand beside it, and go in one pass.
template <ElementType T, int Sign>
class IndexOfExtremum : public ReductionKernel<IndexOfExtremum<T, Sign>, T> {
 public:
  Out<i64, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  IndexOfExtremum() {
    const std::string name = Sign > 0 ? "argmax" : "argmin";
    this->formula("y[o,0,i] = " + name + "_k x[o,k,i]").form(Form::reduction).passes(name + "_parts", "argmax_last");
    this->of_one(OfOne::place).flops("static_cast<double>(shapes[0].numel())");
    if (sizeof(typename Element<T>::Storage) == 8) this->widest_on_cpu(CodeTarget::cpu);  // two to a vector, and rare
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    const Value x = this->element(k);
    if constexpr (std::is_same_v<T, i64> || std::is_same_v<T, f64>) {
      this->total(this->outer, this->part, this->inner) = reduce(k, {key_of(x), this->index(k)}, first_of_largest());
      const Values found = this->total(this->outer, this->part, this->inner);
      y(this->outer, this->part, this->inner) = Value(Halide::cast<int64_t>(found[1].expr()));
    } else {
      this->total(this->outer, this->part, this->inner) = argmax(k, Sign > 0 ? x : -x);
      y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
    }
  }

 private:
  static Value key_of(const Value& x) {
    if constexpr (std::is_same_v<T, f64>) return ordered<Sign>(x);
    return Sign > 0 ? x : ~x;
  }
  static Merge first_of_largest() {
    const auto merged = [](const Values& a, const Values& b) -> Values {
      const Value is_larger = b[0] > a[0] || (b[0] == a[0] && b[1] < a[1]);
      const Value takes_b = b[1] >= 0 && (a[1] < 0 || is_larger);
      return {select(takes_b, b[0], a[0]), select(takes_b, b[1], a[1])};
    };
    return {.init = {Expr(int64_t{0}), -1}, .step = merged, .merge = merged};
  }
};
template <ElementType T>
using Argmax = IndexOfExtremum<T, 1>;
template <ElementType T>
using Argmin = IndexOfExtremum<T, -1>;

template <ElementType T, int Sign>
class IndexOfExtremumParts : public ReductionKernel<IndexOfExtremumParts<T, Sign>, T> {
 public:
  Out<i64, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  IndexOfExtremumParts() {
    const std::string name = Sign > 0 ? "argmax" : "argmin";
    this->formula("y[o,p,i] = key of " + name + "_k x[o,k,i], k in part p").form(Form::movement).internal();
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    const Value index = Value(this->part) * this->chunk + k, x = this->element(k);
    const auto key = [](Value packed) { return packed; };
    this->total(this->outer, this->part, this->inner) = max_of_keys(k, argmax_key(index, Sign > 0 ? x : -x), key);
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};
template <ElementType T>
using ArgmaxParts = IndexOfExtremumParts<T, 1>;
template <ElementType T>
using ArgminParts = IndexOfExtremumParts<T, -1>;

template <ElementType T>
class ArgmaxLast : public ReductionKernel<ArgmaxLast<T>, T> {
 public:
  Out<i64, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  ArgmaxLast() {
    this->formula("y[o,0,i] = index of max_k x[o,k,i], x of argmax_parts").form(Form::movement).internal();
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) = max_of_keys(k, this->element(k), index_of_argmax_key);
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

// y[o,p,i] = Σ_k f(x[o,k,i]) over part p, whose parts `sum` adds up
struct SummedFunction {
  std::string name;
  std::string formula;
  Value (*value)(Value x, Value p);
};
template <ElementType T>
class SumOf : public ReductionKernel<SumOf<T>, T> {
 public:
  Scalar<float> p{"p", 0.0f};
  Out<f32, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  void bind(const SummedFunction& f) {
    f_ = f;
    this->formula("y[o,p,i] = Σ_k " + f.formula + ", k in part p").form(Form::reduction).of_none(OfNone::zero);
    this->internal().passes(f.name, "sum");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) = sum(k, f_.value(this->element(k), p));
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }

 private:
  SummedFunction f_;
};
bool add_sum_of(const SummedFunction& f) {
  return register_bound_kernel<SumOf, f32>(f.name, [f](auto& kernel) { kernel.bind(f); });
}

// y[o,p,i] = |{k : x[o,k,i] ≠ 0, k in part p}|, whose parts `sum` adds up
template <ElementType T>
class NonzeroSum : public ReductionKernel<NonzeroSum<T>, T> {
 public:
  Out<i64, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  NonzeroSum() {
    this->formula("y[o,p,i] = |{k : x[o,k,i] ≠ 0, k in part p}|").form(Form::reduction).of_none(OfNone::zero);
    this->internal().passes("nonzero_sum", "sum");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) =
        sum(k, Value(Halide::select(is_nonzero(this->element(k)).expr(), Expr(1), Expr(0))));
    y(this->outer, this->part, this->inner) =
        Value(Halide::cast<int64_t>(Value(this->total(this->outer, this->part, this->inner)).expr()));
  }
};

// Operators written by hand (operators/reduction.cpp).

const std::vector<DType> kFloats{DType::f32, DType::f16, DType::bf16};
const std::vector<DType> kAny{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32,
                              DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};

struct AxesOperator {
  std::string name, formula;
  std::vector<DType> dtypes;
  std::vector<std::string> calls;
  std::string gradient = {};
  std::vector<OperatorScalar> scalars = {};
  std::optional<DType> result = {};
};
bool add_axes_operator(const AxesOperator& op) {
  OperatorDescription description{
      .name = op.name,
      .formula = op.formula,
      .dtypes = op.dtypes,
      .inputs = {{"x"}},
      .scalars = op.scalars,
      .options = {{"axes", FormOption::Kind::integers}, {"keepdim", FormOption::Kind::boolean}},
      .outputs = {{"y", op.result}},
      .calls = op.calls,
      .flops = "static_cast<double>(shapes[0].numel())"};
  if (!op.gradient.empty()) description.gradients = {{"x", op.gradient, {}}};
  return register_operator(description);
}

const std::vector<DType> kOrdered{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64};

// Of 16-bit floats there are three: results that go on to another pass are f32, those of a call's only or last pass
// rounded.
template <template <class, class> class K, class... Pairs>
bool add(const std::string& name) {
  return register_kernel_pairs<K, Pair<f32, f32>, Pair<f16, f32>, Pair<f16, f16>, Pair<f32, f16>, Pair<bf16, f32>,
                               Pair<bf16, bf16>, Pair<f32, bf16>, Pairs...>(name);
}

const bool registered =
    add<Sum, Pair<f64, f64>, Pair<i64, i64>>("sum") && add<Mean>("mean") &&
    add<Max, Pair<f64, f64>, Pair<i64, i64>>("max") && add<Min, Pair<f64, f64>, Pair<i64, i64>>("min") &&
    register_kernel_pairs<Product, Pair<f32, f32>, Pair<f16, f32>, Pair<bf16, f32>, Pair<f64, f64>, Pair<i64, i64>>(
        "prod") &&
    register_kernel<Argmax, f32, f16, bf16, f64, i64>("argmax") &&
    register_kernel<ArgmaxParts, f32, f16, bf16>("argmax_parts") && register_kernel<Argmin, f32, f64, i64>("argmin") &&
    register_kernel<ArgminParts, f32>("argmin_parts") && register_kernel<ArgmaxLast, i64>("argmax_last") &&
    register_kernel<NonzeroSum, f32, boolean>("nonzero_sum") &&
    add_sum_of({"sum_of_abs", "|x[o,k,i]|", [](Value x, Value) -> Value { return abs(x); }}) &&
    add_sum_of({"sum_of_squares", "x[o,k,i]²", [](Value x, Value) -> Value { return x * x; }}) &&
    add_sum_of({"sum_of_powers", "|x[o,k,i]|^p", [](Value x, Value p) -> Value { return pow(abs(x), p); }});

const std::vector<std::string> kOfNorm{
    "sum_of_abs", "sum_of_squares", "sum_of_powers", "nonzero_sum", "max", "min", "abs", "pow"};
const std::vector<std::string> kOfNorms{"sum_of_squares", "sum_of_abs", "sum_of_powers", "max", "pow",
                                        "maximum",        "div"};

const bool operators_registered =
    add_axes_operator(
        {"amax", "amax(x, axes) = max(x, axes)", kOrdered, {"max"}, "max_grad(dy, x, y, axes, keepdim)"}) &&
    add_axes_operator(
        {"amin", "amin(x, axes) = min(x, axes)", kOrdered, {"min"}, "max_grad(dy, x, y, axes, keepdim)"}) &&
    add_axes_operator({"count_nonzero",
                       "count_nonzero(x, axes) = |{k : x[k] ≠ 0}|: NaN counts",
                       kAny,
                       {"nonzero_sum"},
                       {},
                       {},
                       DType::i64}) &&
    add_axes_operator({"any",
                       "any(x, axes) = whether some x[k] ≠ 0; of none, false",
                       kAny,
                       {"nonzero_sum", "cast"},
                       {},
                       {},
                       DType::boolean}) &&
    add_axes_operator({"all",
                       "all(x, axes) = whether every x[k] ≠ 0; of none, true",
                       kAny,
                       {"nonzero_sum", "eq"},
                       {},
                       {},
                       DType::boolean}) &&
    add_axes_operator({"norm",
                       "norm(x, p, axes) = (Σ_k |x[k]|^p)^(1/p); max |x[k]| for p = ∞, min |x[k]| for -∞, "
                       "|{k : x[k] ≠ 0}| for 0",
                       kFloats,
                       kOfNorm,
                       "norm_grad(dy, x, y, p, axes, keepdim)",
                       {{.name = "p", .default_value = "2"}}}) &&
    register_operator({.name = "normalize",
                       .formula = "normalize(x, axis, p, eps) = x / max(norm(x, p, axis), eps)",
                       .dtypes = kFloats,
                       .inputs = {{"x"}},
                       .scalars = {{"p", DType::f64, "2.0"}, {"eps", DType::f64, "1e-12"}},
                       .options = {{"axis", FormOption::Kind::integer, 1}},
                       .scalars_last = true,
                       .outputs = {{"y"}},
                       .calls = kOfNorms,
                       .composed = "operators/composed/norms.h"}) &&
    register_operator({.name = "pairwise_distance",
                       .formula = "pairwise_distance(x1, x2, p, eps) = (Σ |x1 - x2 + eps|^p)^(1/p) along the last axis",
                       .dtypes = kFloats,
                       .inputs = {{"x1"}, {"x2"}},
                       .scalars = {{"p", DType::f64, "2.0"}, {"eps", DType::f64, "1e-6"}},
                       .options = {{"keepdim", FormOption::Kind::boolean}},
                       .outputs = {{"y"}},
                       .calls = kOfNorms,
                       .composed = "operators/composed/norms.h"});

}  // namespace ashlar::dsl
