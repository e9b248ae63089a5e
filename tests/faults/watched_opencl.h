// A library in front of the real OpenCL loader, opened by ASHLAR_OPENCL_LIBRARY: it counts the handles that a program
// holds, and tells a test when a driver is at work, whose memory isn't the program's.
#pragma once

#include <cstdint>

extern "C" {

/// Made and not yet released.
struct WatchedOpenClHandles {
  int64_t contexts, queues, buffers, programs, kernels, events;
};

WatchedOpenClHandles watched_opencl_handles();

/// Has `watch` called with 1 when a driver begins to work and with -1 when it has done.
void watched_opencl_watch(void (*watch)(int change));

/// Has the next builds of programs fail, so many of them.
void watched_opencl_fail_builds(int count);

}  // extern "C"
