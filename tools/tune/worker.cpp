#include "tools/tune/worker.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>

#include "runtime/device/device_identity.h"
#include "runtime/device/stream.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "runtime/vendor/vendor.h"
#include "tools/tune/call.h"
#include "tools/tune/kernel_files.h"
#include "tools/tune/process.h"

namespace ashlar::tune {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

CodeTarget code_target_of(const std::string& name) {
  std::string names;
  for (int i = 0; i < kCodeTargets; i++) {
    const auto target = static_cast<CodeTarget>(i);
    if (name_of(target) == name) return target;
    names += (i ? ", " : "") + std::string(name_of(target));
  }
  throw ValueError("ashlar-tune", "target " + name, "one of " + names, "");
}

void* symbol_in(const std::filesystem::path& library, const std::string& name) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = handle ? dlsym(handle, name.c_str()) : nullptr;
  if (symbol == nullptr) {
    const char* reason = dlerror();
    throw DataError("ashlar-tune", reason ? reason : library.string(), "a library of this bundle", "Make it again");
  }
  return symbol;
}

// The launches of the instance under test: a candidate whose function never runs would be timed in vain.
std::function<bool(const KernelInstance&)> watched;
int launches_of_watched = 0;
void count_launches(const KernelInfo&, const KernelInstance& instance) {
  launches_of_watched += watched && watched(instance);
}

/// One instance's kernel as the library has it, but for the table of the target, in which a candidate's function takes
/// the place of a setting: calls go the usual way, through forms, checks and dispatch.
/// A call went to another kernel, as one that works in parts does.
struct Elsewhere : ValueError {
  using ValueError::ValueError;
};

class Subject {
 public:
  Subject(const Bundle& bundle, const Instance& instance) : bundle_(bundle), instance_(instance) {
    const KernelInfo* info = &open_kernel(bundle.folder / instance.library, instance.kernel);
    const auto target = static_cast<size_t>(code_target_of(bundle.target));
    const TargetTable& table = *info->targets[target];
    for (int i = 0; i < table.count; i++) {
      const bool is_default = !*table.instances[i].tunables;  // every plan with its default tunables
      if (is_default) rows_.push_back(table.instances[i]);
    }
    if (std::ranges::find(rows_, instance.key, &KernelInstance::key) == rows_.end()) {
      throw DataError("ashlar-tune", instance.kernel + " " + instance.name, "an instance of this bundle",
                      "Make it again");
    }
    rows_.push_back({with_setting(instance.key, kCandidate), nullptr, "candidate", "candidate"});
    table_ = {rows_.data(), static_cast<int>(rows_.size()), nullptr, 0, 0, table.plans, table.plan_count};
    tuned_ = *info;
    tuned_.targets.fill(nullptr);
    tuned_.targets[target] = &table_;
    // The CPU's results come from other code than that under test, where there is other code.
    reference_ = *info;
    constexpr auto baseline = static_cast<size_t>(CodeTarget::cpu);
    if (device_of(bundle.target, 0).kind == DeviceKind::cpu) {
      reference_.targets.fill(nullptr);
      reference_.targets[baseline] = info->targets[baseline];
    }
    const TargetTable* cpu = info->targets[baseline];
    has_reference_ = cpu != nullptr && cpu->count > 0 && target != baseline;
  }

  ~Subject() { watched = {}; }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  const KernelInfo& reference() const { return has_reference_ ? reference_ : tuned_; }

  /// Calls of this kernel are the candidate's from now on.
  void use(const Candidate& candidate) {
    if (candidate.tunables.empty()) {
      set_forced_setting(0);
      watched = [this](const KernelInstance& launched) {
        return std::ranges::any_of(rows_, [&](const KernelInstance& row) {
          return KernelKey::unpacked(row.key).packed() == instance_.key &&
                 std::string_view(row.symbol) == launched.symbol;
        });
      };
      return;
    }
    void*& function = functions_[candidate.symbol];
    if (function == nullptr) {
      function = symbol_in(bundle_.folder / (candidate.symbol + ".so"), candidate.symbol + "_argv");
    }
    rows_.back().function = reinterpret_cast<int (*)(void**)>(function);
    rows_.back().symbol = candidate.symbol.c_str();
    rows_.back().plan = "";
    rows_.back().plan_index = -1;
    if (const auto plan = candidate.tunables.find("plan"); plan != candidate.tunables.end()) {
      for (const KernelInstance& row : rows_) {
        if (KernelKey::unpacked(row.key).packed() != instance_.key || row.plan != plan->second) continue;
        rows_.back().plan = row.plan;
        rows_.back().plan_index = row.plan_index;
      }
    }
    watched = [this](const KernelInstance& launched) {
      return std::string_view(launched.symbol) == rows_.back().symbol;
    };
    set_forced_setting(kCandidate);
  }

