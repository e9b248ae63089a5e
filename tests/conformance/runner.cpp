#include "tests/conformance/runner.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <set>

#include "runtime/launch/launch.h"
#include "runtime/support/error.h"
#include "runtime/vendor/vendor.h"
#include "tests/conformance/candidate.h"
#include "tests/conformance/case.h"
#include "tests/conformance/changed.h"
#include "tests/conformance/check.h"
#include "tests/conformance/cover.h"
#include "tests/conformance/coverage.h"
#include "tests/conformance/gradient.h"
#include "tests/conformance/jobs.h"
#include "tests/conformance/property.h"
#include "tests/conformance/recorder.h"
#include "tests/conformance/report.h"
#include "tests/conformance/standing.h"

namespace ashlar::conformance {
namespace {

struct Options {
  std::string program;
  std::vector<std::string> devices;
  std::vector<std::string> kernels;
  std::string shard;
  std::string results;
  std::string support;
  std::string status;
  std::vector<std::string> from;
  std::string judge;
  unsigned judge_seconds = 600;
  bool vendor = false;
  bool list = false;
  int64_t draws = 0;
  std::optional<uint64_t> seed;
  std::string revision = "unknown";
  std::string only;
  std::string cover;
  int times = 2;
  std::vector<std::string> changed;
  std::string left_out;
  bool unchecked = false;
  bool every_code = false;
  std::vector<std::string> sample;
};

// What the tests of one case in one dtype share, which run one after another.
struct Checks {
  DrawnCase drawn;
  ResultCheck result{drawn};
  GradientsCheck gradients{drawn};

  static Checks& of(const Job& job) {
    static std::unique_ptr<Checks> last;
    if (!last || &last->drawn.item() != job.item || last->drawn.dtype() != job.dtype) {
      last.reset(new Checks{DrawnCase(*job.item, job.dtype)});
    }
    return *last;
  }
};

class CaseTest : public testing::Test {
 public:
  CaseTest(const Job& job, CodeTarget code, bool unchecked) : job_(job), code_(code), unchecked_(unchecked) {}
  void TestBody() override try {
    const InCode code(code_);
    const InWay way(job_.way);
    if (unchecked_) return run_unchecked(job_, blank_tensors(*job_.item, job_.dtype, job_.device));
    Checks& checks = Checks::of(job_);
    if (!job_.way.plan.empty() && !reaches_plan(checks.drawn)) return;  // the usual way, which has a test of its own
    const std::string report = job_.gradient ? checks.gradients(job_.device) : checks.result(job_.device);
    if (!report.empty()) ADD_FAILURE() << report;
  } catch (const OutOfMemory& error) {
    if (!job_.item->is_large) throw;
    GTEST_SKIP() << error.what();
  } catch (const KernelError& error) {
    // A last plan may refuse calls that are never made of it (dsl/plans.h).
    if (std::string_view(error.what()).find("can't serve this call") == std::string_view::npos) throw;
    if (job_.way.plan.empty()) throw;
  }

 private:
  /// Whether the plan can serve a call of the case.
  bool reaches_plan(DrawnCase& drawn) const {
    take_plans();
    run_unchecked(job_, drawn.tensors(job_.device));
    return take_plans().contains(job_.way.plan);
  }

  Job job_;
  CodeTarget code_;
  bool unchecked_;
};

// A draw that --cover has found.
class DrawTest : public testing::Test {
 public:
  DrawTest(uint64_t seed, const PropertyRun& run, Device device) : seed_(seed), run_(run), device_(device) {}
  void TestBody() override {
    const std::string report = check_draw(seed_, run_, device_);
    if (!report.empty()) ADD_FAILURE() << report;
  }

 private:
  uint64_t seed_;
  PropertyRun run_;
  Device device_;
};

// A device that was asked for and isn't there, or kernels that weren't built for it.
class SkippedTest : public testing::Test {
 public:
  explicit SkippedTest(std::string reason) : reason_(std::move(reason)) {}
  void TestBody() override { GTEST_SKIP() << reason_; }

 private:
  std::string reason_;
};

// Runs last: have the others reached everything?
class CoverageTest : public testing::Test {
 public:
  CoverageTest(std::vector<const KernelInfo*> kernels, CodeTarget code) : kernels_(std::move(kernels)), code_(code) {}
  void TestBody() override {
    if (vendor_policy() == VendorPolicy::always) {
      for (const std::string& missed : vendor_routines_not_reached(kernels_, device_of(code_))) {
        ADD_FAILURE() << "no case reaches the vendor's routine of " << missed;
      }
      return;
    }
    for (const std::string& missed : instances_not_launched(kernels_, code_)) {
      ADD_FAILURE() << "no case reaches the compiled instance " << missed;
    }
  }

