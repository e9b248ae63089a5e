// Large OpenCL programs, built kernel by kernel: a call needs one kernel of the dozen that a program has for all
// shapes.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/opencl/driver.h"

namespace ashlar::detail::opencl {

/// The kernels of a program's text, as dsl/build/opencl_source.h writes it, each with all that stands before the first.
/// Empty where there is no kernel.
std::map<std::string, std::string, std::less<>> kernels_of(std::string_view source);

/// Stands for a cl_program in the hands of Halide's runtime, which only builds it and makes kernels of it.
class SplitProgram {
 public:
  /// False where the text is so short that it's built whole.
  static bool suits(std::string_view source) noexcept;
  /// Null where there's no memory. Freed only by a caller that couldn't set its options.
  static SplitProgram* make(cl_context context, std::string_view source) noexcept;
  /// Handles of drivers are addresses of something, so never odd.
  cl_program handle() noexcept { return reinterpret_cast<cl_program>(reinterpret_cast<uintptr_t>(this) | 1); }
  /// Null for a driver's own program.
  static SplitProgram* of(cl_program handle) noexcept;

  /// What the compiler will be told. False where there's no memory to note it.
  bool set_options(cl_device_id device, const char* options) noexcept;
  /// Builds the program of that kernel at its first call, or takes it from the cache; null with a status where that
  /// fails. `build` does the former.
  template <class Build>
  cl_program program_of(std::string_view kernel, Build build, cl_int* status) noexcept {
    const std::lock_guard lock(mutex_);
    const auto part = parts_.find(kernel);
    if (part == parts_.end()) return *status = CL_INVALID_KERNEL_NAME, nullptr;
    *status = CL_SUCCESS;
    if (part->second.program == nullptr) {
      part->second.program = build(context_, device_, part->second.source.c_str(), options_.c_str(), status);
    }
    return part->second.program;
  }

 private:
  struct Part {
    std::string source;
    cl_program program = nullptr;
  };
  // Halide's runtime passes handles from thread to thread under a lock of its own, which ThreadSanitizer can't see:
  // what a maker wrote is released here, and acquired by whoever looks a handle up.
  static inline std::atomic<unsigned> made_{0};

  cl_context context_ = nullptr;
  cl_device_id device_ = nullptr;
  std::string options_;
  std::mutex mutex_;
  std::map<std::string, Part, std::less<>> parts_;
};

}  // namespace ashlar::detail::opencl
