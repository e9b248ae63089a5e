// The OpenCL library, opened at run time: nothing links it, and its absence is an ordinary state.
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <string_view>

#include "runtime/support/fault.h"

namespace ashlar::detail::opencl {

/// The entry points that the library itself uses or stands in front of.
struct Api {
  decltype(&::clGetPlatformIDs) get_platform_ids;
  decltype(&::clGetPlatformInfo) get_platform_info;
  decltype(&::clGetDeviceIDs) get_device_ids;
  decltype(&::clGetDeviceInfo) get_device_info;
  decltype(&::clCreateContext) create_context;
  decltype(&::clReleaseContext) release_context;
  decltype(&::clGetContextInfo) get_context_info;
  decltype(&::clCreateCommandQueue) create_command_queue;
  decltype(&::clReleaseCommandQueue) release_command_queue;
  decltype(&::clCreateBuffer) create_buffer;
  decltype(&::clCreateSubBuffer) create_sub_buffer;
  decltype(&::clReleaseMemObject) release_mem_object;
  decltype(&::clGetMemObjectInfo) get_mem_object_info;
  decltype(&::clEnqueueMigrateMemObjects) enqueue_migrate_mem_objects;
  decltype(&::clEnqueueReadBuffer) enqueue_read_buffer;
  decltype(&::clEnqueueWriteBuffer) enqueue_write_buffer;
  decltype(&::clEnqueueCopyBuffer) enqueue_copy_buffer;
  decltype(&::clEnqueueCopyBufferRect) enqueue_copy_buffer_rect;
  decltype(&::clEnqueueMarkerWithWaitList) enqueue_marker_with_wait_list;
  decltype(&::clEnqueueBarrierWithWaitList) enqueue_barrier_with_wait_list;
  decltype(&::clReleaseEvent) release_event;
  decltype(&::clFlush) flush;
  decltype(&::clFinish) finish;
  decltype(&::clCreateProgramWithSource) create_program_with_source;
  decltype(&::clCreateProgramWithBinary) create_program_with_binary;
  decltype(&::clBuildProgram) build_program;
  decltype(&::clGetProgramInfo) get_program_info;
  decltype(&::clGetProgramBuildInfo) get_program_build_info;
  decltype(&::clReleaseProgram) release_program;
  decltype(&::clCreateKernel) create_kernel;
  decltype(&::clReleaseKernel) release_kernel;
  decltype(&::clSetKernelArg) set_kernel_arg;
  decltype(&::clEnqueueNDRangeKernel) enqueue_nd_range_kernel;
};

/// Null when the library isn't there or lacks one of them. Never throws.
const Api* api() noexcept;
/// Any entry point of the library by name; null when it isn't there.
void* symbol(const char* name) noexcept;

/// Where in which whole buffer a byte of `buffer` lies, which may be a part of another (guard_bands.h): OpenCL doesn't
/// divide parts again, and PoCL 3.1 crashes when it copies rows between them.
struct Place {
  cl_mem buffer;
  size_t offset;
};
Place place_of(cl_mem buffer, size_t offset) noexcept;

/// What a text of the device says, e.g. CL_DEVICE_NAME. Throws DriverError.
std::string text_of(cl_device_id device, cl_device_info what);
/// Whether the driver is PoCL, by CL_DEVICE_VERSION.
inline bool is_pocl(std::string_view device_version) { return device_version.find("PoCL") != std::string_view::npos; }

/// "CL_OUT_OF_RESOURCES" and the like.
std::string_view name_of_status(cl_int status) noexcept;
/// Whether a status means that memory ran out.
constexpr bool means_out_of_memory(cl_int status) {
  return status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY ||
         status == CL_INVALID_BUFFER_SIZE;
}
/// Throws DriverError unless the status is CL_SUCCESS; `call` is the driver function's name.
void check(const char* call, cl_int status);

/// A driver call that a planted fault can make fail.
template <class... Parameters, class... Arguments>
cl_int call(cl_int (*function)(Parameters...), Arguments... arguments) {
  if (fault::strikes(FaultSite::driver_call)) return CL_OUT_OF_RESOURCES;
  return function(arguments...);
}

}  // namespace ashlar::detail::opencl
