// The tests that the cases make on one device: every element type, result and gradient, every setting of the tunables
// and every plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/launch/kernel.h"
#include "tests/conformance/inputs.h"

namespace ashlar::conformance {

using Kernels = std::span<const KernelInfo* const>;

/// How the calls of a test are made: as they come (0 and no plan), with a setting of the tunables where an instance has
/// it, or by a plan, where a kernel has it and it can serve the call.
struct Way {
  int setting = 0;
  std::string plan = {};

  bool is_usual() const { return setting == 0 && plan.empty(); }
  std::string name() const;  ///< "setting_1", "plan_tiles"; "" for the usual way
};
/// Makes the calls of the process in a way, for as long as it lives.
class InWay {
 public:
  /// `usual_setting`: of what isn't in a setting, 0 for the default, -1 for what the tables say.
  explicit InWay(const Way& way, int usual_setting = 0);
  ~InWay();
  InWay(const InWay&) = delete;
  InWay& operator=(const InWay&) = delete;

 private:
  int setting_;
  std::string plan_;
};

/// What code a device runs now; on the CPU, the widest that is picked.
CodeTarget picked_code(DeviceKind device);
/// Has the CPU pick none wider than `code`, for as long as it lives; on other devices nothing.
class InCode {
 public:
  explicit InCode(CodeTarget code);
  ~InCode();
  InCode(const InCode&) = delete;
  InCode& operator=(const InCode&) = delete;

 private:
  CodeTarget before_;
};

/// One test of one case: its result, or its gradient.
struct Job {
  const Case* item;
  DType dtype;
  Device device;
  bool gradient;
  Way way = {};

  std::string name() const;
  /// What GoogleTest calls it: "softmax.rows_of_8192/f32/opencl".
  std::string test() const { return item->kernel + "." + name(); }
  /// Of its name and of what its case asks for, the same wherever it is worked out.
  uint64_t fingerprint() const;
};

/// All jobs of the cases that aren't benchmarks on one device, with the settings and plans that `kernels` were compiled
/// with for that kind of device.
std::vector<Job> jobs_on(Device device, Kernels kernels);

/// Calls a job's function, comparing nothing: for a driver that stands in for a GPU and computes nothing.
void run_unchecked(const Job& job, Tensors inputs);

/// The kernel that a gradient kernel belongs to: "exp_grad" is reached through the cases of "exp".
std::string stem(const std::string& kernel);

/// The kernel and those that are called by it alone: passes of a reduction, what an operator written by hand calls.
std::vector<const KernelInfo*> kernels_of(const KernelInfo& kernel);

/// A kernel that the runtime moves elements with, so that a program can't do without.
bool is_mover(const KernelInfo& kernel);

/// True where code for such a device is linked.
bool is_built(const KernelInfo& kernel, DeviceKind device);

/// The ways in which `kernel` and its gradients can be called on `device` with `dtype`: the usual one, settings of
/// tunables that some table uses, and every plan.
std::vector<Way> ways_of(const std::string& kernel, DType dtype, DeviceKind device, Kernels kernels);

}  // namespace ashlar::conformance
