// When the host's memory runs out: what the public functions make of std::bad_alloc.
#pragma once

#include <new>
#include <stdexcept>

namespace ashlar::detail {

/// Throws OutOfMemory, without its details where there's no room for them either. To be called where a public function
/// has caught std::bad_alloc.
[[noreturn]] void throw_out_of_host_memory(const char* operation);

}  // namespace ashlar::detail
