// Vendor libraries as schedules: a kernel may name a routine of a vendor's library that computes the same. The library
// is opened at run time; without it, or for a call that it can't do, the kernel's own code runs.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/launch/kernel.h"
#include "runtime/launch/launch.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// Who computes a call that a vendor's library also could.
enum class VendorPolicy : uint8_t {
  automatic,  ///< the library where the routine says it is quicker (VendorRoutine::preferred), else our kernel
  never,      ///< our kernel
  always,     ///< the library wherever it can
};
/// For all threads. The start value is that of the environment variable ASHLAR_VENDOR: auto, never or always.
void set_vendor_policy(VendorPolicy policy);
VendorPolicy vendor_policy();

/// One call as a vendor's routine sees it: the tensors of launch(), in canonical form; or those that an operator
/// written by hand asks about.
struct VendorCall {
  const KernelInfo& kernel;
  KernelKey key;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  bool allow_tf32 = false;       ///< factors may be rounded to TF32's 10 bits of fraction
  double our_microseconds = -1;  ///< what our own way takes by its model; -1: what the kernel's plan does
  std::span<const Scalar> scalars = {};
};

struct VendorRoutine {
  const char* name;  ///< "cublaslt_matmul"
  DeviceKind kind;   ///< where it runs
  /// Whether it is expected to be quicker than our kernel.
  bool (*preferred)(const VendorCall& call);
  /// Queues the call on the current stream of the tensors' device. False: it can't do this one, and has done nothing.
  /// Throws DriverError, OutOfMemory.
  bool (*run)(const VendorCall& call);
};

namespace vendor {
/// y[b] = activation(a[b] · b[b] + bias) by cuBLASLt (NVIDIA's cuBLAS manual, chapter "Using the cuBLASLt API"): f32,
/// TF32, f16 and bf16 factors, f32 sums, bias and ReLU fused.
extern const VendorRoutine cublaslt_matmul;
/// A convolution of images [n, c, h, w] and taps [o, c / groups, kh, kw] and its gradients by cuDNN (NVIDIA's cuDNN
/// manual, chapter "Backend API"), in strict f32 and by its deterministic engines alone. Inputs x and weight,
/// dy and weight, or dy and x; scalars as Window::scalars() (operators/window.h) and the number of groups.
extern const VendorRoutine cudnn_convolution, cudnn_convolution_input, cudnn_convolution_weight;
}  // namespace vendor

/// Whether the vendor's library shall compute a call, by the policy and, where that leaves it open, by what is quicker.
bool is_vendors(const VendorCall& call, Device device);

/// Lets the vendor's library compute a call of a kernel that has a routine for its device. False: it can't, and nothing
/// was done.
bool run_by_vendor(const VendorCall& call);

}  // namespace ashlar
