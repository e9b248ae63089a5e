#include "runtime/support/environment.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

namespace ashlar::detail {
namespace {

constexpr int kMostThreads = 256;
constexpr uint64_t kReadLimit = uint64_t{2} << 30;

std::string read(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? text : otherwise;
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int thread_count() {
  const int asked = std::atoi(read("ASHLAR_THREADS", "0").c_str());
  return std::min(asked > 0 ? asked : usable_processors(), kMostThreads);
}

uint64_t read_limit() {
  const unsigned long long chosen = std::strtoull(read("ASHLAR_READ_LIMIT", "0").c_str(), nullptr, 10);
  return chosen > 0 ? chosen : kReadLimit;
}

std::string cache_folder() {
  if (const char* chosen = std::getenv("ASHLAR_CACHE")) return chosen;
  const std::string caches = read("XDG_CACHE_HOME", ""), home = read("HOME", "");
  // The XDG specification: a relative path is no valid one.
  if (caches.starts_with('/')) return caches + "/ashlar";
  return home.starts_with('/') ? home + "/.cache/ashlar" : std::string();
}

void log_to_stderr(std::string_view line) {
  std::fprintf(stderr, "ashlar: %.*s\n", static_cast<int>(line.size()), line.data());
}

std::atomic<LogHandler>& handler() {
  static std::atomic<LogHandler> current{environment().log ? &log_to_stderr : nullptr};
  return current;
}

}  // namespace

const Environment& environment() {
  static const Environment& values = *new Environment{thread_count(),
                                                      read("ASHLAR_CPU", ""),
                                                      read("ASHLAR_LOG", "0") != "0",
                                                      read("ASHLAR_LOG", "0") == "dispatch",
                                                      read("ASHLAR_PLAN", ""),
                                                      read("ASHLAR_PLAN_MODEL", "1") != "0",
                                                      read("ASHLAR_TABLES", "1") != "0",
                                                      read("ASHLAR_OVERLAP", "1") != "0",
                                                      read("ASHLAR_CUDA_LIBRARY", "libcuda.so.1"),
                                                      read("ASHLAR_OPENCL_LIBRARY", "libOpenCL.so.1"),
                                                      read("ASHLAR_CUBLASLT_LIBRARY", ""),
                                                      read("ASHLAR_CUDNN_LIBRARY", ""),
                                                      read("ASHLAR_VENDOR", "auto"),
                                                      cache_folder(),
                                                      std::getenv("ASHLAR_CACHE") != nullptr,
                                                      read_limit(),
                                                      read("ASHLAR_TRACE", "")};
  return values;
}

LogHandler set_log_handler(LogHandler replacement) noexcept { return handler().exchange(replacement); }

void log(std::string_view line) noexcept {
  if (LogHandler current = handler().load(std::memory_order_acquire)) current(line);
}

void log_once(const std::string& line) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& said = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (said.insert(line).second) log(line);
}

}  // namespace ashlar::detail
