// Times kernels scheduled by generic() beside the same mathematics by a family, or by a schedule of its own.
//   ashlar-generic-figures [cpu | opencl | cuda]
// Exit code 1 where one takes more times as long as it may.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/generic.h"
#include "ashlar/ops/neighbours.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/schedules.h"
#include "ashlar/ops/unary.h"
#include "runtime/device/stream.h"

namespace {

using namespace ashlar;
using Call = std::function<void()>;

// Milliseconds of one call, many queued behind each other.
double time_of(const Call& call, const Device& device, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  Stream::current(device).synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / calls;
}

// The quickest of rounds in which the two take turns, so that what else the machine does meets both.
std::pair<double, double> times_of(const Call& a, const Call& b, const Device& device) {
  constexpr int kRounds = 9;
  const double once = std::max(time_of(a, device, 1), time_of(b, device, 1));
  const int calls = std::clamp(static_cast<int>(20 / once), 1, 50);
  double of_a = std::numeric_limits<double>::infinity(), of_b = of_a;
  for (int round = 0; round < kRounds; ++round) {
    of_a = std::min(of_a, time_of(a, device, calls));
    of_b = std::min(of_b, time_of(b, device, calls));
  }
  return {of_a, of_b};
}

struct Figures {
  Device device;
  bool all_hold = true;

  void compare(const char* what, const char* other, double bound, const Call& generic, const Call& beside) {
    const auto [ours, theirs] = times_of(generic, beside, device);
    const bool holds = ours <= bound * theirs;
    all_hold = all_hold && holds;
    std::printf("| %-44s | %9.3f | %-22s | %9.3f | %5.2f | %4.1f%s |\n", what, ours, other, theirs, ours / theirs,
                bound, holds ? "" : " MISSED");
    std::fflush(stdout);
  }
  Tensor filled(const Shape& shape, DType dtype = DType::f32) const { return Tensor::ones(shape, dtype, device); }
};

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "cpu";
  if (name != "cpu" && name != "opencl" && name != "cuda") {
    std::fprintf(stderr, "usage: %s [cpu | opencl | cuda]\n", argv[0]);
    return 2;
  }
  Figures figures{name == "cuda" ? Device::cuda() : name == "opencl" ? Device::opencl() : Device::cpu()};
  std::printf("| generic() | ms | beside | ms | times | at most |\n|---|---|---|---|---|---|\n");
  const int64_t side = name == "cuda" ? 8192 : 2048;

  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor x = figures.filled({side * side}, dtype), matrix = x.reshape({side, side}),
                 row = figures.filled({side}, dtype), column = figures.filled({side, 1}, dtype);
    const std::string type = " " + std::string(name_of(dtype));
    figures.compare(("pointwise silu" + type).c_str(), "elementwise", 1.5, [&] { test_generic_silu(x); },
                    [&] { silu(x); });
    figures.compare(("add" + type).c_str(), "broadcast", 1.5, [&] { test_generic_add(matrix, matrix); },
                    [&] { add(matrix, matrix); });
    figures.compare(("add a row" + type).c_str(), "broadcast", 1.5, [&] { test_generic_add(matrix, row); },
                    [&] { add(matrix, row); });
    figures.compare(("add a column" + type).c_str(), "broadcast", 1.5, [&] { test_generic_add(matrix, column); },
                    [&] { add(matrix, column); });
  }
  const Tensor image = figures.filled({side, side}), weights = figures.filled({5});
  figures.compare(
      "3 x 3 blur, clamp", "schedule of its own", 1.5, [&] { test_blur_clamp(image); },
      [&] { test_blur_in_rows(image); });
  figures.compare(
      "3 x 3 blur, reflect", "the same, clamp", 1.5, [&] { test_blur_reflect(image); },
      [&] { test_blur_in_rows(image); });
  const Shape rows[] = {{1000, 100, 64}, {1, 100000, 256}, {100, 1000, 16}};
  for (const Shape& shape : rows) {
    const Tensor x = figures.filled(shape);
    figures.compare(("sums of 10^5 rows of " + std::to_string(shape[2])).c_str(), "reduction", 10,
                    [&] { test_generic_row_sum(x); }, [&] { sum(x, {2}); });
  }
  const Shape columns[] = {{1, 256, 100000}, {1000, 64, 128}};
  for (const Shape& shape : columns) {
    const Tensor x = figures.filled(shape);
    figures.compare((std::to_string(shape[0]) + " times sums of " + std::to_string(shape[2]) + " columns").c_str(),
                    "reduction", 10, [&] { test_generic_column_sum(x); }, [&] { sum(x, {1}); });
  }
  // What docs/how-to/schedule-a-kernel.md goes through; no bound.
  const double any = std::numeric_limits<double>::infinity();
  figures.compare(
      "9 x 9 smooth: generic", "schedule of its own", any, [&] { test_smooth(image); },
      [&] { test_smooth_in_tiles(image); });
  figures.compare(
      "9 x 9 smooth: generic, a Scratch", "schedule of its own", any, [&] { test_smooth_in_two(image); },
      [&] { test_smooth_in_tiles(image); });
  return figures.all_hold ? 0 : 1;
}
