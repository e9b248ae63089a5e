#include "tests/conformance/recorder.h"

#include <algorithm>
#include <ctime>

#include "tests/conformance/standing.h"

namespace ashlar::conformance {
namespace {

// "2026-11-21T14:03:00Z"
std::string now() {
  char text[32];
  const std::time_t seconds = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&seconds));
  return text;
}

}  // namespace

void Recorder::OnTestStart(const testing::TestInfo&) {
  take_reached();
  start_ = Clock::now();
}

void Recorder::OnTestEnd(const testing::TestInfo& info) {
  const std::string name = std::string(info.test_suite_name()) + "." + info.name();
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  const auto& [job, code] = found->second;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const testing::TestResult& result = *info.result();
  std::string reason;
  for (int i = 0; i < result.total_part_count(); ++i) {
    if (result.GetTestPartResult(i).skipped()) reason = result.GetTestPartResult(i).message();
  }
  const Outcome outcome = result.Skipped() ? Outcome::skipped : result.Failed() ? Outcome::failed : Outcome::passed;
  DeviceRun& run = run_on(job.device, code);
  run.seconds += seconds;
  run.add(job.item->kernel, std::string(name_of(job.dtype)), name, job.fingerprint(), job.gradient, outcome, reason);

  Reached reached = take_reached();
  if (outcome == Outcome::skipped) return;
  KernelRun& part = run.kernels[job.item->kernel];
  auto& ran = job.gradient ? part.gradients_ran : part.ran;
  // Almost every case moves elements about: that counts only where it's all that a case does.
  const bool only_moves = std::ranges::all_of(reached.kernels, [](const auto& one) { return is_mover(*one.first); });
  for (const auto& [kernel, target] : reached.kernels) {
    if (device_of(target) != job.device.kind) continue;
    if (!only_moves && is_mover(*kernel) && kernel->name != job.item->kernel) continue;
    ran[Expectation::code_key(kernel->name, target)] = kernel->targets[static_cast<size_t>(target)]->code_hash;
  }
  reaches_.push_back({name, seconds, std::move(reached.functions)});
}

std::vector<DeviceRun> Recorder::runs() {
  std::vector<DeviceRun> all;
  for (Running& one : runs_) {
    one.run.target = name_of(widest_launched(one.code));
    one.run.revision = revision_;
    one.run.date = now();
    all.push_back(one.run);
  }
  return all;
}

DeviceRun& Recorder::run_on(Device device, CodeTarget code) {
  for (Running& one : runs_) {
    if (one.device == device && one.code == code) return one.run;
  }
  DeviceRun& run = runs_.emplace_back(Running{device, code}).run;
  if (device.is_available()) {
    const InCode in_code(code);
    run.description = device.description();
    run.driver = device.driver();
  }
  return run;
}

}  // namespace ashlar::conformance
