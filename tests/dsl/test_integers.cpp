// Operations on integers, conversions and bits, and comparisons with NaN, against C++'s own; Philox against the vectors
// that its authors publish. In vectors of this machine, and through OpenCL.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "dsl/descriptor.h"
#include "dsl/functions.h"
#include "dsl/functions/philox.h"

namespace ashlar::dsl {
namespace {

class OnTarget : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    target_ = Halide::Target(GetParam());
    Descriptor::target = target_;
  }

  // f over two inputs, 16 elements at a time.
  template <class Out, class In, class F>
  std::vector<Out> run(std::vector<In> a, std::vector<In> b, F f) {
    const size_t size = a.size();
    a.resize((size + 15) / 16 * 16, In{1});
    b.resize(a.size(), In{1});
    const int count = static_cast<int>(a.size());
    Halide::Buffer<In> x(a.data(), count), y(b.data(), count);
    Halide::Buffer<Out> out(count);
    Halide::ImageParam in_x(Halide::type_of<In>(), 1), in_y(Halide::type_of<In>(), 1);
    Halide::Var i("i"), block("block"), thread("thread");
    Halide::Func result;
    result(i) = Halide::cast<Out>(f(Value(Expr(in_x(i))), Value(Expr(in_y(i)))).expr());
    if (target_.has_gpu_feature()) {
      result.gpu_tile(i, block, thread, 16, Halide::TailStrategy::RoundUp);
    } else {
      result.vectorize(i, 8, Halide::TailStrategy::RoundUp);
    }
    x.set_host_dirty();
    y.set_host_dirty();
    in_x.set(x);
    in_y.set(y);
    result.realize(out, target_);
    out.copy_to_host();
    return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size)};
  }

  Halide::Target target_;
};
INSTANTIATE_TEST_SUITE_P(Integers, OnTarget,
                         ::testing::Values("x86-64-linux", "x86-64-linux-avx-avx2-f16c-fma-sse41",
                                           "x86-64-linux-opencl"),
                         [](const auto& info) {
                           return std::string(info.index == 0 ? "baseline" : info.index == 1 ? "avx2" : "opencl");
                         });

// Ends of the range, small numbers of both signs, and others.
template <class T>
std::vector<T> numbers(int seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  using Limits = std::numeric_limits<T>;
  const std::vector<T> ends{Limits::min(), Limits::max(), T(0),  T(1), T(-1), T(2),
                            T(-2),         T(3),          T(-3), T(7), T(-7), T(10)};
  std::vector<T> values;
  for (int i = 0; i < 2000; i++) {
    values.push_back(random() % 2 ? ends[random() % ends.size()] : static_cast<T>(random()));
  }
  return values;
}

template <class T>
T floor_quotient(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(-static_cast<std::make_unsigned_t<T>>(a));  // of the least number itself
    const T quotient = static_cast<T>(a / b);
    return static_cast<T>(quotient - (a % b != 0 && (a < 0) != (b < 0)));
  }
  return static_cast<T>(a / b);
}

