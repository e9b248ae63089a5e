// The same in processes that have done nothing yet: drivers are opened, contexts made, modules and programs built while
// something fails. Each try is a child of its own, and is compared with one in which nothing fails.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "runtime/tensor/tensor.h"
#include "tests/faults/drivers.h"
#include "tests/faults/host_memory.h"
#include "tests/faults/ways.h"

namespace ashlar::testing {
namespace {

constexpr unsigned kSecondsOfAChild = 60;

/// What a child tells, in memory that it shares with its parent.
struct Report {
  bool is_available = false, fired = false, threw = false;
  char problem[1000] = "";
  Held held{};
  int64_t host_blocks = 0;  ///< more than when the child began
  size_t results = 0;
  float result[20000] = {};

  std::vector<float> values() const { return {result, result + results}; }
};

class Cold : public ::testing::TestWithParam<std::tuple<DeviceKind, Job>> {
 protected:
  Cold() {
    const char* sampled = std::getenv("ASHLAR_FAULTS_SAMPLED");
    every_n_ = sampled == nullptr || std::string(sampled) == "0";
    report_ =
        static_cast<Report*>(mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~Cold() override { munmap(report_, sizeof(Report)); }

  /// Runs `work(report)` in a child. Returns how that ended where it didn't end well.
  template <class Work>
  std::string in_a_child(Work work) {
    *report_ = Report();
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      alarm(kSecondsOfAChild);
      report_->host_blocks = -live_host_blocks();
      try {
        work(*report_);
      } catch (const std::exception& error) {
        std::snprintf(report_->problem, sizeof(report_->problem), "afterwards: %s", error.what());
      }
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return "no child";
    return WIFSIGNALED(status) ? "killed by " + std::string(strsignal(WTERMSIG(status))) : report_->problem;
  }

  /// A tensor that no job knows of: on the host, since one on the device would have woken it. The CPU is left as it is.
  Tensor make_bystander() const {
    if (device_.kind == DeviceKind::cpu) return {};
    return Tensor::from(numbers_, {static_cast<int64_t>(numbers_.size())});
  }

  /// What is held once the job is done twice.
  void finish(Report& report) const {
    std::vector<float> result = job_.run(device_);
    result = job_.run(device_);
    report.results = std::min(result.size(), std::size(report.result));
    std::copy_n(result.begin(), report.results, report.result);
    result = {};
    trim_memory(device_);
    trim_memory(Device::cpu());
    report.held = held(device_);
    report.host_blocks += live_host_blocks();
  }

  void walk(const Way& way, const Report& well) {
    const std::vector<float> expected = well.values();
    const int64_t first = every_n_ ? 1 : 1 + (samples_++ % 7);  // not the same ones of every job and way
    for (int64_t n = first;; n = every_n_ ? n + 1 : 8 * n) {
      SCOPED_TRACE(n);
      const std::string ending = in_a_child([&](Report& report) {
        {
          const Tensor bystander = make_bystander();
          const Attempt outcome = attempt(job_, device_, way, n, expected);
          report.fired = outcome.fired;
          report.threw = outcome.threw;
          std::snprintf(report.problem, sizeof(report.problem), "%s", outcome.problem.c_str());
          if (bystander.defined() && bystander.to_vector<float>() != numbers_) {
            std::snprintf(report.problem, sizeof(report.problem), "a tensor that no job knows of was changed");
          }
        }
        if (report.problem[0] == '\0') finish(report);
      });
      ASSERT_EQ(ending, "");
      ASSERT_EQ(report_->values(), expected);
      ASSERT_EQ(report_->held, well.held);
      ASSERT_EQ(report_->host_blocks, well.host_blocks);
      if (!report_->fired) return RecordProperty(way.name, static_cast<int>(n));
    }
  }

  const Device device_{std::get<0>(GetParam()), 0};
  const Job job_ = std::get<1>(GetParam());
  const std::vector<float> numbers_ = std::vector<float>(700, 3);
  bool every_n_ = true;
  static inline int64_t samples_ = 0;
  Report* report_ = nullptr;
};

TEST_P(Cold, FailsInEveryWay) {
  const std::string ending = in_a_child([this](Report& report) {
    report.is_available = device_.is_available();
    if (!report.is_available) return;
    make_bystander();
    finish(report);
  });
  ASSERT_EQ(ending, "");
  if (!report_->is_available) GTEST_SKIP() << "no such device";
  const Report well = *report_;
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    walk(way, well);
    if (HasFailure()) return;
  }
}

// As PoCL's do while another process builds the same program.
class ColdBuilds : public Cold {};

TEST_P(ColdBuilds, AreAskedForAgainWhereTheyFail) {
  constexpr int kEnough = 3, kTooMany = 100;
  for (const int failures : {0, kEnough, kTooMany}) {
    SCOPED_TRACE(failures);
    const Report before = *report_;
    const std::string ending = in_a_child([&](Report& report) {
      report.is_available = device_.is_available();
      if (!report.is_available) return;
      fail_opencl_builds(failures);
      try {
        job_.run(device_);
      } catch (const DriverError&) {
        report.threw = true;
      }
      fail_opencl_builds(0);
      finish(report);
    });
    ASSERT_EQ(ending, "");
    if (!report_->is_available) GTEST_SKIP() << "no such device";
    EXPECT_EQ(report_->threw, failures == kTooMany);
    if (failures == 0) continue;
    EXPECT_EQ(report_->values(), before.values());
    EXPECT_EQ(report_->held, before.held);
  }
}

std::string name_of_test(const ::testing::TestParamInfo<std::tuple<DeviceKind, Job>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Faults, Cold,
                         ::testing::Combine(::testing::Values(DeviceKind::cpu, DeviceKind::opencl, DeviceKind::cuda),
                                            ::testing::ValuesIn(jobs().begin(), jobs().end())),
                         name_of_test);
INSTANTIATE_TEST_SUITE_P(Faults, ColdBuilds,
                         ::testing::Combine(::testing::Values(DeviceKind::opencl),
                                            ::testing::ValuesIn(jobs().begin(), jobs().end())),
                         name_of_test);

}  // namespace
}  // namespace ashlar::testing
