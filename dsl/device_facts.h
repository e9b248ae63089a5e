// What a compiled kernel asks about the device of its call, while it runs: runtime/launch/halide_hooks.cpp answers.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

/// Bytes of shared memory that a block can have; on OpenCL, of local memory that a work-group can have.
inline constexpr const char* kCudaSharedBytes = "ashlar_cuda_shared_bytes";
inline constexpr const char* kOpenClLocalBytes = "ashlar_opencl_local_bytes";
/// Threads that a work-group can have.
inline constexpr const char* kOpenClGroupThreads = "ashlar_opencl_group_threads";
/// 1 where the blocks of a kernel may form clusters.
inline constexpr const char* kCudaClusters = "ashlar_cuda_clusters";

/// One of these, in the host's part of a kernel.
inline Expr device_fact(const char* name) {
  using Halide::Internal::Call;
  return Call::make(Halide::Int(32), name, {}, Call::PureExtern);
}

}  // namespace ashlar::dsl
