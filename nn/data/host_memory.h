// Host memory that has run out, as the library's own error.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "runtime/support/error.h"

namespace ashlar::nn {

/// What `work` returns. A std::bad_alloc in it becomes OutOfMemory: `operation` wanted memory for `what`.
template <class Work>
auto with_host_memory(const char* operation, const std::string& what, Work work) {
  const auto refuse = [&] {
    return OutOfMemory(operation, "no host memory for " + what, "as much as it holds",
                       "Free memory or raise its limit");
  };
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw refuse();
  } catch (const std::length_error&) {  // more elements than any container can have
    throw refuse();
  }
}

}  // namespace ashlar::nn
