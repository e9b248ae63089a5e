#include <atomic>

#include "runtime/support/environment.h"
#include "runtime/vendor/vendor.h"

namespace ashlar {
namespace {

VendorPolicy from_environment() {
  const std::string& wanted = detail::environment().vendor;
  return wanted == "always" ? VendorPolicy::always : wanted == "never" ? VendorPolicy::never : VendorPolicy::automatic;
}

std::atomic<VendorPolicy>& policy() {
  static std::atomic<VendorPolicy> value{from_environment()};
  return value;
}

}  // namespace

void set_vendor_policy(VendorPolicy chosen) { policy() = chosen; }

VendorPolicy vendor_policy() { return policy().load(std::memory_order_relaxed); }

bool is_vendors(const VendorCall& call, Device device) {
  const VendorRoutine* routine = call.kernel.vendor;
  if (routine == nullptr || routine->kind != device.kind) return false;
  const VendorPolicy policy = vendor_policy();
  return policy == VendorPolicy::always || (policy == VendorPolicy::automatic && routine->preferred(call));
}

}  // namespace ashlar
