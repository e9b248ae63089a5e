// Random numbers by their place: Philox 4×32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", 2011). The same integers, and the same floats made of them, on every target.
#pragma once

#include <array>

#include "dsl/functions/conversion.h"

namespace ashlar::dsl {

using Words4 = std::array<Value, 4>;
using Words2 = std::array<Value, 2>;

/// Ten rounds: four random words (u32) of a 128-bit counter and a 64-bit key, least significant words first.
inline Words4 philox4x32(Words4 counter, Words2 key) {
  constexpr uint32_t kMultipliers[] = {0xd2511f53u, 0xcd9e8d57u}, kWeyl[] = {0x9e3779b9u, 0xbb67ae85u};
  for (int round = 0; round < 10; round++) {
    const Value a = cast<u32>(kMultipliers[0]), b = cast<u32>(kMultipliers[1]);
    counter = {mul_hi(b, counter[2]) ^ counter[1] ^ key[0], b * counter[2], mul_hi(a, counter[0]) ^ counter[3] ^ key[1],
               a * counter[0]};
    for (size_t i = 0; i < 2; i++) key[i] = key[i] + cast<u32>(kWeyl[i]);
  }
  return counter;
}

/// The words of block `number` of the stream that a seed begins (both i64).
inline Words4 words_of_block(const Value& seed, const Value& number) {
  const auto words = [](const Value& x) { return Words2{cast<u32>(x), cast<u32>(x >> 32)}; };
  const Words2 counter = words(number);
  const Value none = cast<u32>(0u);
  return philox4x32({counter[0], counter[1], none, none}, words(seed));
}

/// A multiple of 2^-24 in [0, 1), all equally likely, of a random word.
inline Value uniform_from_bits(const Value& word) { return to_float(bit_cast<i32>(word >> 8)) * 0x1p-24; }

}  // namespace ashlar::dsl