  std::vector<Tensor> call(const Inputs& inputs) const {
    launches_of_watched = 0;
    std::vector<Tensor> outputs = tune::call(tuned_, instance_.key, inputs);
    if (launches_of_watched == 0) {
      throw Elsewhere("ashlar-tune", "a call of " + instance_.kernel + " that doesn't reach " + instance_.name,
                      "an instance that its form calls with such inputs", "Leave this instance out, or these sizes");
    }
    return outputs;
  }
  Inputs inputs(const std::vector<int64_t>& sizes) const { return make_inputs(tuned_, instance_.key, sizes); }
  const KernelInfo& kernel() const { return tuned_; }
  uint32_t key() const { return instance_.key; }

  bool works_in_place() const {
    return std::ranges::any_of(tuned_.arguments, [](const Argument& a) { return a.in_place_of >= 0; });
  }

 private:
  static constexpr int kCandidate = kMostSettings - 1;  // above every other, since rows are sorted
  const Bundle& bundle_;
  const Instance& instance_;
  std::vector<KernelInstance> rows_;
  TargetTable table_;
  KernelInfo tuned_, reference_;
  bool has_reference_ = false;
  std::map<std::string, void*> functions_;
};

/// Seconds of one call: batches of calls, each ended by a synchronisation.
class Timer {
 public:
  Timer(const Subject& subject, const Inputs& inputs, Device device)
      : subject_(subject), inputs_(inputs), stream_(Stream::current(device)) {}

  double batch(int64_t calls) const {
    stream_.synchronize();
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < calls; i++) subject_.call(inputs_);
    stream_.synchronize();
    return seconds_since(start) / static_cast<double>(calls);
  }

  /// Calls in a batch of at least `seconds`.
  int64_t calibrate(double seconds) const {
    const double one = std::max(batch(1), 1e-7);
    return std::clamp<int64_t>(static_cast<int64_t>(seconds / one), 1, 1000);
  }

 private:
  const Subject& subject_;
  const Inputs& inputs_;
  Stream stream_;
};

class Worker {
 public:
  Worker(const Bundle& bundle, ResultsFile& results, const RunOptions& options, const Teller& tell)
      : bundle_(bundle), results_(results), options_(options), tell_(tell) {
    device_ = device_of(bundle.target, options.device_index);
  }

  bool run() {
    const detail::DeviceIdentity& identity = detail::device_identity(device_);
    tell_.where({bundle_.target, identity.name, identity.family, device_.driver()});
    if (options_.memory_gb > 0) set_memory_cap(device_, static_cast<int64_t>(options_.memory_gb * 1e9));
    set_launch_observer(count_launches);
    set_vendor_policy(VendorPolicy::never);  // the candidates are ours
    for (const Instance& instance : bundle_.instances) {
      Subject subject(bundle_, instance);
      for (const std::vector<int64_t>& sizes : check_sizes(subject.kernel())) {
        if (!each_candidate(subject, instance, sizes, false)) return false;
      }
      if (!is_checked(subject, instance, instance.candidates[0])) continue;  // nothing to compare with
      for (const std::vector<int64_t>& sizes : instance.sizes) {
        if (!each_candidate(subject, instance, sizes, true)) return false;
        if (!finals(subject, instance, sizes)) return false;
      }
    }
    return true;
  }

 private:
  bool is_out(const Instance& instance, const Candidate& candidate) const {
    return results_.why_out(instance, candidate) != nullptr;
  }

  bool is_checked(const Subject& subject, const Instance& instance, const Candidate& candidate) const {
    const auto checked = [&](const std::vector<int64_t>& sizes) {
      const Outcome* outcome = results_.find(instance, candidate, sizes, false);
      return outcome != nullptr && outcome->status == "checked";
    };
    return !is_out(instance, candidate) && std::ranges::any_of(check_sizes(subject.kernel()), checked);
  }

  void finish(const Outcome& outcome) {
    results_.remember(outcome);
    tell_.done(outcome);
  }

  static Outcome about(const Instance& instance, const Candidate& candidate, const std::vector<int64_t>& sizes) {
    return {instance.kernel, instance.name, candidate.tunables, sizes, "", 0, 0, ""};
  }

