#include "tests/conformance/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "runtime/launch/kernel.h"

namespace ashlar::conformance {
namespace {

// A binary floating-point format: stored mantissa bits and the exponents of its normal numbers.
struct Format {
  int mantissa;
  int lowest;
  int highest;
};

constexpr Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {10, -14, 15};
    case DType::bf16:
      return {7, -126, 127};
    case DType::f32:
      return {23, -126, 127};
    default:
      return {52, -1022, 1023};
  }
}

constexpr int kBias = 1023, kMantissa = 52, kExponents = 0x7ff;  // of a double

// By their bits: these two are half of a run where the library does them.
double power_of_two(int exponent) {
  if (exponent <= -kBias) return std::ldexp(1.0, exponent);
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + kBias) << kMantissa);
}

// Of numbers that aren't normal one beyond those that are.
int exponent_of(double value) {
  return static_cast<int>(std::bit_cast<uint64_t>(value) >> kMantissa & kExponents) - kBias;
}

double largest(DType dtype) {
  const Format format = format_of(dtype);
  return (2.0 - power_of_two(-format.mantissa)) * power_of_two(format.highest);
}

template <DType kType>
double rounded_to(double value) {
  if constexpr (kType == DType::f64) {
    return value;
  } else if constexpr (kType == DType::f32) {
    return static_cast<float>(value);
  } else if constexpr (kType == DType::f16 || kType == DType::bf16) {
    constexpr Format kFormat = format_of(kType);
    if (value == 0 || !std::isfinite(value)) return value;
    // A sum of that size keeps multiples of the last digit alone: one addition rounds to the nearest.
    const int exponent = std::clamp(exponent_of(value), kFormat.lowest, kFormat.highest);
    const double shift = std::copysign(0x1.8p52 * power_of_two(exponent - kFormat.mantissa), value);
    const double nearest = (value + shift) - shift;
    if (std::abs(nearest) > largest(kType)) return std::copysign(std::numeric_limits<double>::infinity(), value);
    return std::copysign(nearest, value);
  } else if constexpr (kType == DType::boolean) {
    return value != 0;
  } else {
    return std::trunc(value) + 0.0;  // no -0 among integers
  }
}

// use(std::integral_constant<DType, dtype>), where all integers are i64.
template <class Use>
void with_type(DType dtype, Use use) {
  switch (dtype) {
    case DType::f32:
      return use(std::integral_constant<DType, DType::f32>());
    case DType::f16:
      return use(std::integral_constant<DType, DType::f16>());
    case DType::bf16:
      return use(std::integral_constant<DType, DType::bf16>());
    case DType::f64:
      return use(std::integral_constant<DType, DType::f64>());
    case DType::boolean:
      return use(std::integral_constant<DType, DType::boolean>());
    default:
      return use(std::integral_constant<DType, DType::i64>());
  }
}

