#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <type_traits>

#include "runtime/cuda/driver.h"
#include "runtime/device/stream_state.h"
#include "runtime/support/error.h"

namespace ashlar::detail {
namespace {

using cuda::Api;
using cuda::ContextScope;

cuda::DeviceId device_id(int index) {
  cuda::DeviceId id = 0;
  cuda::check("cuDeviceGet", cuda::call(cuda::api()->device_get, &id, index));
  return id;
}

class CudaDevice final : public DeviceState {
 public:
  explicit CudaDevice(int index) : DeviceState(Device::cuda(index)), api_(*cuda::api()) {
    const cuda::DeviceId id = device_id(index);
    // The primary context is what other libraries in the process (cuBLAS, PyTorch) use too.
    cuda::check("cuDevicePrimaryCtxRetain", cuda::call(api_.primary_context_retain, &context_, id));
  }

  const Api& api() const { return api_; }
  cuda::Context context() const { return context_; }

  uint64_t allocate(int64_t bytes) noexcept override {
    cuda::DevicePointer pointer = 0;
    ContextScope scope(context_, std::nothrow_t{});
    if (scope.status() != cuda::kSuccess) return 0;
    const cuda::Result status = cuda::call(api_.memory_allocate, &pointer, static_cast<size_t>(bytes));
    return status == cuda::kSuccess ? pointer : 0;
  }

  void release(uint64_t handle) noexcept override {
    cuda::Context popped;
    if (api_.push_context(context_) != cuda::kSuccess) return;  // the driver is shutting down
    api_.memory_free(handle);
    api_.pop_context(&popped);
  }

  void* allocate_host(int64_t bytes) noexcept override {
    void* memory = nullptr;
    ContextScope scope(context_, std::nothrow_t{});
    if (scope.status() != cuda::kSuccess) return nullptr;
    const cuda::Result status =
        cuda::call(api_.host_allocate, &memory, static_cast<size_t>(bytes), cuda::kPortableHostMemory);
    return status == cuda::kSuccess ? memory : nullptr;
  }

  void release_host(void* memory) noexcept override {
    cuda::Context popped;
    if (api_.push_context(context_) != cuda::kSuccess) return;  // the driver is shutting down
    api_.host_free(memory);
    api_.pop_context(&popped);
  }

  std::shared_ptr<StreamState> make_stream() override;
  std::shared_ptr<StreamState> wrap_stream(void* native_queue) override;
  // Kernels store up to 128 bits at a time.
  int64_t output_alignment() const override { return 16; }

 private:
  const Api& api_;
  cuda::Context context_ = nullptr;
};

class CudaGraph final : public DriverGraph {
 public:
  explicit CudaGraph(CudaDevice& device) : device_(device), api_(device.api()) {}

  ~CudaGraph() override {
    cuda::Context popped;
    if (executable_ == nullptr || api_.push_context(device_.context()) != cuda::kSuccess) return;
    api_.executable_destroy(executable_);
    api_.pop_context(&popped);
  }

  /// From what a stream has captured. The context is current.
  void instantiate(cuda::DriverGraphHandle captured) {
    cuda::check("cuGraphInstantiateWithFlags", cuda::call(api_.graph_instantiate, &executable_, captured, 0ull));
  }

  void replay(StreamState& stream) override {
    ContextScope scope(device_.context());
    cuda::check("cuGraphLaunch",
                cuda::call(api_.graph_launch, executable_, static_cast<cuda::Queue>(stream.native_queue())));
  }

 private:
  CudaDevice& device_;
  const Api& api_;
  cuda::ExecutableGraph executable_ = nullptr;
};

class CudaStream final : public StreamState {
 public:
  explicit CudaStream(CudaDevice& device) : StreamState(device), device_(device), api_(device.api()) {
    ContextScope scope(device.context());
    cuda::check("cuStreamCreate", cuda::call(api_.stream_create, &queue_, cuda::kNonBlockingStream));
  }

  /// A queue of the caller's.
  CudaStream(CudaDevice& device, cuda::Queue queue)
      : StreamState(device), device_(device), api_(device.api()), queue_(queue), is_wrapped_(true) {}

