// cuBLASLt as a schedule, without a GPU: against the stand-ins fake_cuda and fake_cublaslt, opened by
// ASHLAR_CUDA_LIBRARY and ASHLAR_CUBLASLT_LIBRARY. Results are compared with our own CPU kernel.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "runtime/support/fault.h"
#include "runtime/vendor/vendor.h"
#include "tests/runtime/fake_cublaslt.h"

namespace ashlar {
namespace {

FakeCublasLtLog* fake_log() {
  const char* path = std::getenv("ASHLAR_CUBLASLT_LIBRARY");
  void* library = path ? dlopen(path, RTLD_NOW) : nullptr;
  void* log = library ? dlsym(library, "fake_cublaslt_log") : nullptr;
  return log ? reinterpret_cast<FakeCublasLtLog* (*)()>(log)() : nullptr;
}

class CudaVendor : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fake_log() == nullptr) GTEST_SKIP() << "needs ASHLAR_CUBLASLT_LIBRARY to be the stand-in";
    set_vendor_policy(VendorPolicy::always);
  }
  void TearDown() override { set_vendor_policy(VendorPolicy::automatic); }
};

Tensor random(const Shape& shape) {
  static std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (float& value : values) value = uniform(engine);
  return Tensor::from(values, shape);
}

// The same product on both; y agrees within the rounding of sums of `terms` numbers below 1.
void expect_same(const Tensor& a, const Tensor& b, const MatmulOptions& options, int64_t terms,
                 const Tensor& bias = {}) {
  const std::vector<float> want = matmul(a, b, options, bias).to_vector<float>();
  const Device cuda = Device::cuda(0);
  const Tensor y = matmul(a.to(cuda), b.to(cuda), options, bias.defined() ? bias.to(cuda) : bias);
  const std::vector<float> got = y.to_vector<float>();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-6 * static_cast<double>(terms + 1)) << i;
}

TEST_F(CudaVendor, TransposesAndEpilogues) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const int fused : {0, 1, 2}) {
        MatmulOptions options{.transpose_a = ta, .transpose_b = tb};
        if (fused > 1) options.activation = Activation::relu;
        expect_same(random(ta ? Shape{9, 5} : Shape{5, 9}), random(tb ? Shape{7, 9} : Shape{9, 7}), options, 9,
                    fused > 0 ? random({7}) : Tensor());
      }
    }
  }
}

TEST_F(CudaVendor, BatchesViewsAndVectors) {
  expect_same(random({3, 5, 9}), random({3, 9, 7}), {}, 9);
  expect_same(random({3, 5, 9}), random({9, 7}), {}, 9);
  expect_same(random({5, 9}), random({3, 9, 7}), {}, 9);
  expect_same(random({9}), random({9, 7}), {}, 9);
  expect_same(random({5, 9}), random({9}), {}, 9);
  expect_same(random({1, 1}), random({1, 1}), {}, 1);
}

// The sums are cuBLASLt's, what it has no twin of is left to a kernel of ours: which the stand-in driver can't run.
TEST_F(CudaVendor, GeluFollowsTheProduct) {
  FakeCublasLtLog& log = *fake_log();
  const Device cuda = Device::cuda(0);
  const Tensor a = random({5, 6}).to(cuda), b = random({6, 11}).to(cuda), bias = random({11}).to(cuda);
  const int64_t before = log.products;
  EXPECT_THROW(matmul(a, b, {.activation = Activation::gelu}, bias), Error);
  EXPECT_EQ(log.products, before + 1);
}

TEST_F(CudaVendor, OneProductPerCallAndOnePlanPerShape) {
  FakeCublasLtLog& log = *fake_log();
  const Tensor a = random({4, 6}).to(Device::cuda(0)), b = random({6, 11}).to(Device::cuda(0));
  const int64_t products = log.products, plans = log.plans, objects = log.live_objects;
  for (int i = 0; i < 5; ++i) matmul(a, b);
  EXPECT_EQ(log.products - products, 5);
  EXPECT_EQ(log.plans - plans, 1);
  EXPECT_EQ(log.live_objects - objects, 4);  // a description and three layouts; the preference is gone
}

// Of 3.7 MB of results 11 partial sums have room in 64 MB, though not in the 32 that a product has at first.
TEST_F(CudaVendor, ManyPartialSumsGetRoom) {
  FakeCublasLtLog& log = *fake_log();
  const auto are_added_in_place = [&](int32_t splits) {
    log.splits = splits;
    const int64_t before = log.sums_in_place;
    expect_same(random({1024, splits}), random({splits, 900}), {}, splits);
    log.splits = 0;
    return log.sums_in_place > before;
  };
  EXPECT_FALSE(are_added_in_place(8));
  EXPECT_TRUE(are_added_in_place(10));
  EXPECT_FALSE(are_added_in_place(11));
  EXPECT_TRUE(are_added_in_place(20));
}

