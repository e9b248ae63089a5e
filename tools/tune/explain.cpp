#include "tools/tune/explain.h"

#include <algorithm>
#include <chrono>
#include <ostream>

#include "runtime/device/device_identity.h"
#include "runtime/device/stream.h"
#include "runtime/support/error.h"
#include "runtime/vendor/vendor.h"
#include "tools/tune/call.h"
#include "tools/tune/kernel_files.h"
#include "tools/tune/worker.h"

namespace ashlar::tune {
namespace {

using Clock = std::chrono::steady_clock;
using std::filesystem::path;

struct Peaks {
  double gigabytes = 0, gigaflops = 0;  // per second
  std::string source;
};

/// What vendors state of memory and of f32 arithmetic without tensor cores.
Peaks stated_peaks(const std::string& device) {
  struct Known {
    const char* name;
    double gigabytes, gigaflops;
  };
  for (const Known& known : {Known{"NVIDIA H200", 4800, 66900},
                             {"NVIDIA H100", 3350, 66900},
                             {"NVIDIA A100", 2039, 19500},
                             {"NVIDIA L4", 300, 30300}}) {
    if (device.starts_with(known.name)) return {known.gigabytes, known.gigaflops, "stated by its vendor"};
  }
  return {};
}

double seconds_of(const std::function<void()>& call, Device device) {
  const Stream stream = Stream::current(device);
  const auto batch = [&](int calls) {
    stream.synchronize();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; i++) call();
    stream.synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count() / calls;
  };
  batch(2);
  const int calls = std::clamp(static_cast<int>(0.02 / std::max(batch(1), 1e-7)), 1, 1000);
  double least = batch(calls);
  for (int i = 0; i < 4; i++) least = std::min(least, batch(calls));
  return least;
}

/// Bytes that a copy of 256 MB reads and writes in a second.
Peaks measured_peaks(Device device) {
  const Tensor x = Tensor::zeros({64 << 20}, DType::f32, device);
  const double seconds = seconds_of([&] { x.clone(); }, device);
  return {2 * static_cast<double>(x.bytes()) / seconds / 1e9, 0, "a copy measured here"};
}

std::vector<int64_t> sizes_of_shape(const std::string& shape) {
  std::vector<int64_t> sizes;
  for (size_t at = 0; at < shape.size();) {
    const size_t end = std::min(shape.find('x', at), shape.size());
    sizes.push_back(std::atoll(shape.substr(at, end - at).c_str()));
    at = end + 1;
  }
  return sizes;
}

/// One call's bytes and operations come from a call on the CPU: shapes are the same everywhere.
void print_roofline(const KernelInfo& kernel, uint32_t key, const ExplainRequest& request, const std::string& target,
                    std::ostream& out) {
  set_vendor_policy(VendorPolicy::never);
  const Device device = device_of(target, 0);
  const bool is_here = device.is_available();
  const Inputs made = make_inputs(kernel, key, sizes_of_shape(request.shape));
  const Inputs inputs{copy_to({made[0]}, is_here ? device : Device::cpu())[0]};
  const std::vector<Tensor> outputs = call(kernel, key, inputs);
  std::vector<Shape> shapes;
  size_t input = 0;
  for (const Argument& argument : kernel.arguments) {
    if (argument.role != Argument::Role::input) continue;
    shapes.push_back(input < inputs[0].inputs.size() ? inputs[0].inputs[input].shape() : Shape{});
    input++;
  }
  for (const Tensor& y : outputs) shapes.push_back(y.shape());
  const double bytes = bytes_of(inputs[0].inputs, outputs), flops = kernel.flops(shapes.data());

  Peaks peaks{request.gigabytes, request.gigaflops, "given"};
  if (peaks.gigabytes == 0 && is_here) peaks = stated_peaks(device.description());
  if (peaks.gigabytes == 0 && is_here) peaks = measured_peaks(device);
  if (request.gigaflops > 0) peaks.gigaflops = request.gigaflops;
  out << "\nroofline of " << request.shape << "\n  " << bytes / 1e6 << " MB read and written once, " << flops / 1e6
      << " M operations: " << flops / bytes << " operations a byte\n";
  if (peaks.gigabytes > 0) {
    const double by_memory = bytes / peaks.gigabytes / 1e3,
                 by_arithmetic = peaks.gigaflops > 0 ? flops / peaks.gigaflops / 1e3 : 0;
    out << "  memory " << peaks.gigabytes << " GB/s (" << peaks.source << "): at least " << by_memory << " us\n";
    if (by_arithmetic > 0)
      out << "  arithmetic " << peaks.gigaflops << " GFLOP/s: at least " << by_arithmetic << " us\n";
    out << "  limited by " << (by_arithmetic > by_memory ? "arithmetic" : "memory")
        << (by_arithmetic > 0 ? "" : ", as far as is known: give --gigaflops") << "\n";
  } else {
    out << "  no peaks known: give --gigabytes and --gigaflops\n";
  }
  if (!is_here) return;
  const double seconds = seconds_of([&] { call(kernel, key, inputs); }, device);
  out << "  takes " << seconds * 1e6 << " us on " << device.description()
      << ", with the setting that dispatch chooses: " << bytes / seconds / 1e9 << " GB/s, " << flops / seconds / 1e9
      << " GFLOP/s\n";
}

/// False when no kernel file has the instance on that code target.
bool explain_on(const std::string& target, const ExplainRequest& request, std::ostream& out) {
  for (KernelFile& file : kernel_files(request.build)) {
    file.read_spaces(target, request.cuda_capability);
    for (const auto& space : file.spaces) {
      if (space["kernel"] != request.kernel) continue;
      const std::string instance = space["instance"];
      if (!request.instance.empty() && instance != request.instance) continue;
      const path work = std::filesystem::temp_directory_path() / ("ashlar-explain-" + std::to_string(getpid()));
      Command command =
          compile_command(file, "explain", request.kernel, instance, target, request.cuda_capability, work, {}, "");
      command.insert(command.end(), request.tunables.begin(), request.tunables.end());
      const Finished finished = run(command);
      if (finished.code != 0) throw DataError("ashlar-tune explain", finished.output, "a setting that compiles", "");
      out << finished.output;
      for (const auto& entry : std::filesystem::directory_iterator(work)) {
        if (entry.path().extension() != ".ptxas") continue;
        out << "\nmachine code\n";
        for (const auto& function : read_assembler_report(entry.path()).functions) {
          out << "  " << function.architecture << " " << function.name << ": " << function.registers << " registers, "
              << function.spilled_bytes << " bytes spilled, " << function.shared_bytes << " bytes of shared memory\n";
        }
      }
      if (!request.shape.empty()) {
        link_kernels(file, target, work);
        print_roofline(open_kernel(work / (file.stem + ".so"), request.kernel), space["key"], request, target, out);
      }
      std::filesystem::remove_all(work);
      return true;
    }
  }
  return false;
}

}  // namespace

