// Calls that can't run straight into their outputs: unaligned outputs on a GPU, and calls that fall back to the CPU.
#pragma once

#include <vector>

#include "runtime/launch/launch_checks.h"

namespace ashlar::detail {

/// Where a device can't store to an output in place (output_is_aligned), or where a stored-to part of a buffer would
/// stand beside an input on the same one (OpenCL leaves that undefined), the kernel writes to a dense temporary, which
/// is then copied. One of these per call; it does nothing unless needed().
class OutputDetour {
 public:
  explicit OutputDetour(const CallArguments& arguments);

  bool needed() const { return needed_; }
  std::span<const Tensor> outputs() const { return redirected_; }
  /// Copies the temporaries to where they belong.
  void store() const;

 private:
  std::span<const Tensor> original_;
  std::vector<Tensor> redirected_;
  bool needed_ = false;
};

/// Copies the inputs to the CPU, runs the kernel there, copies the outputs back, counts a fallback.
void run_on_cpu_instead(const KernelInfo& kernel, KernelKey key, const CallArguments& arguments);

}  // namespace ashlar::detail