 private:
  std::vector<const KernelInfo*> kernels_;
  CodeTarget code_;
};

class HasCaseTest : public testing::Test {
 public:
  HasCaseTest(std::vector<const KernelInfo*> covered, Kernels kernels)
      : covered_(std::move(covered)), kernels_(kernels) {}
  void TestBody() override {
    std::set<std::string> named;
    for (const Case& item : cases()) {
      named.insert(item.kernel);
      if (item.differentiable) named.insert(item.kernel + "_grad");
    }
    for (const KernelInfo* kernel : kernels_) {
      if (!named.contains(kernel->name)) continue;
      for (const KernelInfo* part : kernels_of(*kernel)) named.insert(part->name);
    }
    for (const KernelInfo* kernel : covered_) {
      const std::string name = kernel->name;
      const bool of_gradient = stem(name) != name && named.contains(stem(name) + "_grad");
      EXPECT_TRUE(named.contains(name) || of_gradient)
          << "kernel " << name << " has no case; add one (tests/conformance/case.h says how)";
    }
  }

 private:
  std::vector<const KernelInfo*> covered_;
  Kernels kernels_;  // all: a covered one may be part of another that isn't
};

// A device that was asked for by name must be there, with kernels for it: otherwise everything is skipped and all is
// well.
class DeviceTest : public testing::Test {
 public:
  DeviceTest(Device device, Kernels kernels) : device_(device), kernels_(kernels) {}
  void TestBody() override {
    ASSERT_TRUE(device_.is_available()) << "no " << device_.str() << " device or driver on this machine";
    EXPECT_TRUE(
        std::ranges::any_of(kernels_, [&](const KernelInfo* kernel) { return is_built(*kernel, device_.kind); }))
        << "no kernel was built for " << device_.str();
  }

 private:
  Device device_;
  Kernels kernels_;
};

// "" where `item` can run on `device`, else why not.
std::string reason_to_skip(const Case& item, Device device, Kernels kernels) {
  if (!device.is_available()) return "no " + device.str() + " device or driver on this machine";
  const auto found = std::ranges::find(kernels, item.kernel, [](const KernelInfo* kernel) { return kernel->name; });
  if (found == kernels.end()) return {};  // HasCaseTest's mirror image: the call itself fails with a clear error
  return is_built(**found, device.kind) ? "" : "not built for " + std::string(name_of(device.kind));
}

// What the code that a device picks adds to the name of a test in narrower code: "/cpu_avx2".
std::string code_suffix(CodeTarget code) {
  return code == picked_code(device_of(code)) ? "" : std::string("/") + name_of(code);
}

void register_job(const Job& job, CodeTarget code, Kernels kernels, bool unchecked) {
  const std::string reason = reason_to_skip(*job.item, job.device, kernels);
  const std::string name = job.name() + code_suffix(code);
  testing::RegisterTest(job.item->kernel.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [job, code, reason, unchecked]() -> testing::Test* {
                          if (!reason.empty()) return new SkippedTest(reason);
                          return new CaseTest(job, code, unchecked);
                        });
}

// What cases run on a device: the code that it picks, and with `every` all narrower code for the CPU, the widest first.
std::vector<CodeTarget> codes_on(Device device, bool every) {
  std::vector<CodeTarget> codes{picked_code(device.kind)};
  while (every && device.kind == DeviceKind::cpu && codes.back() != CodeTarget::cpu) {
    codes.push_back(static_cast<CodeTarget>(static_cast<uint8_t>(codes.back()) - 1));
  }
  return codes;
}

// Which shard of `count` runs a kernel and its gradient: by the order of the names.
class Shard {
 public:
  explicit Shard(const std::string& text, Kernels kernels) {
    for (const Case& item : cases()) stems_.insert(stem(item.kernel));
    for (const KernelInfo* kernel : kernels) stems_.insert(stem(kernel->name));
    if (text.empty()) return;
    if (std::sscanf(text.c_str(), "%d/%d", &index_, &count_) != 2 || count_ < 1 || index_ < 0 || index_ >= count_) {
      throw ValueError("--shard", text, "i/n with 0 <= i < n", "Give e.g. --shard 0/4");
    }
  }
  bool has(const std::string& kernel) const {
    return std::distance(stems_.begin(), stems_.find(stem(kernel))) % count_ == index_;
  }

