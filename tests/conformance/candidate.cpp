#include "tests/conformance/candidate.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>
#include <vector>

#include "runtime/launch/launch.h"
#include "runtime/support/error.h"
#include "runtime/vendor/vendor.h"
#include "tests/conformance/case.h"
#include "tests/conformance/check.h"
#include "tests/conformance/gradient.h"
#include "tests/conformance/jobs.h"

namespace ashlar::conformance {
namespace {

bool reached = false;
const char* watched = nullptr;
void watch(const KernelInfo&, const KernelInstance& instance) { reached = reached || instance.symbol == watched; }

/// The kernel whose cases reach `kernel`: itself, the one that it is the gradient of, or the one that it is a part of.
std::string kernel_of_cases(const std::string& kernel, std::span<const KernelInfo* const> kernels) {
  for (const KernelInfo* whole : kernels) {
    for (const KernelInfo* part : kernels_of(*whole)) {
      if (part != whole && part->name == kernel) return whole->name;
    }
  }
  return stem(kernel);
}

/// The place of the candidate's plan among its kernel's; -1: it has none. Throws DataError on an unknown one.
int plan_index(const Candidate& candidate, std::span<const KernelInfo* const> kernels) {
  if (candidate.plan.empty()) return -1;
  for (const KernelInfo* whole : kernels) {
    for (const KernelInfo* kernel : kernels_of(*whole)) {
      if (kernel->name != candidate.kernel) continue;
      for (const TargetTable* table : kernel->targets) {
        if (table == nullptr) continue;
        for (const KernelInstance& instance : std::span(table->instances, static_cast<size_t>(table->count))) {
          const bool is_it = KernelKey::unpacked(instance.key).packed() == candidate.key &&
                             instance.plan == candidate.plan && candidate.symbol.starts_with(instance.symbol);
          if (is_it) return instance.plan_index;
        }
      }
    }
  }
  throw DataError("--judge", candidate.kernel + " with a plan " + candidate.plan, "a plan of the kernel",
                  "Make the bundle again");
}

}  // namespace

Candidate parse_candidate(const std::string& text) {
  std::stringstream parts(text);
  Candidate candidate;
  std::string key;
  std::getline(parts, candidate.kernel, ',');
  std::getline(parts, key, ',');
  std::getline(parts, candidate.library, ',');
  std::getline(parts, candidate.symbol, ',');
  std::getline(parts, candidate.plan);
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), candidate.key);
  if (error != std::errc() || end != key.data() + key.size() || candidate.symbol.empty()) {
    throw ValueError("--judge", text, "KERNEL,KEY,LIBRARY,SYMBOL[,PLAN]", "ashlar-tune run gives it");
  }
  return candidate;
}

int judge(const Candidate& candidate, Device device, std::span<const KernelInfo* const> kernels, unsigned seconds) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(seconds);
  void* library = dlopen(candidate.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = library ? dlsym(library, (candidate.symbol + "_argv").c_str()) : nullptr;
  if (function == nullptr) throw DataError("--judge", dlerror(), "a candidate of this bundle", "Make the bundle again");
  const Replacement replacement{candidate.kernel,
                                candidate.key,
                                {candidate.key, reinterpret_cast<int (*)(void**)>(function), candidate.symbol.c_str(),
                                 "candidate", "", candidate.plan.c_str(), plan_index(candidate, kernels)}};
  watched = replacement.instance.symbol;
  set_launch_observer(watch);
  set_vendor_policy(VendorPolicy::never);
  set_replacement(&replacement);
  set_forced_setting(0);

  const std::string kernel = kernel_of_cases(candidate.kernel, kernels);
  const bool of_gradient = stem(candidate.kernel) != candidate.kernel;
  const DType dtype = KernelKey::unpacked(candidate.key).elements[0];
  int status = 0;
  for (const Case& item : cases()) {
    if (item.benchmark || item.kernel != kernel || std::ranges::count(item.dtypes, dtype) == 0) continue;
    if (of_gradient && (!item.differentiable || std::ranges::count(item.gradient_dtypes, dtype) == 0)) continue;
    const std::string report = of_gradient ? check_gradient(item, dtype, device) : check_result(item, dtype, device);
    if (report.empty()) continue;
    std::printf("%s: %s\n", item.name.c_str(), report.c_str());
    status = kCandidateFails;
    break;
  }
  set_forced_setting(-1);
  set_replacement(nullptr);
  set_launch_observer(nullptr);
  if (status == 0 && !reached) {
    std::printf("no case of %s reaches %s\n", kernel.c_str(), candidate.symbol.c_str());
    return kCandidateUnreached;
  }
  return status;
}

}  // namespace ashlar::conformance
