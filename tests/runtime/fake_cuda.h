// A stand-in for libcuda.so.1: one device whose memory is the host's. Its one module has three functions: "scale", the
// same as "early_scale" in code for GPUs before sm_90, and "host_function", which runs any compiled CPU kernel on the
// device's memory. For tests on machines without a GPU: they open it by ASHLAR_CUDA_LIBRARY and see what the runtime,
// and Halide's runtime through it, ask of a driver. With ASHLAR_FAKE_CUDA_CAPABILITY=90, say, it takes every module and
// every launch and does nothing.
#pragma once

#include <cstdint>

extern "C" {

/// What the fake driver has been asked so far.
struct FakeCudaLog {
  int64_t live_allocations;
  int64_t live_bytes;
  int64_t live_host_allocations;  // page-locked
  int64_t live_streams;
  int64_t live_events;
  int64_t live_graphs;
  int64_t contexts_pushed;  // and not yet popped
  int64_t modules;
  int64_t register_caps;  // modules loaded with CU_JIT_MAX_REGISTERS
  int64_t launches;
  int64_t overlapping;    // launches that needn't wait for what is ahead of them
  int64_t raised_shared;  // cuFuncSetAttribute calls
  int64_t waits;          // of a stream for an event
  void* last_stream;
};

const FakeCudaLog* fake_cuda_log();

/// Has `watch` called with 1 when the driver begins to work and with -1 when it has done.
void fake_cuda_watch(void (*watch)(int change));

}  // extern "C"

/// Its memory, in bytes: beyond it cuMemAlloc returns CUDA_ERROR_OUT_OF_MEMORY.
inline constexpr int64_t kFakeCudaMemory = int64_t{64} << 20;

/// What "host_function" is given, by the address of one: a kernel, and what it is called with. Of the arguments behind
/// the user context, buffers are seen through their device handles, and scalars are eight bytes.
struct FakeCudaCall {
  int (*function)(void** arguments);
  int argument_count;
  void** arguments;
  const bool* is_buffer;
};
