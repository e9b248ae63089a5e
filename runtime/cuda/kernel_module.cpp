#include "runtime/cuda/kernel_module.h"

#include <HalideRuntime.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/overlap.h"
#include "runtime/device/counter_cells.h"
#include "runtime/device/stream_state.h"
#include "runtime/support/environment.h"

namespace ashlar::detail::cuda {
namespace {

constexpr int kDynamicSharedBytesAttribute = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int kArchitectureAttribute = 5;        // CU_FUNC_ATTRIBUTE_PTX_VERSION: what its PTX was written for
constexpr int kOverlapInGraphs = 12030;          // the first driver that captures such launches
constexpr int kOverlapAttribute = 6;             // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
constexpr int kSharedBytesForAll = 48 << 10;     // more has to be asked for
constexpr int kMostParameters = 128;

Result note(LaunchContext& launch, const char* name, Result status) noexcept {
  if (status != kSuccess) launch.record_driver_failure(name, status, status == kOutOfMemory);
  return status;
}

/// Makes the launch's context current for a scope.
class LaunchScope {
 public:
  explicit LaunchScope(LaunchContext& launch)
      : scope_(static_cast<Context>(launch.stream->native_context()), std::nothrow_t()),
        good_(note(launch, "cuCtxPushCurrent", scope_.status()) == kSuccess) {}
  explicit operator bool() const { return good_; }

 private:
  ContextScope scope_;
  bool good_;
};

/// Whether launches of the function may begin before what is ahead of them in their stream has ended, since its code
/// waits for that itself. Code for earlier GPUs, whatever runs it, doesn't.
bool may_overlap(Function function) noexcept {
  static const bool is_possible = [] {
    int version = 0;
    return environment().overlap && api()->launch_with != nullptr && api()->driver_get_version(&version) == kSuccess &&
           version >= kOverlapInGraphs;
  }();
  int architecture = 0;
  return is_possible && api()->function_get_attribute(&architecture, kArchitectureAttribute, function) == kSuccess &&
         architecture >= kOverlapArchitecture;
}

}  // namespace

struct KernelModule::Entry {
  const char* name;
  Function function;
  bool may_overlap;
  int multiprocessors;
  std::atomic<int> shared_limit{kSharedBytesForAll};
  Entry* next;

  Entry(const char* n, Function f, int device, Entry* rest)
      : name(n),
        function(f),
        may_overlap(cuda::may_overlap(f)),
        multiprocessors(cuda_speed(device).multiprocessors),
        next(rest) {}

  /// Whether a launch had better begin before what is ahead of it has ended. Its blocks then find places only where
  /// that leaves some. Of such as have so many registers or so much shared memory each that few threads fit on a
  /// multiprocessor, some of these would get as many as they hold while others stay idle: products took twice as long
  /// (H100). Where there are enough for all, or one fills a multiprocessor, that can't be.
  bool overlaps(const LaunchSize& size) noexcept {
    constexpr int kFewThreads = 768, kFewOfTiles = 1024, kBytesOfTiles = 16 << 10;
    if (!may_overlap) return false;
    const int few = size.shared_bytes < kBytesOfTiles ? kFewThreads : kFewOfTiles;
    const int threads = size.threads[0] * size.threads[1] * size.threads[2], resident = resident_blocks(threads, size);
    const int64_t blocks = int64_t{size.blocks[0]} * size.blocks[1] * size.blocks[2];
    return resident <= 1 || resident * threads > few || blocks >= int64_t{resident} * multiprocessors;
  }

