// The random property test: as many draws (draw.h) as asked for on one device, against the cases' references.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/device/device.h"
#include "runtime/tensor/dtype.h"
#include "tests/conformance/cover.h"
#include "tests/conformance/jobs.h"

namespace ashlar::conformance {

struct PropertyRun {
  int64_t draws = 0;
  uint64_t seed = 0;  ///< of the first draw; the next one's is one more
  std::function<bool(const std::string& kernel)> wanted;
  std::function<bool(const std::string& kernel, DType dtype)> wanted_in;  ///< empty: in every dtype
  /// ways_of()
  std::function<std::vector<Way>(const std::string& kernel, DType dtype, DeviceKind device)> ways;
  std::string program;  ///< the command line up to --devices, for the report of a failure
};

/// Runs `draws` draws of wanted kernels, kernel by kernel, on `device`, and prints what fails, made as small as it
/// gets and with the command that repeats it. A draw depends on its own seed and the list of cases alone. Returns the
/// number of failures; a kernel with several is given up.
int run_draws(const PropertyRun& run, Device device);

/// The draw of a seed as a test by itself: what is wrong with it, or nothing.
std::string check_draw(uint64_t seed, const PropertyRun& run, Device device);

/// Draws of the kernels that `missed` belong to, from seed 0 on, until all are reached or each kernel has had its
/// share: those that reach one that none did before. They are launched, and nothing is compared.
std::vector<Reach> reach_by_draws(const PropertyRun& run, Device device, Kernels kernels,
                                  std::set<DeviceFunction> missed);

/// Names them among the tests: "draw.17/cuda".
std::string draw_test(uint64_t seed, Device device);

}  // namespace ashlar::conformance
