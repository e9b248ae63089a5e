// MemoryPool: keeps freed blocks of one stream for its next allocations.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace ashlar::detail {

class DeviceState;

/// A piece of device memory: what the driver calls it, and its size (a size class).
struct Block {
  uint64_t handle = 0;
  int64_t bytes = 0;
};

/// No request can be larger: what an x86-64 process can address. Keeps sums of sizes far from overflow.
inline constexpr int64_t kAddressSpace = int64_t{1} << 47;

/// Bytes of the size class that holds `bytes`: multiples of 256 up to 2 KiB, then eight classes per power of two, so
/// that at most an eighth of a block is wasted.
int64_t size_class(int64_t bytes);

/// Work on a stream runs in order, so a block freed on the host may be handed out again at once: whatever the stream
/// still does with it comes before what it's told to do next. Safe to call from any thread.
class MemoryPool {
 public:
  struct Statistics {
    int64_t free_bytes = 0;
    int64_t free_blocks = 0;
    int64_t used_bytes = 0;
    int64_t used_blocks = 0;
  };

  explicit MemoryPool(DeviceState& device);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// At least `bytes`, 256-byte aligned: a free block of the class or at most a quarter larger, else from the driver.
  /// Where there's no room, or the cap is reached: all pools of the device are trimmed, and it tries again.
  /// Throws OutOfMemory; std::bad_alloc.
  Block allocate(int64_t bytes);
  void release(Block block) noexcept;
  /// Gives the free blocks back to the driver; returns their bytes. Does nothing while pinned: a graph's replays use
  /// the blocks that its capture has freed.
  int64_t trim() noexcept;
  void pin(bool pinned);
  Statistics statistics() const;

 private:
  /// Blocks of one size. `free` has room for all of them: giving one back needs no memory.
  struct SizeClass {
    std::vector<uint64_t> free;
    size_t blocks = 0;  ///< free or used
  };

  bool take_free(int64_t bytes, Block& block);
  bool take_new(int64_t bytes, Block& block);
  bool take_to_trim(Block& block) noexcept;
  void forget_block(int64_t bytes) noexcept;

  DeviceState& device_;
  mutable std::mutex mutex_;
  std::map<int64_t, SizeClass> classes_;
  Statistics statistics_;
  bool pinned_ = false;
};

}  // namespace ashlar::detail
