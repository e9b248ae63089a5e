// The kernels of one generator executable.
#pragma once

#include <memory>

#include "dsl/descriptor.h"

namespace ashlar::dsl {

/// What the generators' main sees of a kernel object.
class DescribedKernel {
 public:
  virtual ~DescribedKernel() = default;
  virtual Descriptor& descriptor() = 0;
  virtual Halide::Internal::AbstractGenerator& generator() = 0;
};

/// One combination of element types of a kernel.
struct Instance {
  std::vector<DType> elements;
  std::function<std::unique_ptr<DescribedKernel>(const Halide::GeneratorContext&)> create;
};

/// What is known of an operator written by hand (dsl/operator.h).
struct ByHand {
  std::shared_ptr<const Descriptor> descriptor;
  std::shared_ptr<const void> keeps;  ///< what the descriptor refers to
};

/// A kernel, or an operator written by hand, whose instances only say for which element types it is.
struct KernelEntry {
  std::string name;
  std::vector<Instance> instances;
  ByHand by_hand = {};

  bool is_by_hand() const { return by_hand.descriptor != nullptr; }
};

/// All kernels registered so far, in order.
std::vector<KernelEntry>& kernels();

/// Adds one. A name that is taken or can't be C++ is told by check_kernels(): a constant at namespace scope has nobody
/// to catch what it throws.
bool add_kernel(KernelEntry entry);

/// Throws Halide::CompileError where no kernel is registered or add_kernel() found a mistake.
void check_kernels();

}  // namespace ashlar::dsl