// Parts of whole steps leave cuBLASLt's last eight terms out: such a product isn't dealt.
TEST_F(CudaVendor, NoTermIsLost) {
  FakeCublasLtLog& log = *fake_log();
  int64_t columns = 8;
  const auto is_in_parts = [&](int64_t terms, int32_t splits, DType dtype) {
    columns += 8;  // another problem, for which it's asked anew
    log.splits = splits;
    const int64_t before = log.products_in_parts;
    const Device cuda = Device::cuda(0);
    matmul(Tensor::empty({8, terms}, dtype, cuda), Tensor::empty({terms, columns}, dtype, cuda));
    log.splits = 0;
    return log.products_in_parts > before;
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    EXPECT_FALSE(is_in_parts(9 * 64 + 8, 9, dtype));
    EXPECT_TRUE(is_in_parts(9 * 64 + 8, 4, dtype));
    EXPECT_TRUE(is_in_parts(9 * 64 + 16, 9, dtype));
    EXPECT_TRUE(is_in_parts(9 * 64, 9, dtype));
  }
  EXPECT_TRUE(is_in_parts(9 * 64 + 8, 9, DType::f32));
}

TEST_F(CudaVendor, StrictUnlessAsked) {
  FakeCublasLtLog& log = *fake_log();
  const Tensor a = random({4, 6}).to(Device::cuda(0)), b = random({6, 11}).to(Device::cuda(0));
  const int64_t before = log.tf32_products;
  matmul(a, b);
  EXPECT_EQ(log.tf32_products, before);
  matmul(a, b, {.allow_tf32 = true});
  EXPECT_EQ(log.tf32_products, before + 1);
}

TEST_F(CudaVendor, PolicyDecides) {
  FakeCublasLtLog& log = *fake_log();
  const Tensor a = random({4, 6}).to(Device::cuda(0)), b = random({6, 11}).to(Device::cuda(0));
  const int64_t before = log.products;
  set_vendor_policy(VendorPolicy::never);
  EXPECT_THROW(matmul(a, b, {.allow_tf32 = true}), Error);  // the stand-in driver can't run compiled kernels
  set_vendor_policy(VendorPolicy::automatic);
  EXPECT_THROW(matmul(a, b), Error);  // in strict f32 small ones are ours
  EXPECT_EQ(log.products, before);
  matmul(a, b, {.allow_tf32 = true});
  EXPECT_EQ(log.products, before + 1);
  const Tensor wide = random({1024, 1024}).to(Device::cuda(0));
  matmul(wide, wide);
  EXPECT_EQ(log.products, before + 2);
}

// Of several products the library adds each result's terms up one after the other, 0.02 µs each: 47 µs of 2048 terms.
TEST_F(CudaVendor, ChainsOfManyTermsAreOursWhereWeAreQuicker) {
  const Device cuda = Device::cuda(0);
  const auto is_preferred = [&](int64_t count, double our_microseconds) {
    const std::array inputs{Tensor::zeros({count, 16, 2048}).to(cuda), Tensor::zeros({count, 2048, 16}).to(cuda)};
    const std::array outputs{Tensor::empty({count, 16, 16}, DType::f32, cuda)};
    return vendor::cublaslt_matmul.preferred({.kernel = kernels::matmul,
                                              .key = {.elements = {DType::f32}},
                                              .inputs = inputs,
                                              .outputs = outputs,
                                              .our_microseconds = our_microseconds});
  };
  EXPECT_FALSE(is_preferred(3, 40));
  EXPECT_TRUE(is_preferred(3, 60));
  EXPECT_TRUE(is_preferred(1, 40));
  EXPECT_FALSE(is_preferred(1, 4));
}

TEST_F(CudaVendor, WhatItRefusesIsOurs) {
  FakeCublasLtLog& log = *fake_log();
  const Tensor a = random({4, 6}).to(Device::cuda(0)), b = random({6, 13}).to(Device::cuda(0));
  const int64_t before = log.products;
  log.refuses = true;
  EXPECT_THROW(matmul(a, b), Error);
  log.refuses = false;
  EXPECT_EQ(log.products, before);
}

TEST_F(CudaVendor, EveryFailingCallLeavesTensorsUsable) {
  const Tensor a = random({4, 6}).to(Device::cuda(0)), b = random({6, 11}).to(Device::cuda(0));
  matmul(a, b);
  for (const auto site : {detail::FaultSite::driver_call, detail::FaultSite::allocation}) {
    int64_t failures = 0;
    for (int64_t n = 1;; ++n) {
      detail::FaultScope fault(site, n);
      try {
        matmul(a, b);
      } catch (const Error&) {
        ++failures;
      }
      if (!fault.fired()) break;
    }
    EXPECT_GT(failures, 0);
  }
  expect_same(random({4, 6}), random({6, 11}), {}, 6);
}

}  // namespace
}  // namespace ashlar