template <class T>
void check_all(auto run) {
  const std::vector<T> a = numbers<T>(1), b = numbers<T>(2);
  using U = std::make_unsigned_t<T>;
  constexpr int kBits = 8 * sizeof(T);
  const auto check = [&](const char* name, auto dsl, auto expected) {
    const std::vector<T> got = run(a, b, dsl);
    for (size_t i = 0; i < a.size(); i++) {
      ASSERT_EQ(got[i], expected(a[i], b[i]))
          << name << " of " << +a[i] << " and " << +b[i] << ", " << kBits << " bits";
    }
  };
  const auto remainder = [](T x, T y) -> T {
    if (y == 0) return 0;
    return static_cast<T>(static_cast<U>(x) - static_cast<U>(floor_quotient(x, y)) * static_cast<U>(y));
  };
  check(
      "a / b", [](Value x, Value y) { return x / y; }, [](T x, T y) { return floor_quotient(x, y); });
  check(
      "a % b", [](Value x, Value y) { return x % y; }, remainder);
  check(
      "a^b", [](Value x, Value y) { return pow(x, y); },
      [](T x, T y) {
        if (y < T(0)) return x == T(1) ? T(1) : x == T(-1) ? T(y % 2 == 0 ? 1 : -1) : T(0);
        uint64_t power = 1, square = static_cast<uint64_t>(x);
        if (x == T(0)) return y == T(0) ? T(1) : T(0);
        for (uint64_t rest = static_cast<uint64_t>(y) % 64; rest != 0; rest /= 2, square *= square) {
          if (rest % 2 != 0) power *= square;
        }
        return static_cast<T>(power);
      });
  check(
      "a / 7", [](Value x, Value) { return x / 7; }, [](T x, T) { return floor_quotient<T>(x, 7); });
  check(
      "a & b", [](Value x, Value y) { return x & y; }, [](T x, T y) { return static_cast<T>(x & y); });
  check(
      "a | b", [](Value x, Value y) { return x | y; }, [](T x, T y) { return static_cast<T>(x | y); });
  check(
      "a ^ b", [](Value x, Value y) { return x ^ y; }, [](T x, T y) { return static_cast<T>(x ^ y); });
  check(
      "~a", [](Value x, Value) { return ~x; }, [](T x, T) { return static_cast<T>(~x); });
  check(
      "a << b", [](Value x, Value y) { return x << y; },
      [](T x, T y) { return y < T(0) || y >= T(kBits) ? T(0) : static_cast<T>(static_cast<U>(x) << y); });
  check(
      "a >> b", [](Value x, Value y) { return x >> y; },
      [](T x, T y) {
        if (y < T(0) || y >= T(kBits)) return x < T(0) ? T(-1) : T(0);
        return static_cast<T>(x >> y);
      });
  check(
      "a << 3", [](Value x, Value) { return x << 3; }, [](T x, T) { return static_cast<T>(static_cast<U>(x) << 3); });
  check(
      "a << 99", [](Value x, Value) { return x << 99; }, [](T, T) { return T(0); });
  check(
      "a >> 99", [](Value x, Value) { return x >> 99; }, [](T x, T) { return x < T(0) ? T(-1) : T(0); });
  if constexpr (std::is_signed_v<T>) {
    check(
        "|a|", [](Value x, Value) { return abs(x); },
        [](T x, T) { return x < 0 ? static_cast<T>(-static_cast<U>(x)) : x; });
  }
}

TEST_P(OnTarget, IntegerOperationsAreDefinedEverywhere) {
  const auto in = [this]<class T>(T) {
    check_all<T>([this](const auto& a, const auto& b, auto f) { return run<T>(a, b, f); });
  };
  in(int8_t{});
  in(int32_t{});
  in(uint32_t{});
  if (target_.has_gpu_feature()) return;  // the others are the same code; compiling them takes a driver long
  in(uint8_t{});
  in(int16_t{});
  in(int64_t{});
}

TEST_P(OnTarget, ProductsWiden) {
  const std::vector<uint32_t> a = numbers<uint32_t>(3), b = numbers<uint32_t>(4);
  const auto high = run<uint32_t>(a, b, [](Value x, Value y) { return mul_hi(x, y); });
  const auto low = run<uint32_t>(a, b, [](Value x, Value y) { return x * y; });
  const std::vector<int8_t> c = numbers<int8_t>(5), d = numbers<int8_t>(6);
  const auto product = run<int32_t>(c, d, [](Value x, Value y) { return mul_wide(x, y); });
  for (size_t i = 0; i < a.size(); i++) {
    ASSERT_EQ(uint64_t{high[i]} << 32 | low[i], uint64_t{a[i]} * b[i]);
    ASSERT_EQ(product[i], c[i] * d[i]);
  }
}

TEST_P(OnTarget, ComparisonsWithNaNAreFalse) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  std::vector<float> a, b;
  for (const float x : {kNaN, -kNaN, kInf, -kInf, 0.0f, -0.0f, 1.0f, -1.0f}) {
    for (const float y : {kNaN, -kNaN, kInf, -kInf, 0.0f, -0.0f, 1.0f, -1.0f}) a.push_back(x), b.push_back(y);
  }
  // With each one's negation, which Halide writes as another comparison.
  const auto got = run<int32_t>(a, b, [](Value x, Value y) {
    const auto bit = [](const Value& condition, int place) { return select(condition, Value(1) << place, 0); };
    return bit(x < y, 0) | bit(x <= y, 1) | bit(x > y, 2) | bit(x >= y, 3) | bit(x == y, 4) | bit(x != y, 5) |
           bit(!(x < y), 6) | bit(!(x <= y), 7) | bit(!(x > y), 8) | bit(!(x >= y), 9) | bit(x < 0, 10) |
           bit(x >= 0, 11) | bit(!(x >= 0), 12) | bit(x <= 0, 13) | bit(x == 0, 14);
  });
  const auto relus = run<float>(a, b, [](Value x, Value) { return relu(x); });
  for (size_t i = 0; i < a.size(); i++) {
    const float x = a[i], y = b[i];
    const bool holds[] = {x<y, x <= y, x> y, x >= y, x == y, x != y,    !(x < y), !(x <= y), !(x > y),
                          !(x >= y),         x < 0,  x >= 0, !(x >= 0), x <= 0,   x == 0};
    for (size_t place = 0; place < std::size(holds); place++) {
      EXPECT_EQ(got[i] >> place & 1, holds[place]) << "comparison " << place << " of " << x << " and " << y;
    }
    EXPECT_TRUE(std::isnan(x) ? std::isnan(relus[i])
                              : std::bit_cast<uint32_t>(relus[i]) == std::bit_cast<uint32_t>(x > 0 ? x : 0.0f))
        << x;
  }
}

