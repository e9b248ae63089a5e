// A seeded source of random numbers with the same sequence on every machine and standard library.
#pragma once

#include <cstdint>
#include <random>

namespace ashlar::nn {

/// Not thread-safe; give every thread its own.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : engine_(seed) {}

  /// Uniform in [low, high): 24 random bits scaled. (std::uniform_real_distribution differs between libraries.)
  float uniform(float low, float high) {
    const float unit = static_cast<float>(engine_() >> 40) * 0x1p-24F;
    return low + (high - low) * unit;
  }
  /// Uniform in [0, n), n > 0, without bias: draws again in the incomplete last interval.
  uint64_t below(uint64_t n) {
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t draw = engine_();
    while (draw >= limit) draw = engine_();
    return draw % n;
  }

 private:
  std::mt19937_64 engine_;  // its sequence is fixed by the C++ standard
};

}  // namespace ashlar::nn
