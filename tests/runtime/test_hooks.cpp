// Compiled kernels on every device: that our hooks are the ones in force, what they count, and where results land.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ashlar/ops/copy.h"
#include "ashlar/ops/fill.h"
#include "ashlar/ops/unary.h"
#include "runtime/device/counters.h"
#include "runtime/launch/halide_hooks.h"
#include "runtime/support/error.h"
#include "tests/runtime/devices.h"

namespace ashlar {
namespace {

using testing::download;
using testing::kernel_devices;
using testing::ramp;
using testing::upload;

constexpr KernelKey kBytes4{.elements = {DType::i32}};

Tensor as_i32(const Tensor& x) { return Tensor(x.storage(), x.shape(), x.strides(), x.offset(), DType::i32); }

void fill(const Tensor& y, int64_t bits) {
  const std::vector<Scalar> scalars = {bits};
  const std::vector<Tensor> outputs = {as_i32(y)};
  launch(kernels::fill, kBytes4, {}, scalars, outputs);
}

void copy(const Tensor& x, const Tensor& y) {
  const std::vector<Tensor> inputs = {as_i32(x)}, outputs = {as_i32(y)};
  launch(kernels::copy, kBytes4, inputs, {}, outputs);
}

TEST(Hooks, AreActive) { EXPECT_TRUE(detail::hooks_active()); }

class Compiled : public ::testing::TestWithParam<Device> {};

TEST_P(Compiled, ALaunchIsCountedAndMovesNothing) {
  const Tensor y = upload(ramp(1000), GetParam());
  fill(y, 0x40490fdb);  // builds the module
  Counters before = counters(GetParam().kind);
  fill(y, 0x3f800000);
  const Counters span = counters(GetParam().kind) - before;
  EXPECT_EQ(span.launches, 1);
  EXPECT_EQ(span.modules_loaded, 0);
  EXPECT_EQ(span.allocations, 0);
  EXPECT_EQ(span.bytes_to_device + span.bytes_to_host + span.bytes_on_device, 0);
  EXPECT_EQ(download(y), std::vector<float>(1000, 1.0f));
}

TEST_P(Compiled, EveryStreamSharesTheModulesOfItsDevice) {
  const Tensor y = upload(ramp(1000), GetParam());
  fill(y, 0);
  const Counters before = counters(GetParam().kind);
  const Stream other(GetParam());
  StreamScope scope(other);
  fill(y, 0x3f800000);
  EXPECT_EQ((counters(GetParam().kind) - before).modules_loaded, 0);
  EXPECT_EQ(download(y)[999], 1.0f);
}

// Inputs and outputs at every kind of offset, aligned for the device or not, beside untouched neighbours.
TEST_P(Compiled, OutputsLandWhereTheirViewSays) {
  constexpr int64_t kSize = 40'000;
  const Tensor source = upload(ramp(kSize), GetParam());
  for (int64_t n : {int64_t{1}, int64_t{5}, int64_t{1000}, int64_t{4099}}) {
    for (int64_t offset : {0, 1, 3, 4, 16, 33, 64, 1024, 4096, 4097}) {
      const Tensor target = upload(std::vector<float>(kSize, -1), GetParam());
      const Tensor x(source.storage(), {1, 1, 1, n}, {n, n, n, 1}, offset + 7, DType::f32);
      const Tensor y(target.storage(), {1, 1, 1, n}, {n, n, n, 1}, offset, DType::f32);
      copy(x, y);
      std::vector<float> expected(kSize, -1);
      for (int64_t i = 0; i < n; ++i) expected[static_cast<size_t>(offset + i)] = static_cast<float>(offset + 7 + i);
      ASSERT_EQ(download(target), expected) << n << " at " << offset;
    }
  }
}

TEST_P(Compiled, StridedOutputsLeaveTheirGapsAlone) {
  const Tensor source = upload(ramp(4000), GetParam());
  for (int64_t offset : {0, 1, 128, 1025}) {
    const Tensor target = upload(std::vector<float>(8000, -1), GetParam());
    const Tensor x(source.storage(), {2, 3, 4, 5}, {300, 70, 15, 2}, 11, DType::f32);
    const Tensor y(target.storage(), {2, 3, 4, 5}, {2000, 300, 20, 1}, offset, DType::f32);
    copy(x, y);
    std::vector<float> expected(8000, -1);
    for (int64_t a = 0; a < 2; ++a) {
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t c = 0; c < 4; ++c) {
          for (int64_t d = 0; d < 5; ++d) {
            expected[static_cast<size_t>(offset + 2000 * a + 300 * b + 20 * c + d)] =
                static_cast<float>(11 + 300 * a + 70 * b + 15 * c + 2 * d);
          }
        }
      }
    }
    ASSERT_EQ(download(target), expected) << offset;
  }
}

// A view that reads what it writes, through the same storage at an offset.
TEST_P(Compiled, InPlaceThroughOneStorage) {
  for (int64_t offset : {0, 5, 256}) {
    const Tensor base = upload(ramp(2000), GetParam());
    const Tensor view(base.storage(), {1000}, {1}, offset, DType::f32);
    const std::vector<Tensor> tensors = {view}, rows = {view.unsqueeze(0)};
    launch(kernels::relu, KernelKey{}, rows, {}, tensors);
    const Tensor negative = upload(ramp(1000, -500), GetParam());
    const std::vector<Tensor> inputs = {negative.unsqueeze(0)};
    launch(kernels::relu, KernelKey{}, inputs, {}, tensors);
    const std::vector<float> all = download(base);
    EXPECT_EQ(all[static_cast<size_t>(offset) + 10], 0);
    EXPECT_EQ(all[static_cast<size_t>(offset) + 700], 200);
    EXPECT_EQ(all[static_cast<size_t>(offset) + 1000], static_cast<float>(offset + 1000));
  }
}

TEST_P(Compiled, MathsIsWhatItSays) {
  const Tensor x = upload(ramp(100, -50), GetParam());
  const Tensor y = upload(ramp(100), GetParam());
  const std::vector<Tensor> inputs = {x.unsqueeze(0)}, outputs = {y};
  launch(kernels::exp, KernelKey{}, inputs, {}, outputs);
  const std::vector<float> values = download(y);
  for (int i = 0; i < 100; ++i) {
    const double expected = std::exp(static_cast<double>(i - 50));
    ASSERT_NEAR(values[static_cast<size_t>(i)], expected, 1e-6 * expected) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Compiled, ::testing::ValuesIn(kernel_devices()),
                         [](const auto& info) { return std::string(name_of(info.param.kind)); });

}  // namespace
}  // namespace ashlar
