// The host's memory as a test sees it: operator new counted, and made to fail. host_memory.cpp replaces the program's.
#pragma once

#include <cstdint>

#include "runtime/support/fault.h"

namespace ashlar::testing {

/// From now on, what this thread takes is counted.
void count_host_blocks_of_this_thread();
/// Blocks of operator new that such threads have taken and that nobody has given back, those of drivers left out.
int64_t live_host_blocks();

/// This thread's n-th operator new from now on throws std::bad_alloc, or that one and all after it.
class FailingNew {
 public:
  FailingNew(int64_t n, detail::FaultSpan span);
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;
  bool fired() const;
};

/// From 1 to -1, which may nest, this thread's operator new neither fails nor counts: what runs is a driver.
void driver_at_work(int change);

/// The same for a scope.
class DriverMemory {
 public:
  DriverMemory() { driver_at_work(1); }
  ~DriverMemory() { driver_at_work(-1); }
  DriverMemory(const DriverMemory&) = delete;
  DriverMemory& operator=(const DriverMemory&) = delete;
};

}  // namespace ashlar::testing
