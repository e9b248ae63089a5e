// Program text as kernels carry it: packed when they are built (dsl/build/pack_text.h), since most of it repeats
// itself; unpacked here when a driver wants it. No library, so that programs need none to link.
#pragma once

#include <cstdint>
#include <string>

namespace ashlar::detail {

/// Packed text begins with this byte, with which no program does; then come the plain text's size in four bytes, the
/// lowest first, and runs until that is reached: a byte n < 128 and n + 1 characters; or a byte 128 + n and a distance
/// d in two bytes, the lower first: the n + kShortestMatch characters that begin d before here.
inline constexpr char kPackedText = 1;
inline constexpr int kShortestMatch = 4;

inline bool is_packed_text(const char* text) { return *text == kPackedText; }

/// Throws std::bad_alloc.
inline std::string unpack_text(const char* packed) {
  const auto* in = reinterpret_cast<const unsigned char*>(packed) + 1;
  size_t size = 0;
  for (int byte = 0; byte < 4; byte++) size |= static_cast<size_t>(*in++) << (8 * byte);
  std::string text;
  text.reserve(size);
  while (text.size() < size) {
    const unsigned run = *in++;
    if (run < 128) {
      text.append(reinterpret_cast<const char*>(in), run + 1);
      in += run + 1;
      continue;
    }
    const size_t from = text.size() - (in[0] | static_cast<size_t>(in[1]) << 8);
    in += 2;
    // One by one: a match may reach into what it adds.
    for (size_t i = 0; i < run - 128 + kShortestMatch; i++) text += text[from + i];
  }
  return text;
}

}  // namespace ashlar::detail
