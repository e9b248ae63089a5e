// How time and memory grow with the size of an input. Ratios, not seconds: a busy machine must not fail a test.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>

namespace ashlar::testing {

/// Seconds of this thread's own processor time, the least of several runs.
template <class Work>
double processor_seconds(int runs, Work work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; run++) {
    const double start = now();
    work();
    least = std::min(least, now() - start);
  }
  return least;
}

/// Time of an input of `factor` times the size, over `factor` times that of `size`: about 1 where time is linear, about
/// `factor` where it is quadratic.
template <class Make, class Work>
double time_growth(size_t size, size_t factor, Make make, Work work) {
  const auto small = make(size), large = make(size * factor);
  const double of_small = processor_seconds(5, [&] { work(small); });
  const double of_large = processor_seconds(3, [&] { work(large); });
  return of_large / (of_small * static_cast<double>(factor));
}

/// A line of /proc/self/status, in bytes.
inline int64_t memory_status(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return -1;
}

/// Makes the peak of resident memory start anew.
inline bool forget_peak() { return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5" << std::flush); }

/// Sanitizers keep freed memory and shadows of it.
inline bool can_measure_memory() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return forget_peak() && memory_status("VmHWM") > 0;
#endif
}

/// By how many bytes resident memory grows at most while `work` runs.
template <class Work>
int64_t peak_growth(Work work) {
  malloc_trim(0);
  forget_peak();
  const int64_t before = memory_status("VmRSS");
  work();
  return memory_status("VmHWM") - before;
}

}  // namespace ashlar::testing
