#include "runtime/cuda/halide_entries.h"

#include <cstring>

#include "runtime/counter_cells.h"
#include "runtime/cuda/driver.h"
#include "runtime/environment.h"
#include "runtime/launch_context.h"

namespace ashlar::detail::cuda {
namespace {

constexpr int kMaxRegistersOption = 0;                 // CU_JIT_MAX_REGISTERS
constexpr int kDynamicSharedBytesAttribute = 8;        // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr unsigned int kSharedBytesForAll = 48 << 10;  // more has to be asked for
constexpr unsigned int kMostOptions = 16;

Result note(const char* name, Result status) noexcept {
  if (status != kSuccess && active_launch != nullptr) {
    active_launch->record_driver_failure(name, status, status == kOutOfMemory);
  }
  return status;
}

/// Halide caps every kernel at 64 registers, which costs some up to 20 times their speed. All options but that pass.
Result load_module(Module* module, const void* image, unsigned int option_count, int* options, void** values) noexcept {
  int kept_options[kMostOptions];
  void* kept_values[kMostOptions];
  unsigned int kept = 0;
  for (unsigned int i = 0; i < option_count && kept < kMostOptions; ++i) {
    if (options[i] == kMaxRegistersOption) continue;
    kept_options[kept] = options[i];
    kept_values[kept++] = values[i];
  }
  const Result status =
      note("cuModuleLoadDataEx", call(api()->module_load, module, image, kept, &kept_options[0], &kept_values[0]));
  if (status == kSuccess) {
    count(counter_cells(DeviceKind::cuda).modules_loaded);
    log("loaded a CUDA module");
  }
  return status;
}

Result get_function(Function* function, Module module, const char* name) noexcept {
  return note("cuModuleGetFunction", call(api()->module_get_function, function, module, name));
}

Result push_context(Context context) noexcept { return note("cuCtxPushCurrent", call(api()->push_context, context)); }

Result launch_kernel(Function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                     unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                     Queue stream, void** parameters, void** extra) noexcept {
  Result status = kSuccess;
  if (shared_bytes > kSharedBytesForAll) {
    status = note("cuFuncSetAttribute", call(api()->function_set_attribute, function, kDynamicSharedBytesAttribute,
                                             static_cast<int>(shared_bytes)));
    if (status != kSuccess) return status;
  }
  status = note("cuLaunchKernel", call(api()->launch_kernel, function, grid_x, grid_y, grid_z, block_x, block_y,
                                       block_z, shared_bytes, stream, parameters, extra));
  if (status == kSuccess) {
    count(counter_cells(DeviceKind::cuda).launches);
    if (active_launch != nullptr) ++active_launch->driver_launches;
  }
  return status;
}

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

/// Halide unloads modules only while the process ends, when the driver may already be gone. The process's end unloads
/// them as well.
Result keep_module(Module) noexcept { return kSuccess; }

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
      entry("cuModuleLoadDataEx", &load_module),
      entry("cuModuleUnload", &keep_module),
      entry("cuModuleGetFunction", &get_function),
      entry("cuCtxPushCurrent_v2", &push_context),
      entry("cuLaunchKernel", &launch_kernel),
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
