// StreamState: a queue of work on one device, and the pool whose blocks that work uses.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/device/device_state.h"
#include "runtime/graph/graph_recorder.h"
#include "runtime/memory/memory_pool.h"

namespace ashlar::detail {

/// Kept alive by Stream handles and by the storage that came from its pool. Handles are device memory as
/// DeviceState::allocate names it; offsets and lengths are in bytes. All calls may come from any thread.
class StreamState : public std::enable_shared_from_this<StreamState> {
 public:
  virtual ~StreamState() = default;
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  DeviceState& owner() const { return owner_; }
  Device device() const { return owner_.device(); }
  MemoryPool& pool() { return pool_; }

  /// Throws DriverError, also for work that failed earlier.
  virtual void synchronize() = 0;
  /// Coming work waits for what `other`, a stream of the same device, has been told to do so far.
  virtual void wait(StreamState& other) = 0;

  /// Host to device; `source` may be reused at return. device to host; done at return. Device to device.
  virtual void write(uint64_t destination, int64_t offset, const void* source, int64_t bytes) = 0;
  virtual void read(void* destination, uint64_t source, int64_t offset, int64_t bytes) = 0;
  virtual void copy(uint64_t destination, int64_t destination_offset, uint64_t source, int64_t source_offset,
                    int64_t bytes) = 0;
  virtual void copy_rows(uint64_t destination, int64_t destination_offset, int64_t destination_pitch, uint64_t source,
                         int64_t source_offset, int64_t source_pitch, int64_t row_bytes, int64_t rows) = 0;

  /// Where work is written down instead of run while it is captured into a graph; null at all other times.
  GraphRecorder* recorder() const { return recorder_; }
  void set_recorder(GraphRecorder* recorder) { recorder_ = recorder; }
  /// Whether the driver records what is submitted between begin_capture() and end_capture(), which makes a graph of it;
  /// otherwise these do nothing. Throw DriverError.
  /// Counts a launch, or lets the graph count it that is being captured.
  void count_launch() const noexcept { recorder_ ? recorder_->count_launch() : count(owner_.counters().launches); }
  virtual bool driver_records() const { return false; }
  virtual void begin_capture() {}
  virtual std::unique_ptr<DriverGraph> end_capture() { return nullptr; }

  /// True for a queue of the caller's own (Stream::wrap).
  virtual bool is_wrapped() const { return false; }

  /// What Halide's runtime asks for: CUcontext and CUstream, or cl_context and cl_command_queue; null on the CPU.
  virtual void* native_context() const { return nullptr; }
  virtual void* native_queue() const { return nullptr; }

 protected:
  explicit StreamState(DeviceState& owner) : owner_(owner), pool_(owner) {}

 private:
  DeviceState& owner_;
  MemoryPool pool_;
  GraphRecorder* recorder_ = nullptr;
};

/// Throws GraphError while work on the stream is being captured.
void refuse_in_capture(const StreamState& stream, const char* operation);

/// The calling thread's current stream on a device; made at the first call. Throws DeviceError, DriverError.
StreamState& current_stream(Device device);

}  // namespace ashlar::detail
