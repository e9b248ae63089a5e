// Loading and launching CUDA kernels. Halide's runtime would lock, allocate and look a function up by name for every
// launch; its three functions that do so are replaced (runtime/launch/halide_hooks.cpp) by these.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "runtime/cuda/driver.h"
#include "runtime/launch/launch_context.h"

namespace ashlar::detail::cuda {

/// Grid, block and dynamic shared memory of a launch.
struct LaunchSize {
  int blocks[3];
  int threads[3];
  int shared_bytes;
};

/// The GPU code of one compiled function: a container of machine code and PTX, of which the driver picks what its GPU
/// runs. Loaded once for each device, at the first launch there, and kept until the process ends.
class KernelModule {
 public:
  explicit KernelModule(const void* image) : image_(image) {}

  /// The driver's handle of the GPU function `name`, a string that lives as long as the process. Its address is what
  /// is compared: the name stands once in the compiled object. Null on failure, which `launch` then tells.
  struct Entry;
  Entry* entry(const char* name, LaunchContext& launch) noexcept;

 private:
  struct Loaded {
    Module module = nullptr;
    std::atomic<Entry*> entries{nullptr};  // only ever grows at its front
  };
  Loaded* load(LaunchContext& launch) noexcept;

  static constexpr int kMostDevices = 64;
  const void* image_;
  std::atomic<Loaded*> loaded_[kMostDevices] = {};
  std::mutex loading_;
};

/// The module behind `*slot`, a variable of the compiled object that starts as null. Null without memory.
KernelModule* module_of(void** slot, const void* image) noexcept;

/// Launches on the launch's stream. `sizes` ends with 0; a buffer argument is a halide_buffer_t, whose device pointer
/// the kernel gets, any other the address of its value. Returns one of Halide's error codes.
int launch_function(KernelModule& module, const char* name, const LaunchSize& size, const size_t* sizes,
                    void** arguments, const int8_t* is_buffer, LaunchContext& launch) noexcept;

}  // namespace ashlar::detail::cuda
