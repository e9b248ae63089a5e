// A queue of work on one device. Work on one stream runs in order; work on two streams may overlap.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace ashlar {

namespace detail {
class StreamState;
}

/// A handle; copies share one queue. On the CPU every call has finished when it returns.
class Stream {
 public:
  /// A new queue. Throws DeviceError when the device isn't there, DriverError when the driver refuses.
  explicit Stream(Device device);
  /// A queue of the caller's own, a CUstream of the device's primary context, which must outlive the handle and the
  /// tensors made while it is current. Null is CUDA's default stream. Throws DeviceError but for a CUDA device.
  static Stream wrap(void* cuda_stream, Device device = Device::cuda());
  /// The calling thread's current stream on `device`; every thread starts with a stream of its own.
  static Stream current(Device device);

  Device device() const;
  /// The calling thread's work on the device goes here from now on.
  void make_current() const;
  /// Waits until all work submitted so far is done. Throws DriverError if any of it failed.
  void synchronize() const;
  /// Work submitted to this stream from now on waits for all work submitted to `other` so far.
  void wait(const Stream& other) const;

  detail::StreamState& state() const { return *state_; }
  friend bool operator==(const Stream&, const Stream&) = default;

 private:
  explicit Stream(std::shared_ptr<detail::StreamState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::StreamState> state_;
};

/// Makes `stream` the calling thread's current stream on its device for a scope.
class StreamScope {
 public:
  explicit StreamScope(const Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream previous_;
};

}  // namespace ashlar
