#include "tests/conformance/property.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <typeinfo>

#include "runtime/launch/launch.h"
#include "runtime/support/error.h"
#include "tests/conformance/check.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/gradient.h"
#include "tests/conformance/inputs.h"

namespace ashlar::conformance {
namespace {

constexpr int kMostFailures = 3;           // of one kernel
constexpr int kMostAttempts = 200;         // to make a failure smaller
constexpr double kMostSeconds = 10;        // for these
constexpr int64_t kDifferences = 1 << 22;  // terms that one gradient's differences may work out
constexpr int kMostForCover = 400;         // draws of a kernel and its gradients

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// ---- one draw -------------------------------------------------------------------------------------------------------

// The type of error that `work` throws, or null.
template <class Work>
const std::type_info* error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return &typeid(error);
  }
  return nullptr;
}

// Something threw. Well, if the reference throws the same as the call. `refused` then grows.
std::string judge_error(const Draw& draw, Device device, const std::string& text, int& refused) {
  std::vector<HostTensor> hosts;
  std::vector<Tensor> tensors;
  for (const Input& input : draw.item.inputs) {
    Made made = make(input, draw.dtype, device, draw.seed);
    hosts.push_back(std::move(made.host));
    tensors.push_back(std::move(made.tensor));
  }
  const std::type_info* needed = error_of([&] { draw.item.reference(hosts); });
  const std::type_info* came = error_of([&] {
    if (!draw.gradient) {
      draw.item.call(tensors);
    } else {
      draw.item.differentiable(std::vector<Var>(tensors.begin(), tensors.end()));
    }
  });
  if (needed && came && *needed == *came) {
    ++refused;
    return {};
  }
  if (needed && !came) return "it should have been refused: the reference says " + text;
  return text + (needed ? "\n  (not the error that the reference throws)"
                        : "\n  (Where a call has no result, the case's reference throws the same error; where the case "
                          "holds sizes, it says .fixed_shapes = true)");
}

Way way_of(const Draw& draw, Device device, const PropertyRun& run) {
  const std::vector<Way> ways = run.ways(draw.item.kernel, draw.dtype, device.kind);
  return draw.setting == 0 ? Way{} : ways[static_cast<size_t>(draw.setting) % ways.size()];
}

// Empty when all is well, else a report.
std::string check(const Draw& draw, Device device, const PropertyRun& run, int& refused) {
  const InWay in_way(way_of(draw, device, run), -1);
  std::string report;
  try {
    if (draw.gradient) {
      int64_t cost = draw.terms();
      for (const Input& input : draw.item.inputs) cost = std::max(cost, input.shape.numel());
      report = check_gradient(draw.item, draw.dtype, device,
                              {.samples = std::clamp<int64_t>(kDifferences / std::max<int64_t>(cost, 1), 4, 48),
                               .of_terms = 0.1,
                               .twice = false});
    } else {
      report = check_result(draw.item, draw.dtype, device);
    }
  } catch (const Error& error) {
    report = judge_error(draw, device, error.what(), refused);
  } catch (const std::exception& error) {
    report = std::string("an error that isn't the library's: ") + error.what();
  }
  return report;
}

// ---- a failing draw -------------------------------------------------------------------------------------------------

std::string repeat_command(const Draw& draw, Device device, const PropertyRun& run) {
  return run.program + " --devices " + device.str() + " --draws 1 --seed " + std::to_string(draw.seed);
}

