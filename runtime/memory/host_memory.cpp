#include "runtime/memory/host_memory.h"

#include "runtime/support/error.h"

namespace ashlar::detail {
namespace {

OutOfMemory out_of_host_memory(const char* operation) {
  return {operation, "no memory from the system", "some memory of the host to work with",
          "Free what the process holds, or give it more"};
}

// Made while there is memory, and thrown as a copy, which takes none: its text is shared, its operation's name short.
const OutOfMemory without_details = out_of_host_memory("host memory");

}  // namespace

void throw_out_of_host_memory(const char* operation) {
  try {
    throw out_of_host_memory(operation);
  } catch (const std::bad_alloc&) {
    throw without_details;
  }
}

}  // namespace ashlar::detail
