// A seeded source of random numbers with the same sequence on every machine, device and standard library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ashlar {

/// Philox 4×32-10 (Salmon et al. 2011): a bijection of 128-bit counters, keyed by the seed. What comes next depends on
/// the seed and the number of draws alone. Not thread-safe; give every thread its own.
class Random {
 public:
  explicit Random(uint64_t seed = 0) : seed_(seed) {}

  uint64_t seed() const { return seed_; }
  /// 32 random bits: the words of block after block.
  uint32_t bits() {
    if (used_ == 4) {
      block_ = philox({static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32), 0, 0}, seed_);
      counter_++;
      used_ = 0;
    }
    return block_[static_cast<size_t>(used_++)];
  }
  /// 64 random bits: two words, the lower one first.
  uint64_t wide_bits() {
    const uint64_t low = bits();
    return low | uint64_t{bits()} << 32;
  }
  /// Uniform in [low, high): 24 random bits scaled.
  float uniform(float low = 0, float high = 1) {
    return low + (high - low) * (static_cast<float>(bits() >> 8) * 0x1p-24F);
  }
  /// Uniform in [0, n), n > 0, without bias: draws again in the incomplete last interval.
  uint64_t below(uint64_t n) {
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t draw = wide_bits();
    while (draw >= limit) draw = wide_bits();
    return draw % n;
  }

  /// The block of one counter (lowest word first) and key.
  static constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint64_t key) {
    auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; round++) {
      const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
      counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<uint32_t>(b),
                 static_cast<uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<uint32_t>(a)};
      low += 0x9E3779B9;   // the golden ratio
      high += 0xBB67AE85;  // √3 - 1
    }
    return counter;
  }

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

/// Seeds what Tensor::rand() and the like draw from when they are given no Random (0 at the start of the process).
void manual_seed(uint64_t seed);

}  // namespace ashlar
