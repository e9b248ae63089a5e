#include "tests/faults/watched_opencl.h"

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <dlfcn.h>

#include <atomic>

namespace {

void (*watch)(int change) = nullptr;
int builds_to_fail = 0;

/// The function of that name in the library behind this one, while the test knows that a driver is at work.
template <auto kFunction, class... Arguments>
auto call(const char* name, Arguments... arguments) {
  static auto* const next = reinterpret_cast<decltype(kFunction)>(dlsym(RTLD_NEXT, name));
  struct AtWork {
    AtWork() {
      if (watch) watch(1);
    }
    ~AtWork() {
      if (watch) watch(-1);
    }
  } const at_work;
  return next(arguments...);
}

std::atomic<int64_t> contexts{0}, queues{0}, buffers{0}, programs{0}, kernels{0}, events{0};

template <class Handle>
Handle made(Handle handle, std::atomic<int64_t>& live) {
  live += handle != nullptr;
  return handle;
}

cl_int gone(cl_int status, std::atomic<int64_t>& live) {
  live -= status == CL_SUCCESS;
  return status;
}

cl_int with_event(cl_int status, const cl_event* event) {
  events += status == CL_SUCCESS && event != nullptr;
  return status;
}

}  // namespace

extern "C" {

WatchedOpenClHandles watched_opencl_handles() { return {contexts, queues, buffers, programs, kernels, events}; }
void watched_opencl_watch(void (*chosen)(int change)) { watch = chosen; }
void watched_opencl_fail_builds(int count) { builds_to_fail = count; }

// ---- what makes and releases handles
cl_context clCreateContext(const cl_context_properties* properties, cl_uint count, const cl_device_id* devices,
                           void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*), void* data,
                           cl_int* status) {
  return made(call<&clCreateContext>("clCreateContext", properties, count, devices, notify, data, status), contexts);
}
cl_int clReleaseContext(cl_context context) {
  return gone(call<&clReleaseContext>("clReleaseContext", context), contexts);
}
cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                                      cl_int* status) {
  return made(call<&clCreateCommandQueue>("clCreateCommandQueue", context, device, properties, status), queues);
}
cl_int clReleaseCommandQueue(cl_command_queue queue) {
  return gone(call<&clReleaseCommandQueue>("clReleaseCommandQueue", queue), queues);
}
cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* host, cl_int* status) {
  return made(call<&clCreateBuffer>("clCreateBuffer", context, flags, bytes, host, status), buffers);
}
cl_mem clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type, const void* region,
                         cl_int* status) {
  return made(call<&clCreateSubBuffer>("clCreateSubBuffer", buffer, flags, type, region, status), buffers);
}
cl_int clReleaseMemObject(cl_mem buffer) {
  return gone(call<&clReleaseMemObject>("clReleaseMemObject", buffer), buffers);
}
cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char** sources, const size_t* lengths,
                                     cl_int* status) {
  return made(call<&clCreateProgramWithSource>("clCreateProgramWithSource", context, count, sources, lengths, status),
              programs);
}
cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id* devices,
                                     const size_t* lengths, const unsigned char** binaries, cl_int* loaded,
                                     cl_int* status) {
  return made(call<&clCreateProgramWithBinary>("clCreateProgramWithBinary", context, count, devices, lengths, binaries,
                                               loaded, status),
              programs);
}
cl_int clReleaseProgram(cl_program program) {
  return gone(call<&clReleaseProgram>("clReleaseProgram", program), programs);
}
cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* status) {
  return made(call<&clCreateKernel>("clCreateKernel", program, name, status), kernels);
}
cl_int clReleaseKernel(cl_kernel kernel) { return gone(call<&clReleaseKernel>("clReleaseKernel", kernel), kernels); }
cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event* list, cl_event* event) {
  return with_event(call<&clEnqueueMarkerWithWaitList>("clEnqueueMarkerWithWaitList", queue, count, list, event),
                    event);
}
cl_int clReleaseEvent(cl_event event) { return gone(call<&clReleaseEvent>("clReleaseEvent", event), events); }

