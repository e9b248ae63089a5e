// Reductions: sum, mean, max, min over an axis, or by a merge of the author's, and the stage that holds one's result.
#pragma once

#include "dsl/descriptor.h"

namespace ashlar::dsl {

/// A reduction index over [0, extent), optionally only where a condition holds. As a member of a kernel it is declared
/// without an extent (`Axis k;`) and bound in algorithm(): `k = x.reduce(1)`.
class Axis {
 public:
  Axis() = default;
  Axis(Expr extent, const std::string& name) : domain_(0, extent, name), extent_(std::move(extent)) {
    if (Halide::Internal::is_const_zero(extent_)) mistake("axis " + name + " runs over nothing: " + kHowToBind);
  }
  operator Value() const { return Value(Expr(rvar())); }
  operator Expr() const { return rvar(); }
  void where(const Value& condition) {
    rvar();
    domain_.where(condition.expr());
  }
  const Halide::RVar& rvar() const {
    if (!extent_.defined()) mistake(std::string("an Axis is used that was never bound: ") + kHowToBind);
    return domain_.x;
  }
  const Expr& extent() const { return extent_; }

 private:
  static constexpr const char* kHowToBind = "bind it at the head of algorithm(), as in k = x.reduce(1)";
  Halide::RDom domain_;
  Expr extent_;
};

/// What a stage accumulates: f = start; f = combine(f, value); the result is finish(f). `combine` is one that Halide
/// can prove associative, so that a schedule may split it over lanes and threads (rfactor).
struct Reduction {
  Expr start;
  Expr value;
  std::function<Expr(Expr, Expr)> combine;
  std::function<Value(Value)> finish;
  bool may_drop_nan = false;  ///< what max_of_numbers() says; elsewhere a maximum of floats is a mistake
};

namespace detail {
/// `value`, after checking that it has one for each index of the axis.
inline const Value& over(const Axis& k, const Value& value, const char* reduction) {
  if (!Halide::Internal::expr_uses_var(value.expr(), k.rvar().name())) {
    mistake(std::string(reduction) + " over " + plain_name(k.rvar().name()) +
            " of a value that doesn't read that axis: nothing would be repeated; index with it");
  }
  return value;
}
/// The same for sums, which wrap around in short integers.
inline const Value& summand(const Axis& k, const Value& value) {
  if (!value.type().is_float() && value.type().bits() < 32) {
    mistake("sum over " + plain_name(k.rvar().name()) + " of integers of " + std::to_string(value.type().bits()) +
            " bits, in which it would wrap around; sum to_float(x)");
  }
  return over(k, value, "sum");
}
inline Expr add(const Expr& a, const Expr& b) { return a + b; }
inline Expr larger(const Expr& a, const Expr& b) { return Halide::max(a, b); }

// Order-preserving unsigned key of a float: key(a) < key(b) where a < b, -0 as +0, 0 for -Inf, and every NaN just above
// +Inf. A float max drops NaN on a GPU and can't be proved associative with NaN kept; an integer one keeps it and can.
//
//   key = min(±magnitude + Inf, 2 Inf + 1)  with the bits of magnitude and infinity as integers mod 2^32: a negative
//   NaN, whose magnitude is above Inf, wraps around to the top
inline constexpr uint32_t kBitsOfInfinity = 0x7f800000u, kKeyOfNan = 2 * kBitsOfInfinity + 1;
inline Expr ordered_key(const Expr& x) {
  const Expr i = Halide::reinterpret<int32_t>(x), sign = i >> 31;
  const Expr signed_magnitude = Halide::reinterpret<uint32_t>(i ^ (sign & 0x7fffffff)) - Halide::cast<uint32_t>(sign);
  return Halide::min(signed_magnitude + Expr(kBitsOfInfinity), Expr(kKeyOfNan));
}
inline Expr from_ordered_key(const Expr& key) {
  const Expr i = Halide::reinterpret<int32_t>(key - Expr(kBitsOfInfinity)), sign = i >> 31;
  const Expr bits = Halide::reinterpret<uint32_t>((i + sign) ^ (sign & 0x7fffffff));
  return Halide::reinterpret<float>(bits | Halide::select(key == Expr(kKeyOfNan), Expr(0x400000u), Expr(0u)));
}
}  // namespace detail

// sum_k value(k)
inline Reduction sum(const Axis& k, const Value& value) {
  detail::summand(k, value);
  return {Halide::Internal::make_zero(value.type()), value, detail::add, [](Value v) { return v; }};
}
// sum_k value(k) / n
inline Reduction mean(const Axis& k, const Value& value) {
  detail::float_operand(detail::over(k, value, "mean"), "mean");
  return {Halide::Internal::make_zero(value.type()), value, detail::add,
          [n = k.extent()](Value v) { return v / Value(Halide::cast(v.type(), n)); }};
}
// max_k value(k), NaN if any is NaN; f32 only
inline Reduction max(const Axis& k, const Value& value) {
  detail::f32_operand(detail::over(k, value, "max"), "max over an axis");
  return {Expr(uint32_t{0}), detail::ordered_key(value), detail::larger,
          [](Value key) { return Value(detail::from_ordered_key(key)); }};
}
// min_k value(k) = -max_k -value(k)
inline Reduction min(const Axis& k, const Value& value) {
  Reduction negated = max(k, -value);
  negated.finish = [](Value key) { return -Value(detail::from_ordered_key(key)); };
  return negated;
}
// max_k value(k) in one instruction each, where a NaN may be dropped
inline Reduction max_of_numbers(const Axis& k, const Value& value) {
  detail::over(k, value, "max_of_numbers");
  return {value.type().min(), value, detail::larger, [](Value v) { return v; }, true};
}

// A value and its index in 64 bits: the larger key has the larger value, or of equal values the smaller index. NaN
// counts as the largest value.
inline Value argmax_key(const Value& index, const Value& value) {
  const Expr high = Halide::cast<uint64_t>(detail::ordered_key(detail::f32_operand(value, "argmax")));
  const Expr low = Halide::cast<uint64_t>(Expr(0xffffffffu) - Halide::cast<uint32_t>(index.expr()));
  return (high << 32) | low;
}
inline Value index_of_argmax_key(const Value& key) {
  return Halide::cast<int64_t>(Expr(0xffffffffu) - Halide::cast<uint32_t>(key.expr()));
}
// max_k key(k), of keys made by argmax_key(); the last one's index, or the key itself
inline Reduction max_of_keys(const Axis& k, const Value& key, std::function<Value(Value)> finish) {
  detail::over(k, key, "max_of_keys");
  return {Expr(uint64_t{0}), Halide::cast<uint64_t>(key.expr()), detail::larger, std::move(finish)};
}
// argmax_k value(k): the first index of the largest value, or of the first NaN; f32 values, i64 result
inline Reduction argmax(const Axis& k, const Value& value) {
  return max_of_keys(k, argmax_key(k, value), index_of_argmax_key);
}

/// Over the axis, by a merge of the author's (dsl/merge.h): `element`'s values at each index are what a step takes in.
///   state(r) = reduce(k, {x(r, k)}, {.init = {…}, .step = …, .merge = …});   then state(r)[0], state(r)[1], …
inline Merging reduce(const Axis& k, Values element, Merge merge) {
  bool reads_axis = false;
  for (const Value& value : element) {
    reads_axis = reads_axis || Halide::Internal::expr_uses_var(value.expr(), k.rvar().name());
  }
  if (!reads_axis) detail::over(k, Value(0), "reduce");
  return {std::move(element), std::move(merge)};
}

/// The inclusive scan along the axis, by a merge that needs to be associative only (elements stay in order):
///   running(r, k) = scan(k, {x(r, k)}, {.init = {0.0}, .step = plus, .merge = plus});   Σ of x(r, 0) … x(r, k)
/// Its schedule is schedules/scan.h, whose ScanScratch generic() asks for. Of several values running(r, k)[0],
/// running(r, k)[1], …
inline Scanning scan(const Axis& k, Values element, Merge merge) {
  return {reduce(k, std::move(element), std::move(merge)), k.rvar().name()};
}

/// A named intermediate of a kernel: a value at each index, a reduction, or a scan.
class Stage {
 public:
  explicit Stage(const std::string& name) : func_(name) {}

