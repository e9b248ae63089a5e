// The OpenCL library with devices of the smallest local memory that OpenCL allows, and of the smallest work-groups that
// are in use: conformance runs open this in place of libOpenCL.so.1, on which it is linked, and reach all other
// functions through it.
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <dlfcn.h>

namespace {

constexpr cl_ulong kLocalBytes = 32 << 10;
constexpr size_t kGroupThreads = 256;

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void* value, size_t* size) {
  static auto* const real = next(&clGetDeviceInfo, "clGetDeviceInfo");
  const cl_int status = real(device, what, bytes, value, size);
  if (status == CL_SUCCESS && what == CL_DEVICE_LOCAL_MEM_SIZE && value != nullptr) {
    *static_cast<cl_ulong*>(value) = kLocalBytes;
  }
  if (status == CL_SUCCESS && what == CL_DEVICE_MAX_WORK_GROUP_SIZE && value != nullptr) {
    *static_cast<size_t*>(value) = kGroupThreads;
  }
  return status;
}

// Kernels of this library have all their local memory in one argument.
extern "C" cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  static auto* const real = next(&clSetKernelArg, "clSetKernelArg");
  if (value == nullptr && bytes > kLocalBytes) return CL_OUT_OF_RESOURCES;
  return real(kernel, index, bytes, value);
}

extern "C" cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                         const size_t* offset, const size_t* global, const size_t* local,
                                         cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  static auto* const real = next(&clEnqueueNDRangeKernel, "clEnqueueNDRangeKernel");
  size_t threads = 1;
  for (cl_uint i = 0; local != nullptr && i < dimensions; i++) threads *= local[i];
  if (threads > kGroupThreads) return CL_INVALID_WORK_GROUP_SIZE;
  return real(queue, kernel, dimensions, offset, global, local, wait_count, wait_list, event);
}