// Uniform in [0, 1).
double fraction(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

double special_value(uint64_t bits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kSpecials[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 0.0, -0.0};
  return kSpecials[bits % 5];
}

int exponent_of(Format format, uint64_t bits) {
  return format.lowest + static_cast<int>(bits % static_cast<uint64_t>(format.highest - format.lowest));
}

// An integer of the type's range, at a fraction of it; its ends now and then.
double whole_range(DType dtype, double at, uint64_t more) {
  const int bits = dtype == DType::i64 ? 54 : 8 * static_cast<int>(size_of(dtype));
  const double low = is_signed(dtype) ? -std::ldexp(1, bits - 1) : 0;
  const double high = std::ldexp(1, is_signed(dtype) ? bits - 1 : bits) - (dtype == DType::i64 ? 0 : 1);
  if (more % 32 == 0) return more % 64 == 0 ? low : high;
  return std::floor(low + at * (high - low));
}

uint16_t half_bits(double value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double size = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (std::isinf(value)) return sign | 0x7c00;
  if (size < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<uint16_t>(size * 0x1p24));
  const auto mantissa = static_cast<uint16_t>(std::bit_cast<uint64_t>(size) >> (kMantissa - 10) & 1023);
  return static_cast<uint16_t>(sign | (exponent_of(size) + 15) << 10 | mantissa);
}

double half_value(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  if (exponent == 0) return sign * mantissa * 0x1p-24;
  return sign * (1024 + mantissa) * power_of_two(exponent - 25);
}

template <class T>
void put(T value, void* address) {
  std::memcpy(address, &value, sizeof value);
}

template <class T>
T get(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

}  // namespace

uint64_t seed_of(std::string_view text) { return identity_hash(text); }

uint64_t mix(uint64_t counter) {
  uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

double ulp(double value, DType dtype) {
  const Format format = format_of(dtype);
  return power_of_two(std::clamp(exponent_of(value), format.lowest, format.highest) - format.mantissa);
}

double smallest_normal(DType dtype) { return power_of_two(format_of(dtype).lowest); }

double rounded(double value, DType dtype) {
  round_all({&value, 1}, dtype);
  return value;
}

void round_all(std::span<double> values, DType dtype) {
  with_type(dtype, [&](auto type) {
    for (double& value : values) value = rounded_to<type>(value);
  });
}

std::vector<double> draw(const Values& values, int64_t count, DType dtype, uint64_t seed) {
  const double range = values.high - values.low;
  std::vector<int64_t> order;
  if (values.pattern == Pattern::distinct) {
    order.resize(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), int64_t{0});
    for (int64_t i = count - 1; i > 0; --i) std::swap(order[i], order[mix(seed + i) % static_cast<uint64_t>(i + 1)]);
  }
  const bool integral = !is_floating(dtype);
  const Format format = format_of(integral ? DType::f32 : dtype);
  std::vector<double> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = mix(seed + static_cast<uint64_t>(i));
    const auto more = [bits] { return mix(bits); };
    const auto power = [&](double size, int exponent) {
      return (values.low < 0 && (more() & 1) ? -size : size) * power_of_two(exponent);
    };
    double x = values.low + fraction(bits) * range;
    switch (values.pattern) {
      case Pattern::uniform:
        break;
      case Pattern::integers:
        x = values.low + std::floor(fraction(bits) * (range + 1));
        break;
      case Pattern::distinct:
        x = values.low + (static_cast<double>(order[i]) + 0.5) / count * range;
        break;
      case Pattern::special:
        if (!integral && (more() & 1)) x = special_value(more() >> 1);
        break;
      case Pattern::masked:
        if (!integral && more() % 64 != 0) x = -std::numeric_limits<double>::infinity();
        break;
      case Pattern::denormal:
        x = power(0.01 + 0.98 * fraction(bits), format.lowest);
        break;
      case Pattern::huge:
        x = power(1 + fraction(bits), format.highest - static_cast<int>(bits % 4));
        break;
      case Pattern::tiny:
        x = power(1 + fraction(bits), format.lowest + static_cast<int>(bits % 4));
        break;
      case Pattern::wide:
        x = integral ? whole_range(dtype, fraction(bits), more())
                     : power(1 + fraction(bits), exponent_of(format, more() >> 1));
        break;
    }
    if (is_integer(dtype) && !is_signed(dtype)) x = std::abs(x);
    if (dtype == DType::boolean) x = more() >> 1 & 1;
    result[i] = x;
  }
  round_all(result, dtype);
  // Rounding up to infinity is a special value, which most patterns don't ask for.
  if (values.pattern != Pattern::special && values.pattern != Pattern::masked) {
    for (double& x : result) {
      if (std::isinf(x)) x = std::copysign(largest(dtype), x);
    }
  }
  return result;
}

void store(double value, DType dtype, void* address) {
  switch (dtype) {
    case DType::f32:
      return put(static_cast<float>(value), address);
    case DType::f16:
      return put(half_bits(value), address);
    case DType::bf16:
      return put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16), address);
    case DType::f64:
      return put(value, address);
    case DType::i32:
      return put(static_cast<int32_t>(value), address);
    case DType::i64:
      return put(static_cast<int64_t>(value), address);
    case DType::u32:
      return put(static_cast<uint32_t>(value), address);
    case DType::i8:
      return put(static_cast<int8_t>(value), address);
    case DType::u16:
      return put(static_cast<uint16_t>(value), address);
    case DType::i16:
      return put(static_cast<int16_t>(value), address);
    case DType::u8:
      return put(static_cast<uint8_t>(value), address);
    case DType::boolean:
      return put(static_cast<uint8_t>(value != 0), address);
  }
}

double load(DType dtype, const void* address) {
  switch (dtype) {
    case DType::f32:
      return get<float>(address);
    case DType::f16:
      return half_value(get<uint16_t>(address));
    case DType::bf16:
      return std::bit_cast<float>(static_cast<uint32_t>(get<uint16_t>(address)) << 16);
    case DType::f64:
      return get<double>(address);
    case DType::i32:
      return get<int32_t>(address);
    case DType::i64:
      return static_cast<double>(get<int64_t>(address));
    case DType::u32:
      return get<uint32_t>(address);
    case DType::i8:
      return get<int8_t>(address);
    case DType::u16:
      return get<uint16_t>(address);
    case DType::i16:
      return get<int16_t>(address);
    case DType::u8:
    case DType::boolean:
      break;
  }
  return get<uint8_t>(address);
}

void load_all(DType dtype, const void* elements, std::span<double> values) {
  const auto* at = static_cast<const std::byte*>(elements);
  const auto size = static_cast<size_t>(size_of(dtype));
  if (dtype == DType::f16) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = half_value(get<uint16_t>(at + i * size));
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = load(dtype, at + i * size);
}

}  // namespace ashlar::conformance
