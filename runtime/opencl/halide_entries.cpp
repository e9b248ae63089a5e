#include "runtime/opencl/halide_entries.h"

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/device/counter_cells.h"
#include "runtime/launch/launch_context.h"
#include "runtime/opencl/driver.h"
#include "runtime/opencl/program_cache.h"
#include "runtime/opencl/split_program.h"
#include "runtime/support/environment.h"
#include "runtime/support/packed_text.h"

namespace ashlar::detail::opencl {
namespace {

cl_int note(const char* name, cl_int status) noexcept {
  if (status != CL_SUCCESS && active_launch != nullptr) {
    active_launch->record_driver_failure(name, status, means_out_of_memory(status));
  }
  return status;
}

/// In front of a function that returns a status: one template instance for each.
template <auto Member, const char* Name, class Signature>
struct Checked;

template <auto Member, const char* Name, class... Parameters>
struct Checked<Member, Name, cl_int (*)(Parameters...)> {
  static cl_int run(Parameters... parameters) noexcept { return note(Name, call(api()->*Member, parameters...)); }
};

template <auto Member, const char* Name>
void* checked() {
  using Signature = std::remove_reference_t<decltype(std::declval<Api>().*Member)>;
  return reinterpret_cast<void*>(&Checked<Member, Name, Signature>::run);
}

constexpr char kGetDeviceInfo[] = "clGetDeviceInfo";
constexpr char kGetContextInfo[] = "clGetContextInfo";
constexpr char kSetKernelArg[] = "clSetKernelArg";

/// The program that this thread has just created: Halide's runtime builds it next.
thread_local struct {
  cl_program program = nullptr;
  std::string source;
  bool built = false;
} created;

cl_program make_program(cl_context context, cl_uint pieces, const char** sources, const size_t* lengths,
                        cl_int* status) noexcept {
  cl_program program = nullptr;
  if (fault::strikes(FaultSite::driver_call)) {
    *status = CL_OUT_OF_RESOURCES;
  } else {
    program = api()->create_program_with_source(context, pieces, sources, lengths, status);
  }
  note("clCreateProgramWithSource", *status);
  return program;
}

void count_loaded(bool from_cache) noexcept {
  count(counter_cells(DeviceKind::opencl).modules_loaded);
  if (from_cache) count(counter_cells(DeviceKind::opencl).cache_hits);
  log(from_cache ? "took an OpenCL program from the cache" : "built an OpenCL program");
}

cl_program create_program(cl_context context, cl_uint /*pieces*/, const char** sources, const size_t* /*lengths*/,
                          cl_int* status) noexcept {
  *status = CL_SUCCESS;
  const auto no_memory = [&]() -> cl_program {
    *status = note("clCreateProgramWithSource", CL_OUT_OF_HOST_MEMORY);
    return nullptr;
  };
  std::string source;
  try {  // Halide gives one piece, which ends with a zero
    source = is_packed_text(sources[0]) ? unpack_text(sources[0]) : sources[0];
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  if (SplitProgram::suits(source)) {
    SplitProgram* split = SplitProgram::make(context, source);
    return split != nullptr ? split->handle() : no_memory();
  }
  cl_program program = load_program(context, source);
  const bool is_built = program != nullptr;
  if (!is_built) {
    const char* text = source.c_str();
    program = make_program(context, 1, &text, nullptr, status);
  }
  created.program = program;
  created.source = std::move(source);
  created.built = is_built;
  return program;
}

// PoCL's processes share files of what they build without a lock (pocl issue 1480): a build that another process came
// between fails, and succeeds when it is asked for again.
cl_int build_anew_where_it_fails(cl_program program, cl_uint device_count, const cl_device_id* devices,
                                 const char* options, void(CL_CALLBACK* done)(cl_program, void*), void* data) noexcept {
  constexpr int kBuilds = 4;
  cl_int status = CL_SUCCESS;
  for (int i = 0; i < kBuilds; i++) {
    if (i > 0) log("builds an OpenCL program anew, which the driver failed to build");
    status = call(api()->build_program, program, device_count, devices, options, done, data);
    if (status != CL_BUILD_PROGRAM_FAILURE) break;
  }
  return note("clBuildProgram", status);
}

cl_int build_program(cl_program program, cl_uint device_count, const cl_device_id* devices, const char* options,
                     void(CL_CALLBACK* done)(cl_program, void*), void* data) noexcept {
  if (SplitProgram* split = SplitProgram::of(program)) {
    if (split->set_options(devices[0], options)) return CL_SUCCESS;
    delete split;  // Halide asks for its build log and then forgets it
    return note("clBuildProgram", CL_OUT_OF_HOST_MEMORY);
  }
  const std::string source = program == created.program ? std::exchange(created.source, {}) : std::string();
  if (program == created.program && created.built) {
    count_loaded(true);
    return CL_SUCCESS;
  }
  const cl_int status = build_anew_where_it_fails(program, device_count, devices, options, done, data);
  if (status == CL_SUCCESS) {
    count_loaded(false);
    if (program == created.program) store_program(program, source);
  } else if (active_launch != nullptr) {
    active_launch->unreleased_program = program;  // Halide asks for its build log and then forgets it
  }
  return status;
}

cl_int get_program_build_info(cl_program program, cl_device_id device, cl_program_build_info what, size_t bytes,
                              void* value, size_t* size) noexcept {
  if (SplitProgram::of(program)) return CL_INVALID_PROGRAM;
  return api()->get_program_build_info(program, device, what, bytes, value, size);
}

/// One kernel's part of a SplitProgram.
cl_program build_part(cl_context context, cl_device_id device, const char* source, const char* options,
                      cl_int* status) noexcept {
  cl_program program = load_program(context, source);
  if (program != nullptr) {
    count_loaded(true);
    return program;
  }
  program = make_program(context, 1, &source, nullptr, status);
  if (program == nullptr) return nullptr;
  *status = build_anew_where_it_fails(program, 1, &device, options, nullptr, nullptr);
  if (*status == CL_SUCCESS) {
    count_loaded(false);
    store_program(program, source);
    return program;
  }
  if (active_launch != nullptr) {
    char text[sizeof active_launch->error] = "";
    api()->get_program_build_info(program, device, CL_PROGRAM_BUILD_LOG, sizeof text - 1, text, nullptr);
    active_launch->record_error(text);
  }
  api()->release_program(program);
  return nullptr;
}

/// Halide's runtime makes and releases a cl_kernel for each launch, which takes NVIDIA's driver a microsecond: those
/// that were released are taken again, with all arguments set anew. Kept to the process's end, as programs are.
class IdleKernels {
 public:
  static IdleKernels& instance() noexcept {
    static union Kept {  // never destroyed, and without memory that could be refused
      Kept() : kernels() {}
      ~Kept() {}
      IdleKernels kernels;
    } kept;
    return kept.kernels;
  }
  /// Null where there's none.
  cl_kernel take(cl_program program, std::string_view name) noexcept {
    const std::lock_guard lock(mutex_);
    const auto of_program = idle_.find(program);
    if (of_program == idle_.end()) return nullptr;
    const auto found = of_program->second.find(name);
    if (found == of_program->second.end() || found->second.empty()) return nullptr;
    const cl_kernel kernel = found->second.back();
    found->second.pop_back();
    return kernel;
  }
  /// False where there's no memory to note it.
  bool give(cl_program program, std::string_view name, cl_kernel kernel) noexcept try {
    const std::lock_guard lock(mutex_);
    auto& of_program = idle_[program];
    auto found = of_program.find(name);
    if (found == of_program.end()) found = of_program.try_emplace(std::string(name)).first;
    found->second.push_back(kernel);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

 private:
  std::mutex mutex_;
  std::map<cl_program, std::map<std::string, std::vector<cl_kernel>, std::less<>>> idle_;
};

/// The kernel of the launch that this thread is about.
thread_local struct {
  cl_program program = nullptr;
  const char* name = nullptr;
  cl_kernel kernel = nullptr;
} taken;

cl_kernel create_kernel(cl_program program, const char* name, cl_int* status) noexcept {
  cl_kernel kernel = nullptr;
  *status = CL_SUCCESS;
  if (fault::strikes(FaultSite::driver_call)) {
    *status = CL_OUT_OF_RESOURCES;
  } else if (kernel = IdleKernels::instance().take(program, name); kernel == nullptr) {
    cl_program of_kernel = program;
    if (SplitProgram* split = SplitProgram::of(program)) of_kernel = split->program_of(name, build_part, status);
    if (of_kernel == nullptr) return nullptr;
    kernel = api()->create_kernel(of_kernel, name, status);
  }
  note("clCreateKernel", *status);
  if (kernel != nullptr) taken = {program, name, kernel};
  if (active_launch != nullptr) {
    active_launch->unreleased_kernel = kernel;
    active_launch->tell_observer(name);
  }
  return kernel;
}

cl_int release_kernel(cl_kernel kernel) noexcept {
  if (active_launch != nullptr) active_launch->unreleased_kernel = nullptr;
  if (kernel == taken.kernel && IdleKernels::instance().give(taken.program, taken.name, kernel)) return CL_SUCCESS;
  return api()->release_kernel(kernel);
}

cl_mem create_sub_buffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type, const void* region,
                         cl_int* status) noexcept {
  cl_buffer_region wanted = *static_cast<const cl_buffer_region*>(region);
  const Place begin = place_of(buffer, wanted.origin);
  wanted.origin = begin.offset;
  cl_mem part = nullptr;
  if (fault::strikes(FaultSite::driver_call)) {
    *status = CL_OUT_OF_RESOURCES;
  } else {
    part = api()->create_sub_buffer(begin.buffer, flags, type, &wanted, status);
  }
  note("clCreateSubBuffer", *status);
  return part;
}

cl_int enqueue_nd_range_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t* offset,
                               const size_t* global, const size_t* local, cl_uint wait_count, const cl_event* wait_list,
                               cl_event* event) noexcept {
  const cl_int status = note("clEnqueueNDRangeKernel", call(api()->enqueue_nd_range_kernel, queue, kernel, dimensions,
                                                            offset, global, local, wait_count, wait_list, event));
  if (status == CL_SUCCESS) {
    count(counter_cells(DeviceKind::opencl).launches);
    if (active_launch != nullptr) ++active_launch->driver_launches;
  }
  return status;
}

cl_mem refuse_buffer(cl_context, cl_mem_flags, size_t, void*, cl_int* status) noexcept {
  if (active_launch != nullptr) active_launch->record_error(kAllocationInKernel);
  if (status != nullptr) *status = CL_INVALID_OPERATION;
  return nullptr;
}

cl_int refuse_read(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void*, cl_uint, const cl_event*,
                   cl_event*) noexcept {
  if (active_launch != nullptr) active_launch->record_error(kCopyInKernel);
  return CL_INVALID_OPERATION;
}

cl_int refuse_write(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void*, cl_uint, const cl_event*,
                    cl_event*) noexcept {
  if (active_launch != nullptr) active_launch->record_error(kCopyInKernel);
  return CL_INVALID_OPERATION;
}

cl_int refuse_copy(cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event*,
                   cl_event*) noexcept {
  if (active_launch != nullptr) active_launch->record_error(kCopyInKernel);
  return CL_INVALID_OPERATION;
}

/// Halide releases programs only while the process ends, when the driver may already be gone. The process's end
/// releases them as well; the list keeps them reachable, so that LeakSanitizer finds only programs that were forgotten.
cl_int keep_program(cl_program program) noexcept {
  static auto& kept = *new std::vector<cl_program>;
  try {
    kept.push_back(program);
  } catch (const std::bad_alloc&) {  // the list matters to nobody else
  }
  return CL_SUCCESS;
}

struct Entry {
  const char* name;
  void* function;
};

template <class Function>
Entry entry(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

void* halide_entry(const char* name) noexcept {
  if (api() == nullptr) return nullptr;
  static const Entry entries[] = {
      {kGetDeviceInfo, checked<&Api::get_device_info, kGetDeviceInfo>()},
      {kGetContextInfo, checked<&Api::get_context_info, kGetContextInfo>()},
      {kSetKernelArg, checked<&Api::set_kernel_arg, kSetKernelArg>()},
      entry("clCreateProgramWithSource", &create_program),
      entry("clBuildProgram", &build_program),
      entry("clGetProgramBuildInfo", &get_program_build_info),
      entry("clReleaseProgram", &keep_program),
      entry("clCreateKernel", &create_kernel),
      entry("clReleaseKernel", &release_kernel),
      entry("clCreateSubBuffer", &create_sub_buffer),
      entry("clEnqueueNDRangeKernel", &enqueue_nd_range_kernel),
      entry("clCreateBuffer", &refuse_buffer),
      entry("clEnqueueReadBuffer", &refuse_read),
      entry("clEnqueueWriteBuffer", &refuse_write),
      entry("clEnqueueCopyBuffer", &refuse_copy),
  };
  for (const Entry& e : entries) {
    if (std::strcmp(e.name, name) == 0) return e.function;
  }
  return symbol(name);
}

}  // namespace ashlar::detail::opencl
