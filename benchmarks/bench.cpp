// ashlar-bench: times the conformance cases marked as benchmarks, after checking their numbers.
//
// A time is the median over batches of calls, each batch ended by a synchronisation. Cases with flops are reported in
// GFLOP/s, the others in GB/s over the bytes of their inputs and outputs, each counted once.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/support/error.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/check.h"
#include "tests/conformance/inputs.h"

namespace ashlar::conformance {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string device = "cpu";
  std::vector<std::string> kernels;
  std::vector<std::string> dtypes{"f32"};
  std::string against;
  std::string json;
  double seconds = 0.5;
  bool check = true;
};

struct Measurement {
  std::string kernel;
  std::string name;
  std::string dtype;
  std::vector<std::vector<int64_t>> shapes;
  double milliseconds = 0;
  double rate = 0;  // GB/s or GFLOP/s
  std::string unit;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measurement, kernel, name, dtype, shapes, milliseconds, rate, unit)

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Seconds per call: the median of batches of at least 1/15 of the time there is.
double time_calls(const std::function<void()>& call, const Stream& stream, double seconds) {
  const auto batch_time = [&](int64_t calls) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    stream.synchronize();
    return seconds_since(start);
  };
  batch_time(3);
  int64_t calls = 1;
  double spent = batch_time(calls);
  while (spent < seconds / 15) {
    calls *= 2;
    spent = batch_time(calls);
  }
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < 5 || seconds_since(start) < seconds) {
    times.push_back(batch_time(calls) / static_cast<double>(calls));
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

// Empty when the numbers are wrong.
std::optional<Measurement> measure(const Case& item, DType dtype, Device device, const Options& options) {
  std::vector<HostTensor> hosts;
  std::vector<Tensor> tensors;
  const uint64_t seed = seed_of(item.kernel + "/" + item.name);
  Measurement result{item.kernel, item.name, std::string(name_of(dtype)), {}, 0, 0, {}};
  int64_t bytes = 0;
  for (size_t i = 0; i < item.inputs.size(); ++i) {
    Made made = make(item.inputs[i], dtype, device, seed + i);
    hosts.push_back(std::move(made.host));
    tensors.push_back(made.tensor);
    bytes += made.tensor.bytes();
    result.shapes.emplace_back(made.tensor.shape().begin(), made.tensor.shape().end());
  }
  const std::vector<Tensor> outputs = item.call(tensors);
  for (const Tensor& output : outputs) bytes += output.bytes();
  if (item.kernel == "fill") bytes -= tensors[0].bytes();  // its input is only a description
  if (options.check) {
    const std::string report = check_outputs(item, hosts, outputs, dtype, device);
    if (!report.empty()) {
      std::fprintf(stderr, "%s/%s %s: wrong numbers, not timed: %s\n", item.kernel.c_str(), item.name.c_str(),
                   result.dtype.c_str(), report.c_str());
      return {};
    }
  }
  const double time = time_calls([&] { item.call(tensors); }, Stream::current(device), options.seconds);
  result.milliseconds = time * 1e3;
  result.unit = item.flops > 0 ? "GFLOP/s" : "GB/s";
  result.rate = (item.flops > 0 ? item.flops : static_cast<double>(bytes)) / time / 1e9;
  return result;
}

template <class List>
bool selects(const List& wanted, std::string_view name) {
  return wanted.empty() || std::ranges::find(wanted, name) != wanted.end();
}

int run(const Options& options) {
  const Device device = Device::parse(options.device);
  std::printf("%s, %s\n%-15s %-26s %-5s %12s %12s\n", device.description().c_str(), device.driver().c_str(), "kernel",
              "case", "dtype", "ms", "rate");
  std::vector<Measurement> all;
  int wrong = 0;
  const auto measure_all = [&](auto wanted) {
    for (const Case& item : cases()) {
      if (!item.benchmark || !wanted(item.kernel)) continue;
      for (const DType dtype : item.dtypes) {
        if (!selects(options.dtypes, name_of(dtype))) continue;
        const std::optional<Measurement> one = measure(item, dtype, device, options);
        if (!one) {
          ++wrong;
          continue;
        }
        std::printf("%-15s %-26s %-5s %12.4f %9.1f %s", one->kernel.c_str(), one->name.c_str(), one->dtype.c_str(),
                    one->milliseconds, one->rate, one->unit.c_str());
        // The yardstick's first case of the same dtype and unit.
        const auto yardstick = std::ranges::find_if(all, [&](const Measurement& m) {
          return m.kernel == options.against && m.dtype == one->dtype && m.unit == one->unit;
        });
        if (yardstick != all.end()) std::printf("  %.2f of %s", one->rate / yardstick->rate, options.against.c_str());
        std::printf("\n");
        std::fflush(stdout);
        all.push_back(*one);
      }
    }
  };
  if (!options.against.empty()) measure_all([&](const std::string& kernel) { return kernel == options.against; });
  measure_all([&](const std::string& kernel) { return kernel != options.against && selects(options.kernels, kernel); });
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << nlohmann::json(all).dump(1) << '\n';
    if (!file.flush()) throw DataError("ashlar-bench", options.json, "a file that can be written", "Check the path");
  }
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace ashlar::conformance

int main(int argc, char** argv) {
  using namespace ashlar::conformance;
  Options options;
  CLI::App app{"Times kernels on the conformance cases' benchmark sizes, after checking their numbers."};
  app.add_option("--device", options.device, "cpu, opencl[:i] or cuda[:i]")->capture_default_str();
  app.add_option("--kernels", options.kernels, "Only these, separated by commas")->delimiter(',');
  app.add_option("--dtypes", options.dtypes, "f32, f16, …")->delimiter(',')->capture_default_str();
  app.add_option("--against", options.against, "Also print each rate over this kernel's (copy, say)");
  app.add_option("--json", options.json, "Write the measurements");
  app.add_option("--seconds", options.seconds, "Time for each case")->capture_default_str();
  app.add_flag("!--no-check", options.check, "Don't check the numbers first");
  CLI11_PARSE(app, argc, argv);
  try {
    add_all_cases();
    return run(options);
  } catch (const ashlar::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
