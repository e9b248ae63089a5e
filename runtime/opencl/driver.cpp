#include "runtime/opencl/driver.h"

#include <dlfcn.h>

#include <string>

#include "runtime/support/environment.h"
#include "runtime/support/error.h"

namespace ashlar::detail::opencl {
namespace {

void* library() noexcept {
  static void* const handle = dlopen(environment().opencl_library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle;
}

template <class Function>
bool load(Function& function, const char* name) noexcept {
  function = reinterpret_cast<Function>(symbol(name));
  return function != nullptr;
}

const Api* load_api() noexcept {
  static Api a;
  const bool complete =
      load(a.get_platform_ids, "clGetPlatformIDs") && load(a.get_platform_info, "clGetPlatformInfo") &&
      load(a.get_device_ids, "clGetDeviceIDs") && load(a.get_device_info, "clGetDeviceInfo") &&
      load(a.create_context, "clCreateContext") && load(a.release_context, "clReleaseContext") &&
      load(a.get_context_info, "clGetContextInfo") && load(a.create_command_queue, "clCreateCommandQueue") &&
      load(a.release_command_queue, "clReleaseCommandQueue") && load(a.create_buffer, "clCreateBuffer") &&
      load(a.create_sub_buffer, "clCreateSubBuffer") && load(a.release_mem_object, "clReleaseMemObject") &&
      load(a.get_mem_object_info, "clGetMemObjectInfo") &&
      load(a.enqueue_migrate_mem_objects, "clEnqueueMigrateMemObjects") &&
      load(a.enqueue_read_buffer, "clEnqueueReadBuffer") && load(a.enqueue_write_buffer, "clEnqueueWriteBuffer") &&
      load(a.enqueue_copy_buffer, "clEnqueueCopyBuffer") &&
      load(a.enqueue_copy_buffer_rect, "clEnqueueCopyBufferRect") &&
      load(a.enqueue_marker_with_wait_list, "clEnqueueMarkerWithWaitList") &&
      load(a.enqueue_barrier_with_wait_list, "clEnqueueBarrierWithWaitList") &&
      load(a.release_event, "clReleaseEvent") && load(a.flush, "clFlush") && load(a.finish, "clFinish") &&
      load(a.create_program_with_source, "clCreateProgramWithSource") &&
      load(a.create_program_with_binary, "clCreateProgramWithBinary") && load(a.get_program_info, "clGetProgramInfo") &&
      load(a.build_program, "clBuildProgram") && load(a.get_program_build_info, "clGetProgramBuildInfo") &&
      load(a.release_program, "clReleaseProgram") && load(a.create_kernel, "clCreateKernel") &&
      load(a.release_kernel, "clReleaseKernel") && load(a.set_kernel_arg, "clSetKernelArg") &&
      load(a.enqueue_nd_range_kernel, "clEnqueueNDRangeKernel");
  return complete ? &a : nullptr;
}

}  // namespace

void* symbol(const char* name) noexcept { return library() ? dlsym(library(), name) : nullptr; }

const Api* api() noexcept {
  static const Api* const loaded = load_api();
  return loaded;
}

Place place_of(cl_mem buffer, size_t offset) noexcept {
  const Api& cl = *api();
  cl_mem whole = nullptr;
  size_t origin = 0;
  if (cl.get_mem_object_info(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, nullptr) != CL_SUCCESS ||
      whole == nullptr ||
      cl.get_mem_object_info(buffer, CL_MEM_OFFSET, sizeof origin, &origin, nullptr) != CL_SUCCESS) {
    return {buffer, offset};
  }
  return {whole, origin + offset};
}

std::string text_of(cl_device_id device, cl_device_info what) {
  size_t bytes = 0;
  check("clGetDeviceInfo", api()->get_device_info(device, what, 0, nullptr, &bytes));
  std::string text(bytes, '\0');
  check("clGetDeviceInfo", api()->get_device_info(device, what, bytes, text.data(), nullptr));
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string_view name_of_status(cl_int status) noexcept {
  switch (status) {
    case CL_SUCCESS:
      return "CL_SUCCESS";
    case CL_DEVICE_NOT_FOUND:
      return "CL_DEVICE_NOT_FOUND";
    case CL_DEVICE_NOT_AVAILABLE:
      return "CL_DEVICE_NOT_AVAILABLE";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES:
      return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY:
      return "CL_OUT_OF_HOST_MEMORY";
    case CL_BUILD_PROGRAM_FAILURE:
      return "CL_BUILD_PROGRAM_FAILURE";
    case CL_MISALIGNED_SUB_BUFFER_OFFSET:
      return "CL_MISALIGNED_SUB_BUFFER_OFFSET";
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
      return "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST";
    case CL_INVALID_VALUE:
      return "CL_INVALID_VALUE";
    case CL_INVALID_DEVICE:
      return "CL_INVALID_DEVICE";
    case CL_INVALID_CONTEXT:
      return "CL_INVALID_CONTEXT";
    case CL_INVALID_COMMAND_QUEUE:
      return "CL_INVALID_COMMAND_QUEUE";
    case CL_INVALID_MEM_OBJECT:
      return "CL_INVALID_MEM_OBJECT";
    case CL_INVALID_KERNEL_NAME:
      return "CL_INVALID_KERNEL_NAME";
    case CL_INVALID_KERNEL_ARGS:
      return "CL_INVALID_KERNEL_ARGS";
    case CL_INVALID_WORK_GROUP_SIZE:
      return "CL_INVALID_WORK_GROUP_SIZE";
    case CL_INVALID_WORK_ITEM_SIZE:
      return "CL_INVALID_WORK_ITEM_SIZE";
    case CL_INVALID_OPERATION:
      return "CL_INVALID_OPERATION";
    case CL_INVALID_BUFFER_SIZE:
      return "CL_INVALID_BUFFER_SIZE";
    case -1001:
      return "CL_PLATFORM_NOT_FOUND_KHR";
    default:
      return "an OpenCL error";
  }
}

void check(const char* call, cl_int status) {
  if (status == CL_SUCCESS) return;
  throw DriverError(call, std::string(name_of_status(status)) + " (" + std::to_string(status) + ")", "CL_SUCCESS",
                    "Set ASHLAR_LOG=1 to see what was done before");
}

}  // namespace ashlar::detail::opencl
