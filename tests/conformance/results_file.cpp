// Conformance results as files.
#include <fstream>
#include <iterator>

#include "json/strict_json.h"
#include "runtime/support/error.h"
#include "tests/conformance/report.h"

namespace ashlar::conformance {

// In the structs' own namespace, where the JSON library looks for it.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Tally, passed, failed, tests)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelRun, dtypes, gradients, ran, gradients_ran)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceRun, revision, date, target, description, driver, seconds, passed, failed,
                                   skipped, skip_reasons, failures, kernels)

void write_results(const std::string& path, const std::vector<DeviceRun>& runs) {
  std::ofstream file(path);
  file << nlohmann::json(runs).dump(1) << '\n';
  if (!file.flush()) throw DataError("write_results", path, "a file that can be written", "Check the path");
}

static std::map<std::string, Tally> tallies_of(const nlohmann::json& value, const char* name,
                                               const std::string& where) {
  using strict_json::get;
  std::map<std::string, Tally> tallies;
  for (const auto& [dtype, tally] : strict_json::object(strict_json::member(value, name, where), where).items()) {
    const std::string here = where + " " + dtype;
    tallies[dtype] = {get<int>(tally, "passed", here), get<int>(tally, "failed", here),
                      get<uint64_t>(tally, "tests", here)};
  }
  return tallies;
}

static DeviceRun run_of(const nlohmann::json& value) {
  using strict_json::get;
  const std::string where = "a run";
  DeviceRun run;
  run.revision = get<std::string>(value, "revision", where);
  run.date = get<std::string>(value, "date", where);
  run.target = get<std::string>(value, "target", where);
  run.description = get<std::string>(value, "description", where);
  run.driver = get<std::string>(value, "driver", where);
  run.seconds = get<double>(value, "seconds", where);
  run.passed = get<int>(value, "passed", where);
  run.failed = get<int>(value, "failed", where);
  run.skipped = get<int>(value, "skipped", where);
  run.skip_reasons = get<decltype(run.skip_reasons)>(value, "skip_reasons", where);
  run.failures = get<std::vector<std::string>>(value, "failures", where);
  for (const auto& [kernel, one] : strict_json::object(strict_json::member(value, "kernels", where), where).items()) {
    run.kernels[kernel] = {tallies_of(one, "dtypes", kernel), tallies_of(one, "gradients", kernel),
                           get<std::map<std::string, uint64_t>>(one, "ran", kernel),
                           get<std::map<std::string, uint64_t>>(one, "gradients_ran", kernel)};
  }
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

}  // namespace ashlar::conformance
