// SipHash-2-4: a keyed checksum (J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", 2012). Our own,
// since it is forty lines, and a library that has it would become a dependency of every program.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ashlar::detail {

struct SipHashKey {
  uint64_t low = 0, high = 0;
};

/// Takes a message in pieces; on little-endian machines only, as all of ours are.
class SipHash {
 public:
  explicit SipHash(SipHashKey key)
      : v0_(key.low ^ 0x736f6d6570736575u),
        v1_(key.high ^ 0x646f72616e646f6du),
        v2_(key.low ^ 0x6c7967656e657261u),
        v3_(key.high ^ 0x7465646279746573u) {}

  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      word_ |= uint64_t{static_cast<unsigned char>(byte)} << (8 * (length_ % 8));
      if (++length_ % 8 == 0) absorb();
    }
  }

  /// The checksum of all that was added. Once only.
  uint64_t finish() {
    word_ |= length_ << 56;
    absorb();
    v2_ ^= 0xff;
    for (int i = 0; i < 4; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void absorb() {
    v3_ ^= word_;
    round();
    round();
    v0_ ^= word_;
    word_ = 0;
  }
  void round() {
    v0_ += v1_, v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_, v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_, v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_, v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  uint64_t v0_, v1_, v2_, v3_;
  uint64_t word_ = 0;
  uint64_t length_ = 0;
};

}  // namespace ashlar::detail
