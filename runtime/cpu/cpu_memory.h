// Memory of the CPU for tensors and for what kernels work in.
#pragma once

#include <cstddef>

namespace ashlar::detail {

/// `bytes` at a multiple of `alignment`, a power of two; std::free() takes them back. nullptr: there is no memory. Much
/// of it lies on pages of 2 MB, where the system gives them to those who ask: a product that goes down the columns of a
/// large matrix would else look up an address for each of its rows.
void* allocate_cpu_memory(size_t bytes, size_t alignment) noexcept;

}  // namespace ashlar::detail
