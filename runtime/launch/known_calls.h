// What the launch gate found out about a call's tensors, kept for calls whose tensors lie alike: such a call passes the
// same checks and gets the same compiled function.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "runtime/launch/kernel.h"
#include "runtime/launch/launch_checks.h"

namespace ashlar::detail {

/// All that checks and choices depend on, as numbers.
class CallNumbers {
 public:
  /// None where a tensor is undefined, there are too many numbers, or a choice is forced, replaced or logged.
  CallNumbers(const KernelInfo& kernel, KernelKey key, const CallArguments& arguments);

  std::span<const int64_t> span() const { return {numbers_.data(), count_}; }
  static constexpr size_t kMost = 64;

 private:
  void add(int64_t number);
  void add(const Tensor& x);

  std::array<int64_t, kMost> numbers_;
  size_t count_ = 0;
  bool is_whole_ = true;
};

/// The function for such a call, which passes all checks, has no scratch and is stored to where its outputs lie;
/// nullptr: not known. Each thread knows its own.
const KernelInstance* known_instance(const CallNumbers& call);
void keep_instance(const CallNumbers& call, const KernelInstance* instance);
/// For kernels whose tables change or give their place to others', as those of compiled ones never do: of this thread.
void forget_known_calls();

}  // namespace ashlar::detail
