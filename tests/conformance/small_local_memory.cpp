// The OpenCL library with devices of the smallest local memory that OpenCL allows: conformance runs open this in place
// of libOpenCL.so.1, on which it is linked, and reach all other functions through it.
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <dlfcn.h>

namespace {

constexpr cl_ulong kLocalBytes = 32 << 10;

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
  return status;
}

// Kernels of this library have all their local memory in one argument.
extern "C" cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  static auto* const real = next(&clSetKernelArg, "clSetKernelArg");
  if (value == nullptr && bytes > kLocalBytes) return CL_OUT_OF_RESOURCES;
  return real(kernel, index, bytes, value);
}
