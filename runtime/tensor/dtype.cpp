#include "runtime/tensor/dtype.h"

#include <bit>

namespace ashlar {
namespace {

// The upper bits of `value`, without its lowest `shift` ones, rounded to nearest, ties to even. shift is in [1, 31].
uint32_t drop_bits(uint32_t value, int shift) {
  const uint32_t kept = value >> shift;
  const uint32_t dropped = value & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  return kept + (dropped > half || (dropped == half && (kept & 1)));
}

}  // namespace

// binary32: 1 sign, 8 exponent (bias 127), 23 fraction bits. binary16: 1, 5 (bias 15), 10.
Half::Half(float value) {
  const uint32_t all = std::bit_cast<uint32_t>(value);
  const uint32_t sign = all >> 16 & 0x8000u;
  const uint32_t magnitude = all & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | (magnitude >> 13 & 0x3ffu);  // NaN, made quiet, upper payload kept
  } else if (magnitude >= 0x477ff000u) {
    result = 0x7c00u;  // 65520 and above round to infinity
  } else if (magnitude >= 0x38800000u) {
    result = drop_bits(magnitude - (112u << 23), 13);  // a carry into the exponent is what rounding up means
  } else {
    const int exponent = static_cast<int>(magnitude >> 23);
    const int shift = 126 - exponent;  // subnormal: a multiple of 2^-24
    result = shift > 25 ? 0 : drop_bits((magnitude & 0x7fffffu) | 0x800000u, shift);
  }
  bits = static_cast<uint16_t>(sign | result);
}

Half::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7f800000u | (fraction ? 0x400000u : 0u) | fraction << 13);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

BFloat16::BFloat16(float value) {
  const uint32_t all = std::bit_cast<uint32_t>(value);
  if ((all & 0x7fffffffu) > 0x7f800000u) {
    bits = static_cast<uint16_t>(all >> 16 | 0x40u);  // NaN, made quiet
  } else {
    bits = static_cast<uint16_t>(drop_bits(all & 0x7fffffffu, 16) | (all >> 16 & 0x8000u));
  }
}

BFloat16::operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace ashlar