 private:
  /// What a multiprocessor holds at a time. Asked of the driver once for launches that are alike.
  int resident_blocks(int threads, const LaunchSize& size) noexcept {
    constexpr int kCountBits = 8, kSharedBits = 32;
    const uint64_t key = (uint64_t(threads) << kSharedBits | uint64_t(size.shared_bytes)) << kCountBits;
    const uint64_t last = last_resident_.load(std::memory_order_relaxed);
    if (last >> kCountBits == key >> kCountBits) return static_cast<int>(last & ((1u << kCountBits) - 1));
    int count = 0;
    if (api()->resident_blocks(&count, function, threads, static_cast<size_t>(size.shared_bytes)) != kSuccess)
      count = 1;
    last_resident_.store(key | uint64_t(count), std::memory_order_relaxed);
    return count;
  }
  std::atomic<uint64_t> last_resident_{0};  // threads and bytes of shared memory, and how many there are
};

KernelModule* module_of(void** slot, const void* image) noexcept {
  std::atomic_ref<void*> shared(*slot);
  if (void* module = shared.load(std::memory_order_acquire)) [[likely]]
    return static_cast<KernelModule*>(module);
  auto* made = new (std::nothrow) KernelModule(image);
  void* empty = nullptr;
  if (made == nullptr || shared.compare_exchange_strong(empty, made, std::memory_order_acq_rel)) return made;
  delete made;  // another thread was quicker
  return static_cast<KernelModule*>(empty);
}

// Called with the context current and loading_ held.
KernelModule::Loaded* KernelModule::load(LaunchContext& launch) noexcept {
  auto* made = new (std::nothrow) Loaded;
  if (made == nullptr) {
    launch.out_of_memory = true;
    return nullptr;
  }
  if (note(launch, "cuModuleLoadDataEx", call(api()->module_load, &made->module, image_, 0u, nullptr, nullptr)) !=
      kSuccess) {
    delete made;
    return nullptr;
  }
  count(counter_cells(DeviceKind::cuda).modules_loaded);
  log("loaded a CUDA module");
  return made;
}

KernelModule::Entry* KernelModule::entry(const char* name, LaunchContext& launch) noexcept {
  std::atomic<Loaded*>& slot = loaded_[launch.device.index];
  const auto find = [&slot, name]() -> Entry* {
    const Loaded* loaded = slot.load(std::memory_order_acquire);
    Entry* e = loaded ? loaded->entries.load(std::memory_order_acquire) : nullptr;
    while (e != nullptr && e->name != name) e = e->next;
    return e;
  };
  if (Entry* found = find()) [[likely]]
    return found;
  const std::lock_guard lock(loading_);
  if (Entry* found = find()) return found;
  Loaded* loaded = slot.load(std::memory_order_relaxed);
  if (loaded == nullptr) {
    if ((loaded = load(launch)) == nullptr) return nullptr;
    slot.store(loaded, std::memory_order_release);
  }
  Function function = nullptr;
  if (note(launch, "cuModuleGetFunction", call(api()->module_get_function, &function, loaded->module, name)) !=
      kSuccess) {
    return nullptr;
  }
  auto* made =
      new (std::nothrow) Entry(name, function, launch.device.index, loaded->entries.load(std::memory_order_relaxed));
  if (made != nullptr) {
    loaded->entries.store(made, std::memory_order_release);
  } else {
    launch.out_of_memory = true;
  }
  return made;
}

int launch_function(KernelModule& module, const char* name, const LaunchSize& size, const size_t* sizes,
                    void** arguments, const int8_t* is_buffer, LaunchContext& launch) noexcept {
  void* parameters[kMostParameters];
  int parameter_count = 0;
  for (; sizes[parameter_count] != 0; ++parameter_count) {
    if (parameter_count == kMostParameters) {
      launch.record_error("the GPU function has more than 128 parameters");
      return halide_error_code_internal_error;
    }
    void* argument = arguments[parameter_count];
    parameters[parameter_count] =
        is_buffer[parameter_count] ? &static_cast<halide_buffer_t*>(argument)->device : argument;
  }
  const LaunchScope scope(launch);
  if (!scope) return halide_error_code_gpu_device_error;
  KernelModule::Entry* entry = module.entry(name, launch);
  if (entry == nullptr) return halide_error_code_gpu_device_error;
  if (size.shared_bytes > entry->shared_limit.load(std::memory_order_relaxed)) {
    if (note(launch, "cuFuncSetAttribute",
             call(api()->function_set_attribute, entry->function, kDynamicSharedBytesAttribute, size.shared_bytes)) !=
        kSuccess) {
      return halide_error_code_gpu_device_error;
    }
    entry->shared_limit.store(size.shared_bytes, std::memory_order_relaxed);
  }
  launch.tell_observer(name);
  const auto u = [](int value) { return static_cast<unsigned int>(value); };
  const auto queue = static_cast<Queue>(launch.stream->native_queue());
  const bool overlaps = entry->overlaps(size);
  Result status = kSuccess;
  if (overlaps) {
    static constexpr LaunchAttribute kOverlaps{.id = kOverlapAttribute, .value = 1};
    const LaunchConfiguration configuration{
        .grid = {u(size.blocks[0]), u(size.blocks[1]), u(size.blocks[2])},
        .block = {u(size.threads[0]), u(size.threads[1]), u(size.threads[2])},
        .shared_bytes = u(size.shared_bytes),
        .stream = queue,
        .attributes = &kOverlaps,
        .attribute_count = 1,
    };
    status = call(api()->launch_with, &configuration, entry->function, static_cast<void**>(parameters),
                  static_cast<void**>(nullptr));
  } else {
    status = call(api()->launch_kernel, entry->function, u(size.blocks[0]), u(size.blocks[1]), u(size.blocks[2]),
                  u(size.threads[0]), u(size.threads[1]), u(size.threads[2]), u(size.shared_bytes), queue,
                  static_cast<void**>(parameters), static_cast<void**>(nullptr));
  }
  if (note(launch, overlaps ? "cuLaunchKernelEx" : "cuLaunchKernel", status) != kSuccess)
    return halide_error_code_gpu_device_error;
  ++launch.driver_launches;
  launch.stream->count_launch();
  return halide_error_code_success;
}

}  // namespace ashlar::detail::cuda
