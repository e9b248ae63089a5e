// Reductions: sum, mean, max, min over an axis, and the stage that holds one's result.
#pragma once

#include "dsl/descriptor.h"

namespace ashlar::dsl {

/// A reduction index over [0, extent), optionally only where a condition holds.
class Axis {
 public:
  Axis(Expr extent, const std::string& name) : domain_(0, extent, name), extent_(std::move(extent)) {}
  operator Value() const { return Value(Expr(domain_.x)); }
  operator Expr() const { return domain_.x; }
  void where(const Value& condition) { domain_.where(condition.expr()); }
  const Halide::RVar& rvar() const { return domain_.x; }
  const Expr& extent() const { return extent_; }

 private:
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
};

namespace detail {
inline Expr add(const Expr& a, const Expr& b) { return a + b; }
inline Expr larger(const Expr& a, const Expr& b) { return Halide::max(a, b); }

// Order-preserving integer key of a float: key(a) < key(b) where a < b, -0 as +0, and NaN above +Inf. A float max drops
// NaN on a GPU and can't be proved associative with NaN kept; an integer one keeps it and can.
inline Expr ordered_key(const Expr& x) {
  const Expr i = Halide::reinterpret<int32_t>(x);
  const Expr key = i ^ ((i >> 31) & 0x7fffffff);
  return Halide::select(is_nan_bits(x), Expr(0x7fffffff), Halide::select(key == -1, Expr(0), key));
}
inline Expr from_ordered_key(const Expr& key) { return Halide::reinterpret<float>(key ^ ((key >> 31) & 0x7fffffff)); }
inline constexpr int32_t kKeyOfMinusInfinity = static_cast<int32_t>(0xff800000u ^ 0x7fffffffu);
}  // namespace detail

// sum_k value(k)
inline Reduction sum(const Axis&, const Value& value) {
  return {Halide::Internal::make_zero(value.type()), value, detail::add, [](Value v) { return v; }};
}
// sum_k value(k) / n
inline Reduction mean(const Axis& k, const Value& value) {
  return {Halide::Internal::make_zero(value.type()), value, detail::add,
          [n = k.extent()](Value v) { return v / Value(Halide::cast(v.type(), n)); }};
}
// max_k value(k), NaN if any is NaN; f32 only
inline Reduction max(const Axis&, const Value& value) {
  return {Expr(detail::kKeyOfMinusInfinity), detail::ordered_key(value), detail::larger,
          [](Value key) { return Value(detail::from_ordered_key(key)); }};
}
// min_k value(k) = -max_k -value(k)
inline Reduction min(const Axis& k, const Value& value) {
  Reduction negated = max(k, -value);
  negated.finish = [](Value key) { return -Value(detail::from_ordered_key(key)); };
  return negated;
}
// argmax_k value(k): the first index of the largest value, or of the first NaN; f32 values, i64 result
inline Reduction argmax(const Axis& k, const Value& value) {
  // High half: the value's key with the sign bit flipped, so that it orders as unsigned. Low half: the index counted
  // down, so that of equal values the first wins.
  const Expr high =
      Halide::cast<uint64_t>(Halide::reinterpret<uint32_t>(detail::ordered_key(value)) ^ Expr(uint32_t{0x80000000u}));
  const Expr low = Halide::cast<uint64_t>(Expr(0xffffffffu) - Halide::cast<uint32_t>(Expr(k)));
  return {Expr(uint64_t{0}), (high << 32) | low, detail::larger, [](Value packed) {
            return Value(Halide::cast<int64_t>(Expr(0xffffffffu) - Halide::cast<uint32_t>(packed.expr())));
          }};
}

/// A named intermediate of a kernel: either a value at each index, or a reduction.
class Stage {
 public:
  explicit Stage(const std::string& name) : func_(name) {}

  class Reference {
   public:
    Reference(Stage& stage, std::vector<Expr> coordinates) : stage_(stage), coordinates_(std::move(coordinates)) {}
    void operator=(const Value& value) { stage_.func_(vars()) = value.expr(); }
    void operator=(const Reduction& reduction) {
      const std::vector<Halide::Var> index = vars();
      stage_.func_(index) = reduction.start;
      stage_.func_(index) = reduction.combine(stage_.func_(index), reduction.value);
      stage_.finish_ = reduction.finish;
    }
    operator Value() const {
      const Value value = Expr(stage_.func_(coordinates_));
      return stage_.finish_ ? stage_.finish_(value) : value;
    }

   private:
    std::vector<Halide::Var> vars() const {
      std::vector<Halide::Var> index;
      for (const Expr& e : coordinates_) {
        const auto* variable = e.as<Halide::Internal::Variable>();
        user_assert_variable(variable != nullptr, stage_.func_.name());
        index.emplace_back(variable->name);
      }
      return index;
    }
    static void user_assert_variable(bool holds, const std::string& stage) {
      if (!holds) throw Halide::CompileError("Stage " + stage + ": defined at something that is not a plain Var");
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

  const Halide::Func& func() const { return func_; }
  Halide::Func& func() { return func_; }

 private:
  Halide::Func func_;
  std::function<Value(Value)> finish_;
};

}  // namespace ashlar::dsl
