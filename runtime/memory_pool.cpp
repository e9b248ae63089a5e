#include "runtime/memory_pool.h"

#include <algorithm>
#include <bit>
#include <string>

#include "runtime/device_state.h"
#include "runtime/error.h"
#include "runtime/fault.h"

namespace ashlar::detail {

int64_t size_class(int64_t bytes) {
  constexpr int64_t kSmallest = 256;
  const auto wanted = static_cast<uint64_t>(std::max<int64_t>(bytes, 1));
  const auto eighth = static_cast<int64_t>(std::bit_floor(wanted - (wanted > 1)) / 8);
  const int64_t step = std::max(eighth, kSmallest);
  return (static_cast<int64_t>(wanted) + step - 1) / step * step;
}

MemoryPool::MemoryPool(DeviceState& device) : device_(device) { device_.enlist(this); }

MemoryPool::~MemoryPool() {
  device_.dismiss(this);
  trim();
}

Block MemoryPool::allocate(int64_t bytes) {
  Block block;
  const int64_t size = bytes > kAddressSpace ? 0 : size_class(bytes);
  if (size > 0 && !fault::strikes(FaultSite::allocation)) {
    if (take_free(size, block) || take_new(size, block)) return block;
    device_.trim();
    if (take_new(size, block)) return block;
  }
  const int64_t cap = device_.cap();
  throw OutOfMemory("memory on " + device_.device().str(),
                    "a request for " + std::to_string(bytes) + " bytes with " + std::to_string(device_.held_bytes()) +
                        " in use" + (cap ? " and a cap of " + std::to_string(cap) : std::string()),
                    "that much free memory after trimming the pools",
                    "Free tensors, make the batch smaller, or raise the cap with set_memory_cap");
}

bool MemoryPool::take_free(int64_t bytes, Block& block) {
  std::lock_guard lock(mutex_);
  auto found = free_.lower_bound(bytes);
  while (found != free_.end() && found->second.empty()) found = free_.erase(found);
  if (found == free_.end() || found->first > bytes + bytes / 4) return false;
  block = {found->second.back(), found->first};
  found->second.pop_back();
  statistics_.free_bytes -= block.bytes;
  --statistics_.free_blocks;
  statistics_.used_bytes += block.bytes;
  ++statistics_.used_blocks;
  count(device_.counters().pool_hits);
  count(device_.counters().live_bytes, block.bytes);
  return true;
}

bool MemoryPool::take_new(int64_t bytes, Block& block) {
  const uint64_t handle = device_.acquire(bytes);
  if (handle == 0) return false;
  block = {handle, bytes};
  std::lock_guard lock(mutex_);
  statistics_.used_bytes += bytes;
  ++statistics_.used_blocks;
  count(device_.counters().live_bytes, bytes);
  return true;
}

void MemoryPool::release(Block block) noexcept {
  bool kept = true;
  {
    std::lock_guard lock(mutex_);
    statistics_.used_bytes -= block.bytes;
    --statistics_.used_blocks;
    count(device_.counters().live_bytes, -block.bytes);
    try {
      free_[block.bytes].push_back(block.handle);
      statistics_.free_bytes += block.bytes;
      ++statistics_.free_blocks;
    } catch (const std::bad_alloc&) {  // no room even for the note: to the driver with it
      kept = false;
    }
  }
  if (!kept) device_.give_back(block.handle, block.bytes);
}

int64_t MemoryPool::trim() noexcept {
  std::map<int64_t, std::vector<uint64_t>> doomed;
  int64_t released;
  {
    std::lock_guard lock(mutex_);
    if (pinned_) return 0;
    doomed.swap(free_);
    released = statistics_.free_bytes;
    statistics_.free_bytes = 0;
    statistics_.free_blocks = 0;
  }
  for (const auto& [bytes, handles] : doomed) {
    for (uint64_t handle : handles) device_.give_back(handle, bytes);
  }
  return released;
}

void MemoryPool::pin(bool pinned) {
  std::lock_guard lock(mutex_);
  pinned_ = pinned;
}

MemoryPool::Statistics MemoryPool::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace ashlar::detail
