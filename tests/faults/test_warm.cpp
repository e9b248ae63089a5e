// Every n-th visit to whatever can fail, in a process that has done the job before. Each time there's a typed
// exception or the right result, nothing leaks, other tensors keep their values, and the next try works.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/device/stream.h"
#include "runtime/memory/memory.h"
#include "runtime/tensor/tensor.h"
#include "tests/faults/drivers.h"
#include "tests/faults/host_memory.h"
#include "tests/faults/ways.h"

namespace ashlar::testing {
namespace {

constexpr int64_t kMostVisits = 100000;

/// Tensors that no job knows of, one of them in a pool block that jobs would like to have.
class Bystanders {
 public:
  explicit Bystanders(Device device)
      : cpu_(Tensor::full({700}, 3)), dense_(Tensor::full({3000}, -7, DType::f32, device)) {
    for (size_t i = 0; i < before_.size(); ++i) before_[i] = static_cast<float>(i);
    stepped_ = Tensor::from(before_, {20, 25}, device).transpose(0, 1);
    Stream::current(device).synchronize();
  }
  bool unchanged() const {
    const auto all = [](const Tensor& x, float value) {
      return std::ranges::all_of(x.to_vector<float>(), [value](float v) { return v == value; });
    };
    return all(cpu_, 3) && all(dense_, -7) && stepped_.transpose(0, 1).to_vector<float>() == before_;
  }

 private:
  std::vector<float> before_ = std::vector<float>(500);
  Tensor cpu_, dense_, stepped_;
};

class Warm : public ::testing::TestWithParam<std::tuple<DeviceKind, Job>> {
 protected:
  void SetUp() override {
    const char* slow = std::getenv("ASHLAR_FAULTS_STRIDE");
    stride_ = slow ? std::atoi(slow) : 1;
    if (!device_.is_available()) GTEST_SKIP() << "no such device";
  }

  /// All n of one way. Returns how many of them threw.
  int walk(const Way& way) {
    const Bystanders bystanders(device_);
    for (int i = 0; i < 3; ++i) settle();
    const std::vector<float> expected = job_.run(device_);
    int threw = 0;
    int64_t n = 1;
    for (bool fired = true; fired && n < kMostVisits; n += stride_) {
      settle();
      const Held held_before = held(device_);
      const int64_t blocks_before = live_host_blocks();
      {
        const Attempt outcome = attempt(job_, device_, way, n, expected);
        EXPECT_EQ(outcome.problem, "") << n;
        fired = outcome.fired;
        threw += outcome.threw;
      }
      EXPECT_TRUE(bystanders.unchanged()) << n;
      EXPECT_EQ(job_.run(device_), expected) << "after " << n;
      settle();
      EXPECT_EQ(held(device_), held_before) << n;
      EXPECT_EQ(live_host_blocks(), blocks_before) << n;
      if (HasFailure()) break;  // one is enough to see
    }
    EXPECT_LT(n, kMostVisits);
    RecordProperty(way.name, static_cast<int>(n));
    return threw;
  }

  /// Nothing kept but what the job's code and pools keep for ever.
  void settle() {
    job_.run(device_);
    trim_memory(device_);
    trim_memory(Device::cpu());
  }

  const Device device_{std::get<0>(GetParam()), 0};
  const Job job_ = std::get<1>(GetParam());
  int stride_ = 1;
};

TEST_P(Warm, FailsInEveryWay) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    const bool has_no_driver = device_.kind == DeviceKind::cpu && way.site == detail::FaultSite::driver_call;
    const int threw = walk(way);
    if (has_no_driver) {
      EXPECT_EQ(threw, 0);
    } else {
      EXPECT_GE(threw, stride_ == 1 ? 2 : 1);
    }
    if (HasFailure()) break;
  }
}

std::string name_of_test(const ::testing::TestParamInfo<std::tuple<DeviceKind, Job>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Faults, Warm,
                         ::testing::Combine(::testing::Values(DeviceKind::cpu, DeviceKind::opencl, DeviceKind::cuda),
                                            ::testing::ValuesIn(jobs().begin(), jobs().end())),
                         name_of_test);

}  // namespace
}  // namespace ashlar::testing