 private:
  std::set<std::string> stems_;
  int index_ = 0;
  int count_ = 1;
};

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw DataError("conformance", path, "a file that can be written", "Check the path");
}

void write_reports(const Options& options, const std::vector<DeviceRun>& runs, Kernels kernels) {
  const Expectation expected(kernels);
  if (!options.results.empty()) write_results(options.results, options.from.empty() ? runs : joined(runs));
  if (!options.support.empty()) write_text(options.support, support_table(runs, expected));
  if (!options.status.empty()) write_text(options.status, status_table(runs, expected));
}

// "cuda softmax,sum", and the source of a program with no more than that.
void write_changed(const Options& options, const std::vector<DeviceRun>& runs, Kernels kernels) {
  const Expectation expected(kernels);
  std::map<std::string, std::set<std::string>> again;
  for (const std::string& target : options.changed) {
    std::string names;
    for (const std::string& kernel : again[target] = to_run_again(runs, target, expected)) {
      names += (names.empty() ? "" : ",") + kernel;
    }
    std::printf("%s %s\n", target.c_str(), names.c_str());
  }
  if (!options.left_out.empty()) write_text(options.left_out, tables_left_out(again, runs, kernels));
}

// The tests that a file of --cover names; empty: all.
std::set<std::string> tests_in(const std::string& path) {
  std::set<std::string> tests;
  if (path.empty()) return tests;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) tests.insert(line.substr(line.find('\t') + 1));
  if (tests.empty()) throw DataError("--only", path, "a file that names a test on each line", "Make it with --cover");
  return tests;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

PropertyRun property_run(const Options& options, Kernels kernels, std::function<bool(const std::string&)> wanted) {
  PropertyRun run;
  run.wanted = std::move(wanted);
  run.ways = [kernels](const std::string& kernel, DType dtype, DeviceKind device) {
    return ways_of(kernel, dtype, device, kernels);
  };
  run.program = options.program + (options.vendor ? " --vendor" : "") +
                (options.sample.empty() ? "" : " --sample " + joined(options.sample));
  return run;
}

// Draws instead of cases. Without --seed no two runs draw the same.
int run_property(const Options& options, PropertyRun run, Kernels kernels,
                 const std::function<bool(const std::string&, DType)>& wanted_in) {
  run.draws = options.draws;
  run.seed = options.seed.value_or(std::random_device{}());
  if (!options.sample.empty()) run.wanted_in = wanted_in;
  set_vendor_policy(options.vendor ? VendorPolicy::always : VendorPolicy::never);
  int failures = 0;
  const auto wanted = run.wanted;
  for (const std::string& name : options.devices) {
    const Device device = Device::parse(name);
    run.wanted = [&](const std::string& kernel) {
      const auto found = std::ranges::find(kernels, kernel, [](const KernelInfo* k) { return k->name; });
      return wanted(kernel) && (found == kernels.end() || is_built(**found, device.kind));
    };
    failures += run_draws(run, device);
  }
  return failures == 0 ? 0 : 1;
}

// The draws that a file of --cover names.
void register_draws(const std::set<std::string>& only, const PropertyRun& run, Device device) {
  const std::string end = "/" + device.str();
  for (const std::string& test : only) {
    uint64_t seed = 0;
    if (std::sscanf(test.c_str(), "draw.%" SCNu64, &seed) != 1 || test != draw_test(seed, device)) continue;
    testing::RegisterTest("draw", (std::to_string(seed) + end).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> testing::Test* { return new DrawTest(seed, run, device); });
  }
}

// --cover: of the cases, and for what none of them reaches, of draws.
std::string cover(const Options& options, const PropertyRun& run, std::vector<Reach> reaches,
                  const std::vector<Device>& devices, Kernels kernels) {
  std::vector<DeviceFunction> functions;
  for (const Device device : devices) {
    const std::vector<DeviceFunction> of_device = device_functions(kernels, device.kind);
    std::set<DeviceFunction> missed(of_device.begin(), of_device.end());
    for (const Reach& reach : reaches) {
      for (const DeviceFunction& function : reach.functions) missed.erase(function);
    }
    std::ranges::move(reach_by_draws(run, device, kernels, std::move(missed)), std::back_inserter(reaches));
    std::ranges::copy(of_device, std::back_inserter(functions));
  }
  return write_cover(options.cover, reaches, functions, options.times);
}

// A name that nothing is called by would run nothing and pass.
void check_names(const char* option, const std::vector<std::string>& names, Kernels kernels) {
  std::set<std::string> known;
  for (const Case& item : cases()) known.insert(stem(item.kernel));
  for (const KernelInfo* kernel : kernels) known.insert(stem(kernel->name));
  for (const std::string& name : names) {
    if (known.contains(name)) continue;
    std::string list;
    for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
    throw ValueError(option, name, "kernels of this program: " + list,
                     "A gradient's cases go by the name of its kernel");
  }
}

int run_all(const Options& options, Kernels kernels) {
  check_names("--kernels", options.kernels, kernels);
  check_names("--sample", options.sample, kernels);
  const Shard shard(options.shard, kernels);
  const auto has_vendor = [&](const std::string& kernel) {
    return std::ranges::any_of(kernels, [&](const KernelInfo* k) { return k->name == kernel && k->vendor; });
  };
  const auto wanted = [&](const std::string& kernel) {
    return shard.has(kernel) && (!options.vendor || has_vendor(kernel)) &&
           (options.kernels.empty() || std::ranges::find(options.kernels, stem(kernel)) != options.kernels.end());
  };
  const auto wanted_in = [&](const std::string& kernel, DType dtype) {
    return options.sample.empty() || (dtype != DType::f16 && dtype != DType::bf16) ||
           std::ranges::find(options.sample, stem(kernel)) != options.sample.end();
  };
  const PropertyRun property = property_run(options, kernels, wanted);
  if (options.draws > 0) return run_property(options, property, kernels, wanted_in);
  std::vector<Device> devices;
  for (const std::string& text : options.devices) devices.push_back(Device::parse(text));
  std::vector<const KernelInfo*> covered;
  std::ranges::copy_if(kernels, std::back_inserter(covered), [&](const KernelInfo* k) { return wanted(k->name); });

  std::map<std::string, JobInCode> jobs;
  const std::set<std::string> only = tests_in(options.only);
  for (const Device device : devices) {
    for (const Job& job : jobs_on(device, kernels)) {
      if (!wanted(job.item->kernel) || !wanted_in(job.item->kernel, job.dtype)) continue;
      if (!only.empty() && !only.contains(job.test())) continue;
      for (const CodeTarget code : codes_on(device, options.every_code)) {
        jobs.emplace(job.test() + code_suffix(code), JobInCode{job, code});
        register_job(job, code, kernels, options.unchecked);
      }
    }
    register_draws(only, property, device);
  }
  testing::RegisterTest("coverage", "every_kernel_has_a_case", nullptr, nullptr, __FILE__, __LINE__,
                        [covered, kernels]() -> testing::Test* { return new HasCaseTest(covered, kernels); });
  for (const Device device : devices) {
    const std::string name = "device_is_there/" + std::string(name_of(device.kind));
    testing::RegisterTest("coverage", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [device, kernels]() -> testing::Test* { return new DeviceTest(device, kernels); });
  }
  // A part of the tests can't reach every instance.
  const bool is_whole = testing::GTEST_FLAG(filter) == "*" && std::getenv("GTEST_TOTAL_SHARDS") == nullptr;
  // --cover names what isn't reached, function by function, on GPUs without clusters too.
  if (is_whole && only.empty() && options.sample.empty() && options.cover.empty()) {
    for (const Device device : devices) {
      if (!device.is_available()) continue;
      for (const CodeTarget code : codes_on(device, options.every_code)) {
        const std::string name = "every_instance_is_reached/" + std::string(name_of(device.kind)) + code_suffix(code);
        testing::RegisterTest("coverage", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                              [covered, code]() -> testing::Test* { return new CoverageTest(covered, code); });
      }
    }
  }
  set_vendor_policy(options.vendor ? VendorPolicy::always : VendorPolicy::never);
  watch_launches();
  auto* recorder = new Recorder(jobs, options.revision);
  testing::UnitTest::GetInstance()->listeners().Append(recorder);
  const int status = RUN_ALL_TESTS();
  const std::vector<DeviceRun> runs = recorder->runs();
  std::fputs(status_table(runs, Expectation(kernels)).c_str(), stdout);
  write_reports(options, runs, kernels);
  if (!options.cover.empty()) {
    std::printf("%s\n", cover(options, property, recorder->reaches(), devices, covered).c_str());
  }
  return status;
}

// For CLI11: "" where a text is a whole number of at least that, else what was needed.
auto whole_number(uint64_t least) {
  return [least](const std::string& text) -> std::string {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= INT64_MAX) return "";
    return "got " + text + "; needed a whole number from " + std::to_string(least) + " to 2^63 - 1";
  };
}

}  // namespace

