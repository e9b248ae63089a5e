#include "tests/runtime/fake_cuda.h"

#include <HalideRuntime.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

// Signatures as NVIDIA documents the driver interface; handles are opaque to callers.
namespace {

using Result = int;
using Pointer = uint64_t;
constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidContext = 201, kNotFound = 500,
                 kLaunchFailed = 719, kUnjoinedCapture = 904;

FakeCudaLog state{};
std::mutex mutex;
std::map<Pointer, size_t> blocks;
thread_local int depth = 0;
char context, device_module, scale_function, early_scale_function, host_function;

void (*watch)(int change) = nullptr;
/// Around whatever here takes memory of the host.
class AtWork {
 public:
  AtWork() {
    if (watch) watch(1);
  }
  ~AtWork() {
    if (watch) watch(-1);
  }
};

// What a stream was told while it captured, and what a graph repeats.
using Work = std::vector<std::function<Result()>>;
struct Stream {
  bool capturing = false;
  Work captured;
  Stream* captured_by = nullptr;  // it waited for an event of that stream's capture, of which its work is now a part
  std::vector<Stream*> beside;    // that are part of this one's capture
  bool is_open = false;           // that capture hasn't waited for the last work
};
struct Event {
  Stream* recorded = nullptr;
};

/// Does the work now, or keeps it for the graph that the stream is capturing.
Result submit(void* stream, std::function<Result()> work) {
  if (stream == nullptr || depth == 0) return stream ? kInvalidContext : kInvalidValue;
  const AtWork at_work;
  auto& queue = *static_cast<Stream*>(stream);
  Stream* capture = queue.capturing ? &queue : queue.captured_by;
  if (capture == nullptr) return work();
  queue.is_open = queue.captured_by != nullptr;
  capture->captured.push_back(std::move(work));
  return kSuccess;
}

// CUDA_MEMCPY2D
struct Copy2D {
  size_t source_x, source_y;
  unsigned int source_type;
  const void* source_host;
  Pointer source_device;
  void* source_array;
  size_t source_pitch;
  size_t destination_x, destination_y;
  unsigned int destination_type;
  void* destination_host;
  Pointer destination_device;
  void* destination_array;
  size_t destination_pitch;
  size_t width_bytes, height;
};

// CUlaunchAttribute, of an integer, and CUlaunchConfig
struct alignas(8) LaunchAttribute {
  int id, padding, value, unused[15];
};
struct LaunchConfiguration {
  unsigned int grid[3], block[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned int attribute_count;
};

// ASHLAR_FAKE_CUDA_CAPABILITY=90: a GPU of that compute capability that takes every module and every launch and does
// nothing. It tells which GPU functions a call chooses.
int dry_capability() {
  static const char* text = std::getenv("ASHLAR_FAKE_CUDA_CAPABILITY");
  static const int value = text == nullptr ? 0 : std::atoi(text);
  return value;
}
bool is_dry() { return dry_capability() > 0; }

Result require_context() { return depth > 0 ? kSuccess : kInvalidContext; }

Result copy(void* destination, const void* source, size_t bytes) {
  if (require_context() != kSuccess) return kInvalidContext;
  std::memmove(destination, source, bytes);
  return kSuccess;
}

void* at(Pointer pointer) { return reinterpret_cast<void*>(pointer); }

/// A call of a CPU kernel on the device's memory, with copies of all arguments: it may be repeated by a graph.
class HostCall {
 public:
  explicit HostCall(const FakeCudaCall& call) : function_(call.function), arguments_(call.argument_count) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      Argument& argument = arguments_[i];
      if (!call.is_buffer[i]) {
        std::memcpy(&argument.scalar, call.arguments[i + 1], sizeof(argument.scalar));
        continue;
      }
      argument.is_buffer = true;
      argument.buffer = *static_cast<const halide_buffer_t*>(call.arguments[i + 1]);
      std::copy_n(argument.buffer.dim, argument.buffer.dimensions, argument.dimensions.begin());
      argument.buffer.host = static_cast<uint8_t*>(at(argument.buffer.device));
      argument.buffer.device = 0;
      argument.buffer.device_interface = nullptr;
      argument.buffer.flags = 0;
    }
  }

