#include "runtime/tensor/storage.h"

#include <algorithm>
#include <string>

#include "runtime/device/stream_state.h"
#include "runtime/memory/guard_bands.h"
#include "runtime/support/error.h"

namespace ashlar::detail {
namespace {

void synchronize_quietly(StreamState& stream) noexcept {
  try {
    stream.synchronize();
  } catch (const std::exception&) {  // the device is lost, and with it whatever was still running
  }
}

/// Orders `stream` after `other` even when events fail; for destructors.
void wait_or_synchronize(StreamState& stream, StreamState& other) noexcept {
  try {
    stream.wait(other);
  } catch (const std::exception&) {
    synchronize_quietly(other);
  }
}

}  // namespace

/// Lets make_shared see the constructor: one piece of memory for the storage and its counts.
struct Storage::Made : Storage {
  Made() = default;
};

Storage::Storage() = default;

std::shared_ptr<Storage> Storage::create(int64_t bytes, Device device) {
  if (bytes < 0) throw ValueError("Storage::create", std::to_string(bytes) + " bytes", "0 or more", "");
  StreamState& home = current_stream(device);
  std::shared_ptr<Storage> storage = std::make_shared<Made>();
  // What a graph's capture makes has no bands: their bytes would be copied at every replay.
  const bool is_guarded = guard_bands_wanted() && home.recorder() == nullptr && bytes < kAddressSpace;
  storage->device_ = device;
  storage->bytes_ = bytes;
  storage->block_ = home.pool().allocate(is_guarded ? bytes + 2 * kGuardBytes : bytes);
  storage->handle_ = storage->block_.handle;
  storage->home_ = home.shared_from_this();
  if (is_guarded) [[unlikely]] {
    storage->guard_ = std::make_unique<GuardBands>(home, storage->block_.handle, bytes);
    storage->handle_ = storage->guard_->handle();
  }
  return storage;
}

std::shared_ptr<Storage> Storage::borrow(void* pointer, int64_t bytes, Device device, std::function<void()> release) {
  if (bytes < 0 || (pointer == nullptr && bytes > 0)) {
    throw ValueError("Storage::borrow", pointer ? std::to_string(bytes) + " bytes" : "a null pointer",
                     "an address and a size of 0 or more", "");
  }
  if (device.kind == DeviceKind::opencl) {
    throw DeviceError("Storage::borrow", "memory of " + device.str(), "memory with an address: of the CPU or CUDA",
                      "Copy it into a tensor of the device");
  }
  if (pointer == nullptr) return create(0, device);
  std::shared_ptr<Storage> storage = std::make_shared<Made>();
  const auto address = reinterpret_cast<uint64_t>(pointer);
  storage->begin_ = static_cast<int64_t>(address % kBaseAlignment);
  storage->handle_ = address - address % kBaseAlignment;
  storage->bytes_ = storage->begin_ + bytes;
  storage->device_ = device;
  storage->home_ = current_stream(device).shared_from_this();
  storage->borrowed_ = true;
  storage->release_ = std::move(release);
  return storage;
}

Storage::~Storage() {
  if (block_.handle == 0 && !borrowed_) return;
  if (shared_between_streams_) {
    if (writer_ && writer_ != home_) wait_or_synchronize(*home_, *writer_);
    for (const auto& reader : readers_) {
      if (reader != home_) wait_or_synchronize(*home_, *reader);
    }
  }
  if (borrowed_) {
    if (!home_->is_wrapped()) synchronize_quietly(*home_);
    if (release_) release_();
    return;
  }
  guard_.reset();
  home_->pool().release(block_);
}

void Storage::prepare_read(StreamState& stream) { prepare(stream, false); }
void Storage::prepare_write(StreamState& stream) { prepare(stream, true); }

void Storage::prepare(StreamState& stream, bool write) {
  if (GraphRecorder* recorder = stream.recorder()) [[unlikely]]
    return recorder->use(shared_from_this(), write);
  if (device_.kind == DeviceKind::cpu) return;  // CPU work is done when its call returns
  if (&stream == home_.get() && !shared_between_streams_.load(std::memory_order_acquire)) [[likely]]
    return;
  refuse_in_capture(*home_, "use of a tensor on another stream");
  std::lock_guard lock(mutex_);
  if (!shared_between_streams_.load(std::memory_order_relaxed)) {
    writer_ = home_;
    shared_between_streams_.store(true, std::memory_order_release);
  }
  const auto is_this = [&stream](const auto& other) { return other.get() == &stream; };
  const bool waited_already = is_this(writer_) || std::ranges::any_of(readers_, is_this);
  if (!waited_already) stream.wait(*writer_);
  if (!write) {
    if (!waited_already) readers_.push_back(stream.shared_from_this());
    return;
  }
  for (const auto& reader : readers_) {
    if (!is_this(reader)) stream.wait(*reader);
  }
  writer_ = stream.shared_from_this();
  readers_.clear();
}

}  // namespace ashlar::detail
