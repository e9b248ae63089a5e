#include "tests/conformance/standing.h"

#include <algorithm>

#include "tests/conformance/coverage.h"

namespace ashlar::conformance {
namespace {

DeviceKind device_of_target(const std::string& target) {
  for (int i = 0; i < kCodeTargets; ++i) {
    const auto one = static_cast<CodeTarget>(i);
    if (target == name_of(one)) return device_of(one);
  }
  return DeviceKind::cpu;
}

std::optional<Standing> judge(const Tally* expected, const Tally* found, bool changed) {
  if (expected == nullptr) return std::nullopt;  // a case that is gone
  if (found == nullptr) return Standing::partly;
  if (found->failed > 0) return Standing::failed;
  if (changed) return Standing::stale;
  return found->tests == expected->tests && found->passed == expected->passed ? Standing::passed : Standing::partly;
}

template <class Map>
const typename Map::mapped_type* find_in(const Map& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

Expectation::Expectation(Kernels kernels) {
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::opencl, DeviceKind::cuda}) {
    for (const Job& job : jobs_on(Device{kind, 0}, kernels)) {
      const auto info = std::ranges::find(kernels, job.item->kernel, [](const KernelInfo* k) { return k->name; });
      if (info == kernels.end() || !is_built(**info, kind)) continue;
      KernelRun& run = tests_[kind][job.item->kernel];
      Tally& tally = (job.gradient ? run.gradients : run.dtypes)[std::string(name_of(job.dtype))];
      ++tally.passed;
      tally.tests += job.fingerprint();
    }
  }
  for (const KernelInfo* kernel : kernels) {
    for (int i = 0; i < kCodeTargets; ++i) {
      const TargetTable* table = kernel->targets[static_cast<size_t>(i)];
      if (table == nullptr || table->count == 0) continue;
      code_[code_key(kernel->name, static_cast<CodeTarget>(i))] = table->code_hash;
    }
  }
}

std::string Expectation::code_key(const std::string& kernel, CodeTarget target) {
  return kernel + " " + name_of(target);
}

const std::map<std::string, KernelRun>& Expectation::on(const std::string& target) const {
  static const std::map<std::string, KernelRun> none;
  const auto found = tests_.find(device_of_target(target));
  return found == tests_.end() ? none : found->second;
}

bool Expectation::has_changed(const std::map<std::string, uint64_t>& ran) const {
  return ran.empty() || std::ranges::any_of(ran, [&](const auto& one) {
           const auto now = code_.find(one.first);
           return now != code_.end() && now->second != one.second;
         });
}

std::optional<Standing> Expectation::results(const KernelRun* run, const std::string& target, const std::string& kernel,
                                             const std::string& dtype) const {
  const KernelRun* expected = find_in(on(target), kernel);
  return judge(expected ? find_in(expected->dtypes, dtype) : nullptr, run ? find_in(run->dtypes, dtype) : nullptr,
               run && has_changed(run->ran));
}

std::optional<Standing> Expectation::gradients(const KernelRun* run, const std::string& target,
                                               const std::string& kernel) const {
  const KernelRun* expected = find_in(on(target), kernel);
  std::optional<Standing> worst;
  for (const auto& [dtype, tally] : expected ? expected->gradients : std::map<std::string, Tally>{}) {
    worst = std::max(
        worst, judge(&tally, run ? find_in(run->gradients, dtype) : nullptr, run && has_changed(run->gradients_ran)));
  }
  return worst;
}

bool Expectation::needs_run(const KernelRun* run, const std::string& target, const std::string& kernel) const {
  const KernelRun* expected = find_in(on(target), kernel);
  if (expected == nullptr) return false;
  for (const auto& [dtype, tally] : expected->dtypes) {
    if (results(run, target, kernel, dtype) != Standing::passed) return true;
  }
  const std::optional<Standing> worst = gradients(run, target, kernel);
  return worst.has_value() && worst != Standing::passed;
}

std::vector<DeviceRun> newest(std::vector<DeviceRun> runs) {
  for (DeviceRun& run : runs) {
    std::erase_if(run.kernels, [&](const auto& own) {
      return std::ranges::any_of(runs, [&](const DeviceRun& other) {
        return other.target == run.target && other.description == run.description && other.date > run.date &&
               other.kernels.contains(own.first);
      });
    });
  }
  return runs;
}

}  // namespace ashlar::conformance