  ~CudaStream() override {
    cuda::Context popped;
    if (is_wrapped_ || queue_ == nullptr || api_.push_context(device_.context()) != cuda::kSuccess) return;
    api_.stream_destroy(queue_);  // returns at once; the driver lets the work finish
    api_.pop_context(&popped);
  }

  void synchronize() override {
    ContextScope scope(device_.context());
    cuda::check("cuStreamSynchronize", cuda::call(api_.stream_synchronize, queue_));
  }

  void wait(StreamState& other) override {
    ContextScope scope(device_.context());
    cuda::Event reached = nullptr;
    cuda::check("cuEventCreate", cuda::call(api_.event_create, &reached, cuda::kEventWithoutTiming));
    cuda::Result status = cuda::call(api_.event_record, reached, static_cast<cuda::Queue>(other.native_queue()));
    if (status == cuda::kSuccess) status = cuda::call(api_.stream_wait_event, queue_, reached, 0u);
    api_.event_destroy(reached);
    cuda::check("cuStreamWaitEvent", status);
  }

  void write(uint64_t destination, int64_t offset, const void* source, int64_t bytes) override {
    ContextScope scope(device_.context());
    // From pageable memory the driver returns once it has staged the bytes: `source` may be reused.
    cuda::check("cuMemcpyHtoDAsync",
                cuda::call(api_.copy_to_device, at(destination, offset), source, static_cast<size_t>(bytes), queue_));
  }

  void read(void* destination, uint64_t source, int64_t offset, int64_t bytes) override {
    ContextScope scope(device_.context());
    cuda::check("cuMemcpyDtoHAsync",
                cuda::call(api_.copy_to_host, destination, at(source, offset), static_cast<size_t>(bytes), queue_));
    cuda::check("cuStreamSynchronize", cuda::call(api_.stream_synchronize, queue_));
  }

  void copy(uint64_t destination, int64_t destination_offset, uint64_t source, int64_t source_offset,
            int64_t bytes) override {
    ContextScope scope(device_.context());
    cuda::check("cuMemcpyDtoDAsync", cuda::call(api_.copy_on_device, at(destination, destination_offset),
                                                at(source, source_offset), static_cast<size_t>(bytes), queue_));
  }

  void copy_rows(uint64_t destination, int64_t destination_offset, int64_t destination_pitch, uint64_t source,
                 int64_t source_offset, int64_t source_pitch, int64_t row_bytes, int64_t rows) override {
    ContextScope scope(device_.context());
    cuda::Copy2D copy;
    copy.source_device = at(source, source_offset);
    copy.source_pitch = static_cast<size_t>(source_pitch);
    copy.destination_device = at(destination, destination_offset);
    copy.destination_pitch = static_cast<size_t>(destination_pitch);
    copy.width_bytes = static_cast<size_t>(row_bytes);
    copy.height = static_cast<size_t>(rows);
    cuda::check("cuMemcpy2DAsync", cuda::call(api_.copy_2d, &copy, queue_));
  }

  bool driver_records() const override { return true; }

  void begin_capture() override {
    ContextScope scope(device_.context());
    cuda::check("cuStreamBeginCapture", cuda::call(api_.begin_capture, queue_, cuda::kRelaxedCapture));
  }

  std::unique_ptr<DriverGraph> end_capture() override {
    ContextScope scope(device_.context());
    cuda::DriverGraphHandle handle = nullptr;
    cuda::check("cuStreamEndCapture", api_.end_capture(queue_, &handle));  // always done: it ends the capture
    const auto destroy = [this](cuda::DriverGraphHandle graph) { api_.graph_destroy(graph); };
    const std::unique_ptr<std::remove_pointer_t<cuda::DriverGraphHandle>, decltype(destroy)> captured(handle, destroy);
    auto graph = std::make_unique<CudaGraph>(device_);
    graph->instantiate(captured.get());
    return graph;
  }

  bool is_wrapped() const override { return is_wrapped_; }
  void* native_context() const override { return device_.context(); }
  void* native_queue() const override { return queue_; }

