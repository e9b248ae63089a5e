#include "runtime/opencl/opencl_device.h"

#include <algorithm>
#include <climits>
#include <vector>

#include "runtime/device/stream_state.h"
#include "runtime/launch/halide_hooks.h"
#include "runtime/opencl/driver.h"
#include "runtime/support/environment.h"
#include "runtime/support/error.h"

namespace ashlar::detail {
namespace {

using opencl::Api;
using opencl::text_of;

// Of devices that know cl_nv_device_attribute_query; others answer with an error.
constexpr cl_device_info kComputeCapabilityMajor = 0x4000;

struct Entry {
  cl_device_id device;
  cl_device_type type;
  cl_ulong local_bytes;
  size_t group_threads;
  cl_uint compute_units, megahertz;
  cl_uint nvidia_capability;  ///< the first number of it; 0 elsewhere
};

std::vector<Entry> list_devices(const Api& api) {
  std::vector<Entry> entries;
  cl_uint platform_count = 0;
  if (api.get_platform_ids(0, nullptr, &platform_count) != CL_SUCCESS) return entries;
  std::vector<cl_platform_id> platforms(platform_count);
  if (api.get_platform_ids(platform_count, platforms.data(), nullptr) != CL_SUCCESS) return entries;
  for (cl_platform_id platform : platforms) {
    cl_uint count = 0;
    if (api.get_device_ids(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(count);
    if (api.get_device_ids(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_device_id device : devices) {
      Entry entry{device, 0, 0, 1, 1, 0, 0};
      cl_bool available = CL_FALSE;
      api.get_device_info(device, CL_DEVICE_TYPE, sizeof(entry.type), &entry.type, nullptr);
      api.get_device_info(device, CL_DEVICE_AVAILABLE, sizeof(available), &available, nullptr);
      api.get_device_info(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(entry.local_bytes), &entry.local_bytes, nullptr);
      api.get_device_info(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(entry.group_threads), &entry.group_threads,
                          nullptr);
      api.get_device_info(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(entry.compute_units), &entry.compute_units,
                          nullptr);
      api.get_device_info(device, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof(entry.megahertz), &entry.megahertz, nullptr);
      api.get_device_info(device, kComputeCapabilityMajor, sizeof(entry.nvidia_capability), &entry.nvidia_capability,
                          nullptr);
      if (available) entries.push_back(entry);
    }
  }
  const auto rank = [](const Entry& e) {
    return e.type & CL_DEVICE_TYPE_GPU ? 0 : e.type & CL_DEVICE_TYPE_ACCELERATOR ? 1 : 2;
  };
  std::ranges::stable_sort(entries, {}, rank);
  return entries;
}

/// Listed at the first call. Throws std::bad_alloc only; then the next call tries again.
const std::vector<Entry>& devices() {
  static const std::vector<Entry>& all = *new std::vector<Entry>([] {
    const Api* api = opencl::api();
    return api ? list_devices(*api) : std::vector<Entry>();
  }());
  return all;
}

cl_mem as_buffer(uint64_t handle) { return reinterpret_cast<cl_mem>(handle); }

class OpenClDevice final : public DeviceState {
 public:
  OpenClDevice(int index, const Entry& entry) : DeviceState(Device::opencl(index)), api_(*opencl::api()) {
    cl_uint bits = 0;
    opencl::check("clGetDeviceInfo", opencl::call(api_.get_device_info, entry.device, CL_DEVICE_MEM_BASE_ADDR_ALIGN,
                                                  sizeof(bits), &bits, nullptr));
    output_alignment_ = std::max<int64_t>(bits / 8, 1);
    id_ = entry.device;
    has_one_queue_ = opencl::is_pocl(text_of(id_, CL_DEVICE_VERSION));
    cl_int status = CL_OUT_OF_RESOURCES;
    if (!fault::strikes(FaultSite::driver_call)) {
      context_ = api_.create_context(nullptr, 1, &id_, nullptr, nullptr, &status);
    }
    opencl::check("clCreateContext", status);
    queue_ = make_queue(status);
    if (status != CL_SUCCESS) api_.release_context(context_);
    opencl::check("clCreateCommandQueue", status);
  }

  const Api& api() const { return api_; }
  cl_context context() const { return context_; }

  /// In which a stream's work goes; null where it shall make its own.
  cl_command_queue common_queue() const { return has_one_queue_ ? queue_ : nullptr; }

  cl_command_queue make_queue(cl_int& status) const noexcept {
    status = CL_OUT_OF_RESOURCES;
    if (fault::strikes(FaultSite::driver_call)) return nullptr;
    return api_.create_command_queue(context_, id_, 0, &status);
  }

  uint64_t allocate(int64_t bytes) noexcept override {
    if (fault::strikes(FaultSite::driver_call)) return 0;
    cl_int status;
    cl_mem buffer = api_.create_buffer(context_, CL_MEM_READ_WRITE, static_cast<size_t>(bytes), nullptr, &status);
    if (status != CL_SUCCESS) return 0;
    // Drivers put memory behind a buffer at its first use; asked now, a shortage shows here and not in a kernel.
    if (opencl::call(api_.enqueue_migrate_mem_objects, queue_, 1u, &buffer,
                     cl_mem_migration_flags{CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED}, 0u, nullptr,
                     nullptr) != CL_SUCCESS ||
        opencl::call(api_.finish, queue_) != CL_SUCCESS) {
      api_.release_mem_object(buffer);
      return 0;
    }
    return reinterpret_cast<uint64_t>(buffer);
  }

  void release(uint64_t handle) noexcept override { api_.release_mem_object(as_buffer(handle)); }

  uint64_t part_of(uint64_t handle, int64_t offset, int64_t bytes) override {
    const cl_buffer_region region{static_cast<size_t>(offset), static_cast<size_t>(bytes)};
    cl_int status = CL_OUT_OF_RESOURCES;
    cl_mem part =
        api_.create_sub_buffer(as_buffer(handle), CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
    opencl::check("clCreateSubBuffer", status);
    return reinterpret_cast<uint64_t>(part);
  }
  void release_part(uint64_t handle) noexcept override { api_.release_mem_object(as_buffer(handle)); }

  std::shared_ptr<StreamState> make_stream() override;
  int64_t output_alignment() const override { return output_alignment_; }

 private:
  const Api& api_;
  cl_device_id id_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;  ///< for allocations, and for all where there is but one
  /// Before 6.0, PoCL loses count of who uses a kernel when several queues run it at once on grids of different sizes,
  /// and ends the process (assertion in pocl_release_dlhandle_cache).
  bool has_one_queue_ = false;
  int64_t output_alignment_ = 1;
};

class OpenClStream final : public StreamState {
 public:
  explicit OpenClStream(OpenClDevice& device)
      : StreamState(device), device_(device), api_(device.api()), queue_(device.common_queue()) {
    if (queue_ != nullptr) return;
    cl_int status;
    queue_ = device.make_queue(status);
    opencl::check("clCreateCommandQueue", status);
  }

  ~OpenClStream() override {
    if (queue_ != device_.common_queue()) api_.release_command_queue(queue_);
  }

  void synchronize() override { opencl::check("clFinish", opencl::call(api_.finish, queue_)); }

  void wait(StreamState& other) override {
    cl_event reached = nullptr;
    cl_command_queue theirs = static_cast<cl_command_queue>(other.native_queue());
    opencl::check("clEnqueueMarkerWithWaitList",
                  opencl::call(api_.enqueue_marker_with_wait_list, theirs, 0u, nullptr, &reached));
    cl_int status = opencl::call(api_.flush, theirs);
    if (status == CL_SUCCESS) {
      status = opencl::call(api_.enqueue_barrier_with_wait_list, queue_, 1u, &reached, nullptr);
    }
    api_.release_event(reached);
    opencl::check("clEnqueueBarrierWithWaitList", status);
  }

  void write(uint64_t destination, int64_t offset, const void* source, int64_t bytes) override {
    const opencl::Place to = at(destination, offset);
    opencl::check("clEnqueueWriteBuffer",
                  opencl::call(api_.enqueue_write_buffer, queue_, to.buffer, cl_bool{CL_TRUE}, to.offset,
                               static_cast<size_t>(bytes), source, 0u, nullptr, nullptr));
  }

  void read(void* destination, uint64_t source, int64_t offset, int64_t bytes) override {
    const opencl::Place from = at(source, offset);
    opencl::check("clEnqueueReadBuffer",
                  opencl::call(api_.enqueue_read_buffer, queue_, from.buffer, cl_bool{CL_TRUE}, from.offset,
                               static_cast<size_t>(bytes), destination, 0u, nullptr, nullptr));
  }

  void copy(uint64_t destination, int64_t destination_offset, uint64_t source, int64_t source_offset,
            int64_t bytes) override {
    const opencl::Place from = at(source, source_offset), to = at(destination, destination_offset);
    opencl::check("clEnqueueCopyBuffer",
                  opencl::call(api_.enqueue_copy_buffer, queue_, from.buffer, to.buffer, from.offset, to.offset,
                               static_cast<size_t>(bytes), 0u, nullptr, nullptr));
  }

  void copy_rows(uint64_t destination, int64_t destination_offset, int64_t destination_pitch, uint64_t source,
                 int64_t source_offset, int64_t source_pitch, int64_t row_bytes, int64_t rows) override {
    // {byte in row, row, slice}: an offset goes into the first of them whole, whatever the pitch.
    const opencl::Place source_place = at(source, source_offset);
    const opencl::Place destination_place = at(destination, destination_offset);
    const size_t from[3] = {source_place.offset, 0, 0};
    const size_t to[3] = {destination_place.offset, 0, 0};
    const size_t region[3] = {static_cast<size_t>(row_bytes), static_cast<size_t>(rows), 1};
    opencl::check("clEnqueueCopyBufferRect",
                  opencl::call(api_.enqueue_copy_buffer_rect, queue_, source_place.buffer, destination_place.buffer,
                               from, to, region, static_cast<size_t>(source_pitch), size_t{0},
                               static_cast<size_t>(destination_pitch), size_t{0}, 0u, nullptr, nullptr));
  }

  void* native_context() const override { return device_.context(); }
  void* native_queue() const override { return queue_; }

 private:
  static opencl::Place at(uint64_t handle, int64_t offset) {
    return opencl::place_of(as_buffer(handle), static_cast<size_t>(offset));
  }

  OpenClDevice& device_;
  const Api& api_;
  cl_command_queue queue_;
};

std::shared_ptr<StreamState> OpenClDevice::make_stream() { return std::make_shared<OpenClStream>(*this); }

}  // namespace

int opencl_device_count() { return static_cast<int>(devices().size()); }

DeviceState& open_opencl_device(int index) {
  load_halide_opencl();
  return *new OpenClDevice(index, devices().at(static_cast<size_t>(index)));
}

std::string opencl_description(int index) {
  return text_of(devices().at(static_cast<size_t>(index)).device, CL_DEVICE_NAME);
}

std::string opencl_vendor(int index) {
  return text_of(devices().at(static_cast<size_t>(index)).device, CL_DEVICE_VENDOR);
}

int opencl_local_bytes(int index) noexcept {
  return static_cast<int>(std::min<cl_ulong>(devices()[static_cast<size_t>(index)].local_bytes, INT_MAX));
}

int opencl_group_threads(int index) noexcept {
  return static_cast<int>(std::min<size_t>(devices()[static_cast<size_t>(index)].group_threads, INT_MAX));
}

OpenClSpeed opencl_speed(int index) noexcept {
  constexpr double kMegahertz = 1e-3, kOfEachUnit = 20;
  const Entry& entry = devices()[static_cast<size_t>(index)];
  return {static_cast<int>(entry.compute_units), std::max<cl_uint>(entry.megahertz, 1) * kMegahertz,
          entry.compute_units * kOfEachUnit};
}

const char* opencl_build_options(int index) noexcept {
  constexpr cl_uint kFirstWithBf16 = 8;
  const cl_uint capability = devices()[static_cast<size_t>(index)].nvidia_capability;
  // How far off native functions are is each implementation's own affair: Intel's for CPUs lose a third of the digits.
  if (capability == 0) return "-D native_exp2=exp2";
  return capability >= kFirstWithBf16 ? "-D ASHLAR_PTX_BF16" : "";
}

std::string opencl_driver(int index) {
  const cl_device_id device = devices().at(static_cast<size_t>(index)).device;
  return text_of(device, CL_DEVICE_VENDOR) + ", " + text_of(device, CL_DEVICE_VERSION) + ", driver " +
         text_of(device, CL_DRIVER_VERSION);
}

}  // namespace ashlar::detail
