#include "tests/faults/drivers.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/all.h"
#include "runtime/device/counters.h"
#include "runtime/launch/kernel.h"
#include "tests/faults/host_memory.h"
#include "tests/faults/watched_opencl.h"
#include "tests/runtime/fake_cuda.h"

// In Halide's runtime; HalideRuntime.h doesn't declare what only compiled kernels call.
extern "C" {
int halide_cuda_initialize_kernels(void* user_context, void** state, const char* image, int size);
int halide_cuda_run(void* user_context, void* state, const char* entry, int blocks_x, int blocks_y, int blocks_z,
                    int threads_x, int threads_y, int threads_z, int shared_bytes, size_t sizes[], void* arguments[],
                    int8_t is_buffer[]);
}

namespace ashlar::testing {
namespace {

/// A function of the library that an environment variable names; null where it isn't set to one that has it.
template <class Function>
Function* function_of(const char* variable, const char* name) {
  const char* file = std::getenv(variable);
  void* library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : nullptr;  // stays open
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

// ---- the CPU's kernels on the stand-in for CUDA

/// A compiled kernel of the CPU, and which of its arguments are buffers.
struct CpuKernel {
  int (*function)(void** arguments);
  std::vector<char> is_buffer;
};
std::vector<CpuKernel>& cpu_kernels() {
  static auto& all = *new std::vector<CpuKernel>;
  return all;
}

/// What a compiled CUDA function does: loads its module, and launches.
int launch_on_fake_cuda(const CpuKernel& kernel, void** arguments) {
  static void* state = nullptr;
  static char image[] = "fake module";
  void* context = *static_cast<void**>(arguments[0]);
  if (const int code = halide_cuda_initialize_kernels(context, &state, image, sizeof(image))) return code;
  const FakeCudaCall call{kernel.function, static_cast<int>(kernel.is_buffer.size()), arguments,
                          reinterpret_cast<const bool*>(kernel.is_buffer.data())};
  const FakeCudaCall* address = &call;
  size_t sizes[] = {sizeof(address), 0};
  void* values[] = {&address, nullptr};
  int8_t no_buffer[] = {0, 0};
  return halide_cuda_run(context, state, "host_function", 1, 1, 1, 1, 1, 1, 0, sizes, values, no_buffer);
}

// A kernel is called without being told which one it is: one function for each.
constexpr size_t kMostKernels = 1024;
template <size_t kIndex>
int instance(void** arguments) {
  return launch_on_fake_cuda(cpu_kernels()[kIndex], arguments);
}
template <size_t... kIndex>
constexpr std::array<int (*)(void**), kMostKernels> instances_of(std::index_sequence<kIndex...>) {
  return {&instance<kIndex>...};
}
constexpr auto kInstances = instances_of(std::make_index_sequence<kMostKernels>());

/// In the order of compiled functions: inputs and scalars as declared, outputs, scratch.
std::vector<char> buffers_of(const KernelInfo& kernel) {
  std::vector<char> is_buffer;
  for (const Argument& a : kernel.arguments) {
    if (a.role == Argument::Role::input || a.role == Argument::Role::scalar) {
      is_buffer.push_back(a.role == Argument::Role::input);
    }
  }
  is_buffer.resize(kernel.arguments.size(), 1);
  return is_buffer;
}

/// Instances of a kernel for CUDA, behind those of its CPU's baseline.
const TargetTable& table_of(const KernelInfo& kernel) {
  const TargetTable& cpu = *kernel.targets[static_cast<size_t>(CodeTarget::cpu)];
  auto& instances = *new std::vector<KernelInstance>;
  for (int i = 0; i < cpu.count; ++i) {
    const KernelInstance& baseline = cpu.instances[i];
    if (baseline.setting() != 0) continue;
    const size_t index = cpu_kernels().size();
    cpu_kernels().push_back({baseline.function, buffers_of(kernel)});
    instances.push_back({baseline.key, kInstances.at(index), baseline.symbol});
  }
  return *new TargetTable{instances.data(), static_cast<int>(instances.size())};
}

/// Writes to a constant: the tables of kernels that a program has linked are fixed, but this one brings its own.
void replace(const TargetTable* const& slot, const TargetTable& table) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(&slot) / page * page;
  if (mprotect(reinterpret_cast<void*>(begin), page, PROT_READ | PROT_WRITE) != 0) {
    throw std::runtime_error("the kernels' tables can't be made writable");
  }
  const_cast<const TargetTable*&>(slot) = &table;
}

}  // namespace

Held held(Device device) {
  const Counters now = counters(device.kind);
  Held all{now.live_bytes, now.pool_bytes};
  if (device.kind == DeviceKind::cuda) {
    static const auto log = function_of<decltype(fake_cuda_log)>("ASHLAR_CUDA_LIBRARY", "fake_cuda_log");
    const FakeCudaLog& of = *log();
    return {all[0], all[1], of.live_allocations, of.live_streams, of.live_events, of.live_graphs, of.contexts_pushed};
  }
  if (device.kind == DeviceKind::opencl) {
    static const auto handles =
        function_of<decltype(watched_opencl_handles)>("ASHLAR_OPENCL_LIBRARY", "watched_opencl_handles");
    const WatchedOpenClHandles of = handles();
    return {all[0], all[1], of.contexts, of.queues, of.buffers, of.programs, of.kernels, of.events};
  }
  return all;
}

void watch_drivers() {
  using Watch = void(void (*)(int));
  if (const auto cuda = function_of<Watch>("ASHLAR_CUDA_LIBRARY", "fake_cuda_watch")) cuda(&driver_at_work);
  if (const auto opencl = function_of<Watch>("ASHLAR_OPENCL_LIBRARY", "watched_opencl_watch")) opencl(&driver_at_work);
}

void fail_opencl_builds(int count) {
  function_of<decltype(watched_opencl_fail_builds)>("ASHLAR_OPENCL_LIBRARY", "watched_opencl_fail_builds")(count);
}

void run_cpu_kernels_on_fake_cuda() {
  for (const KernelInfo* kernel : all_kernels()) {
    if (kernel->targets[static_cast<size_t>(CodeTarget::cpu)] == nullptr) continue;  // one for GPUs alone
    replace(kernel->targets[static_cast<size_t>(CodeTarget::cuda)], table_of(*kernel));
  }
}

}  // namespace ashlar::testing