  Result run() {
    void* no_context = nullptr;
    std::vector<void*> slots{&no_context};
    for (Argument& argument : arguments_) {
      argument.buffer.dim = argument.dimensions.data();
      slots.push_back(argument.is_buffer ? static_cast<void*>(&argument.buffer) : &argument.scalar);
    }
    return function_(slots.data()) == 0 ? kSuccess : kLaunchFailed;
  }

 private:
  struct Argument {
    bool is_buffer = false;
    uint64_t scalar = 0;
    halide_buffer_t buffer{};
    std::array<halide_dimension_t, 9> dimensions{};
  };
  int (*function_)(void** arguments);
  std::vector<Argument> arguments_;
};

}  // namespace

extern "C" {

const FakeCudaLog* fake_cuda_log() { return &state; }
void fake_cuda_watch(void (*chosen)(int change)) { watch = chosen; }

Result cuInit(unsigned int) { return kSuccess; }
Result cuDriverGetVersion(int* version) { return *version = 12090, kSuccess; }
Result cuGetErrorName(Result status, const char** name) {
  *name = status == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
  return kSuccess;
}
Result cuDeviceGetCount(int* count) { return *count = 1, kSuccess; }
Result cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal == 0 ? kSuccess : kInvalidValue; }
Result cuDeviceGetName(char* name, int length, int) { return std::strncpy(name, "fake CUDA device", length), kSuccess; }
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kMajor = 75, kMinor = 76, kMostSharedBytes = 97;
  *value = 1;
  // An H200's, so that models choose among plans as they would there: multiprocessors, kHz, kHz of the memory, bits.
  for (const auto& [its, number] : {std::pair{16, 132}, {13, 1980000}, {36, 3201000}, {37, 6144}}) {
    if (attribute == its) *value = number;
  }
  if (!is_dry()) return kSuccess;
  const bool is_hopper = dry_capability() >= 90;
  if (attribute == kMajor) *value = dry_capability() / 10;
  if (attribute == kMinor) *value = dry_capability() % 10;
  if (attribute == kMostSharedBytes) *value = (is_hopper ? 227 : dry_capability() == 80 ? 163 : 99) << 10;
  return kSuccess;
}
Result cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = kFakeCudaMemory, kSuccess; }
Result cuDevicePrimaryCtxRetain(void** out, int) { return *out = &context, kSuccess; }

Result cuCtxPushCurrent_v2(void* pushed) {
  if (pushed != &context) return kInvalidContext;
  ++depth;
  std::lock_guard lock(mutex);
  return ++state.contexts_pushed, kSuccess;
}
Result cuCtxPopCurrent_v2(void** popped) {
  if (depth == 0) return kInvalidContext;
  --depth;
  *popped = &context;
  std::lock_guard lock(mutex);
  return --state.contexts_pushed, kSuccess;
}
Result cuCtxSynchronize() { return require_context(); }

