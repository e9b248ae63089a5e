// Element types of a tensor and their C++ storage types.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ashlar {

/// How an element is stored. Arithmetic on f16 and bf16 happens in f32.
enum class DType : uint8_t { f32, f16, bf16, f64, i32, i64, u8, boolean, u32, i8, u16, i16 };
inline constexpr int kDTypes = 12;

/// IEEE 754 binary16, held as its bits.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value);
  explicit operator float() const;
};

/// The upper half of an IEEE 754 binary32 (bfloat16), held as its bits.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const;
};

constexpr int64_t size_of(DType dtype) {
  constexpr int8_t bytes[kDTypes] = {4, 2, 2, 8, 4, 8, 1, 1, 4, 1, 2, 2};
  return bytes[static_cast<int>(dtype)];
}

/// "f32", "bf16", …; "bool" for boolean.
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[kDTypes] = {"f32", "f16",  "bf16", "f64", "i32", "i64",
                                               "u8",  "bool", "u32",  "i8",  "u16", "i16"};
  return names[static_cast<int>(dtype)];
}

constexpr bool is_floating(DType dtype) { return static_cast<int>(dtype) <= static_cast<int>(DType::f64); }
/// A number without a fraction: neither a float nor boolean.
constexpr bool is_integer(DType dtype) { return !is_floating(dtype) && dtype != DType::boolean; }
constexpr bool is_signed(DType dtype) {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}

namespace detail {
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
}  // namespace detail

/// The DType that stores a C++ type: dtype_of<float> == DType::f32.
template <class T>
inline constexpr DType dtype_of = detail::DTypeOf<std::remove_cv_t<T>>::value;

/// A C++ type that a tensor can hold.
template <class T>
concept Storable = requires {
  detail::DTypeOf<std::remove_cv_t<T>>::value;
};

}  // namespace ashlar
