#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <string>

#include "runtime/support/environment.h"
#include "runtime/support/error.h"

namespace ashlar::detail::cuda {
namespace {

void* library() noexcept {
  static void* const handle = dlopen(environment().cuda_library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle;
}

template <class Entry>
bool load(Entry& entry, const char* name) noexcept {
  entry = reinterpret_cast<Entry>(symbol(name));
  return entry != nullptr;
}

const Api* load_api() noexcept {
  static Api a;
  const bool complete =
      load(a.init, "cuInit") && load(a.driver_get_version, "cuDriverGetVersion") &&
      load(a.get_error_name, "cuGetErrorName") && load(a.device_get_count, "cuDeviceGetCount") &&
      load(a.device_get, "cuDeviceGet") && load(a.device_get_name, "cuDeviceGetName") &&
      load(a.primary_context_retain, "cuDevicePrimaryCtxRetain") && load(a.push_context, "cuCtxPushCurrent_v2") &&
      load(a.pop_context, "cuCtxPopCurrent_v2") && load(a.stream_create, "cuStreamCreate") &&
      load(a.stream_destroy, "cuStreamDestroy_v2") && load(a.stream_synchronize, "cuStreamSynchronize") &&
      load(a.stream_wait_event, "cuStreamWaitEvent") && load(a.event_create, "cuEventCreate") &&
      load(a.event_record, "cuEventRecord") && load(a.event_destroy, "cuEventDestroy_v2") &&
      load(a.memory_allocate, "cuMemAlloc_v2") && load(a.memory_free, "cuMemFree_v2") &&
      load(a.host_allocate, "cuMemHostAlloc") && load(a.host_free, "cuMemFreeHost") &&
      load(a.copy_to_device, "cuMemcpyHtoDAsync_v2") && load(a.copy_to_host, "cuMemcpyDtoHAsync_v2") &&
      load(a.copy_on_device, "cuMemcpyDtoDAsync_v2") && load(a.copy_2d, "cuMemcpy2DAsync_v2") &&
      load(a.module_load, "cuModuleLoadDataEx") && load(a.module_get_function, "cuModuleGetFunction") &&
      load(a.function_set_attribute, "cuFuncSetAttribute") && load(a.launch_kernel, "cuLaunchKernel") &&
      load(a.begin_capture, "cuStreamBeginCapture_v2") && load(a.end_capture, "cuStreamEndCapture") &&
      load(a.graph_instantiate, "cuGraphInstantiateWithFlags") && load(a.graph_launch, "cuGraphLaunch") &&
      load(a.graph_destroy, "cuGraphDestroy") && load(a.executable_destroy, "cuGraphExecDestroy");
  if (!load(a.function_get_attribute, "cuFuncGetAttribute") || !load(a.launch_with, "cuLaunchKernelEx") ||
      !load(a.resident_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor")) {
    a.launch_with = nullptr;
  }
  return complete && a.init(0) == kSuccess ? &a : nullptr;
}

}  // namespace

void* symbol(const char* name) noexcept { return library() ? dlsym(library(), name) : nullptr; }

const Api* api() noexcept {
  static const Api* const loaded = load_api();
  return loaded;
}

const char* name_of_status(Result status) noexcept {
  const char* name = nullptr;
  if (const Api* a = api()) a->get_error_name(status, &name);
  return name ? name : "a CUDA error";
}

void check(const char* call, Result status) {
  if (status == kSuccess) return;
  throw DriverError(call, std::string(name_of_status(status)) + " (" + std::to_string(status) + ")", "CUDA_SUCCESS",
                    "Set ASHLAR_LOG=1 to see what was done before");
}

}  // namespace ashlar::detail::cuda
