// Conversions between f32 and the 16-bit floats: every bit pattern, and every rounding case.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "runtime/tensor/dtype.h"

namespace ashlar {
namespace {

/// A binary16 from its fields, in double: the definition.
double half_by_definition(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, EveryPatternWidensByDefinition) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    Half h;
    h.bits = static_cast<uint16_t>(i);
    const double expected = half_by_definition(h.bits);
    const float got = static_cast<float>(h);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << i;
    } else {
      ASSERT_EQ(got, expected) << i;
      ASSERT_EQ(std::signbit(got), std::signbit(expected)) << i;
    }
  }
}

TEST(Half, EveryPatternSurvivesARoundTrip) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    Half h;
    h.bits = static_cast<uint16_t>(i);
    const Half back(static_cast<float>(h));
    if (std::isnan(half_by_definition(h.bits))) {
      ASSERT_EQ(back.bits & 0x7e00, 0x7e00) << i;
      ASSERT_EQ(back.bits & 0x8000, h.bits & 0x8000) << i;
    } else {
      ASSERT_EQ(back.bits, h.bits);
    }
  }
}

// Between two neighbours: just below the middle, the middle (to even), just above it.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    const double low = half_by_definition(static_cast<uint16_t>(i));
    const double high = i + 1 == 0x7c00 ? 65536.0 : half_by_definition(static_cast<uint16_t>(i + 1));
    const float middle = static_cast<float>((low + high) / 2);  // exact: one more bit
    ASSERT_EQ(Half(std::nextafter(middle, 0.0f)).bits, i);
    ASSERT_EQ(Half(std::nextafter(middle, INFINITY)).bits, i + 1);
    ASSERT_EQ(Half(middle).bits, i % 2 ? i + 1 : i);
    ASSERT_EQ(Half(-middle).bits, 0x8000u | (i % 2 ? i + 1 : i));
  }
  EXPECT_EQ(Half(INFINITY).bits, 0x7c00);
  EXPECT_EQ(Half(-1e10f).bits, 0xfc00);
  EXPECT_EQ(Half(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(Half(-0.0f).bits, 0x8000);
}

TEST(BFloat16, EveryPatternSurvivesARoundTrip) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    BFloat16 b;
    b.bits = static_cast<uint16_t>(i);
    const float wide = static_cast<float>(b);
    ASSERT_EQ(std::bit_cast<uint32_t>(wide), i << 16);
    const BFloat16 back(wide);
    if (std::isnan(wide)) {
      ASSERT_EQ(back.bits, i | 0x40);
    } else {
      ASSERT_EQ(back.bits, i);
    }
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  for (uint32_t i = 0; i < 0x7f80; ++i) {
    const auto wide = [i](uint32_t low) { return std::bit_cast<float>(i << 16 | low); };
    ASSERT_EQ(BFloat16(wide(0x7fff)).bits, i);
    ASSERT_EQ(BFloat16(wide(0x8000)).bits, i % 2 ? i + 1 : i);
    ASSERT_EQ(BFloat16(wide(0x8001)).bits, i + 1);
    ASSERT_EQ(BFloat16(-wide(0x8001)).bits, 0x8000u | (i + 1));
  }
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::boolean), "bool");
  EXPECT_EQ(size_of(DType::f64), 8);
  EXPECT_EQ(size_of(DType::boolean), 1);
  EXPECT_EQ(dtype_of<const int64_t>, DType::i64);
  EXPECT_TRUE(is_floating(DType::f64));
  EXPECT_FALSE(is_floating(DType::i32));
  EXPECT_EQ(name_of(DType::u32), "u32");
  EXPECT_EQ(name_of(DType::i16), "i16");
  EXPECT_EQ(size_of(DType::i8), 1);
  EXPECT_EQ(size_of(DType::u16), 2);
  EXPECT_EQ(dtype_of<uint32_t>, DType::u32);
  EXPECT_EQ(dtype_of<int8_t>, DType::i8);
  EXPECT_TRUE(is_integer(DType::u32) && is_integer(DType::i8) && !is_integer(DType::boolean));
  EXPECT_TRUE(is_signed(DType::i8) && !is_signed(DType::u32));
}

}  // namespace
}  // namespace ashlar
