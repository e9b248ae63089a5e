// ashlar-first-result: what a cold process waits for its first numbers, with every kernel of the library linked.
//
// Opens the device (driver library, context), then computes softmax(relu(x·w + b)) from the host's numbers back to the
// host, and checks them. Opening is what any program on that device pays; the rest is ours: loading machine code, first
// allocations, first launches. Set CUDA_CACHE_DISABLE=1, or the CUDA driver may remember an earlier run.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ashlar/ops.h"
#include "runtime/all.h"
#include "runtime/device/stream.h"
#include "runtime/support/error.h"

namespace {

using namespace ashlar;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count() * 1e3;
}

std::vector<float> compute(Device device) {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4}, {2, 2}, device);
  const Tensor w = Tensor::from<float>({1, 0, -1, 0, 1, 1}, {2, 3}, device);
  const Tensor b = Tensor::from<float>({0.5f, -0.25f, 0}, {3}, device);
  return softmax(relu(add(matmul(x, w), b))).to_vector<float>();
}

/// The largest difference from the same in double: x·w + b = [1.5 1.75 1; 3.5 3.75 1].
double error_of(const std::vector<float>& result) {
  const double rows[2][3] = {{1.5, 1.75, 1}, {3.5, 3.75, 1}};
  double worst = 0;
  for (size_t r = 0; r < 2; ++r) {
    const double total = std::exp(rows[r][0]) + std::exp(rows[r][1]) + std::exp(rows[r][2]);
    for (size_t c = 0; c < 3; ++c) worst = std::max(worst, std::abs(result[3 * r + c] - std::exp(rows[r][c]) / total));
  }
  return worst;
}

int run(const std::string& device_name, double limit) {
  const Device device = Device::parse(device_name);
  const Clock::time_point start = Clock::now();
  Stream::current(device).synchronize();
  const double opened = milliseconds_since(start);
  const std::vector<float> first = compute(device);
  const double total = milliseconds_since(start);
  compute(device);
  const double again = milliseconds_since(start) - total;
  std::printf("%s: opened in %.1f ms, first result %.1f ms later, the same again in %.2f ms; %zu kernels linked\n",
              device.description().c_str(), opened, total - opened, again, all_kernels().size());
  if (const double error = error_of(first); !(error < 1e-5)) {
    std::fprintf(stderr, "ashlar-first-result: wrong numbers, off by %g\n", error);
    return 1;
  }
  if (limit > 0 && total - opened > limit) {
    std::fprintf(stderr, "ashlar-first-result: later than %.1f ms after opening\n", limit);
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "cpu";
  double limit = 0;
  CLI::App app{"Times a cold process's first result on a device."};
  app.add_option("--device", device, "cpu, opencl[:i] or cuda[:i]")->capture_default_str();
  app.add_option("--limit", limit, "Fail when it comes later than this after the device was opened, ms");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(device, limit);
  } catch (const ashlar::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
