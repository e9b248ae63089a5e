#include "runtime/opencl/program_cache.h"

#include <exception>
#include <string>
#include <vector>

#include "runtime/support/disk_cache.h"
#include "runtime/support/environment.h"

namespace ashlar::detail::opencl {
namespace {

const DiskCache& cache() {
  static const DiskCache& folder =
      *new DiskCache(environment().cache.empty() ? std::string() : environment().cache + "/opencl");
  return folder;
}

/// Everything that a built program depends on: who builds it, for what, and of what. What Halide gives the compiler
/// beside the source follows from the device. Empty where nothing should be kept: PoCL caches on disk what it compiles,
/// and asked for a program's binary it compiles every kernel in it, needed or not. Throws DriverError.
std::string key_of(cl_device_id device, std::string_view source) {
  std::string key;
  for (const cl_device_info what :
       {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION, CL_DEVICE_EXTENSIONS}) {
    const std::string text = text_of(device, what);
    if (what == CL_DEVICE_VERSION && is_pocl(text) && !environment().cache_chosen) return {};
    key += text + '\n';
  }
  // Counts up when opencl_build_options() changes, which no source shows.
  constexpr std::string_view kOptions = "options 2\n";
  return key.append(kOptions).append(source);
}

/// One device or none: our contexts have one.
cl_device_id device_of(cl_context context) {
  cl_device_id device = nullptr;
  const cl_int status = api()->get_context_info(context, CL_CONTEXT_DEVICES, sizeof(device), &device, nullptr);
  return status == CL_SUCCESS ? device : nullptr;
}

cl_program build(cl_context context, cl_device_id device, const std::string& binary) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t size = binary.size();
  cl_int loaded = CL_SUCCESS, status = CL_OUT_OF_RESOURCES;
  cl_program program = nullptr;
  if (!fault::strikes(FaultSite::driver_call)) {
    program = api()->create_program_with_binary(context, 1, &device, &size, &bytes, &loaded, &status);
  }
  if (program == nullptr) return nullptr;
  if (status == CL_SUCCESS && loaded == CL_SUCCESS &&
      call(api()->build_program, program, cl_uint{1}, static_cast<const cl_device_id*>(&device), "", nullptr,
           nullptr) == CL_SUCCESS) {
    return program;
  }
  api()->release_program(program);
  return nullptr;
}

}  // namespace

cl_program load_program(cl_context context, std::string_view source) noexcept {
  try {
    const cl_device_id device = cache().enabled() ? device_of(context) : nullptr;
    const std::string key = device ? key_of(device, source) : std::string();
    if (key.empty()) return nullptr;
    const std::optional<std::string> binary = cache().load(key);
    if (!binary) return nullptr;
    cl_program program = build(context, device, *binary);
    if (program == nullptr) cache().remove(key);  // the next process builds it anew, too
    return program;
  } catch (const std::exception&) {  // no memory: it can still be built from source
    return nullptr;
  }
}

void store_program(cl_program program, std::string_view source) noexcept {
  try {
    cl_device_id device = nullptr;
    size_t size = 0;
    if (!cache().enabled() ||
        api()->get_program_info(program, CL_PROGRAM_DEVICES, sizeof(device), &device, nullptr) != CL_SUCCESS) {
      return;
    }
    const std::string key = key_of(device, source);
    if (key.empty() ||
        api()->get_program_info(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr) != CL_SUCCESS ||
        size == 0) {
      return;
    }
    std::vector<unsigned char> binary(size);
    unsigned char* bytes = binary.data();
    if (api()->get_program_info(program, CL_PROGRAM_BINARIES, sizeof(bytes), &bytes, nullptr) != CL_SUCCESS) return;
    cache().store(key, {reinterpret_cast<const char*>(bytes), size});
  } catch (const std::exception&) {  // no memory to keep it
  }
}

}  // namespace ashlar::detail::opencl
