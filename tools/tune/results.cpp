#include "tools/tune/results.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "json/strict_json.h"
#include "runtime/launch/kernel.h"
#include "runtime/support/error.h"

namespace ashlar::tune {

using nlohmann::json;
using strict_json::get;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Outcome, kernel, instance, tunables, sizes, status, microseconds, of_default,
                                   message)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Where, target, device, family, driver)

// Messages come from drivers and compilers: whatever isn't UTF-8 in them is replaced.
static std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }
std::string line_of(const Outcome& outcome) {
  json value(outcome);
  if (!outcome.table_sizes.empty()) value["table_sizes"] = outcome.table_sizes;
  return text_of(value);
}
std::string line_of(const Where& where) { return text_of(json(where)); }

static Where parse_where(const std::string& line) {
  const json value = strict_json::parse(line);
  const auto text = [&](const char* name) { return get<std::string>(value, name, "the device"); };
  return {text("target"), text("device"), text("family"), text("driver")};
}

static Outcome parse_outcome(const std::string& line) {
  const json value = strict_json::parse(line);
  const std::string where = "an outcome";
  Outcome outcome;
  outcome.kernel = get<std::string>(value, "kernel", where);
  outcome.instance = get<std::string>(value, "instance", where);
  outcome.tunables = get<Tunables>(value, "tunables", where);
  outcome.sizes = get<std::vector<int64_t>>(value, "sizes", where);
  outcome.status = get<std::string>(value, "status", where);
  outcome.microseconds = get<double>(value, "microseconds", where);
  outcome.of_default = get<double>(value, "of_default", where);
  outcome.message = get<std::string>(value, "message", where);
  const int64_t least = outcome.status == "final" ? 1 : 0;  // what a tuned table takes
  for (const int64_t size : outcome.sizes) strict_json::whole_number(size, least, INT32_MAX, where + ": a size");
  if (outcome.sizes.size() > static_cast<size_t>(kMostSizes)) {
    throw strict_json::Refusal(where + " of " + std::to_string(outcome.sizes.size()) + " sizes where at most " +
                               std::to_string(kMostSizes) + " belong");
  }
  if (value.contains("table_sizes")) {
    outcome.table_sizes = get<std::vector<int64_t>>(value, "table_sizes", where);
    for (const int64_t size : outcome.table_sizes) strict_json::whole_number(size, 1, INT32_MAX, where + ": a size");
  }
  const bool is_measured = outcome.status == "final" ? outcome.of_default > 0 && outcome.microseconds > 0
                                                     : outcome.of_default >= 0 && outcome.microseconds >= 0;
  if (!is_measured) throw strict_json::Refusal(where + " that took no time");
  return outcome;
}

/// What `parse` makes of a line from a worker.
template <class Parse>
static auto from_worker(Parse parse, const std::string& line) {
  try {
    return parse(line);
  } catch (const strict_json::Refusal& refusal) {
    throw DataError("ashlar-tune", refusal.what(), "a worker's report", "Run it again");
  }
}

Where where_of(const std::string& line) { return from_worker(parse_where, line); }
Outcome outcome_of(const std::string& line) { return from_worker(parse_outcome, line); }

std::string ResultsFile::key_of(const std::string& kernel, const std::string& instance, const Tunables& tunables) {
  return kernel + " " + instance + " " + tune::text_of(tunables);
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

ResultsFile::ResultsFile(std::filesystem::path file) : file_(std::move(file)) {
  std::ifstream in(file_);
  std::string line;
  int number = 0;
  uintmax_t whole = 0;  // bytes of finished lines
  while (std::getline(in, line)) {
    if (in.eof()) break;  // no newline behind it: cut short
    whole += line.size() + 1;
    number++;
    try {
      if (number == 1) {
        results_.where = parse_where(line);
        continue;
      }
      remember(parse_outcome(line));
    } catch (const strict_json::Refusal& refusal) {
      throw DataError("ashlar-tune", file_.string() + ", line " + std::to_string(number) + ": " + refusal.what(),
                      "results of ashlar-tune run", "Delete the file to begin again");
    }
  }
  in.close();
  if (std::filesystem::exists(file_) && std::filesystem::file_size(file_) > whole) {
    std::filesystem::resize_file(file_, whole);
  }
}

void ResultsFile::append(const std::string& line) {
  const int out = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const std::string whole = line + "\n";
  // One write: a killed process leaves the whole line or a part of it at the very end.
  const bool good = out >= 0 && write(out, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size());
  if (out >= 0) close(out);
  if (!good) throw DataError("ashlar-tune", file_.string(), "a file that can be written", "Check the disk");
}

void ResultsFile::set_where(const Where& where) {
  if (results_.where.device.empty()) {
    results_.where = where;
    append(line_of(where));
  } else if (results_.where.device != where.device || results_.where.target != where.target) {
    throw DataError("ashlar-tune",
                    file_.string() + " with results of " + results_.where.device + " (" + results_.where.target +
                        ") on " + where.device + " (" + where.target + ")",
                    "results of one device", "Give another file with --results");
  }
}

void ResultsFile::add(const Outcome& outcome) {
  append(line_of(outcome));
  remember(outcome);
}

void ResultsFile::remember(const Outcome& outcome) {
  results_.outcomes.push_back(outcome);
  of_candidate_[key_of(outcome.kernel, outcome.instance, outcome.tunables)].push_back(results_.outcomes.size() - 1);
}

const Outcome* ResultsFile::find(const Instance& instance, const Candidate& candidate,
                                 const std::vector<int64_t>& sizes, bool is_final) const {
  const auto found = of_candidate_.find(key_of(instance.kernel, instance.name, candidate.tunables));
  if (found == of_candidate_.end()) return nullptr;
  for (const size_t i : found->second) {
    const Outcome& outcome = results_.outcomes[i];
    if (outcome.sizes == sizes && (outcome.status == "final") == is_final) return &outcome;
  }
  return nullptr;
}

const Outcome* ResultsFile::why_out(const Instance& instance, const Candidate& candidate) const {
  const auto found = of_candidate_.find(key_of(instance.kernel, instance.name, candidate.tunables));
  if (found == of_candidate_.end()) return nullptr;
  for (const size_t i : found->second) {
    if (results_.outcomes[i].is_out()) return &results_.outcomes[i];
  }
  return nullptr;
}

}  // namespace ashlar::tune
