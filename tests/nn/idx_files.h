// IDX files for tests: plain and gzip.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ashlar::testing {

/// Header (type code, big-endian sizes) followed by `data`.
std::vector<uint8_t> idx_bytes(uint8_t type, const std::vector<uint32_t>& sizes, std::span<const uint8_t> data);

/// One gzip member.
std::vector<uint8_t> gzip(std::span<const uint8_t> bytes);

}  // namespace ashlar::testing
