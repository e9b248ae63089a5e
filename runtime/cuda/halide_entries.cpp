#include "runtime/cuda/halide_entries.h"

#include <cstring>

#include "runtime/cuda/driver.h"
#include "runtime/launch/launch_context.h"

namespace ashlar::detail::cuda {
namespace {

Result refuse_allocation(DevicePointer*, size_t) noexcept {
  if (active_launch != nullptr) active_launch->record_error(kAllocationInKernel);
  return kNotPermitted;
}

Result refuse_copy() noexcept {
  if (active_launch != nullptr) active_launch->record_error(kCopyInKernel);
  return kNotPermitted;
}

Result refuse_copy_to_device(DevicePointer, const void*, size_t) noexcept { return refuse_copy(); }
Result refuse_copy_to_host(void*, DevicePointer, size_t) noexcept { return refuse_copy(); }
Result refuse_copy_on_device(DevicePointer, DevicePointer, size_t) noexcept { return refuse_copy(); }
Result refuse_copy_to_device_async(DevicePointer, const void*, size_t, Queue) noexcept { return refuse_copy(); }
Result refuse_copy_to_host_async(void*, DevicePointer, size_t, Queue) noexcept { return refuse_copy(); }
Result refuse_copy_on_device_async(DevicePointer, DevicePointer, size_t, Queue) noexcept { return refuse_copy(); }
Result refuse_copy_3d(const void*) noexcept { return refuse_copy(); }

struct Entry {
  const char* name;
  void* function;
};

template <class Target>
Entry entry(const char* name, Target* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

void* halide_entry(const char* name) noexcept {
  if (api() == nullptr) return nullptr;
  static const Entry entries[] = {
      entry("cuMemAlloc_v2", &refuse_allocation),
      entry("cuMemcpyHtoD_v2", &refuse_copy_to_device),
      entry("cuMemcpyDtoH_v2", &refuse_copy_to_host),
      entry("cuMemcpyDtoD_v2", &refuse_copy_on_device),
      entry("cuMemcpyHtoDAsync_v2", &refuse_copy_to_device_async),
      entry("cuMemcpyDtoHAsync_v2", &refuse_copy_to_host_async),
      entry("cuMemcpyDtoDAsync_v2", &refuse_copy_on_device_async),
      entry("cuMemcpy3D_v2", &refuse_copy_3d),
  };
  for (const Entry& e : entries) {
    if (std::strcmp(e.name, name) == 0) return e.function;
  }
  return symbol(name);
}

}  // namespace ashlar::detail::cuda
