// What is made to fail: whole pieces of work, each from uploading its inputs to reading its results.
#pragma once

#include <span>
#include <vector>

#include "runtime/device/device.h"

namespace ashlar::testing {

struct Job {
  const char* name;
  /// Returns its results. Takes no host memory of its own but through the library.
  std::vector<float> (*run)(Device device);
};

std::span<const Job> jobs();

}  // namespace ashlar::testing
