// Storage: the bytes behind tensors, on one device. Tensors share it; the pool gets it back when the last one dies.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/memory/memory_pool.h"

namespace ashlar::detail {

class GuardBands;
class StreamState;

/// Bases are 256-byte aligned, so that a kernel may conclude alignment from a view's offset alone.
inline constexpr int64_t kBaseAlignment = 256;

/// A block of bytes. Created storage comes from the pool of the creating thread's current stream (its home) and goes
/// back there from whatever thread drops it. Borrowed storage is memory that somebody else keeps alive.
class Storage : public std::enable_shared_from_this<Storage> {
 public:
  /// Uninitialised; at least one block even for 0 bytes, so that no kernel ever sees a null handle.
  /// Throws OutOfMemory, DeviceError (no such device), DriverError, ValueError (negative size).
  static std::shared_ptr<Storage> create(int64_t bytes, Device device);
  /// Memory [pointer, pointer + bytes) of any alignment, of the host or of a CUDA device: the base is the 256-aligned
  /// address at or below `pointer`, begin() the bytes between the two. `release` is called once, when nothing uses the
  /// memory any more: the work on it is done, or on a stream of the caller's (Stream::wrap) that was current here, and
  /// ordered there. Throws ValueError on null (unless bytes is 0) or negative size, DeviceError for OpenCL.
  static std::shared_ptr<Storage> borrow(void* pointer, int64_t bytes, Device device = {},
                                         std::function<void()> release = {});

  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const { return device_; }
  /// Valid bytes are [begin(), bytes()), counted from the base. begin() is 0 unless borrowed.
  int64_t begin() const { return begin_; }
  int64_t bytes() const { return bytes_; }
  bool is_borrowed() const { return borrowed_; }
  /// The base address on the CPU; null on a GPU.
  char* host() const { return device_.kind == DeviceKind::cpu ? reinterpret_cast<char*>(handle_) : nullptr; }
  /// What the driver calls it: a CUdeviceptr, a cl_mem, or the host address. Never 0.
  uint64_t handle() const { return handle_; }

  /// Grows with every write in place.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  void bump() { version_.fetch_add(1, std::memory_order_acq_rel); }

  /// The stream whose pool owns the block; for borrowed storage the stream current at borrowing.
  StreamState& home() const { return *home_; }

  /// Orders coming work of `stream` after the writes (and, to write, after the reads) that other streams have
  /// submitted on this storage. Costs one comparison while only the home stream uses it. On a stream in capture it is
  /// noted for replays. Throws DriverError, GraphError (captured work's storage used on another stream meanwhile).
  void prepare_read(StreamState& stream);
  void prepare_write(StreamState& stream);

 private:
  struct Made;
  Storage();
  void prepare(StreamState& stream, bool write);

  Device device_;
  int64_t begin_ = 0;
  int64_t bytes_ = 0;
  Block block_;  ///< what the pool gave
  uint64_t handle_ = 0;
  std::unique_ptr<GuardBands> guard_;  ///< only where a test asked for them
  bool borrowed_ = false;
  std::function<void()> release_;  ///< of borrowed memory, or none
  std::atomic<uint64_t> version_{0};
  std::shared_ptr<StreamState> home_;

  // Only once a second stream has touched the storage:
  std::atomic<bool> shared_between_streams_{false};
  std::mutex mutex_;
  std::shared_ptr<StreamState> writer_;
  std::vector<std::shared_ptr<StreamState>> readers_;
};

}  // namespace ashlar::detail
