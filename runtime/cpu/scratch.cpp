#include "runtime/cpu/scratch.h"

#include <cstdlib>
#include <mutex>
#include <new>

#include "runtime/cpu/cpu_memory.h"
#include "runtime/device/counter_cells.h"
#include "runtime/memory/guard_bands.h"
#include "runtime/memory/memory_pool.h"
#include "runtime/support/fault.h"

namespace ashlar::detail {
namespace {

constexpr size_t kAlignment = 128;
// What one thread may keep: about the packing buffers of a large matmul. More goes back to the system at once.
constexpr int64_t kKeptBytes = int64_t{64} << 20;
constexpr int kKeptBlocks = 16;
#ifdef __SANITIZE_ADDRESS__
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif

/// Stands in front of the memory handed out.
struct alignas(kAlignment) Header {
  int64_t bytes;                         // of the whole block: header, memory, a readable tail
  int64_t guarded_bytes;                 // of the memory when it was handed out between guard bands, else -1
  uint16_t poison;                       // in these bands
  alignas(64) unsigned char before[64];  // the band that ends where the memory begins
};
static_assert(sizeof(Header) == kAlignment);

CounterCells& cells() { return counter_cells(DeviceKind::cpu); }

void give_back(Header* block) noexcept {
  count(cells().pool_bytes, -block->bytes);
  std::free(block);
}

/// One thread's kept blocks. The lock is contended only while somebody trims.
class Shelf {
 public:
  Shelf();
  ~Shelf();

  Header* take(int64_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    for (int i = count_ - 1; i >= 0; --i) {
      Header* block = blocks_[i];
      if (block->bytes != bytes) continue;
      blocks_[i] = blocks_[--count_];
      kept_bytes_ -= bytes;
      return block;
    }
    return nullptr;
  }

  bool keep(Header* block) noexcept {
    std::lock_guard lock(mutex_);
    if (count_ == kKeptBlocks || kept_bytes_ + block->bytes > kKeptBytes) return false;
    blocks_[count_++] = block;
    kept_bytes_ += block->bytes;
    return true;
  }

  int64_t trim() noexcept {
    std::lock_guard lock(mutex_);
    const int64_t released = kept_bytes_;
    while (count_ > 0) give_back(blocks_[--count_]);
    kept_bytes_ = 0;
    return released;
  }

  Shelf* next = nullptr;
  Shelf* previous = nullptr;

 private:
  std::mutex mutex_;
  Header* blocks_[kKeptBlocks];
  int count_ = 0;
  int64_t kept_bytes_ = 0;
};

struct Shelves {
  std::mutex mutex;
  Shelf* first = nullptr;
};

// Never destroyed: both members have trivial destructors.
Shelves& shelves() {
  static constinit Shelves all;
  return all;
}

// Set once the thread's shelf is gone: kernels may still run in destructors of other thread-local objects.
thread_local bool shelf_closed = false;

Shelf::Shelf() {
  std::lock_guard lock(shelves().mutex);
  next = shelves().first;
  if (next) next->previous = this;
  shelves().first = this;
}

Shelf::~Shelf() {
  shelf_closed = true;
  {
    std::lock_guard lock(shelves().mutex);
    (previous ? previous->next : shelves().first) = next;
    if (next) next->previous = previous;
  }
  trim();
}

Shelf* own_shelf() noexcept {
  if (!kKeeps || shelf_closed) return nullptr;
  thread_local Shelf shelf;
  return &shelf;
}

/// Hands out `block`, between bands where a test wants them.
void* guarded(Header* block, size_t bytes) noexcept {
  block->guarded_bytes = guard_bands_wanted() ? static_cast<int64_t>(bytes) : -1;
  if (block->guarded_bytes >= 0) {
    block->poison = next_poison();
    poison_bytes(block->before, sizeof block->before, block->poison);
    poison_bytes(block + 1, static_cast<size_t>(block->bytes) - sizeof(Header), block->poison);
  }
  return block + 1;
}

void check_guards(const Header& block) noexcept {
  if (block.guarded_bytes < 0) return;
  const auto bytes = static_cast<size_t>(block.guarded_bytes);
  check_band(block.before, sizeof block.before, block.poison, "before a CPU kernel's scratch memory");
  check_band(reinterpret_cast<const char*>(&block + 1) + bytes,
             static_cast<size_t>(block.bytes) - sizeof(Header) - bytes, block.poison,
             "behind a CPU kernel's scratch memory");
}

}  // namespace

void* allocate_scratch(size_t bytes) noexcept {
  if (bytes > static_cast<size_t>(kAddressSpace) || fault::strikes(FaultSite::allocation)) return nullptr;
  const int64_t whole = size_class(static_cast<int64_t>(bytes) + 2 * static_cast<int64_t>(kAlignment));
  Shelf* shelf = own_shelf();
  Header* block = shelf ? shelf->take(whole) : nullptr;
  if (block != nullptr) {
    count(cells().pool_hits);
    return guarded(block, bytes);
  }
  void* memory = allocate_cpu_memory(static_cast<size_t>(whole), kAlignment);
  if (memory == nullptr) {
    trim_scratch();
    memory = allocate_cpu_memory(static_cast<size_t>(whole), kAlignment);
    if (memory == nullptr) return nullptr;
  }
  count(cells().allocations);
  count(cells().pool_bytes, whole);
  return guarded(new (memory) Header{whole, -1, 0, {}}, bytes);
}

void free_scratch(void* pointer) noexcept {
  if (pointer == nullptr) return;
  Header* block = static_cast<Header*>(pointer) - 1;
  check_guards(*block);
  Shelf* shelf = own_shelf();
  if (shelf == nullptr || !shelf->keep(block)) give_back(block);
}

int64_t trim_scratch() noexcept {
  int64_t released = 0;
  std::lock_guard lock(shelves().mutex);
  for (Shelf* shelf = shelves().first; shelf != nullptr; shelf = shelf->next) released += shelf->trim();
  return released;
}

}  // namespace ashlar::detail
