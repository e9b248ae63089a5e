#include "tests/conformance/report.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/conformance/standing.h"

namespace ashlar::conformance {
namespace {

/// The code targets of one column, and what a driver's text has in it. AVX-512 shares AVX2's, whose code it falls back
/// to: the table says the same wherever it is made.
struct Column {
  const char* heading;
  std::vector<std::string> targets;
  const char* driver = "";
  bool has(const DeviceRun& run) const {
    return std::ranges::find(targets, run.target) != targets.end() && run.driver.find(driver) != std::string::npos;
  }
};
const std::vector<Column>& columns() {
  static const std::vector<Column> all{
      {"CPU (any x86-64)", {"cpu"}},           {"CPU (AVX2, AVX-512)", {"cpu_avx2", "cpu_avx512"}},
      {"OpenCL (PoCL)", {"opencl"}, "PoCL"},   {"OpenCL (Intel, CPU)", {"opencl"}, "Intel(R)"},
      {"OpenCL (NVIDIA)", {"opencl"}, "CUDA"}, {"CUDA", {"cuda"}}};
  return all;
}

constexpr const char* kDTypes[] = {"f32", "f16", "bf16", "f64", "i32", "i64", "u8", "bool", "u32", "i8", "u16", "i16"};

// The runs of a column that have a kernel, of several on one device the newest. Where none has it but there's a run of
// the column, the last one, in which it is missing.
std::vector<const DeviceRun*> runs_of(const std::vector<DeviceRun>& runs, const Column& column,
                                      const std::string& kernel) {
  std::vector<const DeviceRun*> found;
  const DeviceRun* without = nullptr;
  for (const DeviceRun& run : runs) {
    if (!column.has(run)) continue;
    without = &run;
    if (run.kernels.contains(kernel)) found.push_back(&run);
  }
  if (found.empty() && without != nullptr) found.push_back(without);
  return found;
}

const KernelRun* part_of(const DeviceRun& run, const std::string& kernel) {
  const auto found = run.kernels.find(kernel);
  return found == run.kernels.end() ? nullptr : &found->second;
}

// "f32 f16 ?bf16" of one kernel in the runs of one column: the worst of what they say.
std::string supported(const std::vector<DeviceRun>& runs, const Column& column, const std::string& kernel,
                      const Expectation& expected) {
  std::string cell;
  bool stale = false;
  for (const char* dtype : kDTypes) {
    std::optional<Standing> worst;
    for (const DeviceRun* run : runs_of(runs, column, kernel)) {
      worst = std::max(worst, expected.results(part_of(*run, kernel), run->target, kernel, dtype));
    }
    if (!worst) continue;
    stale |= worst == Standing::stale;
    const char* mark = worst == Standing::failed ? "✗" : worst == Standing::partly ? "?" : "";
    cell += (cell.empty() ? "" : " ") + std::string(mark) + dtype;
  }
  if (cell.empty()) return "–";
  return stale ? cell + " (stale)" : cell;
}

// "✓", or where it isn't: "✓ (CUDA: stale)".
std::string gradient_cell(const std::vector<DeviceRun>& runs, const std::vector<Column>& shown,
                          const std::string& kernel, const Expectation& expected) {
  std::map<Standing, std::string> where;
  for (const Column& column : shown) {
    std::optional<Standing> worst;
    for (const DeviceRun* run : runs_of(runs, column, kernel)) {
      worst = std::max(worst, expected.gradients(part_of(*run, kernel), run->target, kernel));
    }
    if (worst) where[*worst] += (where[*worst].empty() ? "" : ", ") + std::string(column.heading);
  }
  if (where.empty()) return "–";
  if (where.contains(Standing::failed)) return "✗ (" + where[Standing::failed] + ")";
  std::string cell = where.contains(Standing::passed) ? "✓" : "";
  for (const auto& [standing, word] : {std::pair{Standing::stale, "stale"}, {Standing::partly, "not all ran"}}) {
    if (where.contains(standing)) cell += (cell.empty() ? "(" : " (") + where[standing] + ": " + word + ")";
  }
  return cell;
}

// "2 of 38: softmax, sum" of the kernels of a run that count: whose code or cases have changed since, or that failed.
std::string to_run_again(const DeviceRun& run, const Expectation& expected) {
  size_t count = 0;
  std::string names;
  for (const auto& [kernel, part] : run.kernels) {
    if (expected.needs_run(&part, run.target, kernel)) names += (count++ ? ", " : "") + kernel;
  }
  if (run.kernels.empty()) return "–";  // newer runs have them all
  if (count == run.kernels.size()) return "all " + std::to_string(count);
  return count == 0 ? "none" : std::to_string(count) + " of " + std::to_string(run.kernels.size()) + ": " + names;
}

}  // namespace

void DeviceRun::add(const std::string& kernel, const std::string& dtype, const std::string& test, uint64_t fingerprint,
                    bool gradient, Outcome outcome, const std::string& reason) {
  if (outcome == Outcome::skipped) {
    ++skipped;
    ++skip_reasons[reason];
    return;
  }
  const bool good = outcome == Outcome::passed;
  ++(good ? passed : failed);
  if (!good) failures.push_back(test);
  KernelRun& run = kernels[kernel];
  Tally& tally = (gradient ? run.gradients : run.dtypes)[dtype];
  ++(good ? tally.passed : tally.failed);
  tally.tests += fingerprint;
}

std::vector<DeviceRun> joined(const std::vector<DeviceRun>& parts) {
  std::vector<DeviceRun> runs;
  const auto add = [](std::map<std::string, Tally>& to, const std::map<std::string, Tally>& part) {
    for (const auto& [dtype, tally] : part) {
      to[dtype].passed += tally.passed;
      to[dtype].failed += tally.failed;
      to[dtype].tests += tally.tests;
    }
  };
  for (const DeviceRun& part : parts) {
    const auto same = [&](const DeviceRun& run) {
      return run.revision == part.revision && run.target == part.target && run.description == part.description &&
             run.driver == part.driver;
    };
    const auto found = std::ranges::find_if(runs, same);
    if (found == runs.end()) {
      runs.push_back(part);
      continue;
    }
    found->date = std::max(found->date, part.date);
    found->seconds = std::max(found->seconds, part.seconds);
    found->passed += part.passed;
    found->failed += part.failed;
    found->skipped += part.skipped;
    for (const auto& [reason, count] : part.skip_reasons) found->skip_reasons[reason] += count;
    found->failures.insert(found->failures.end(), part.failures.begin(), part.failures.end());
    for (const auto& [name, kernel] : part.kernels) {
      KernelRun& all = found->kernels[name];
      add(all.dtypes, kernel.dtypes);
      add(all.gradients, kernel.gradients);
      all.ran.insert(kernel.ran.begin(), kernel.ran.end());
      all.gradients_ran.insert(kernel.gradients_ran.begin(), kernel.gradients_ran.end());
    }
  }
  return runs;
}

std::string support_table(const std::vector<DeviceRun>& runs, const Expectation& expected) {
  const std::vector<DeviceRun> counting = newest(runs);
  std::vector<Column> shown;
  std::set<std::string> kernels;
  for (const Column& column : columns()) {
    if (std::ranges::any_of(runs, [&](const DeviceRun& run) { return column.has(run); })) shown.push_back(column);
    for (const std::string& target : column.targets) {
      for (const auto& [kernel, tests] : expected.on(target)) {
        if (!kernel.starts_with("test_")) kernels.insert(kernel);  // not the tests' own (tests/conformance/kernels)
      }
    }
  }
  std::string table =
      "# What works where\n\nElement types whose conformance cases have all run and passed, per kernel and target. `✗` "
      "stands before one that fails\na case, `?` before one that not all cases have run in. `(stale)`: the compiled "
      "code has changed since that run. The gradient\ncolumn: checked against finite differences of a double "
      "reference. Made by `ashlar-conformance --support`.\n\n| kernel |";
  for (const Column& column : shown) table += std::string(" ") + column.heading + " |";
  table += " gradient |\n|---|";
  for (size_t i = 0; i < shown.size(); ++i) table += "---|";
  table += "---|\n";
  for (const std::string& kernel : kernels) {
    table += "| " + kernel + " |";
    for (const Column& column : shown) table += " " + supported(counting, column, kernel, expected) + " |";
    table += " " + gradient_cell(counting, shown, kernel, expected) + " |\n";
  }
  return table;
}

std::string status_table(const std::vector<DeviceRun>& runs, const Expectation& expected) {
  std::string table =
      "| target | device | driver | revision | date | passed | failed | skipped | seconds | kernels to run again |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  std::string notes;
  for (const DeviceRun& run : newest(runs)) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.0f", run.seconds);
    table += "| " + run.target + " | " + run.description + " | " + run.driver + " | " + run.revision + " | " +
             run.date.substr(0, run.date.find('T')) + " | " + std::to_string(run.passed) + " | " +
             std::to_string(run.failed) + " | " + std::to_string(run.skipped) + " | " + seconds + " | " +
             to_run_again(run, expected) + " |\n";
    for (const auto& [reason, count] : run.skip_reasons) {
      notes += "- " + run.target + ": " + std::to_string(count) + " skipped: " + reason + "\n";
    }
    for (const std::string& test : run.failures) {
      const bool counts = run.kernels.contains(test.substr(0, test.find('.')));  // else a newer run has the kernel
      if (counts) notes += "- " + run.target + ": failed: " + test + "\n";
    }
  }
  return notes.empty() ? table : table + "\n" + notes;
}

}  // namespace ashlar::conformance
