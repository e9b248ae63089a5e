#include "tests/conformance/report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>

#include "json/strict_json.h"
#include "runtime/error.h"

namespace ashlar::conformance {

// In DeviceRun's own namespace, where the JSON library looks for it.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceRun, target, description, driver, seconds, passed, failed, skipped,
                                   skip_reasons, failures, kernels, gradients)

namespace {

/// The code targets of one column. AVX-512 shares AVX2's, whose code it falls back to: the table says the same wherever
/// it is made.
struct Column {
  const char* heading;
  std::vector<std::string> targets;
  bool has(const DeviceRun& run) const { return std::ranges::find(targets, run.target) != targets.end(); }
};
const std::vector<Column>& columns() {
  static const std::vector<Column> all{{"CPU (any x86-64)", {"cpu"}},
                                       {"CPU (AVX2, AVX-512)", {"cpu_avx2", "cpu_avx512"}},
                                       {"OpenCL", {"opencl"}},
                                       {"CUDA", {"cuda"}}};
  return all;
}

// "f32 f16 bf16" of one kernel in the runs of one column: what passed in at least one run and failed in none.
std::string supported(const std::vector<DeviceRun>& runs, const Column& column, const std::string& kernel) {
  std::map<std::string, bool> dtypes;
  for (const DeviceRun& run : runs) {
    if (!column.has(run) || !run.kernels.contains(kernel)) continue;
    for (const auto& [dtype, passed] : run.kernels.at(kernel)) {
      const auto [at, fresh] = dtypes.emplace(dtype, passed);
      at->second = at->second && passed;
    }
  }
  std::string cell;
  for (const char* dtype : {"f32", "f16", "bf16", "f64", "i32", "i64", "u8", "bool"}) {
    if (dtypes.contains(dtype)) cell += (cell.empty() ? "" : " ") + std::string(dtypes[dtype] ? "" : "✗") + dtype;
  }
  return cell.empty() ? "–" : cell;
}

std::string gradient_cell(const std::vector<DeviceRun>& runs, const std::string& kernel) {
  bool any = false;
  for (const DeviceRun& run : runs) {
    const auto found = run.gradients.find(kernel);
    if (found == run.gradients.end()) continue;
    if (!found->second) return "✗";
    any = true;
  }
  return any ? "✓" : "–";
}

}  // namespace

void DeviceRun::add(const std::string& kernel, const std::string& dtype, const std::string& test, bool gradient,
                    Outcome outcome, const std::string& reason) {
  if (outcome == Outcome::skipped) {
    ++skipped;
    ++skip_reasons[reason];
    return;
  }
  const bool good = outcome == Outcome::passed;
  ++(good ? passed : failed);
  if (!good) failures.push_back(test);
  const auto [cell, fresh] = kernels[kernel].emplace(dtype, good);
  cell->second = cell->second && good;
  if (!gradient) return;
  const auto [check, first] = gradients.emplace(kernel, good);
  check->second = check->second && good;
}

void write_results(const std::string& path, const std::vector<DeviceRun>& runs) {
  std::ofstream file(path);
  file << nlohmann::json(runs).dump(1) << '\n';
  if (!file.flush()) throw DataError("write_results", path, "a file that can be written", "Check the path");
}

static DeviceRun run_of(const nlohmann::json& value) {
  using strict_json::get;
  const std::string where = "a run";
  DeviceRun run;
  run.target = get<std::string>(value, "target", where);
  run.description = get<std::string>(value, "description", where);
  run.driver = get<std::string>(value, "driver", where);
  run.seconds = get<double>(value, "seconds", where);
  run.passed = get<int>(value, "passed", where);
  run.failed = get<int>(value, "failed", where);
  run.skipped = get<int>(value, "skipped", where);
  run.skip_reasons = get<decltype(run.skip_reasons)>(value, "skip_reasons", where);
  run.failures = get<std::vector<std::string>>(value, "failures", where);
  run.kernels = get<decltype(run.kernels)>(value, "kernels", where);
  run.gradients = get<decltype(run.gradients)>(value, "gradients", where);
  return run;
}

std::vector<DeviceRun> read_results(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  try {
    const nlohmann::json all = strict_json::parse(text);
    std::vector<DeviceRun> runs;
    for (const nlohmann::json& run : strict_json::list(all, "the file")) runs.push_back(run_of(run));
    return runs;
  } catch (const strict_json::Refusal& refusal) {
    throw DataError("read_results", path + ": " + refusal.what(), "results written by --results",
                    "Run the conformance program with --results first");
  }
}

std::string support_table(const std::vector<DeviceRun>& runs) {
  std::set<std::string> kernels;
  for (const DeviceRun& run : runs) {
    for (const auto& [kernel, dtypes] : run.kernels) kernels.insert(kernel);
  }
  std::vector<Column> shown;
  for (const Column& column : columns()) {
    if (std::ranges::any_of(runs, [&](const DeviceRun& run) { return column.has(run); })) shown.push_back(column);
  }
  std::string table =
      "# What works where\n\nElement types whose conformance cases all pass, per kernel and target; `✗` before one "
      "that "
      "fails a case. The gradient\ncolumn: checked against finite differences of a double reference. Made by "
      "`ashlar-conformance --support` from what passed.\n\n| kernel |";
  for (const Column& column : shown) table += std::string(" ") + column.heading + " |";
  table += " gradient |\n|---|";
  for (size_t i = 0; i < shown.size(); ++i) table += "---|";
  table += "---|\n";
  for (const std::string& kernel : kernels) {
    table += "| " + kernel + " |";
    for (const Column& column : shown) table += " " + supported(runs, column, kernel) + " |";
    table += " " + gradient_cell(runs, kernel) + " |\n";
  }
  return table;
}

std::string status_table(const std::vector<DeviceRun>& runs) {
  std::string table =
      "| target | device | driver | passed | failed | skipped | seconds |\n|---|---|---|---|---|---|---|\n";
  std::string notes;
  for (const DeviceRun& run : runs) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.0f", run.seconds);
    table += "| " + run.target + " | " + run.description + " | " + run.driver + " | " + std::to_string(run.passed) +
             " | " + std::to_string(run.failed) + " | " + std::to_string(run.skipped) + " | " + seconds + " |\n";
    for (const auto& [reason, count] : run.skip_reasons) {
      notes += "- " + run.target + ": " + std::to_string(count) + " skipped: " + reason + "\n";
    }
    for (const std::string& test : run.failures) notes += "- " + run.target + ": failed: " + test + "\n";
  }
  return notes.empty() ? table : table + "\n" + notes;
}

}  // namespace ashlar::conformance
