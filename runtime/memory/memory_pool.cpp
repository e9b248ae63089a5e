#include "runtime/memory/memory_pool.h"

#include <algorithm>
#include <bit>
#include <string>

#include "runtime/device/device_state.h"
#include "runtime/support/error.h"
#include "runtime/support/fault.h"

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
  auto found = classes_.lower_bound(bytes);
  const auto end = classes_.upper_bound(bytes + bytes / 4);
  while (found != end && found->second.free.empty()) ++found;
  if (found == end) return false;
  block = {found->second.free.back(), found->first};
  found->second.free.pop_back();
  statistics_.free_bytes -= block.bytes;
  --statistics_.free_blocks;
  statistics_.used_bytes += block.bytes;
  ++statistics_.used_blocks;
  count(device_.counters().pool_hits);
  count_live(device_.counters(), block.bytes);
  return true;
}

bool MemoryPool::take_new(int64_t bytes, Block& block) {
  {
    std::lock_guard lock(mutex_);
    SizeClass& same = classes_[bytes];
    if (same.free.capacity() <= same.blocks) same.free.reserve(2 * same.blocks + 1);
    ++same.blocks;
  }
  const uint64_t handle = device_.acquire(bytes);
  std::lock_guard lock(mutex_);
  if (handle == 0) {
    forget_block(bytes);
    return false;
  }
  block = {handle, bytes};
  statistics_.used_bytes += bytes;
  ++statistics_.used_blocks;
  count_live(device_.counters(), bytes);
  return true;
}

void MemoryPool::release(Block block) noexcept {
  std::lock_guard lock(mutex_);
  classes_.find(block.bytes)->second.free.push_back(block.handle);
  statistics_.used_bytes -= block.bytes;
  --statistics_.used_blocks;
  statistics_.free_bytes += block.bytes;
  ++statistics_.free_blocks;
  count(device_.counters().live_bytes, -block.bytes);
}

int64_t MemoryPool::trim() noexcept {
  int64_t released = 0;
  for (Block block; take_to_trim(block); released += block.bytes) device_.give_back(block.handle, block.bytes);
  return released;
}

bool MemoryPool::take_to_trim(Block& block) noexcept {
  std::lock_guard lock(mutex_);
  if (pinned_ || statistics_.free_blocks == 0) return false;
  const auto found = std::ranges::find_if(classes_, [](const auto& c) { return !c.second.free.empty(); });
  block = {found->second.free.back(), found->first};
  found->second.free.pop_back();
  statistics_.free_bytes -= block.bytes;
  --statistics_.free_blocks;
  forget_block(block.bytes);
  return true;
}

void MemoryPool::forget_block(int64_t bytes) noexcept {
  const auto found = classes_.find(bytes);
  if (--found->second.blocks == 0) classes_.erase(found);
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