// Denser inputs and smaller extents, as long as it fails; null where nothing smaller does.
std::string shrink(Draw& draw, Device device, const PropertyRun& run, const std::string& first_report) {
  const Clock::time_point start = Clock::now();
  std::string report = first_report;
  int attempts = 0, refused = 0;
  const auto fails_too = [&](Draw smaller) {
    if (++attempts > kMostAttempts || seconds_since(start) > kMostSeconds) return false;
    smaller.apply();
    std::string found = check(smaller, device, run, refused);
    if (found.empty()) return false;
    report = std::move(found);
    draw = std::move(smaller);
    return true;
  };
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < draw.views.size(); ++i) {
      if (!draw.views[i]) continue;
      Draw dense = draw;
      dense.views[i].reset();
      if (fails_too(std::move(dense))) {
        any = true;
        continue;
      }
      for (int axis = 0; axis < draw.views[i]->order.rank(); ++axis) {
        for (const auto& [part, plain] : {std::pair{&View::steps, 1}, {&View::gaps, 0}}) {
          if (((*draw.views[i]).*part)[axis] == plain) continue;
          Draw simpler = draw;
          ((*simpler.views[i]).*part)[axis] = plain;
          any = fails_too(std::move(simpler)) || any;
        }
      }
    }
    for (size_t i = 0; i < draw.extents.size(); ++i) {
      for (const int64_t extent : {int64_t{1}, draw.extents[i] / 2, draw.extents[i] / 2 + 1, draw.extents[i] - 1}) {
        if (extent < 1 || extent >= draw.extents[i]) continue;
        Draw smaller = draw;
        smaller.extents[i] = extent;
        if (!fails_too(std::move(smaller))) continue;
        any = true;
        break;
      }
    }
  }
  return report;
}

std::string title_of(const Draw& draw, Device device, const PropertyRun& run) {
  std::string title = draw.item.kernel + (draw.gradient ? ", gradient, " : ", ") + std::string(name_of(draw.dtype)) +
                      " on " + device.str() + ", like case " + draw.like->name;
  const std::string own = "draw_" + std::to_string(draw.seed);
  if (draw.item.name.size() > own.size()) title += ", drawn:" + draw.item.name.substr(own.size());
  if (draw.setting > 0) {
    const Way way = way_of(draw, device, run);
    if (!way.is_usual()) title += ", " + way.name();
  }
  return title;
}

void print_failure(const Draw& draw, Device device, const PropertyRun& run, const std::string& report) {
  std::printf("FAILED draw %llu: %s\n%s\n%s\n", static_cast<unsigned long long>(draw.seed),
              title_of(draw, device, run).c_str(), draw.describe().c_str(), report.c_str());
  Draw smaller = draw;
  const std::string still = shrink(smaller, device, run, report);
  if (smaller.describe() != draw.describe()) {
    std::printf("and as small as it gets:\n%s\n%s\n", smaller.describe().c_str(), still.c_str());
  }
  std::printf("repeat: %s\n\n", repeat_command(draw, device, run).c_str());
  std::fflush(stdout);
}

// ---- a draw that ends the process -----------------------------------------------------------------------------------

// What the process is at, for a handler that can only write it.
char current[600];

extern "C" void tell_current_draw(int signal) {
  const ssize_t written = ::write(STDERR_FILENO, current, std::strlen(current));
  static_cast<void>(written);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void note_current(const Draw& draw, Device device, const PropertyRun& run) {
  std::snprintf(current, sizeof current, "ENDED by a signal in draw %llu: %s\nrepeat: %s\n",
                static_cast<unsigned long long>(draw.seed), title_of(draw, device, run).c_str(),
                repeat_command(draw, device, run).c_str());
}

}  // namespace

