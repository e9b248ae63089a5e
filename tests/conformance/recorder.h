// What a run finds out, written down while GoogleTest runs.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/cover.h"
#include "tests/conformance/jobs.h"
#include "tests/conformance/report.h"

namespace ashlar::conformance {

/// A job with the code that the CPU picks for it at most; on other devices, what they run.
struct JobInCode {
  Job job;
  CodeTarget code;
};

/// Collects the results per device and code, and what each test reached. `jobs` by the names of their tests.
class Recorder : public testing::EmptyTestEventListener {
 public:
  Recorder(const std::map<std::string, JobInCode>& jobs, std::string revision)
      : jobs_(jobs), revision_(std::move(revision)) {}

  void OnTestStart(const testing::TestInfo& info) override;
  void OnTestEnd(const testing::TestInfo& info) override;

  std::vector<DeviceRun> runs();
  const std::vector<Reach>& reaches() const { return reaches_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    Device device;
    CodeTarget code;
    DeviceRun run = {};
  };

  DeviceRun& run_on(Device device, CodeTarget code);

  const std::map<std::string, JobInCode>& jobs_;
  std::string revision_;
  Clock::time_point start_;
  std::vector<Running> runs_;
  std::vector<Reach> reaches_;
};

}  // namespace ashlar::conformance