  /// All candidates at one shape; false when the process can't go on.
  bool each_candidate(Subject& subject, const Instance& instance, const std::vector<int64_t>& sizes, bool timed) {
    std::optional<Inputs> inputs;  // made when they are needed: a resumed run may need none
    std::vector<Tensor> expected;
    double best = 0;
    for (const Candidate& candidate : instance.candidates) {
      const Outcome* known = results_.find(instance, candidate, sizes, false);
      if (known && known->status == "timed" && (best == 0 || known->microseconds < best)) best = known->microseconds;
      if (known || is_out(instance, candidate)) continue;
      Outcome outcome = about(instance, candidate, sizes);
      tell_.begin(outcome);
      bool goes_on = true;
      if (!candidate.error.empty()) {
        outcome.status = "not compiled";
        outcome.message = candidate.error;
      } else {
        try {
          if (!inputs) prepare(subject, instance, sizes, timed, inputs, expected);
          subject.use(candidate);
          judge(subject, *inputs, expected, timed, best, outcome);
        } catch (const OutOfMemory& error) {
          outcome.status = "out of memory";
          outcome.message = error.what();
          trim_memory(device_);
        } catch (const Elsewhere& error) {
          outcome.status = timed ? "failed" : "elsewhere";
          outcome.message = error.what();
        } catch (const Error& error) {
          outcome.status = "failed";
          outcome.message = error.what();
          goes_on = device_.kind == DeviceKind::cpu;  // a GPU's context may be lost
        }
      }
      if (outcome.status == "timed" && (best == 0 || outcome.microseconds < best)) best = outcome.microseconds;
      finish(outcome);
      if (!goes_on) return false;
    }
    return true;
  }

  /// Inputs on the device, and what results must be: small ones as the CPU has them, those to be timed as the default
  /// has them, which the small ones have just checked.
  void prepare(Subject& subject, const Instance& instance, const std::vector<int64_t>& sizes, bool timed,
               std::optional<Inputs>& inputs, std::vector<Tensor>& expected) {
    const Inputs made = subject.inputs(sizes);
    Inputs on_device = copy_to(made, device_);
    if (timed) {
      subject.use(instance.candidates[0]);
      expected = subject.call(subject.works_in_place() ? copy_to(made, device_) : on_device);
    } else {
      set_forced_setting(0);
      watched = {};
      expected = tune::call(subject.reference(), subject.key(), copy_to(made, Device::cpu()));
    }
    for (Tensor& y : expected) y = y.device() == Device::cpu() ? y : y.to(Device::cpu());
    inputs = std::move(on_device);
  }

  void judge(Subject& subject, const Inputs& inputs, const std::vector<Tensor>& expected, bool timed, double best,
             Outcome& outcome) const {
    std::vector<Tensor> came = subject.call(subject.works_in_place() ? copy_to(inputs, device_) : inputs);
    for (Tensor& y : came) y = y.device() == Device::cpu() ? y : y.to(Device::cpu());
    outcome.message = difference(came, expected);
    if (!outcome.message.empty()) {
      outcome.status = "wrong";
      return;
    }
    came.clear();
    outcome.status = "checked";
    if (!timed) return;
    const Timer timer(subject, inputs, device_);
    timer.batch(2);  // warm-up
    const int64_t calls = timer.calibrate(options_.timing_seconds / 8);
    const double first = timer.batch(calls) * 1e6;
    outcome.microseconds = first;
    outcome.status = best > 0 && first > options_.slow * best ? "slow" : "timed";
    if (outcome.status == "slow") return;
    std::vector<double> times{first};
    for (int i = 0; i < 6; i++) times.push_back(timer.batch(calls) * 1e6);
    outcome.microseconds = median(times);
  }

