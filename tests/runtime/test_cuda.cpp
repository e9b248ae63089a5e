// The CUDA half without a GPU: against the stand-in driver of fake_cuda.cpp, which ctest opens by ASHLAR_CUDA_LIBRARY.
// The kernel is written by hand as Halide compiles one: it loads its module and launches through Halide's runtime.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/device/counters.h"
#include "runtime/device/stream.h"
#include "runtime/device/stream_state.h"
#include "runtime/graph/graph.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "runtime/tensor/upload.h"
#include "tests/runtime/devices.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/host_kernel.h"

// In Halide's runtime; HalideRuntime.h doesn't declare what only compiled kernels call.
extern "C" {
int halide_cuda_initialize_kernels(void* user_context, void** state, const char* image, int size);
void halide_cuda_finalize_kernels(void* user_context, void* state);
int halide_cuda_run(void* user_context, void* state, const char* entry, int blocks_x, int blocks_y, int blocks_z,
                    int threads_x, int threads_y, int threads_z, int shared_bytes, size_t sizes[], void* arguments[],
                    int8_t is_buffer[]);
const halide_device_interface_t* halide_cuda_device_interface();
}

namespace ashlar::testing {
namespace {

int shared_bytes = 0;
const char* const kScale = "scale";
const char* scale_function = kScale;

/// y[i] = scale · x[i] for an x without offset.
int scale_on_cuda(void** arguments) {
  static void* state = nullptr;
  static char image[] = "fake module";
  void* context = context_at(arguments);
  if (int code = halide_cuda_initialize_kernels(context, &state, image, sizeof(image))) return code;
  halide_buffer_t& x = buffer_at(arguments, 1);
  halide_buffer_t& y = buffer_at(arguments, 3);
  EXPECT_EQ(x.host, nullptr);
  EXPECT_EQ(x.device_interface, halide_cuda_device_interface());
  EXPECT_EQ(x.device % 256, 0u);
  EXPECT_EQ(y.device % 16, 0u);
  size_t sizes[] = {8, 4, 4, 8, 0};
  void* values[] = {&x, arguments[2], &y.dim[0].extent, &y, nullptr};
  int8_t is_buffer[] = {1, 0, 0, 1, 0};
  int code = halide_copy_to_device(context, &x, halide_cuda_device_interface());  // as compiled kernels do: no copy
  if (code == 0) {
    code = halide_cuda_run(context, state, scale_function, 1, 1, 1, 1, 1, 1, shared_bytes, sizes, values, is_buffer);
  }
  halide_cuda_finalize_kernels(context, state);
  return code;
}

int allocates_in_kernel(void** arguments) {
  halide_dimension_t dimension(0, 100, 1);
  halide_buffer_t temporary{};
  temporary.type = {halide_type_float, 32};
  temporary.dimensions = 1;
  temporary.dim = &dimension;
  return halide_device_malloc(context_at(arguments), &temporary, halide_cuda_device_interface());
}

int copies_in_kernel(void** arguments) {
  static float host[1000];
  halide_buffer_t& y = buffer_at(arguments, 3);
  y.host = reinterpret_cast<uint8_t*>(host);
  y.set_device_dirty();
  return halide_copy_to_host(context_at(arguments), &y);
}

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Device::cuda().is_available() || Device::cuda().description() != "fake CUDA device") {
      GTEST_SKIP() << "run by ctest with the stand-in driver";
    }
    void* library = dlopen(std::getenv("ASHLAR_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    log_ = reinterpret_cast<decltype(&fake_cuda_log)>(dlsym(library, "fake_cuda_log"))();
    dlclose(library);
  }
  void TearDown() override {
    if (log_) {
      EXPECT_EQ(log_->contexts_pushed, 0);
    }
  }

  /// Runs a hand-written kernel on CUDA.
  static void run(int (*function)(void**), const Tensor& x, float scale, const Tensor& y) {
    const KernelInstance instance{KernelKey{}.packed(), function, "scale_cuda"};
    const TargetTable table{&instance, 1};
    KernelInfo info = {kTablesVersion, "scale", "", &form_of<forms::Plain>, kScaleArguments, {}, 1,
                       nullptr,        nullptr, {}};
    info.targets[static_cast<size_t>(CodeTarget::cuda)] = &table;
    const std::vector<Tensor> inputs = {x}, outputs = {y};
    const std::vector<Scalar> scalars = {scale};
    detail::forget_known_calls();
    launch(info, KernelKey{}, inputs, scalars, outputs);
  }

  const FakeCudaLog* log_ = nullptr;
};

TEST_F(Cuda, LaunchesOnTheCurrentStreamWithoutARegisterCap) {
  const Tensor x = upload(ramp(1000), Device::cuda());
  const Tensor y = upload(ramp(1000), Device::cuda());
  const Counters before = counters(DeviceKind::cuda);
  run(&scale_on_cuda, x, 3, y);
  const Stream other(Device::cuda());
  {
    StreamScope scope(other);
    run(&scale_on_cuda, x, 3, y);
    EXPECT_EQ(log_->last_stream, other.state().native_queue());
  }
  const Counters span = counters(DeviceKind::cuda) - before;
  EXPECT_EQ(span.launches, 2);
  EXPECT_EQ(span.modules_loaded, 1);
  EXPECT_EQ(span.bytes_to_device + span.bytes_to_host + span.bytes_on_device, 0);
  EXPECT_EQ(log_->register_caps, 0);
  EXPECT_EQ(download(y)[999], 2997);
  EXPECT_EQ(Device::cuda().driver(), "CUDA driver 12.9");
}

TEST_F(Cuda, OnlyCodeThatWaitsForItsPredecessorOverlapsIt) {
  const Tensor x = upload(ramp(10), Device::cuda());
  const int64_t before = log_->overlapping;
  run(&scale_on_cuda, x, 2, x);
  EXPECT_EQ(log_->overlapping, before + 1);
  scale_function = "early_scale";
  run(&scale_on_cuda, x, 3, x);
  scale_function = kScale;
  EXPECT_EQ(log_->overlapping, before + 1);
  shared_bytes = 99 << 10;  // few threads on a multiprocessor, and fewer blocks than the device holds
  run(&scale_on_cuda, x, 1, x);
  EXPECT_EQ(log_->overlapping, before + 1);
  shared_bytes = 0;
  run(&scale_on_cuda, x, 1, x);
  EXPECT_EQ(log_->overlapping, before + 2);
  EXPECT_EQ(download(x)[9], 54);
}

TEST_F(Cuda, AsksForMoreSharedMemoryThanTheDefault) {
  const Tensor x = upload(ramp(10), Device::cuda());
  const int64_t before = log_->raised_shared;
  shared_bytes = 48 << 10;
  run(&scale_on_cuda, x, 1, x);
  EXPECT_EQ(log_->raised_shared, before);
  shared_bytes = 100 << 10;
  run(&scale_on_cuda, x, 1, x);
  EXPECT_EQ(log_->raised_shared, before + 1);
  shared_bytes = 0;
}

TEST_F(Cuda, OutputsAtAnyOffset) {
  const Tensor x = upload(ramp(100), Device::cuda());
  for (int64_t offset : {0, 1, 4, 7, 64}) {
    const Tensor target = upload(std::vector<float>(300, -1), Device::cuda());
    run(&scale_on_cuda, x, 2, Tensor(target.storage(), {100}, {1}, offset, DType::f32));
    std::vector<float> expected(300, -1);
    for (int i = 0; i < 100; ++i) expected[static_cast<size_t>(offset + i)] = 2.0f * static_cast<float>(i);
    EXPECT_EQ(download(target), expected) << offset;
  }
}

TEST_F(Cuda, AKernelMayNeitherAllocateNorCopy) {
  const Tensor x = upload(ramp(1000), Device::cuda());
  const int64_t live = log_->live_allocations;
  for (auto kernel : {&allocates_in_kernel, &copies_in_kernel}) {
    try {
      run(kernel, x, 1, x);
      ADD_FAILURE() << "no exception";
    } catch (const KernelError& error) {
      EXPECT_NE(std::string(error.what()).find("the kernel tried to"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(log_->live_allocations, live);
  EXPECT_EQ(download(x), ramp(1000));
}

// Who waits for whom when a storage is used on several streams.
TEST_F(Cuda, StreamsWaitForEachOthersUsesOfAStorage) {
  const Stream a(Device::cuda()), b(Device::cuda()), c(Device::cuda());
  float value[10] = {};
  const auto waits_of = [this](const Stream& stream, auto work) {
    StreamScope scope(stream);
    const int64_t before = log_->waits;
    work();
    return log_->waits - before;
  };
  std::shared_ptr<detail::Storage> storage;
  const auto write = [&] { detail::copy_from_host(*storage, 0, value, 40); };
  const auto read = [&] { detail::copy_to_host(value, *storage, 0, 40); };
  EXPECT_EQ(waits_of(a, [&] { storage = detail::Storage::create(40, Device::cuda()); }), 0);
  EXPECT_EQ(waits_of(a, write), 0);
  EXPECT_EQ(waits_of(a, read), 0);
  EXPECT_EQ(waits_of(b, read), 1);   // for a's write
  EXPECT_EQ(waits_of(b, read), 0);   // waited already
  EXPECT_EQ(waits_of(a, read), 0);   // its own write
  EXPECT_EQ(waits_of(c, write), 2);  // for a's write and b's read
  EXPECT_EQ(waits_of(c, write), 0);
  EXPECT_EQ(waits_of(a, read), 1);                      // for c's write
  EXPECT_EQ(waits_of(b, write), 2);                     // for c's write and a's read
  EXPECT_EQ(waits_of(c, [&] { storage.reset(); }), 1);  // its home, a, waits for b before the block is used again
}

TEST_F(Cuda, AGraphIsOneCall) {
  const Tensor x = upload(ramp(500), Device::cuda());
  Tensor y = upload(ramp(500), Device::cuda());
  const Counters before = counters(DeviceKind::cuda);
  const int64_t graphs = log_->live_graphs;
  {
    const Graph graph = capture(Device::cuda(), [&] {
      const Tensor t = Tensor::empty({500}, DType::f32, Device::cuda());
      run(&scale_on_cuda, x, 2, t);
      run(&scale_on_cuda, t, 3, y);
      run(&scale_on_cuda, y, 1, Tensor(t.storage(), {490}, {1}, 3, DType::f32));  // through a temporary and a copy
    });
    EXPECT_EQ(log_->live_graphs, graphs + 1);  // the executable one
    EXPECT_EQ(download(y), ramp(500));         // nothing ran
    EXPECT_EQ((counters(DeviceKind::cuda) - before).launches, 0);
    graph.replay();
    EXPECT_EQ(download(y)[499], 6 * 499);
    EXPECT_EQ((counters(DeviceKind::cuda) - before).launches, 3);
    EXPECT_EQ((counters(DeviceKind::cuda) - before).bytes_on_device, 490 * 4);
    EXPECT_EQ(log_->last_stream, Stream::current(Device::cuda()).state().native_queue());
  }
  EXPECT_EQ(log_->live_graphs, graphs);
}

// Of two queues in a capture the first waits where it has to, and at the end: the driver refuses one that doesn't.
TEST_F(Cuda, WorkBesideInAGraphIsWaitedForWhereItsTensorsAreUsed) {
  const Tensor x = upload(ramp(500), Device::cuda());
  const Tensor y = upload(ramp(500), Device::cuda()), z = upload(ramp(500), Device::cuda());
  const auto waits_of = [&](auto&& action) {
    const int64_t before = log_->waits;
    action();
    return log_->waits - before;
  };
  const Counters before = counters(DeviceKind::cuda);
  const auto beside_y = [&] {
    beside(Device::cuda(), [&] {
      const Tensor t = Tensor::empty({500}, DType::f32, Device::cuda());
      run(&scale_on_cuda, x, 2, t);
      beside(Device::cuda(), [&] { run(&scale_on_cuda, t, 3, y); });
    });
  };
  {
    const Graph graph = capture(Device::cuda(), [&] {
      EXPECT_EQ(waits_of(beside_y), 1);                               // the second queue for the first
      EXPECT_EQ(waits_of([&] { run(&scale_on_cuda, x, 1, z); }), 0);  // both read x
      EXPECT_EQ(waits_of([&] { run(&scale_on_cuda, y, 2, z); }), 1);  // reads what was written beside
      EXPECT_EQ(waits_of([&] { run(&scale_on_cuda, y, 2, z); }), 0);  // waited already
      EXPECT_EQ(waits_of(beside_y), 1);
      EXPECT_EQ(waits_of([&] { run(&scale_on_cuda, z, 0.5, x); }), 1);  // writes what is read beside
      EXPECT_EQ(waits_of(beside_y), 1);
    });
    graph.replay();
    EXPECT_EQ((counters(DeviceKind::cuda) - before).launches, 10);
    EXPECT_EQ(download(z)[499], 12 * 499);  // y = 2 · 3 x
    EXPECT_EQ(download(y)[499], 36 * 499);  // x = z / 2
  }
  EXPECT_THROW(capture(Device::cuda(), [&] { beside(Device::cuda(), [] { throw std::out_of_range("mine"); }); }),
               std::out_of_range);
  EXPECT_THROW(capture(Device::cuda(), [&] { beside(Device::cuda(), [&] { download(y); }); }), GraphError);
  beside_y();  // outside of a capture: in order
  EXPECT_EQ(download(y)[499], 36 * 499);
}

TEST_F(Cuda, UploadsThroughPageLockedMemoryOnItsStream) {
  const int64_t before = log_->live_host_allocations, waits = log_->waits;
  {
    Upload upload((Stream(Device::cuda())));
    const Tensor small = Tensor::from(std::vector<float>{1, 2, 3}, {3}), none = Tensor::empty({0, 2});
    EXPECT_EQ(upload(none).str(), "f32[0, 2] on cuda:0");
    EXPECT_EQ(log_->live_host_allocations, before);
    const Tensor on_device = upload(small);
    EXPECT_EQ(upload(on_device).storage(), on_device.storage()) << "already there";
    const Tensor large = Tensor::from(ramp(1000), {500, 2}).transpose(0, 1);
    EXPECT_EQ(upload(large).to_vector<float>(), large.to_vector<float>());
    EXPECT_EQ(log_->live_host_allocations, before + 1) << "one that grows";
    EXPECT_EQ(on_device.to_vector<float>(), small.to_vector<float>());
    EXPECT_GT(log_->waits, waits) << "the reader's stream waits for the upload's";
  }
  EXPECT_EQ(log_->live_host_allocations, before);
}

TEST_F(Cuda, OutOfMemoryTrimsOtherStreamsThenThrows) {
  const Tensor kept = upload(ramp(1000), Device::cuda());
  {
    const Stream other(Device::cuda());
    StreamScope scope(other);
    detail::Storage::create(kFakeCudaMemory / 2, Device::cuda());  // free in the other stream's pool
    StreamScope back(Stream(Device::cuda()));
    EXPECT_NO_THROW(detail::Storage::create(kFakeCudaMemory / 4 * 3, Device::cuda()));
    EXPECT_THROW(detail::Storage::create(kFakeCudaMemory, Device::cuda()), OutOfMemory);
  }
  EXPECT_EQ(download(kept), ramp(1000));
}

}  // namespace
}  // namespace ashlar::testing
