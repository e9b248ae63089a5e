#include "runtime/launch/launch_context.h"

#include <algorithm>
#include <cstring>

namespace ashlar::detail {

void LaunchContext::record_error(const char* message) noexcept {
  int empty = 0;
  if (!error_state.compare_exchange_strong(empty, 1, std::memory_order_acq_rel)) return;
  size_t length = std::min(std::strlen(message), sizeof(error) - 1);
  while (length > 0 && (message[length - 1] == '\n' || message[length - 1] == '.')) --length;
  std::memcpy(error, message, length);
  error[length] = '\0';
  error_state.store(2, std::memory_order_release);
}

void LaunchContext::record_driver_failure(const char* call, int64_t status, bool memory) noexcept {
  if (failed_call != nullptr) return;
  failed_call = call;
  driver_status = status;
  out_of_memory = memory;
}

}  // namespace ashlar::detail
