#include "runtime/launch/halide_hooks.h"

#include <HalideRuntime.h>
#include <HalideRuntimeOpenCL.h>

#include <cstring>

#include "runtime/cpu/scratch.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/halide_entries.h"
#include "runtime/cuda/kernel_module.h"
#include "runtime/device/stream_state.h"
#include "runtime/launch/launch_context.h"
#include "runtime/opencl/halide_entries.h"
#include "runtime/opencl/opencl_device.h"
#include "runtime/support/environment.h"

// Every function here may be called with a null user context: Halide cleans up at process exit, and so do we. Nothing
// here throws: Halide's frames between us and the gate have no unwinding.
namespace {

using ashlar::detail::LaunchContext;

LaunchContext* context_of(void* user_context) noexcept { return static_cast<LaunchContext*>(user_context); }

template <class Fact>
int of_device_of_call(Fact fact) noexcept {
  const LaunchContext* launch = ashlar::detail::active_launch;
  return launch == nullptr ? 0 : static_cast<int>(fact(launch->device.index));
}

}  // namespace

extern "C" {

void* halide_malloc(void*, size_t bytes) { return ashlar::detail::allocate_scratch(bytes); }

void halide_free(void*, void* pointer) { ashlar::detail::free_scratch(pointer); }

int halide_do_par_for(void* user_context, halide_task_t task, int min, int size, uint8_t* closure) {
  return ashlar::detail::ThreadPool::instance().run(user_context, task, min, size, closure);
}

void halide_error(void* user_context, const char* message) {
  if (user_context != nullptr) {
    context_of(user_context)->record_error(message);
  } else {
    ashlar::detail::log(message);
  }
}

void halide_print(void*, const char* message) { ashlar::detail::log(message); }

// A compiled GPU function asks for each argument to be on the device. It is, always (runtime/launch/bind.h); Halide's
// own would take a lock shared by all devices to find that out.
int halide_copy_to_device(void* user_context, halide_buffer_t* buffer, const halide_device_interface_t* wanted) {
  if (buffer->device != 0 && !buffer->host_dirty() && buffer->device_interface == wanted) {
    return halide_error_code_success;
  }
  halide_error(user_context, buffer->device == 0 ? ashlar::detail::kAllocationInKernel : ashlar::detail::kCopyInKernel);
  return halide_error_code_copy_to_device_failed;
}

void* halide_cuda_get_symbol(void*, const char* name) { return ashlar::detail::cuda::halide_entry(name); }

int halide_cuda_acquire_context(void* user_context, void** context, bool) {
  *context = user_context ? context_of(user_context)->stream->native_context() : nullptr;
  return halide_error_code_success;
}

int halide_cuda_release_context(void*) { return halide_error_code_success; }

int halide_cuda_get_stream(void* user_context, void*, void** stream) {
  *stream = user_context ? context_of(user_context)->stream->native_queue() : nullptr;
  return halide_error_code_success;
}

// What a compiled function calls to load and launch its GPU functions.
int halide_cuda_initialize_kernels(void*, void** state, const char* image, int) {
  return ashlar::detail::cuda::module_of(state, image) ? halide_error_code_success : halide_error_code_out_of_memory;
}

void halide_cuda_finalize_kernels(void*, void*) {}  // modules stay loaded

int halide_cuda_run(void* user_context, void* state, const char* entry, int blocks_x, int blocks_y, int blocks_z,
                    int threads_x, int threads_y, int threads_z, int shared_bytes, size_t sizes[], void* arguments[],
                    int8_t is_buffer[]) {
  using namespace ashlar::detail::cuda;
  return launch_function(*static_cast<KernelModule*>(state), entry,
                         {{blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared_bytes}, sizes,
                         arguments, is_buffer, *context_of(user_context));
}

void* halide_opencl_get_symbol(void*, const char* name) { return ashlar::detail::opencl::halide_entry(name); }

/// Nothing but what follows from the device: a program kept on disk was built with the same.
const char* halide_opencl_get_build_options(void* user_context) {
  return user_context ? ashlar::detail::opencl_build_options(context_of(user_context)->device.index) : "";
}

int halide_acquire_cl_context(void* user_context, void** context, void** queue, bool) {
  *context = user_context ? context_of(user_context)->stream->native_context() : nullptr;
  *queue = user_context ? context_of(user_context)->stream->native_queue() : nullptr;
  return halide_error_code_success;
}

int halide_release_cl_context(void*) { return halide_error_code_success; }

// What kernels ask about the device of their call: dsl/device_facts.h.
int ashlar_cuda_shared_bytes() { return of_device_of_call(ashlar::detail::cuda_shared_bytes); }
int ashlar_cuda_clusters() { return of_device_of_call(ashlar::detail::cuda_has_clusters); }
int ashlar_opencl_local_bytes() { return of_device_of_call(ashlar::detail::opencl_local_bytes); }
int ashlar_opencl_group_threads() { return of_device_of_call(ashlar::detail::opencl_group_threads); }

}  // extern "C"

namespace ashlar::detail {

void require_hooks() noexcept {}

bool hooks_active() noexcept {
  LaunchContext probe;
  halide_buffer_t nowhere{};
  const int code = halide_device_sync(&probe, &nowhere);  // a buffer without a device: an error
  return code != 0 && *probe.message() != '\0';
}

void load_halide_opencl() noexcept {
  // Without a user context it gets no queue and gives up, but only after it has loaded its entry points.
  halide_device_sync_global(nullptr, halide_opencl_device_interface());
}

}  // namespace ashlar::detail
