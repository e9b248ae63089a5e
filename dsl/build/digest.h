// A hash of 128 bits by which results are kept: FNV-1a, of whatever is added, in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ashlar::dsl {

class Digest {
 public:
  /// Numbers and enumerations by their value; text by its length and content, so that neighbours don't run together.
  void add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    for (const char c : text) byte(static_cast<unsigned char>(c));
  }
  void add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) byte(static_cast<unsigned char>(number >> shift));
  }
  void add(const char* text) { add(std::string_view(text)); }

  /// 32 hexadecimal digits.
  std::string text() const {
    std::string digits;
    for (int shift = 124; shift >= 0; shift -= 4) digits += "0123456789abcdef"[static_cast<int>(value_ >> shift) & 15];
    return digits;
  }

 private:
  __extension__ using Number = unsigned __int128;
  void byte(unsigned char b) {
    constexpr Number kPrime = (Number{1} << 88) + 0x13b;
    value_ = (value_ ^ b) * kPrime;
  }
  Number value_ = (Number{0x6c62272e07bb0142u} << 64) | 0x62b821756295c58du;
};

}  // namespace ashlar::dsl
