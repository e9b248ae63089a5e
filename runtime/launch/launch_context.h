// LaunchContext: what one kernel call tells Halide's runtime, and what that tells back. Passed as `user_context`.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/device/device.h"
#include "runtime/launch/kernel.h"
#include "runtime/support/trace.h"

namespace ashlar::detail {

class StreamState;

/// runtime/launch/launch.h's DeviceFunctionObserver.
inline std::atomic<void (*)(const KernelInstance& instance, const char* function) noexcept> device_function_observer{
    nullptr};

struct LaunchContext {
  Device device;
  StreamState* stream = nullptr;
  const KernelInstance* instance = nullptr;

  // ---- told back ----
  /// 0 empty, 1 being written, 2 written: pieces of a parallel loop may fail at the same time, the first one counts.
  std::atomic<int> error_state{0};
  char error[1024];  // written by Halide's handlers, which must not throw: no std::string
  /// The first driver call that failed, and what it returned; null while all went well.
  const char* failed_call = nullptr;
  int64_t driver_status = 0;
  bool out_of_memory = false;
  /// Kernels that the driver has accepted in this call.
  int driver_launches = 0;
  /// A cl_kernel that Halide's runtime has made and not yet released, and a cl_program that didn't build: it forgets
  /// them on errors, and the gate releases them.
  void* unreleased_kernel = nullptr;
  void* unreleased_program = nullptr;

  /// Keeps the first message.
  void record_error(const char* message) noexcept;
  void record_driver_failure(const char* call, int64_t status, bool memory) noexcept;
  /// A GPU function of the instance is about to be launched.
  void tell_observer(const char* function) const noexcept {
    const TraceSpan at_this_moment("launch", function);
    const auto observer = device_function_observer.load(std::memory_order_relaxed);
    if (observer != nullptr && instance != nullptr) observer(*instance, function);
  }
  const char* message() const noexcept { return error_state.load(std::memory_order_acquire) == 2 ? error : ""; }
};

inline constexpr char kAllocationInKernel[] = "the kernel tried to allocate device memory; declare it as Scratch";
inline constexpr char kCopyInKernel[] =
    "the kernel tried to copy between host and device; compute that stage on the GPU";

/// The kernel call that the calling thread is in the middle of on a GPU, or null. For driver functions, which aren't
/// given the user context.
inline thread_local LaunchContext* active_launch = nullptr;

}  // namespace ashlar::detail
