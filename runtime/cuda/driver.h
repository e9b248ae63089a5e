// The CUDA driver library, opened at run time: nothing links it, no CUDA header is needed, and its absence is an
// ordinary state. Declarations follow NVIDIA's public driver interface (version 10 and later, the _v2 entry points).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "runtime/support/fault.h"

namespace ashlar::detail::cuda {

using Result = int;  // CUresult
using DeviceId = int;
using DevicePointer = uint64_t;
using Context = struct ContextHandle*;
using Queue = struct QueueHandle*;  // CUstream
using Event = struct EventHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using DriverGraphHandle = struct GraphHandle*;
using ExecutableGraph = struct ExecutableGraphHandle*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kInvalidImage = 200;
inline constexpr Result kNotPermitted = 800;
inline constexpr Result kUnknown = 999;
inline constexpr unsigned int kNonBlockingStream = 1;
inline constexpr unsigned int kEventWithoutTiming = 2;
/// CU_MEMHOSTALLOC_PORTABLE: page-locked for all contexts.
inline constexpr unsigned int kPortableHostMemory = 1;
/// CU_STREAM_CAPTURE_MODE_RELAXED: memory may be allocated and modules loaded meanwhile.
inline constexpr int kRelaxedCapture = 2;

/// CUDA_MEMCPY2D. Memory types: 1 host, 2 device.
struct Copy2D {
  size_t source_x = 0, source_y = 0;
  unsigned int source_type = 2;
  const void* source_host = nullptr;
  DevicePointer source_device = 0;
  void* source_array = nullptr;
  size_t source_pitch = 0;
  size_t destination_x = 0, destination_y = 0;
  unsigned int destination_type = 2;
  void* destination_host = nullptr;
  DevicePointer destination_device = 0;
  void* destination_array = nullptr;
  size_t destination_pitch = 0;
  size_t width_bytes = 0, height = 0;
};

/// CUlaunchAttribute with an integer as its value, and CUlaunchConfig.
struct alignas(8) LaunchAttribute {
  int id;
  int padding = 0;
  int value;
  int unused[15] = {};
};
struct LaunchConfiguration {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
  Queue stream;
  const LaunchAttribute* attributes;
  unsigned int attribute_count;
};

/// The entry points that the library itself uses or stands in front of.
struct Api {
  Result (*init)(unsigned int flags);
  Result (*driver_get_version)(int* version);
  Result (*get_error_name)(Result status, const char** name);
  Result (*device_get_count)(int* count);
  Result (*device_get)(DeviceId* device, int ordinal);
  Result (*device_get_name)(char* name, int length, DeviceId device);
  Result (*primary_context_retain)(Context* context, DeviceId device);
  Result (*push_context)(Context context);
  Result (*pop_context)(Context* context);
  Result (*stream_create)(Queue* stream, unsigned int flags);
  Result (*stream_destroy)(Queue stream);
  Result (*stream_synchronize)(Queue stream);
  Result (*stream_wait_event)(Queue stream, Event event, unsigned int flags);
  Result (*event_create)(Event* event, unsigned int flags);
  Result (*event_record)(Event event, Queue stream);
  Result (*event_destroy)(Event event);
  Result (*memory_allocate)(DevicePointer* pointer, size_t bytes);
  Result (*memory_free)(DevicePointer pointer);
  Result (*host_allocate)(void** memory, size_t bytes, unsigned int flags);
  Result (*host_free)(void* memory);
  Result (*copy_to_device)(DevicePointer destination, const void* source, size_t bytes, Queue stream);
  Result (*copy_to_host)(void* destination, DevicePointer source, size_t bytes, Queue stream);
  Result (*copy_on_device)(DevicePointer destination, DevicePointer source, size_t bytes, Queue stream);
  Result (*copy_2d)(const Copy2D* copy, Queue stream);
  Result (*module_load)(Module* module, const void* image, unsigned int count, int* options, void** values);
  Result (*module_get_function)(Function* function, Module module, const char* name);
  Result (*function_set_attribute)(Function function, int attribute, int value);
  Result (*launch_kernel)(Function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                          Queue stream, void** parameters, void** extra);
  /// Null in drivers before 11.8; the next two come with it.
  Result (*launch_with)(const LaunchConfiguration* configuration, Function function, void** parameters, void** extra);
  Result (*function_get_attribute)(int* value, int attribute, Function function);
  Result (*resident_blocks)(int* count, Function function, int threads, size_t shared_bytes);
  Result (*begin_capture)(Queue stream, int mode);
  Result (*end_capture)(Queue stream, DriverGraphHandle* graph);
  Result (*graph_instantiate)(ExecutableGraph* executable, DriverGraphHandle graph, unsigned long long flags);
  Result (*graph_launch)(ExecutableGraph executable, Queue stream);
  Result (*graph_destroy)(DriverGraphHandle graph);
  Result (*executable_destroy)(ExecutableGraph executable);
};

/// Null when the library isn't there, lacks one of them, or finds no device. Never throws.
const Api* api() noexcept;
/// Any entry point of the library by name; null when it isn't there.
void* symbol(const char* name) noexcept;

/// "CUDA_ERROR_OUT_OF_MEMORY" and the like.
const char* name_of_status(Result status) noexcept;
/// Throws DriverError unless the status is success; `call` is the driver function's name.
void check(const char* call, Result status);

/// A driver call that a planted fault can make fail.
template <class... Parameters, class... Arguments>
Result call(Result (*function)(Parameters...), Arguments... arguments) {
  if (fault::strikes(FaultSite::driver_call)) return kUnknown;
  return function(arguments...);
}

/// Makes a context current for a scope. Throws DriverError, or keeps the status where it mustn't throw.
class ContextScope {
 public:
  explicit ContextScope(Context context) : ContextScope(context, std::nothrow_t()) {
    check("cuCtxPushCurrent", status_);
  }
  ContextScope(Context context, std::nothrow_t) noexcept : status_(call(api()->push_context, context)) {}
  ~ContextScope() {
    Context popped;
    if (status_ == kSuccess) api()->pop_context(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  Result status() const { return status_; }

 private:
  Result status_;
};

}  // namespace ashlar::detail::cuda
