// Values keep NaN and take their types where Halide's expressions would not.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dsl/dual.h"
#include "dsl/reduce.h"

namespace ashlar::dsl {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// f over two float arguments, compiled and run on this machine.
template <class F>
float run(F f, float a, float b = 0) {
  Halide::Param<float> x("x"), y("y");
  Halide::Func func;
  func() = Halide::cast<float>(f(Value(Expr(x)), Value(Expr(y))).expr());
  x.set(a);
  y.set(b);
  Halide::Buffer<float> result = func.realize();
  return result();
}

TEST(Value, MaximumAndMinimumKeepNaNOfEitherOperand) {
  const auto largest = [](Value a, Value b) { return max(a, b); };
  const auto smallest = [](Value a, Value b) { return min(a, b); };
  EXPECT_TRUE(std::isnan(run(largest, kNaN, 1)));
  EXPECT_TRUE(std::isnan(run(largest, 1, kNaN)));
  EXPECT_TRUE(std::isnan(run(smallest, kNaN, 1)));
  EXPECT_TRUE(std::isnan(run(smallest, 1, kNaN)));
  EXPECT_EQ(run(largest, -kInf, 2), 2);
  EXPECT_EQ(run(smallest, kInf, 2), 2);
  EXPECT_TRUE(std::isnan(run([](Value a, Value) { return relu(a); }, kNaN)));
  EXPECT_EQ(run([](Value a, Value) { return clamp(a, -1.0, 1.0); }, 7), 1);
}

TEST(Value, AConstantTakesTheTypeOfWhatItMeets) {
  Halide::Param<double> x("x");
  EXPECT_EQ((Value(Expr(x)) * 0.1).type(), Halide::Float(64));
  EXPECT_TRUE(Halide::Internal::equal((Value(Expr(x)) * 0.1).expr(), Expr(x) * Expr(0.1)));
  Halide::Param<float> y("y");
  EXPECT_EQ((Value(Expr(y)) * 0.1).type(), Halide::Float(32));
}

TEST(Value, FunctionsAreExactWhereTheirFormulasOverflowOrCancel) {
  const auto one = [](auto f) { return [f](Value a, Value) { return f(a); }; };
  EXPECT_EQ(run(one([](Value v) { return sigmoid(v); }), -200), 0);
  EXPECT_EQ(run(one([](Value v) { return sigmoid(v); }), 200), 1);
  EXPECT_EQ(run(one([](Value v) { return tanh(v); }), 100), 1);
  for (float x : {1e-7f, 1e-3f, 0.2f, 0.3f, 2.0f}) {
    EXPECT_NEAR(run(one([](Value v) { return tanh(v); }), x), std::tanh(x), 4e-7 * std::tanh(x)) << x;
    EXPECT_NEAR(run(one([](Value v) { return expm1(v); }), x), std::expm1(x), 4e-7 * std::expm1(x)) << x;
    EXPECT_NEAR(run(one([](Value v) { return log1p(v); }), -x / 3), std::log1p(-x / 3), 4e-7 * -std::log1p(-x / 3))
        << x;
  }
}

TEST(Value, DualsAreFiniteFarOut) {
  for (float x : {-200.0f, -90.0f, 90.0f, 200.0f}) {
    for (auto f : {+[](Dual d) { return sigmoid(d); }, +[](Dual d) { return silu(d); }, +[](Dual d) { return tanh(d); },
                   +[](Dual d) { return gelu(d); }}) {
      EXPECT_TRUE(std::isfinite(run([f](Value v, Value) { return f(Dual(v, 1.0)).d; }, x))) << x;
    }
  }
}

TEST(Reduction, KeysOrderLikeFloatsWithNaNOnTop) {
  const auto key = [](float value) {
    Halide::Param<float> x("x");
    Halide::Func func;
    func() = detail::ordered_key(Expr(x));
    x.set(value);
    Halide::Buffer<uint32_t> result = func.realize();
    return result();
  };
  const float ordered[] = {-kInf, -3e38f, -1, -1e-40f, 0, 1e-40f, 1, 3e38f, kInf, kNaN};
  for (size_t i = 1; i < std::size(ordered); i++) EXPECT_LT(key(ordered[i - 1]), key(ordered[i])) << i;
  EXPECT_EQ(key(-kInf), 0u);
  EXPECT_EQ(key(-0.0f), key(0.0f));
  EXPECT_EQ(key(-kNaN), key(kNaN));
}

}  // namespace
}  // namespace ashlar::dsl