void add_explain_options(CLI::App& command, ExplainRequest& request) {
  command.add_option("kernel", request.kernel, "Its name")->required();
  command.add_option("tunables", request.tunables, "NAME=VALUE, for others than the default's");
  command.add_option("--target", request.target, "cpu, cpu_avx2, cpu_avx512, opencl or cuda")->capture_default_str();
  command.add_option("--instance", request.instance, "As f32_none [the kernel's first]");
  command.add_option("--shape", request.shape, "Canonical sizes for the roofline, as 1x512x512x512");
  command.add_option("--build", request.build, "Build folder of the kernels [the one this program stands in]");
  command.add_option("--capability", request.cuda_capability, "CUDA capability to compile for")->capture_default_str();
  command.add_option("--gigabytes", request.gigabytes, "The device's memory, GB/s");
  command.add_option("--gigaflops", request.gigaflops, "The device's arithmetic, GFLOP/s");
}

void explain(const ExplainRequest& request, std::ostream& out) {
  for (const std::string& target : code_targets_of_request(request.target)) {
    if (explain_on(target, request, out)) return;
  }
  throw ValueError("ashlar-tune explain", request.kernel + " " + request.instance, "a kernel and instance of the build",
                   "See `<generator> describe` for their names");
}

}  // namespace ashlar::tune