 private:
  static cuda::DevicePointer at(uint64_t base, int64_t offset) { return base + static_cast<uint64_t>(offset); }

  CudaDevice& device_;
  const Api& api_;
  cuda::Queue queue_ = nullptr;
  bool is_wrapped_ = false;
};

std::shared_ptr<StreamState> CudaDevice::make_stream() { return std::make_shared<CudaStream>(*this); }

std::shared_ptr<StreamState> CudaDevice::wrap_stream(void* native_queue) {
  return std::make_shared<CudaStream>(*this, static_cast<cuda::Queue>(native_queue));
}

}  // namespace

int cuda_device_count() noexcept {
  static const int count = [] {
    int n = 0;
    const Api* api = cuda::api();
    return api && api->device_get_count(&n) == cuda::kSuccess ? n : 0;
  }();
  return count;
}

namespace {

/// An attribute of a device by the driver's number; 0 where the driver doesn't say.
int attribute_of(int index, int attribute) noexcept {
  using GetAttribute = cuda::Result (*)(int* value, int attribute, cuda::DeviceId device);
  static const auto get = reinterpret_cast<GetAttribute>(cuda::symbol("cuDeviceGetAttribute"));
  cuda::DeviceId id = 0;
  int value = 0;
  const bool is_told = get != nullptr && cuda::api()->device_get(&id, index) == cuda::kSuccess &&
                       get(&value, attribute, id) == cuda::kSuccess;
  return is_told ? value : 0;
}

constexpr int kMajor = 75;  // of the compute capability

// What a driver said of each device, asked once; 0 is not yet.
using KnownValues = std::array<std::atomic<int>, kMostDevices>;
template <class Ask>
int known_of(KnownValues& known, int index, Ask ask) noexcept {
  std::atomic<int>& kept = known[static_cast<size_t>(index)];
  int value = kept.load(std::memory_order_relaxed);
  if (value == 0) kept.store(value = ask());
  return value;
}

}  // namespace

DeviceState& open_cuda_device(int index) { return *new CudaDevice(index); }

std::string cuda_description(int index) {
  char name[256] = "";
  cuda::check("cuDeviceGetName", cuda::call(cuda::api()->device_get_name, name, 256, device_id(index)));
  return name;
}

std::string cuda_capability(int index) {
  constexpr int kMinor = 76;
  const int major = attribute_of(index, kMajor), minor = attribute_of(index, kMinor);
  return major > 0 ? std::to_string(major) + "." + std::to_string(minor) : "unknown";
}

CudaSpeed cuda_speed(int index) noexcept {
  constexpr int kMultiprocessors = 16, kClock = 13, kMemoryClock = 36, kBusWidth = 37;  // kHz, kHz, bits
  const int multiprocessors = attribute_of(index, kMultiprocessors), clock = attribute_of(index, kClock);
  const double bits_per_millisecond = 2.0 * attribute_of(index, kMemoryClock) * attribute_of(index, kBusWidth);
  return {multiprocessors > 0 ? multiprocessors : 132, clock > 0 ? clock * 1e-6 : 1.98,
          bits_per_millisecond > 0 ? bits_per_millisecond / 8e6 : 4800};
}

int cuda_shared_bytes(int index) noexcept {
  constexpr int kMostOfBlock = 97, kOfEveryBlock = 48 << 10;  // the first has to be asked for (kernel_module.cpp)
  static KnownValues known{};
  return known_of(known, index, [&] { return std::max(attribute_of(index, kMostOfBlock), kOfEveryBlock); });
}

bool cuda_has_clusters(int index) noexcept {
  constexpr int kFirstMajor = 9;
  static KnownValues known{};
  return known_of(known, index, [&] { return std::max(attribute_of(index, kMajor), 1); }) >= kFirstMajor;
}

std::string cuda_driver() {
  int version = 0;
  cuda::check("cuDriverGetVersion", cuda::call(cuda::api()->driver_get_version, &version));
  return "CUDA driver " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace ashlar::detail