Result cuStreamCreate(void** stream, unsigned int) {
  const AtWork at_work;
  if (require_context() != kSuccess) return kInvalidContext;
  std::lock_guard lock(mutex);
  ++state.live_streams;
  return *stream = new Stream, kSuccess;
}
Result cuStreamDestroy_v2(void* stream) {
  std::lock_guard lock(mutex);
  --state.live_streams;
  return delete static_cast<Stream*>(stream), kSuccess;
}
Result cuStreamSynchronize(void* stream) {
  if (stream == nullptr || static_cast<Stream*>(stream)->capturing) return kInvalidValue;
  return require_context();
}
Result cuStreamBeginCapture_v2(void* stream, int mode) {
  if (stream == nullptr || mode != 2 || std::exchange(static_cast<Stream*>(stream)->capturing, true)) {
    return kInvalidValue;
  }
  return require_context();
}
Result cuStreamEndCapture(void* stream, void** graph) {
  const AtWork at_work;
  if (stream == nullptr || !std::exchange(static_cast<Stream*>(stream)->capturing, false)) return kInvalidValue;
  std::lock_guard lock(mutex);
  bool is_open = false;
  for (Stream* other : std::exchange(static_cast<Stream*>(stream)->beside, {})) {
    is_open |= std::exchange(other->is_open, false);
    other->captured_by = nullptr;
  }
  if (is_open) return static_cast<Stream*>(stream)->captured.clear(), kUnjoinedCapture;
  ++state.live_graphs;
  return *graph = new Work(std::move(static_cast<Stream*>(stream)->captured)), kSuccess;
}
Result cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  const AtWork at_work;
  std::lock_guard lock(mutex);
  ++state.live_graphs;
  return *executable = new Work(*static_cast<Work*>(graph)), kSuccess;
}
Result cuGraphLaunch(void* executable, void* stream) {
  {
    std::lock_guard lock(mutex);
    state.last_stream = stream;
  }
  Result status = require_context();
  for (const auto& work : *static_cast<Work*>(executable)) {
    if (status == kSuccess) status = submit(stream, work);
  }
  return status;
}
Result cuGraphDestroy(void* graph) {
  std::lock_guard lock(mutex);
  --state.live_graphs;
  return delete static_cast<Work*>(graph), kSuccess;
}
Result cuGraphExecDestroy(void* executable) { return cuGraphDestroy(executable); }
Result cuStreamWaitEvent(void* stream, void* event, unsigned int) {
  if (!stream || !event) return kInvalidValue;
  std::lock_guard lock(mutex);
  ++state.waits;
  auto& queue = *static_cast<Stream*>(stream);
  Stream* recorded = static_cast<Event*>(event)->recorded;
  if (recorded != nullptr && recorded->capturing && !queue.capturing && queue.captured_by == nullptr) {
    queue.captured_by = recorded;
    recorded->beside.push_back(&queue);
  } else if (recorded != nullptr && recorded->captured_by == &queue) {
    recorded->is_open = false;
  }
  return require_context();
}
Result cuEventCreate(void** event, unsigned int) {
  const AtWork at_work;
  std::lock_guard lock(mutex);
  ++state.live_events;
  return *event = new Event, kSuccess;
}
Result cuEventRecord(void* event, void* stream) {
  if (!event || !stream) return kInvalidValue;
  static_cast<Event*>(event)->recorded = static_cast<Stream*>(stream);
  return require_context();
}
Result cuEventDestroy_v2(void* event) {
  std::lock_guard lock(mutex);
  --state.live_events;
  return delete static_cast<Event*>(event), kSuccess;
}

Result cuMemAlloc_v2(Pointer* pointer, size_t bytes) {
  const AtWork at_work;
  if (require_context() != kSuccess) return kInvalidContext;
  std::lock_guard lock(mutex);
  if (!is_dry() && static_cast<int64_t>(bytes) > kFakeCudaMemory - state.live_bytes) return kOutOfMemory;
  *pointer = reinterpret_cast<Pointer>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  blocks[*pointer] = bytes;
  ++state.live_allocations;
  state.live_bytes += static_cast<int64_t>(bytes);
  return kSuccess;
}
Result cuMemFree_v2(Pointer pointer) {
  if (require_context() != kSuccess) return kInvalidContext;
  std::lock_guard lock(mutex);
  const auto found = blocks.find(pointer);
  if (found == blocks.end()) return kInvalidValue;
  --state.live_allocations;
  state.live_bytes -= static_cast<int64_t>(found->second);
  blocks.erase(found);
  return std::free(at(pointer)), kSuccess;
}
Result cuMemHostAlloc(void** memory, size_t bytes, unsigned int) {
  const AtWork at_work;
  if (require_context() != kSuccess) return kInvalidContext;
  std::lock_guard lock(mutex);
  ++state.live_host_allocations;
  return *memory = std::malloc(bytes), kSuccess;
}
Result cuMemFreeHost(void* memory) {
  if (require_context() != kSuccess) return kInvalidContext;
  std::lock_guard lock(mutex);
  --state.live_host_allocations;
  return std::free(memory), kSuccess;
}

Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, void*) { return copy(at(to), from, bytes); }
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, void*) { return copy(to, at(from), bytes); }
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void* stream) {
  return submit(stream, [=] { return copy(at(to), at(from), bytes); });
}
Result cuMemcpyHtoD_v2(Pointer to, const void* from, size_t bytes) { return copy(at(to), from, bytes); }
Result cuMemcpyDtoH_v2(void* to, Pointer from, size_t bytes) { return copy(to, at(from), bytes); }
Result cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t bytes) { return copy(at(to), at(from), bytes); }
Result cuMemcpy3D_v2(const void*) { return kInvalidValue; }
Result cuMemcpy2DAsync_v2(const Copy2D* copied, void* stream) {
  if (copied->source_type != 2 || copied->destination_type != 2) return kInvalidValue;
  return submit(stream, [c = *copied] {
    Result status = kSuccess;
    for (size_t row = 0; row < c.height && status == kSuccess; ++row) {
      status = copy(at(c.destination_device + row * c.destination_pitch), at(c.source_device + row * c.source_pitch),
                    c.width_bytes);
    }
    return status;
  });
}

