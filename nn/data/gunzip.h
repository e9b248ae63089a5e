// Decompression with a limit, for readers of files that nobody vouches for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ashlar::nn {

bool is_gzip(std::span<const uint8_t> bytes);

/// Inflates gzip data (one member or several) as far as it is asked to, checking the checksum of each member that it
/// finishes.
class GunzipStream {
 public:
  /// `bytes` must outlive the stream. `name` stands in messages.
  GunzipStream(std::span<const uint8_t> bytes, std::string name);
  ~GunzipStream();
  GunzipStream(const GunzipStream&) = delete;
  GunzipStream& operator=(const GunzipStream&) = delete;

  /// Appends up to `count` bytes to `out`, fewer only at the end of the data. Memory grows with what is really there,
  /// not with `count`. Throws DataError on damaged or truncated data, or on bytes that follow the last member.
  void read(size_t count, std::vector<uint8_t>& out);

 private:
  struct State;
  State* state_;
};

}  // namespace ashlar::nn