TEST_P(OnTarget, ValuesConvertAsTensorsDo) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> x{kNaN,    kInf, -kInf,  0.9f, -0.9f, 127.5f, 128,
                             -128.9f, -129, 255.9f, 256,  3e9f,  5e9f,   -3e9f};
  const auto to = [&]<class Tag>(Tag, auto storage) {
    using T = decltype(storage);
    const auto got = run<T>(x, x, [](Value v, Value) { return cast<Tag>(v); });
    for (size_t i = 0; i < x.size(); i++) {
      const double low = static_cast<double>(std::numeric_limits<T>::min());
      const double high = static_cast<double>(std::numeric_limits<T>::max());
      const double expected = std::isnan(x[i]) ? 0 : std::clamp(std::trunc(static_cast<double>(x[i])), low, high);
      EXPECT_EQ(static_cast<double>(got[i]), expected) << x[i];
    }
  };
  to(i8{}, int8_t{});
  to(u32{}, uint32_t{});
  to(i32{}, int32_t{});
  const auto bits = run<uint32_t>(x, x, [](Value v, Value) { return bit_cast<u32>(v); });
  const auto back = run<float>(bits, bits, [](Value v, Value) { return bit_cast<f32>(v); });
  const auto is_set = run<uint8_t>(x, x, [](Value v, Value) { return cast<boolean>(v); });
  const auto wrapped = run<int8_t>(bits, bits, [](Value v, Value) { return cast<i8>(v); });
  for (size_t i = 0; i < x.size(); i++) {
    EXPECT_EQ(bits[i], std::bit_cast<uint32_t>(x[i]));
    EXPECT_EQ(std::bit_cast<uint32_t>(back[i]), bits[i]);
    EXPECT_EQ(is_set[i], x[i] != 0);
    EXPECT_EQ(wrapped[i], static_cast<int8_t>(bits[i]));
  }
}

TEST_P(OnTarget, ValuesRoundAsStored) {
  // On OpenCL a function does it that dsl/build/opencl_source.h defines, for ahead-of-time builds.
  if (target_.has_gpu_feature()) return;
  const std::vector<float> x{1.0f, 1.00390625f, 1.01171875f, -3.1415927f, 3e38f};
  const auto rounded = run<float>(x, x, [](Value v, Value) { return cast<bf16>(v); });
  for (size_t i = 0; i < x.size(); i++) {
    const auto bits = std::bit_cast<uint32_t>(x[i]);  // to nearest, ties to even
    EXPECT_EQ(std::bit_cast<uint32_t>(rounded[i]), (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u) << x[i];
  }
}

// The known answers of Random123's kat_vectors (Salmon, Moraes, Dror and Shaw 2011): counter, key, result.
TEST_P(OnTarget, PhiloxGivesThePublishedVectors) {
  const uint32_t vectors[][10] = {{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                  {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                  {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
                                   0x94fdcceb, 0x5001e420, 0x24126ea1}};
  for (const auto& v : vectors) {
    const std::vector<uint32_t> number{0, 1, 2, 3};
    // The zero of `zero` keeps the compiler from working it all out itself.
    const auto got = run<uint32_t>(number, {0, 0, 0, 0}, [&](Value n, Value zero) {
      const Words4 words = philox4x32({zero + v[0], zero + v[1], zero + v[2], zero + v[3]}, {zero + v[4], zero + v[5]});
      return select(n == 0, words[0], select(n == 1, words[1], select(n == 2, words[2], words[3])));
    });
    for (size_t i = 0; i < 4; i++) EXPECT_EQ(got[i], v[6 + i]) << i;
  }
  const auto uniform = run<float>(std::vector<uint32_t>{0, 255, 256, ~0u, 0x80000000u}, std::vector<uint32_t>(5),
                                  [](Value x, Value) { return uniform_from_bits(x); });
  EXPECT_EQ(uniform, (std::vector<float>{0, 0, 0x1p-24f, 1 - 0x1p-24f, 0.5f}));
}

}  // namespace
}  // namespace ashlar::dsl
