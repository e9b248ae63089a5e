// A reader of event files that shares nothing with their writer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/nn/temporary_folder.h"

namespace ashlar::testing {

/// CRC-32C bit by bit.
inline uint32_t slow_crc32c(const uint8_t* bytes, size_t count) {
  uint32_t crc = 0xFFFFFFFF;
  for (size_t i = 0; i < count; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc % 2 == 1 ? (crc / 2) ^ 0x82F63B78 : crc / 2;
  }
  return crc ^ 0xFFFFFFFF;
}

inline uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8; }

template <class T>
T number_at(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);  // x86 is little-endian, as the format is
  return value;
}

/// Fields of a protocol buffer by their numbers.
struct Message {
  std::multimap<int, uint64_t> numbers;  // varints, and fixed32 and fixed64 as bits
  std::multimap<int, std::string> strings;
};

inline Message parse(const std::string& bytes) {
  Message message;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.at(at++));
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.size()) {
    const uint64_t key = varint();
    const int field = static_cast<int>(key / 8);
    const auto* here = reinterpret_cast<const uint8_t*>(bytes.data());
    if (key % 8 == 0) {
      message.numbers.emplace(field, varint());
    } else if (key % 8 == 1) {
      message.numbers.emplace(field, number_at<uint64_t>(here + at));
      at += 8;
    } else if (key % 8 == 5) {
      message.numbers.emplace(field, number_at<uint32_t>(here + at));
      at += 4;
    } else {
      EXPECT_EQ(key % 8, 2U);
      const uint64_t length = varint();
      message.strings.emplace(field, bytes.substr(at, length));
      at += length;
    }
  }
  EXPECT_EQ(at, bytes.size());
  return message;
}

inline std::vector<Message> read_events(const std::filesystem::path& file) {
  const auto bytes = read_bytes(file);
  std::vector<Message> events;
  for (size_t at = 0; at < bytes.size();) {
    const auto* record = reinterpret_cast<const uint8_t*>(&bytes[at]);
    const auto length = number_at<uint64_t>(record);
    EXPECT_LE(at + 16 + length, bytes.size());
    if (at + 16 + length > bytes.size()) break;
    EXPECT_EQ(number_at<uint32_t>(record + 8), masked(slow_crc32c(record, 8)));
    EXPECT_EQ(number_at<uint32_t>(record + 12 + length), masked(slow_crc32c(record + 12, length)));
    events.push_back(parse(std::string(reinterpret_cast<const char*>(record + 12), length)));
    at += 16 + length;
  }
  return events;
}

using Scalars = std::map<std::string, float>;
inline Scalars scalars_of(const Message& event) {
  Scalars result;
  const Message summary = parse(event.strings.find(5)->second);
  for (auto [value, end] = summary.strings.equal_range(1); value != end; value++) {
    const Message fields = parse(value->second);
    result[fields.strings.find(1)->second] =
        std::bit_cast<float>(static_cast<uint32_t>(fields.numbers.find(2)->second));
  }
  return result;
}

inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace ashlar::testing