// ---- what else takes the host's memory
cl_int clGetPlatformIDs(cl_uint count, cl_platform_id* platforms, cl_uint* found) {
  return call<&clGetPlatformIDs>("clGetPlatformIDs", count, platforms, found);
}
cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint count, cl_device_id* devices,
                      cl_uint* found) {
  return call<&clGetDeviceIDs>("clGetDeviceIDs", platform, type, count, devices, found);
}
cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void* value, size_t* size) {
  return call<&clGetDeviceInfo>("clGetDeviceInfo", device, what, bytes, value, size);
}
cl_int clGetContextInfo(cl_context context, cl_context_info what, size_t bytes, void* value, size_t* size) {
  return call<&clGetContextInfo>("clGetContextInfo", context, what, bytes, value, size);
}
cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
                      void(CL_CALLBACK* notify)(cl_program, void*), void* data) {
  if (builds_to_fail > 0) {
    builds_to_fail--;
    return CL_BUILD_PROGRAM_FAILURE;
  }
  return call<&clBuildProgram>("clBuildProgram", program, count, devices, options, notify, data);
}
cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t bytes, void* value, size_t* size) {
  return call<&clGetProgramInfo>("clGetProgramInfo", program, what, bytes, value, size);
}
cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what, size_t bytes,
                             void* value, size_t* size) {
  return call<&clGetProgramBuildInfo>("clGetProgramBuildInfo", program, device, what, bytes, value, size);
}
cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  return call<&clSetKernelArg>("clSetKernelArg", kernel, index, bytes, value);
}
cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t* offset,
                              const size_t* global, const size_t* local, cl_uint count, const cl_event* list,
                              cl_event* event) {
  return with_event(call<&clEnqueueNDRangeKernel>("clEnqueueNDRangeKernel", queue, kernel, dimensions, offset, global,
                                                  local, count, list, event),
                    event);
}
cl_int clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count, const cl_mem* buffers_moved,
                                  cl_mem_migration_flags flags, cl_uint waits, const cl_event* list, cl_event* event) {
  return call<&clEnqueueMigrateMemObjects>("clEnqueueMigrateMemObjects", queue, count, buffers_moved, flags, waits,
                                           list, event);
}
cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t bytes,
                           void* to, cl_uint count, const cl_event* list, cl_event* event) {
  return call<&clEnqueueReadBuffer>("clEnqueueReadBuffer", queue, buffer, blocking, offset, bytes, to, count, list,
                                    event);
}
cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t bytes,
                            const void* from, cl_uint count, const cl_event* list, cl_event* event) {
  return call<&clEnqueueWriteBuffer>("clEnqueueWriteBuffer", queue, buffer, blocking, offset, bytes, from, count, list,
                                     event);
}
cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
                           size_t bytes, cl_uint count, const cl_event* list, cl_event* event) {
  return call<&clEnqueueCopyBuffer>("clEnqueueCopyBuffer", queue, from, to, from_offset, to_offset, bytes, count, list,
                                    event);
}
cl_int clEnqueueCopyBufferRect(cl_command_queue queue, cl_mem from, cl_mem to, const size_t* from_origin,
                               const size_t* to_origin, const size_t* region, size_t from_row, size_t from_slice,
                               size_t to_row, size_t to_slice, cl_uint count, const cl_event* list, cl_event* event) {
  return call<&clEnqueueCopyBufferRect>("clEnqueueCopyBufferRect", queue, from, to, from_origin, to_origin, region,
                                        from_row, from_slice, to_row, to_slice, count, list, event);
}
cl_int clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint count, const cl_event* list, cl_event* event) {
  return call<&clEnqueueBarrierWithWaitList>("clEnqueueBarrierWithWaitList", queue, count, list, event);
}
cl_int clFlush(cl_command_queue queue) { return call<&clFlush>("clFlush", queue); }
cl_int clFinish(cl_command_queue queue) { return call<&clFinish>("clFinish", queue); }

}  // extern "C"