  class Reference {
   public:
    Reference(Stage& stage, std::vector<Expr> coordinates) : stage_(stage), coordinates_(std::move(coordinates)) {}
    Reference(const Reference&) = default;
    void operator=(const Reference& other) { *this = Value(other); }
    void operator=(const Value& value) { stage_.func_(vars()) = value.expr(); }
    void operator=(const Reduction& reduction) {
      const std::vector<Halide::Var> index = vars();
      stage_.func_(index) = reduction.start;
      stage_.func_(index) = reduction.combine(stage_.func_(index), reduction.value);
      stage_.finish_ = reduction.finish;
      if (reduction.may_drop_nan) Descriptor::current->maxima_of_numbers.insert(stage_.func_.name());
    }
    void operator=(const Merging& merging) {
      const std::vector<Halide::Var> index = vars();
      const std::vector<Expr> at(index.begin(), index.end()), start = merging.start();
      define(stage_.func_, index, start);
      const std::vector<Expr> old = values_at(stage_.func_, at);
      update_at_once(stage_.func_, at,
                     expressions_of(merging.merge.step(Values(old.begin(), old.end()), merging.element)));
      Descriptor::current->merges[stage_.func_.name()] = merging;
    }
    // f(k) = the element's own state; f(k) = merge(f(k - 1), f(k)) for k = 1, 2, …
    void operator=(const Scanning& scanning) {
      const Merge& merge = scanning.merging.merge;
      const Halide::Var at_k(plain_name(scanning.variable) + "_at");
      std::vector<Halide::Var> index;
      std::vector<Expr> before, at;
      Expr extent;
      for (const Halide::Var& var : vars()) {
        const bool is_scanned = var.name() == scanning.variable;
        index.push_back(is_scanned ? at_k : var);
        before.emplace_back(index.back());
        at.emplace_back(index.back());
        if (!is_scanned) continue;
        for (const Expr& e : coordinates_) {
          const auto* variable = e.as<Halide::Internal::Variable>();
          if (variable->name == scanning.variable) extent = variable->reduction_domain.domain()[0].extent;
        }
        const Halide::RDom later(1, extent - 1, plain_name(scanning.variable) + "_later");
        before.back() = later - 1;
        at.back() = later;
      }
      if (!extent.defined()) mistake("stage " + plain_name(stage_.func_.name()) + " = scan(k, …) has no index k");
      std::vector<Expr> first;
      for (const Value& value : scanning.merging.first()) {
        first.push_back(Halide::Internal::substitute(scanning.variable, Expr(at_k), value.expr()));
      }
      define(stage_.func_, index, first);
      const std::vector<Expr> so_far = values_at(stage_.func_, before), own = values_at(stage_.func_, at);
      update_at_once(stage_.func_, at,
                     expressions_of(merge.merge(Values(so_far.begin(), so_far.end()), Values(own.begin(), own.end()))));
      Descriptor::current->scans[stage_.func_.name()] = scanning;
    }
    /// The i-th value of a stage of several.
    Value operator[](int i) const { return value_at(stage_.func_, coordinates_, i); }
    /// All of them.
    operator Values() const {
      const std::vector<Expr> values = values_at(stage_.func_, coordinates_);
      return {values.begin(), values.end()};
    }
    operator Value() const {
      const Value value = value_at(stage_.func_, coordinates_, 0);
      return stage_.finish_ ? stage_.finish_(value) : value;
    }

   private:
    std::vector<Halide::Var> vars() const {
      std::vector<Halide::Var> index;
      for (const Expr& e : coordinates_) {
        const auto* variable = e.as<Halide::Internal::Variable>();
        if (variable == nullptr) {
          const std::string name = plain_name(stage_.func_.name());
          mistake("stage " + name + " is defined at something that isn't a Var; write " + name + "(r) = …");
        }
        index.emplace_back(variable->name);
      }
      return index;
    }
    Stage& stage_;
    std::vector<Expr> coordinates_;
  };

  template <class... Index>
  Reference operator()(const Index&... index) {
    std::vector<Expr> coordinates{Value(index).expr()...};
    std::reverse(coordinates.begin(), coordinates.end());
    return Reference(*this, std::move(coordinates));
  }

  /// The same with the indices in a list, outermost first.
  Reference reference(const std::vector<Value>& index) {
    return Reference(*this, std::vector<Expr>(index.rbegin(), index.rend()));
  }

  const Halide::Func& func() const { return func_; }
  Halide::Func& func() { return func_; }

 private:
  Halide::Func func_;
  std::function<Value(Value)> finish_;
};

}  // namespace ashlar::dsl
