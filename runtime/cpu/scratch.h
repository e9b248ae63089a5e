// Scratch memory of CPU kernels (what Halide asks for by halide_malloc), kept per thread for the next call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ashlar::detail {

/// 128-byte aligned, a multiple of that long, readable 128 bytes beyond both ends. Null when there's no room, after
/// giving back what all threads keep and trying again. Freed by any thread. Under AddressSanitizer nothing is kept, so
/// that it sees every use after free.
void* allocate_scratch(size_t bytes) noexcept;
void free_scratch(void* pointer) noexcept;
/// Gives back what all threads keep; returns the bytes.
int64_t trim_scratch() noexcept;

}  // namespace ashlar::detail
