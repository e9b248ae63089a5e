#include "tests/conformance/changed.h"

#include <algorithm>

namespace ashlar::conformance {
namespace {

bool same_family(const std::string& a, const std::string& b) { return stem(a) == stem(b); }

// All kernels that the cases of one kernel, and of its gradients, launch; nothing where no run says so.
std::set<std::string> launched_by(const std::string& kernel, const std::vector<DeviceRun>& runs) {
  std::set<std::string> names;
  for (const DeviceRun& run : runs) {
    for (const auto& [row, part] : run.kernels) {
      if (!same_family(row, kernel)) continue;
      for (const auto* ran : {&part.ran, &part.gradients_ran}) {
        for (const auto& [key, hash] : *ran) names.insert(key.substr(0, key.find(' ')));
      }
    }
  }
  return names;
}

}  // namespace

std::set<std::string> to_run_again(const std::vector<DeviceRun>& runs, const std::string& target,
                                   const Expectation& expected) {
  std::vector<DeviceRun> counting = newest(runs);
  std::erase_if(counting, [&](const DeviceRun& run) { return run.target != target; });
  std::set<std::string> devices, kernels;
  for (const DeviceRun& run : counting) devices.insert(run.description);
  if (devices.empty()) devices.insert("");
  for (const auto& [kernel, tests] : expected.on(target)) {
    for (const std::string& device : devices) {
      const KernelRun* found = nullptr;
      for (const DeviceRun& run : counting) {
        if (run.description == device && run.kernels.contains(kernel)) found = &run.kernels.at(kernel);
      }
      if (expected.needs_run(found, target, kernel)) kernels.insert(stem(kernel));
    }
  }
  return kernels;
}

std::string tables_left_out(const std::map<std::string, std::set<std::string>>& again,
                            const std::vector<DeviceRun>& runs, Kernels kernels) {
  std::set<std::string> moving;
  for (const KernelInfo* kernel : kernels) {
    if (is_mover(*kernel)) moving.insert(kernel->name);
  }
  std::map<std::string, std::set<std::string>> kept;
  for (const char* target : kCodeTargetNames) kept[target] = moving;
  for (const auto& [target, rows] : again) {
    std::set<std::string>& names = kept[target] = moving;
    for (const std::string& row : rows) {
      const std::set<std::string> launched = launched_by(row, runs);
      names.insert(launched.begin(), launched.end());
      if (!launched.empty()) continue;
      for (const KernelInfo* kernel : kernels) names.insert(kernel->name);
    }
  }
  std::string source = "#include \"runtime/launch/kernel.h\"\n\nusing ashlar::TargetTable;\nextern \"C\" {\n";
  for (const auto& [target, names] : kept) {
    for (const KernelInfo* kernel : kernels) {
      if (names.contains(kernel->name)) continue;
      source += "extern const TargetTable ashlar_" + std::string(kernel->name) + "_" + target + "{};\n";
    }
  }
  return source + "}\n";
}

}  // namespace ashlar::conformance
