// Element types of the language: how a value is stored, widened when loaded, and narrowed when stored.
#pragma once

#include "dsl/ptx_markers.h"
#include "dsl/value.h"
#include "runtime/tensor/dtype.h"

namespace ashlar::dsl {

// Tags for the element types. f16, bf16 and boolean are held as integers on every target, so that one signature
// serves all: bf16 makes invalid PTX and NVIDIA's OpenCL has no half (docs/architecture.md, "element types").
struct f32 {};
struct f16 {};
struct bf16 {};
struct f64 {};
struct i32 {};
struct i64 {};
struct u8 {};
struct u32 {};
struct i8 {};
struct u16 {};
struct i16 {};
struct boolean {};
/// Elements that are only moved: `Bytes` bytes, never computed with.
template <int Bytes>
struct raw {};

/// Storage is the C++ type in Halide's buffers, Arithmetic the one a kernel computes in.
template <class T>
struct Element;

namespace detail {
template <class Native, DType D>
struct NativeElement {
  using Storage = Native;
  using Arithmetic = Native;
  static constexpr DType dtype = D;
  static Expr load(const Expr& stored, const Halide::Target&) { return stored; }
  static Expr store(const Value& value, const Halide::Target&) { return value.as(Halide::type_of<Native>()); }
};
inline Expr widened(const Expr& e) { return Halide::cast<uint32_t>(e); }
inline Expr bits(const Expr& e) { return Halide::reinterpret<uint32_t>(e); }
inline Expr word(uint32_t value) { return Halide::Internal::make_const(Halide::UInt(32), value); }
inline Expr real(const Expr& e) { return Halide::reinterpret<float>(e); }
/// A call of a function that dsl/build/opencl_source.h defines.
inline Expr opencl_function(const Halide::Type& type, const std::string& name, const Expr& argument) {
  return Halide::Internal::Call::make(type, name, {argument}, Halide::Internal::Call::PureExtern);
}
}  // namespace detail

template <>
struct Element<f32> : detail::NativeElement<float, DType::f32> {};
template <>
struct Element<f64> : detail::NativeElement<double, DType::f64> {};
template <>
struct Element<i32> : detail::NativeElement<int32_t, DType::i32> {};
template <>
struct Element<i64> : detail::NativeElement<int64_t, DType::i64> {};
template <>
struct Element<u8> : detail::NativeElement<uint8_t, DType::u8> {};
template <>
struct Element<u32> : detail::NativeElement<uint32_t, DType::u32> {};
template <>
struct Element<i8> : detail::NativeElement<int8_t, DType::i8> {};
template <>
struct Element<u16> : detail::NativeElement<uint16_t, DType::u16> {};
template <>
struct Element<i16> : detail::NativeElement<int16_t, DType::i16> {};
template <>
struct Element<raw<1>> : detail::NativeElement<uint8_t, DType::u8> {};
template <>
struct Element<raw<2>> : detail::NativeElement<uint16_t, DType::f16> {};
template <>
struct Element<raw<4>> : detail::NativeElement<int32_t, DType::i32> {};
template <>
struct Element<raw<8>> : detail::NativeElement<int64_t, DType::i64> {};

template <>
struct Element<boolean> : detail::NativeElement<uint8_t, DType::boolean> {
  static Expr store(const Value& value, const Halide::Target&) {
    return Halide::cast<uint8_t>(value.expr() != Halide::Internal::make_zero(value.type()));
  }
};

template <>
struct Element<bf16> {
  using Storage = uint16_t;
  using Arithmetic = float;
  static constexpr DType dtype = DType::bf16;
  static Expr load(const Expr& stored, const Halide::Target&) { return detail::real(detail::widened(stored) << 16); }
  static bool has_instruction(const Halide::Target& target) {
    return target.has_feature(Halide::Target::CUDA) && target.get_cuda_capability_lower_bound() >= 80;
  }
  // Round to nearest, ties to even; a NaN becomes quiet and, where there's no instruction, keeps its upper bits.
  static Expr store(const Value& value, const Halide::Target& target) {
    if (target.has_feature(Halide::Target::OpenCL))
      return detail::opencl_function(Halide::UInt(16), "ashlar_bf16_from_f32", value.as(Halide::Float(32)));
    if (has_instruction(target)) return narrowed(value.as(Halide::Float(32)));
    const Expr u = detail::bits(value.as(Halide::Float(32)));
    const Expr nan = (u & detail::word(0x7fffffffu)) > detail::word(0x7f800000u);
    const Expr rounded = (u + detail::word(0x7fffu) + ((u >> 16) & detail::word(1))) >> 16;
    return Halide::cast<uint16_t>(Halide::select(nan, (u >> 16) | detail::word(0x40), rounded));
  }
  /// One instruction, for an element or a vector of them.
  static Expr narrowed(const Expr& value) {
    return Halide::Internal::Call::make(Halide::UInt(16, value.type().lanes()), ptx::marker_name(ptx::kNarrow), {value},
                                        Halide::Internal::Call::PureExtern);
  }
};

template <>
struct Element<f16> {
  using Storage = uint16_t;
  using Arithmetic = float;
  static constexpr DType dtype = DType::f16;
  static bool is_native(const Halide::Target& target) {
    return target.has_feature(Halide::Target::CUDA) ||
           (target.has_feature(Halide::Target::F16C) && !target.has_gpu_feature());
  }
  static Expr load(const Expr& stored, const Halide::Target& target) {
    if (is_native(target)) return Halide::cast<float>(Halide::reinterpret<Halide::float16_t>(stored));
    if (target.has_feature(Halide::Target::OpenCL))
      return detail::opencl_function(Halide::Float(32), "ashlar_f32_from_f16", stored);
    constexpr uint32_t kExponent = 0x7c00u << 13;
    const Expr h = detail::widened(stored), shifted = (h & detail::word(0x7fff)) << 13,
               exponent = shifted & detail::word(kExponent);
    const Expr biased = shifted + detail::word((127u - 15u) << 23);
    // A subnormal half is a normal float: let the float unit normalise it.
    const Expr subnormal =
        detail::bits(detail::real(biased + detail::word(1u << 23)) - detail::real(detail::word(113u << 23)));
    const Expr magnitude =
        Halide::select(exponent == detail::word(kExponent), biased + detail::word((128u - 16u) << 23),
                       exponent == detail::word(0), subnormal, biased);
    return detail::real(magnitude | ((h & detail::word(0x8000)) << 16));
  }
  static Expr store(const Value& value, const Halide::Target& target) {
    const Expr f = value.as(Halide::Float(32));
    if (is_native(target)) return Halide::reinterpret<uint16_t>(Halide::cast<Halide::float16_t>(f));
    if (target.has_feature(Halide::Target::OpenCL))
      return detail::opencl_function(Halide::UInt(16), "ashlar_f16_from_f32", f);
    constexpr uint32_t kInfinity = 255u << 23, kOverflow = (127u + 16u) << 23, kSmallestNormal = 113u << 23;
    constexpr uint32_t kMagic = ((127u - 15u) + (23u - 10u) + 1u) << 23;
    const Expr u = detail::bits(f), sign = u & detail::word(0x80000000u), magnitude = u & detail::word(0x7fffffffu);
    // Adding the magic number makes the float unit shift and round a subnormal result.
    const Expr subnormal =
        detail::bits(detail::real(magnitude) + detail::real(detail::word(kMagic))) - detail::word(kMagic);
    const Expr normal =
        (magnitude + detail::word(((15u - 127u) << 23) + 0xfffu) + ((magnitude >> 13) & detail::word(1))) >> 13;
    const Expr result =
        Halide::select(magnitude >= detail::word(kOverflow),
                       Halide::select(magnitude > detail::word(kInfinity), detail::word(0x7e00), detail::word(0x7c00)),
                       magnitude < detail::word(kSmallestNormal), subnormal, normal);
    return Halide::cast<uint16_t>(result | (sign >> 16));
  }
};

/// A type that In, Out and Scratch can hold.
template <class T>
concept ElementType = requires {
  typename Element<T>::Storage;
};

/// f64 sums in f64, everything else in f32.
template <ElementType T>
using Accumulator = std::conditional_t<std::is_same_v<T, f64>, f64, f32>;

}  // namespace ashlar::dsl