  /// Whether the kernel's conformance cases accept it, by their references in double. A program of its own runs them,
  /// once for each candidate that comes so far.
  bool is_right(const Instance& instance, const Candidate& candidate) {
    if (instance.judge.empty()) return true;
    if (const Outcome* known = results_.find(instance, candidate, {}, false)) return known->status == "judged";
    Outcome outcome = about(instance, candidate, {});
    tell_.begin(outcome);
    const char* libraries = std::getenv("LD_LIBRARY_PATH");
    const auto seconds = static_cast<int>(std::ceil(30 * options_.seconds_per_candidate));
    const Command command{
        "/usr/bin/env",
        "LD_LIBRARY_PATH=" + (bundle_.folder / "lib").string() + (libraries ? ":" : "") + (libraries ? libraries : ""),
        (bundle_.folder / instance.judge).string(),
        "--devices",
        device_.str(),
        "--judge",
        instance.kernel + "," + std::to_string(instance.key) + "," +
            (bundle_.folder / (candidate.symbol + ".so")).string() + "," + candidate.symbol +
            (candidate.tunables.contains("plan") ? "," + candidate.tunables.at("plan") : ""),
        "--seconds",
        std::to_string(seconds)};
    std::future<Finished> running = std::async(std::launch::async, [&] { return tune::run(command); });
    // It watches its own time.
    while (running.wait_for(std::chrono::seconds(1)) != std::future_status::ready) tell_.begin(outcome);
    const Finished finished = running.get();
    outcome.status = finished.code == 0               ? "judged"
                     : finished.code == 1             ? "wrong"
                     : finished.code == 128 + SIGALRM ? "hung"
                     : finished.code > 128            ? "crashed"
                                                      : "failed";
    if (finished.code != 0) outcome.message = finished.output;
    finish(outcome);
    return finished.code == 0;
  }

  /// The quickest candidates that are right and the default, in alternating rounds, so that a clock that drifts favours
  /// none.
  bool finals(Subject& subject, const Instance& instance, const std::vector<int64_t>& sizes) {
    std::vector<std::pair<double, const Candidate*>> ranking;
    for (const Candidate& candidate : instance.candidates) {
      if (is_out(instance, candidate)) continue;
      const Outcome* outcome = results_.find(instance, candidate, sizes, false);
      if (outcome && outcome->status == "timed") ranking.emplace_back(outcome->microseconds, &candidate);
    }
    std::ranges::sort(ranking);
    const Candidate& standard = instance.candidates[0];
    if (is_out(instance, standard) || results_.find(instance, standard, sizes, true)) return true;
    if (!is_right(instance, standard)) return true;
    std::vector<const Candidate*> finalists{&standard};
    for (const auto& [time, candidate] : ranking) {
      if (static_cast<int>(finalists.size()) > options_.finalists) break;
      if (candidate != &standard && is_right(instance, *candidate)) finalists.push_back(candidate);
    }
    Outcome outcome = about(instance, standard, sizes);
    tell_.begin(outcome);
    try {
      const Inputs inputs = copy_to(subject.inputs(sizes), device_);
      const Timer timer(subject, inputs, device_);
      subject.use(standard);
      const std::vector<int64_t> table_sizes = sizes_for_table(subject.kernel(), inputs, subject.call(inputs));
      timer.batch(2);
      const int64_t calls = timer.calibrate(options_.timing_seconds / 8);
      std::vector<std::vector<double>> times(finalists.size());
      for (int round = 0; round < 7; round++) {
        for (size_t f = 0; f < finalists.size(); f++) {
          subject.use(*finalists[f]);
          if (round == 0) timer.batch(2);
          times[f].push_back(timer.batch(calls) * 1e6);
        }
        tell_.begin(outcome);
      }
      // The default's stands last: a cut before it lets the next run begin the finals again.
      for (size_t f = finalists.size(); f-- > 0;) {
        std::vector<double> ratios;
        for (size_t round = 0; round < times[f].size(); round++) ratios.push_back(times[f][round] / times[0][round]);
        outcome = about(instance, *finalists[f], sizes);
        outcome.status = "final";
        outcome.microseconds = median(times[f]);
        outcome.of_default = median(ratios);
        if (table_sizes != sizes) outcome.table_sizes = table_sizes;
        finish(outcome);
      }
    } catch (const Error& error) {
      outcome.status = "failed";
      outcome.message = error.what();
      finish(outcome);
      return false;
    }
    return true;
  }

  const Bundle& bundle_;
  ResultsFile& results_;
  const RunOptions& options_;
  const Teller& tell_;
  Device device_;
};

}  // namespace

Device device_of(const std::string& code_target, int index) {
  switch (code_target_of(code_target)) {
    case CodeTarget::opencl:
      return Device::opencl(index);
    case CodeTarget::cuda:
      return Device::cuda(index);
    case CodeTarget::cpu:
    case CodeTarget::cpu_avx2:
    case CodeTarget::cpu_avx512:
      break;
  }
  return Device::cpu();
}

bool work(const Bundle& bundle, ResultsFile& results, const RunOptions& options, const Teller& tell) {
  return Worker(bundle, results, options, tell).run();
}

}  // namespace ashlar::tune