int run_conformance(int argc, char** argv, Kernels kernels) {
  // Thousands of tests: only failures and the summary unless the user says otherwise.
  testing::GTEST_FLAG(brief) = true;
  testing::InitGoogleTest(&argc, argv);
  Options options;
  options.program = argv[0];
  CLI::App app{"Runs every kernel's conformance cases and compares with references in double."};
  app.add_option("--devices", options.devices, "cpu, opencl[:i], cuda[:i], separated by commas; default: all there are")
      ->delimiter(',');
  app.add_option("--kernels", options.kernels, "Only these kernels and their gradients")->delimiter(',');
  app.add_option(
      "--shard", options.shard,
      "i/n: only the i-th (from 0) of n parts, split by kernel (by test: GTEST_TOTAL_SHARDS and GTEST_SHARD_INDEX)");
  app.add_option("--results", options.results,
                 "Write what passed as JSON; with --from, parts of a run on one device as one");
  app.add_option("--support", options.support, "Write the support table (Markdown)");
  app.add_option("--status", options.status, "Write devices, drivers and counts (Markdown)");
  app.add_option("--from", options.from, "Run nothing; make the tables from these --results files")->delimiter(',');
  app.add_option("--judge", options.judge,
                 "KERNEL,KEY,LIBRARY,SYMBOL[,PLAN]: the cases of one candidate of ashlar-tune");
  app.add_option("--seconds", options.judge_seconds, "With --judge: the most that it may take")->capture_default_str();
  app.add_flag("--vendor", options.vendor, "Only kernels that a vendor's library can compute too, computed by it");
  app.add_option("--sample", options.sample, "f16 and bf16 of these kernels alone; of the others what is neither")
      ->delimiter(',');
  auto* draws = app.add_option("--draws", options.draws,
                               "So many random draws of sizes, layouts, axes, options, … in place of the cases")
                    ->check(whole_number(1));
  app.add_option("--seed", options.seed, "Of the first draw (the next one's is one more); default: another each time")
      ->check(whole_number(0))
      ->needs(draws);
  app.add_option("--revision", options.revision, "Of the sources, for --results");
  app.add_option("--cover", options.cover,
                 "Write into this folder the cheapest tests, and draws for what no test reaches, that reach every GPU "
                 "function (tests.txt), and the functions that none reaches (missed.txt)");
  app.add_option("--times", options.times, "How many tests of --cover reach each function, where there are so many")
      ->check(CLI::PositiveNumber);
  app.add_option("--only", options.only, "Only the tests that this file names, as --cover writes it");
  app.add_flag(
      "--every-code", options.every_code,
      "On the CPU every case also in each narrower code than what it picks (ASHLAR_CPU), as runs of their own");
  app.add_flag("--unchecked", options.unchecked, "Compare nothing: for a driver that stands in for a GPU")
      ->excludes("--results");
  app.add_option("--changed", options.changed,
                 "Print the kernels that have to run again on these code targets, one target a line: since --from, or "
                 "all")
      ->delimiter(',');
  app.add_option("--left-out", options.left_out,
                 "With --changed: write C++ that leaves everything else out of a program");
  app.add_flag("--list", options.list, "List the cases and exit");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.list) {
      for (const Case& item : cases()) std::printf("%s/%s\n", item.kernel.c_str(), item.name.c_str());
      return 0;
    }
    if (!options.from.empty() || !options.changed.empty()) {
      std::vector<DeviceRun> runs;
      for (const std::string& path : options.from) std::ranges::move(read_results(path), std::back_inserter(runs));
      write_changed(options, runs, kernels);
      write_reports(options, runs, kernels);
      return 0;
    }
    if (options.devices.empty()) {
      for (const Device device : Device::available()) options.devices.push_back(device.str());
    }
    if (!options.judge.empty()) {
      return judge(parse_candidate(options.judge), Device::parse(options.devices.at(0)), kernels,
                   options.judge_seconds);
    }
    return run_all(options, kernels);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}

}  // namespace ashlar::conformance
