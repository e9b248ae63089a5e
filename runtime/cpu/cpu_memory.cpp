#include "runtime/cpu/cpu_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace ashlar::detail {

void* allocate_cpu_memory(size_t bytes, size_t alignment) noexcept {
  constexpr size_t kPage = size_t{2} << 20;
  const bool is_large = bytes >= kPage;
  void* memory = nullptr;
  if (posix_memalign(&memory, is_large ? std::max(alignment, kPage) : alignment, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  // Whole pages alone: what else lies on the last one is somebody else's. A system without them refuses.
  if (is_large) madvise(memory, bytes / kPage * kPage, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace ashlar::detail