Result cuModuleLoadDataEx(void** loaded, const void* image, unsigned int count, int* options, void**) {
  if (!is_dry() && std::strcmp(static_cast<const char*>(image), "fake module") != 0) return kInvalidValue;
  std::lock_guard lock(mutex);
  for (unsigned int i = 0; i < count; ++i) state.register_caps += options[i] == 0;
  ++state.modules;
  return *loaded = &device_module, kSuccess;
}
Result cuModuleLoadData(void** loaded, const void* image) {
  return cuModuleLoadDataEx(loaded, image, 0, nullptr, nullptr);
}
Result cuModuleUnload(void*) { return kInvalidContext; }
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  if (module != &device_module) return kNotFound;
  *function = std::strcmp(name, "scale") == 0           ? &scale_function
              : std::strcmp(name, "early_scale") == 0   ? &early_scale_function
              : std::strcmp(name, "host_function") == 0 ? &host_function
              : is_dry()                                ? &scale_function
                                                        : nullptr;
  return *function ? kSuccess : kNotFound;
}
Result cuFuncSetAttribute(void*, int, int) { return ++state.raised_shared, kSuccess; }
Result cuFuncGetAttribute(int* value, int attribute, void* function) {
  constexpr int kPtxVersion = 5;
  if (attribute != kPtxVersion) return kInvalidValue;
  return *value = function == &scale_function ? 90 : 80, kSuccess;
}

/// scale: x, scale, n, y;  y[i] = scale · x[i]
Result cuLaunchKernel(void* function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                      unsigned int, unsigned int, void* stream, void** parameters, void**) {
  if (stream == nullptr || require_context() != kSuccess) return kInvalidValue;
  if (function == &host_function) {
    const AtWork at_work;
    {
      std::lock_guard lock(mutex);
      state.last_stream = stream;
    }
    const auto call = std::make_shared<HostCall>(**static_cast<const FakeCudaCall**>(parameters[0]));
    return submit(stream, [call] { return call->run(); });
  }
  if (function != &scale_function && function != &early_scale_function) return kInvalidValue;
  if (is_dry()) return kSuccess;
  const auto* x = static_cast<const float*>(at(*static_cast<Pointer*>(parameters[0])));
  const float scale = *static_cast<float*>(parameters[1]);
  const int32_t n = *static_cast<int32_t*>(parameters[2]);
  auto* y = static_cast<float*>(at(*static_cast<Pointer*>(parameters[3])));
  {
    std::lock_guard lock(mutex);
    state.last_stream = stream;
  }
  return submit(stream, [=] {
    for (int32_t i = 0; i < n; ++i) y[i] = scale * x[i];
    std::lock_guard lock(mutex);
    ++state.launches;
    return kSuccess;
  });
}

/// A block of 99 KB or more leaves room for one more.
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* count, void*, int threads, size_t shared_bytes) {
  return *count = shared_bytes >= 99 << 10 ? 2 : 2048 / threads, kSuccess;
}

Result cuLaunchKernelEx(const LaunchConfiguration* how, void* function, void** parameters, void** extra) {
  constexpr int kOverlaps = 6;
  if (how->attribute_count != 1 || how->attributes->id != kOverlaps || how->attributes->value != 1)
    return kInvalidValue;
  {
    std::lock_guard lock(mutex);
    ++state.overlapping;
  }
  return cuLaunchKernel(function, how->grid[0], how->grid[1], how->grid[2], how->block[0], how->block[1], how->block[2],
                        how->shared_bytes, how->stream, parameters, extra);
}

// Halide's runtime looks these up too; with our hooks it has no reason to call them.
Result cuCtxCreate_v2(void**, unsigned int, int) { return kInvalidValue; }
Result cuCtxDestroy_v2(void*) { return kInvalidValue; }
Result cuProfilerStop() { return kInvalidValue; }
Result cuCtxGetApiVersion(void*, unsigned int*) { return kInvalidValue; }
Result cuCtxGetDevice(int*) { return kInvalidValue; }
Result cuPointerGetAttribute(void*, int, Pointer) { return kInvalidValue; }

}  // extern "C"
