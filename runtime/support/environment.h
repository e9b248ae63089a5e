// What the environment variables say, each read once per process:
//   ASHLAR_THREADS=n              threads for CPU kernels (default: the processors this process may use)
//   ASHLAR_CPU=baseline|avx2      the widest kernels that are picked (default: the widest that the processor runs)
//   ASHLAR_CUDA_LIBRARY=path      opened instead of libcuda.so.1; a path that isn't there means no CUDA devices
//   ASHLAR_OPENCL_LIBRARY=path    opened instead of libOpenCL.so.1
//   ASHLAR_CUBLASLT_LIBRARY=path  opened instead of libcublasLt.so
//   ASHLAR_CUDNN_LIBRARY=path     opened instead of libcudnn.so
//   ASHLAR_VENDOR=never|always    the start value of vendor_policy(); default auto
//   ASHLAR_CACHE=folder           where built OpenCL programs are kept; set but empty: nowhere. Default:
//                                 $XDG_CACHE_HOME/ashlar, or ~/.cache/ashlar, for drivers without such a cache
//   ASHLAR_READ_LIMIT=bytes       the longest file that the data readers of nn take; default 2 GiB
//   ASHLAR_LOG=1                  one line on stderr per module built, driver opened, pool trimmed
//   ASHLAR_LOG=dispatch           the same, and which setting of a kernel's tunables was chosen, and why
//   ASHLAR_PLAN=name,…            the plans that every call runs where it can (set_forced_plan())
//   ASHLAR_OVERLAP=0              CUDA kernels begin after those ahead of them have ended, also where they needn't
//   ASHLAR_PLAN_MODEL=0           their order, not models, decides among plans (set_plan_choice())
//   ASHLAR_TABLES=0               tuned tables decide nothing
//   ASHLAR_TRACE=file             a timeline of calls, launches and copies in Chrome's trace format (trace.h)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ashlar::detail {

struct Environment {
  int threads;
  std::string cpu;
  bool log;
  bool log_dispatch;
  std::string plan;  ///< names, separated by commas; empty: none is forced
  bool plan_model;
  bool tables;
  bool overlap;
  std::string cuda_library;
  std::string opencl_library;
  std::string cublaslt_library;  ///< empty: whichever version is there
  std::string cudnn_library;     ///< the same
  std::string vendor;
  std::string cache;  ///< a folder; empty: none
  bool cache_chosen;  ///< by ASHLAR_CACHE
  uint64_t read_limit;
  std::string trace;  ///< a file; empty: none
};

const Environment& environment();

/// Takes one finished line of the runtime's log; must be callable from any thread.
using LogHandler = void (*)(std::string_view line);
/// Replaces the handler (stderr when ASHLAR_LOG is set, else silence) and returns the old one; null is silence.
LogHandler set_log_handler(LogHandler handler) noexcept;
void log(std::string_view line) noexcept;
/// The same, but a line that this process has logged so before isn't logged again.
void log_once(const std::string& line);

}  // namespace ashlar::detail