int run_draws(const PropertyRun& run, Device device) {
  const Clock::time_point start = Clock::now();
  if (!device.is_available()) {
    std::printf("no %s device or driver on this machine\n", device.str().c_str());
    return 1;
  }
  const Drawer drawer(cases());
  std::map<std::string, std::vector<uint64_t>> seeds;  // by kernel: each is loaded or compiled once
  const bool any =
      std::ranges::any_of(cases(), [&](const Case& item) { return !item.benchmark && run.wanted(item.kernel); });
  if (!any) {
    std::printf("no case of a wanted kernel\n");
    return 1;
  }
  uint64_t next = run.seed;
  for (int64_t found = 0; found < run.draws; ++next) {
    const std::string& kernel = drawer.kernel(next);
    if (!run.wanted(kernel) || (run.wanted_in && !run.wanted_in(kernel, drawer.draw(next).dtype))) continue;
    seeds[kernel].push_back(next);
    ++found;
  }
  std::printf("%lld draws on %s, seeds %llu to %llu (repeat with --draws %lld --seed %llu)\n",
              static_cast<long long>(run.draws), device.str().c_str(), static_cast<unsigned long long>(run.seed),
              static_cast<unsigned long long>(next - 1), static_cast<long long>(run.draws),
              static_cast<unsigned long long>(run.seed));
  std::fflush(stdout);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) std::signal(signal, tell_current_draw);

  int failures = 0, refused = 0, gradients = 0;
  int64_t done = 0, largest = 0;
  for (const auto& [kernel, of_kernel] : seeds) {
    const Clock::time_point kernel_start = Clock::now();
    int failures_here = 0;
    for (const uint64_t seed : of_kernel) {
      const Draw draw = drawer.draw(seed);
      note_current(draw, device, run);
      const std::string report = check(draw, device, run, refused);
      ++done;
      gradients += draw.gradient;
      for (const Input& input : draw.item.inputs) largest = std::max(largest, input.shape.numel());
      if (report.empty()) continue;
      print_failure(draw, device, run, report);
      if (++failures_here < kMostFailures) continue;
      std::printf("%s has failed %d times; the rest of its draws is left out\n\n", kernel.c_str(), failures_here);
      break;
    }
    failures += failures_here;
    std::printf("  %-18s %5zu draws %7.1f s\n", kernel.c_str(), of_kernel.size(), seconds_since(kernel_start));
    std::fflush(stdout);
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) std::signal(signal, SIG_DFL);
  std::printf(
      "%lld draws of %zu kernels on %s: %d failed, %d refused as they must be, %d gradients, up to %lld elements, "
      "%.1f s\n",
      static_cast<long long>(done), seeds.size(), device.str().c_str(), failures, refused, gradients,
      static_cast<long long>(largest), seconds_since(start));
  return failures;
}

std::string check_draw(uint64_t seed, const PropertyRun& run, Device device) {
  int refused = 0;
  return check(Drawer(cases()).draw(seed), device, run, refused);
}

std::vector<Reach> reach_by_draws(const PropertyRun& run, Device device, Kernels kernels,
                                  std::set<DeviceFunction> missed) {
  std::map<std::string, std::set<const KernelInfo*>> parts;  // by stem
  for (const KernelInfo* kernel : kernels) {
    for (const KernelInfo* part : kernels_of(*kernel)) parts[stem(kernel->name)].insert(part);
  }
  std::map<std::string, int> left;  // draws, by stem
  const auto drop_done = [&] {
    std::erase_if(left, [&](const auto& one) {
      const std::set<const KernelInfo*>& of_stem = parts[one.first];
      return std::ranges::none_of(missed,
                                  [&](const DeviceFunction& function) { return of_stem.contains(function.kernel); });
    });
  };
  const Drawer drawer(cases());
  for (const Case& item : cases()) {
    if (item.is_drawn && !item.benchmark && run.wanted(item.kernel)) left[stem(item.kernel)] = kMostForCover;
  }
  drop_done();
  std::vector<Reach> reaches;
  for (uint64_t seed = 0; !left.empty(); ++seed) {
    const auto of_kernel = left.find(stem(drawer.kernel(seed)));
    if (of_kernel == left.end()) continue;
    if (--of_kernel->second == 0) left.erase(of_kernel);
    const Draw draw = drawer.draw(seed);
    take_reached();
    const Clock::time_point start = Clock::now();
    try {
      run_unchecked({&draw.item, draw.dtype, device, draw.gradient, way_of(draw, device, run)},
                    blank_tensors(draw.item, draw.dtype, device));
    } catch (const Error&) {
      // What must be refused reaches nothing.
    }
    Reach reach{draw_test(seed, device), seconds_since(start), take_reached().functions};
    const size_t before = missed.size();
    for (const DeviceFunction& function : reach.functions) missed.erase(function);
    if (missed.size() == before) continue;
    reaches.push_back(std::move(reach));
    drop_done();
  }
  return reaches;
}

std::string draw_test(uint64_t seed, Device device) { return "draw." + std::to_string(seed) + "/" + device.str(); }

}  // namespace ashlar::conformance
