// Guard bands: poisoned bytes before and behind every storage, for tests that ask whether a kernel stays in its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::detail {

class StreamState;

/// On each side of a guarded storage. A multiple of every device's alignment.
inline constexpr int64_t kGuardBytes = 4096;

/// Whether new storages, and the memory that CPU kernels ask for, get bands (not while a stream is in capture). Off at
/// the start. Their fresh memory is poison as well: NaN in every floating type, and other bits in every storage.
/// Returns what held before.
bool set_guard_bands(bool on) noexcept;
bool guard_bands_wanted() noexcept;
/// What was found changed in the bands of storages dropped since the last call: a line for each side.
std::vector<std::string> take_guard_reports();

/// One guarded piece of a block: the block is [band | piece | band].
class GuardBands {
 public:
  /// Poisons the block, which has `bytes` + 2 kGuardBytes: all of it, or of a large one 8 MiB at both ends. Throws
  /// DriverError.
  GuardBands(StreamState& stream, uint64_t block, int64_t bytes);
  /// Looks at the bands and reports.
  ~GuardBands();
  GuardBands(const GuardBands&) = delete;
  GuardBands& operator=(const GuardBands&) = delete;

  /// What the driver calls the piece.
  uint64_t handle() const { return piece_; }

 private:
  StreamState& stream_;
  uint64_t block_;
  uint64_t piece_;
  int64_t bytes_;
  uint16_t poison_;
};

/// For memory on the host: poison that differs from call to call, and its bytes, the same at equal addresses mod 2.
uint16_t next_poison() noexcept;
void poison_bytes(void* memory, size_t bytes, uint16_t poison) noexcept;
/// Reports each changed byte range of a band; `where` says which side of what.
void check_band(const void* band, size_t bytes, uint16_t poison, std::string_view where) noexcept;

}  // namespace ashlar::detail
