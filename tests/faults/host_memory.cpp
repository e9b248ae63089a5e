#include "tests/faults/host_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

// In front of each block: whether it is counted. As large as the alignment, so that the block keeps it.
constexpr size_t kPlain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

std::atomic<int64_t> live{0};
thread_local bool is_counting = false;
thread_local int inside_driver = 0;
thread_local int64_t countdown = 0;  // as runtime/support/fault.h has it, for one thread
thread_local int64_t afterwards = 0;

bool fails() {
  if (countdown == 0 || inside_driver > 0) return false;
  if (countdown > 1) return --countdown, false;
  if (countdown == 1) countdown = afterwards;
  return true;
}

void* take(size_t bytes, size_t alignment) noexcept {
  if (fails()) return nullptr;
  const size_t front = std::max(alignment, kPlain);
  auto* memory = static_cast<char*>(std::aligned_alloc(front, (bytes + 2 * front - 1) / front * front));
  if (memory == nullptr) return nullptr;
  const bool is_counted = is_counting && inside_driver == 0;
  live.fetch_add(is_counted, std::memory_order_relaxed);
  memory[front - 1] = static_cast<char>(is_counted);
  return memory + front;
}

void* take_or_throw(size_t bytes, size_t alignment) {
  void* memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void give_back(void* block, size_t alignment) noexcept {
  if (block == nullptr) return;
  char* memory = static_cast<char*>(block);
  live.fetch_sub(memory[-1], std::memory_order_relaxed);
  std::free(memory - std::max(alignment, kPlain));
}

constexpr size_t of(std::align_val_t alignment) { return static_cast<size_t>(alignment); }

}  // namespace

// All of them: a sanitizer's own would otherwise meet blocks of these.
void* operator new(size_t n) { return take_or_throw(n, kPlain); }
void* operator new[](size_t n) { return take_or_throw(n, kPlain); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return take(n, kPlain); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return take(n, kPlain); }
void* operator new(size_t n, std::align_val_t a) { return take_or_throw(n, of(a)); }
void* operator new[](size_t n, std::align_val_t a) { return take_or_throw(n, of(a)); }
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return take(n, of(a)); }
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return take(n, of(a)); }
void operator delete(void* p) noexcept { give_back(p, kPlain); }
void operator delete[](void* p) noexcept { give_back(p, kPlain); }
void operator delete(void* p, size_t) noexcept { give_back(p, kPlain); }
void operator delete[](void* p, size_t) noexcept { give_back(p, kPlain); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give_back(p, kPlain); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give_back(p, kPlain); }
void operator delete(void* p, std::align_val_t a) noexcept { give_back(p, of(a)); }
void operator delete[](void* p, std::align_val_t a) noexcept { give_back(p, of(a)); }
void operator delete(void* p, size_t, std::align_val_t a) noexcept { give_back(p, of(a)); }
void operator delete[](void* p, size_t, std::align_val_t a) noexcept { give_back(p, of(a)); }
void operator delete(void* p, std::align_val_t a, const std::nothrow_t&) noexcept { give_back(p, of(a)); }
void operator delete[](void* p, std::align_val_t a, const std::nothrow_t&) noexcept { give_back(p, of(a)); }

namespace ashlar::testing {

void count_host_blocks_of_this_thread() { is_counting = true; }
int64_t live_host_blocks() { return live.load(std::memory_order_relaxed); }

FailingNew::FailingNew(int64_t n, detail::FaultSpan span) {
  afterwards = span == detail::FaultSpan::once ? 0 : detail::fault::kAlways;
  countdown = n;
}
FailingNew::~FailingNew() { countdown = 0; }
bool FailingNew::fired() const { return countdown <= 0; }

void driver_at_work(int change) { inside_driver += change; }

}  // namespace ashlar::testing
