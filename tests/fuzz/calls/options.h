// The command line of programs that make random calls: PROGRAM [--seconds S] [--seed N] [--devices cpu,opencl].
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace ashlar::fuzz {

struct Options {
  double seconds = 10;
  uint64_t seed = 0;  ///< another one in each process, unless it is given
  std::vector<Device> devices;

  /// Ends the process where the command line can't be read, or asks for help. Prints the seed; leaves out devices that
  /// aren't there, and says so.
  static Options parse(int count, char** arguments, const char* what);
};

/// True until the time has come.
class Clock {
 public:
  explicit Clock(double seconds)
      : end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds))) {}
  bool runs() const { return std::chrono::steady_clock::now() < end_; }

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace ashlar::fuzz
