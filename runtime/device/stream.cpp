#include "runtime/device/stream.h"

#include <vector>

#include "runtime/device/stream_state.h"
#include "runtime/memory/host_memory.h"

namespace ashlar {
namespace detail {
namespace {

/// A thread's current streams, by kind and index.
struct ThreadStreams {
  std::vector<std::shared_ptr<StreamState>> streams[kDeviceKinds];
};

// Storage of other thread-local or static objects may outlive it: what they free goes to their own home stream.
thread_local ThreadStreams thread_streams;

std::shared_ptr<StreamState>& current_slot(Device device) {
  auto& streams = thread_streams.streams[static_cast<int>(device.kind)];
  const auto index = static_cast<size_t>(device.index);
  if (index < streams.size() && streams[index]) [[likely]]
    return streams[index];
  DeviceState& owner = device_state(device);  // throws before anything is resized
  if (index >= streams.size()) streams.resize(index + 1);
  streams[index] = owner.make_stream();
  return streams[index];
}

}  // namespace

StreamState& current_stream(Device device) { return *current_slot(device); }

}  // namespace detail

Stream::Stream(Device device) try : state_(detail::device_state(device).make_stream()) {
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Stream");
}

Stream Stream::wrap(void* cuda_stream, Device device) try {
  return Stream(detail::device_state(device).wrap_stream(cuda_stream));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Stream::wrap");
}

Stream Stream::current(Device device) try {
  return Stream(detail::current_slot(device));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Stream::current");
}

Device Stream::device() const { return state_->device(); }

void Stream::make_current() const try { detail::current_slot(device()) = state_; } catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Stream::make_current");
}

void Stream::synchronize() const try {
  detail::refuse_in_capture(*state_, "Stream::synchronize");
  state_->synchronize();
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Stream::synchronize");
}

void Stream::wait(const Stream& other) const try {
  if (state_ == other.state_) return;
  detail::refuse_in_capture(*state_, "Stream::wait");
  detail::refuse_in_capture(*other.state_, "Stream::wait");
  if (device() == other.device()) {
    state_->wait(*other.state_);
  } else {
    other.synchronize();  // no queue can wait for a queue of another device
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Stream::wait");
}

StreamScope::StreamScope(const Stream& stream) : previous_(Stream::current(stream.device())) {
  detail::current_slot(stream.device()) = stream.state().shared_from_this();
}

StreamScope::~StreamScope() { detail::current_slot(previous_.device()) = previous_.state().shared_from_this(); }

}  // namespace ashlar
