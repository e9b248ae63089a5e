// The gate between tensors and compiled kernels: finds the instance, checks, binds, calls, reports.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/launch/kernel.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// The most elements that one kernel argument may have. Halide counts in 32 bits, and rounds extents up to whole tiles,
/// which take less than 2^20: beyond this, loops would run from 0 to a negative number, that is, do nothing.
inline constexpr int64_t kMostElements = (int64_t{1} << 31) - (1 << 20);

/// A scalar argument, held wide; the gate narrows it to what the kernel declares.
struct Scalar {
  double real = 0;
  int64_t integer = 0;
  Scalar(double value) : real(value), integer(static_cast<int64_t>(value)) {}
  Scalar(float value) : Scalar(static_cast<double>(value)) {}
  Scalar(int64_t value) : real(static_cast<double>(value)), integer(value) {}
  Scalar(int value) : Scalar(static_cast<int64_t>(value)) {}
};

/// How exactly a call has to compute.
struct Precision {
  bool allow_tf32 = false;  ///< f32 factors may be rounded to TF32 (10 bits of fraction) where that is quicker
};

/// Runs one instance of `kernel` on the current stream of the tensors' device. Inputs, scalars and outputs stand in
/// the order of the kernel's arguments of that role, already in canonical form: ranks as declared, inputs with any
/// non-negative strides (the innermost 1 unless the argument is_strided), outputs with innermost stride 1. Scratch is
/// taken from the pool. Outputs get their version bumped. Does nothing when every output is empty. A captured call
/// (runtime/graph/graph.h) refers to `kernel` and its tables.
///
/// Throws DeviceError (mixed devices), DTypeError (a tensor's dtype isn't the instance's), MissingKernel,
/// ShapeError (rank, stride, or over kMostElements in one argument), OutOfMemory, DriverError, KernelError.
void launch(const KernelInfo& kernel, KernelKey key, std::span<const Tensor> inputs, std::span<const Scalar> scalars,
            std::span<const Tensor> outputs, Precision precision = {});

/// True when `kernel` has this instance for the device's kind of processor (and this CPU's features).
bool has_instance(const KernelInfo& kernel, KernelKey key, DeviceKind kind);

/// Makes every launch of the process use the n-th setting of its instance's tunables and plans where that is compiled
/// and can serve the call, and the default (0) where it isn't or can't; -1, as at the start: by the tuned tables.
/// Returns what held before. For tests and tuners.
int set_forced_setting(int setting);

/// A function in the place of one compiled instance's: what a tuner wants to see called through a kernel's public
/// functions.
struct Replacement {
  std::string kernel;
  uint32_t key = 0;  ///< KernelKey::packed()
  KernelInstance instance;
};
/// From now on the calls of the process that would run that instance, on whatever device, run the replacement's
/// function while a setting is forced, one with a plan_index those that the plan can serve; nullptr, as at the start:
/// none do. The replacement must outlive its use.
void set_replacement(const Replacement* replacement);

/// Told of every call of a compiled kernel just before it, on the calling thread. For tests that ask what was reached.
using LaunchObserver = void (*)(const KernelInfo& kernel, const KernelInstance& instance);
/// Replaces the observer of all threads and returns the old one; null, the default, is none.
LaunchObserver set_launch_observer(LaunchObserver observer);

/// Told of every GPU function that a compiled kernel is about to launch, on the calling thread: one of the instance's
/// device_functions, by a string that lives for the call alone. It must not throw.
using DeviceFunctionObserver = void (*)(const KernelInstance& instance, const char* function) noexcept;
/// Replaces that observer in the same way.
DeviceFunctionObserver set_device_function_observer(DeviceFunctionObserver observer);

}  // namespace ashlar
