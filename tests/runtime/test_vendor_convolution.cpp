// cuDNN as a way to convolve, without a GPU: against the stand-ins fake_cuda and fake_cudnn, opened by
// ASHLAR_CUDA_LIBRARY and ASHLAR_CUDNN_LIBRARY. Results are compared with our own CPU kernels.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "runtime/support/fault.h"
#include "runtime/vendor/vendor.h"
#include "tests/runtime/fake_cudnn.h"

namespace ashlar {
namespace {

FakeCudnnLog* fake_log() {
  const char* path = std::getenv("ASHLAR_CUDNN_LIBRARY");
  void* library = path ? dlopen(path, RTLD_NOW) : nullptr;
  void* log = library ? dlsym(library, "fake_cudnn_log") : nullptr;
  return log ? reinterpret_cast<FakeCudnnLog* (*)()>(log)() : nullptr;
}

class CudaVendorConvolution : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fake_log() == nullptr) GTEST_SKIP() << "needs ASHLAR_CUDNN_LIBRARY to be the stand-in";
    set_vendor_policy(VendorPolicy::always);
  }
  void TearDown() override { set_vendor_policy(VendorPolicy::automatic); }
};

struct Layer {
  Shape x, weight;
  Axes stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
};

Tensor random(const Shape& shape) {
  static std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (float& value : values) value = uniform(engine);
  return Tensor::from(values, shape);
}

void expect_near(const Tensor& y, const Tensor& expected) {
  ASSERT_EQ(y.shape(), expected.shape());
  const std::vector<float> got = y.to_vector<float>(), want = expected.to_vector<float>();
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << i;
}

/// Three convolutions by the stand-in, and the same by the CPU.
void expect_same(const Layer& layer) {
  const Device cuda = Device::cuda(0);
  const int64_t before = fake_log()->convolutions;
  const auto& [of_x, of_weight, stride, padding, dilation, groups] = layer;
  const Tensor x = random(of_x), weight = random(of_weight);
  const Tensor y = conv2d(x, weight, {}, stride, padding, dilation, groups), dy = random(y.shape());
  expect_near(conv2d(x.to(cuda), weight.to(cuda), {}, stride, padding, dilation, groups), y);
  const Axes size{x.size(-2), x.size(-1)}, taps{weight.size(2), weight.size(3)};
  expect_near(conv2d_input(dy.to(cuda), weight.to(cuda), size, stride, padding, dilation, groups),
              conv2d_input(dy, weight, size, stride, padding, dilation, groups));
  expect_near(conv2d_weight(dy.to(cuda), x.to(cuda), taps, stride, padding, dilation, groups),
              conv2d_weight(dy, x, taps, stride, padding, dilation, groups));
  EXPECT_EQ(fake_log()->convolutions, before + 3);
}

TEST_F(CudaVendorConvolution, ForwardAndGradients) {
  expect_same({{2, 3, 7, 9}, {4, 3, 3, 2}});
  expect_same({{2, 3, 8, 9}, {4, 3, 3, 3}, {2, 1}, {1, 2}});
  expect_same({{1, 4, 9, 10}, {6, 2, 2, 3}, {1, 2}, {0, 2}, {2, 1}, 2});
  expect_same({{3, 6, 5}, {2, 3, 1, 1}});
}

TEST_F(CudaVendorConvolution, OneChoicePerShape) {
  FakeCudnnLog& log = *fake_log();
  const Tensor x = random({2, 3, 5, 6}).to(Device::cuda(0)), weight = random({7, 3, 3, 3}).to(Device::cuda(0));
  const int64_t convolutions = log.convolutions, choices = log.choices, objects = log.live_descriptors;
  for (int i = 0; i < 5; ++i) conv2d(x, weight);
  EXPECT_EQ(log.convolutions - convolutions, 5);
  EXPECT_EQ(log.choices - choices, 1);
  EXPECT_EQ(log.live_descriptors - objects, 1);  // the plan
}

TEST_F(CudaVendorConvolution, PolicyDecides) {
  const Tensor x = random({2, 3, 5, 6}).to(Device::cuda(0)), weight = random({7, 3, 3, 3}).to(Device::cuda(0));
  const int64_t before = fake_log()->convolutions;
  set_vendor_policy(VendorPolicy::never);
  EXPECT_THROW(conv2d(x, weight), Error);  // the stand-in driver can't run compiled kernels
  EXPECT_EQ(fake_log()->convolutions, before);
  set_vendor_policy(VendorPolicy::automatic);
  conv2d(x, weight);
  EXPECT_EQ(fake_log()->convolutions, before + 1);
  // Depthwise ones and gradients with a stride are quicker by ours.
  EXPECT_THROW(conv2d(x, weight.slice(0, 0, 3).slice(1, 0, 1).contiguous(), {}, {1, 1}, {0, 0}, {1, 1}, 3), Error);
  EXPECT_THROW(conv2d_input(random({2, 7, 2, 2}).to(Device::cuda(0)), weight, {5, 6}, {2, 2}), Error);
  EXPECT_EQ(fake_log()->convolutions, before + 1);
  // So are a weight's gradient of one tap, a product, and an input's of few channels or many rows, which is folded.
  const Tensor dy = random({2, 7, 3, 4}).to(Device::cuda(0));
  EXPECT_THROW(conv2d_weight(random({2, 7, 5, 6}).to(Device::cuda(0)), x, {1, 1}), Error);
  EXPECT_THROW(conv2d_input(dy, weight, {5, 6}), Error);
  EXPECT_EQ(fake_log()->convolutions, before + 1);
  conv2d_input(random({2, 4, 3, 4}).to(Device::cuda(0)), random({4, 3, 3, 3}).to(Device::cuda(0)), {5, 6});
  EXPECT_EQ(fake_log()->convolutions, before + 2);
}

TEST_F(CudaVendorConvolution, WhatItRefusesIsOurs) {
  FakeCudnnLog& log = *fake_log();
  const Tensor x = random({2, 3, 6, 6}).to(Device::cuda(0)), weight = random({7, 3, 3, 3}).to(Device::cuda(0));
  const int64_t before = log.convolutions;
  log.refuses = true;
  EXPECT_THROW(conv2d(x, weight), Error);
  log.refuses = false;
  EXPECT_EQ(log.convolutions, before);
}

TEST_F(CudaVendorConvolution, EveryFailingCallLeavesTensorsUsable) {
  const Tensor x = random({2, 3, 7, 6}).to(Device::cuda(0)), weight = random({7, 3, 3, 3}).to(Device::cuda(0));
  const int64_t objects = fake_log()->live_descriptors;
  for (const auto site : {detail::FaultSite::driver_call, detail::FaultSite::allocation}) {
    int64_t failures = 0;
    for (int64_t n = 1;; ++n) {
      detail::FaultScope fault(site, n);
      try {
        conv2d(x, weight);
      } catch (const Error&) {
        ++failures;
      }
      if (!fault.fired()) break;
    }
    EXPECT_GT(failures, 0);
  }
  EXPECT_EQ(fake_log()->live_descriptors - objects, 1);
  expect_same({{2, 3, 7, 6}, {7, 3, 3, 3}});
}

}  // namespace
}  // namespace ashlar
