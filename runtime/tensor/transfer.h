// Copies of plain bytes between the host, devices, and devices of another kind. Strides are the kernels' business.
#pragma once

#include <cstdint>

#include "runtime/tensor/storage.h"

namespace ashlar::detail {

/// Offsets and lengths are in bytes, offsets from the storage's base. Copies run on the calling thread's current
/// stream of the device and are counted (runtime/device/counters.h). Zero bytes do nothing. Lengths are checked:
/// ValueError when a range leaves its storage. Throws DriverError when the driver refuses. None of these bumps the
/// version.

/// Host → storage. When it returns, `source` may be reused; the device may still be copying.
void copy_from_host(Storage& destination, int64_t offset, const void* source, int64_t bytes);

/// Storage → host. When it returns, the bytes are there.
void copy_to_host(void* destination, Storage& source, int64_t offset, int64_t bytes);

/// Storage → storage: within one device on its current stream, otherwise through the host. The ranges may overlap
/// only on the CPU.
void copy_bytes(Storage& destination, int64_t destination_offset, Storage& source, int64_t source_offset,
                int64_t bytes);

/// `rows` pieces of `row_bytes` each, the pieces `destination_pitch` and `source_pitch` bytes apart, on one device.
void copy_rows(Storage& destination, int64_t destination_offset, int64_t destination_pitch, Storage& source,
               int64_t source_offset, int64_t source_pitch, int64_t row_bytes, int64_t rows);

}  // namespace ashlar::detail
