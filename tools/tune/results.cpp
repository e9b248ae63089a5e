#include "tools/tune/results.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace ashlar::tune {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Outcome, kernel, instance, tunables, sizes, status, microseconds, of_default,
                                   message)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Where, target, device, family, driver)

using nlohmann::json;

// Messages come from drivers and compilers: whatever isn't UTF-8 in them is replaced.
static std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }
static Outcome outcome_in(const json& value) {
  auto outcome = value.get<Outcome>();
  if (value.contains("table_sizes")) value["table_sizes"].get_to(outcome.table_sizes);
  return outcome;
}
std::string line_of(const Outcome& outcome) {
  json value(outcome);
  if (!outcome.table_sizes.empty()) value["table_sizes"] = outcome.table_sizes;
  return text_of(value);
}
std::string line_of(const Where& where) { return text_of(json(where)); }
Where where_of(const std::string& line) { return json::parse(line).get<Where>(); }
Outcome outcome_of(const std::string& line) { return outcome_in(json::parse(line)); }

std::string ResultsFile::key_of(const std::string& kernel, const std::string& instance, const Tunables& tunables) {
  return kernel + " " + instance + " " + tune::text_of(tunables);
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
      const json value = json::parse(line);
      if (number == 1) {
        results_.where = value.get<Where>();
        continue;
      }
      remember(outcome_in(value));
    } catch (const json::exception& error) {
      throw DataError("ashlar-tune", file_.string() + ", line " + std::to_string(number) + ": " + error.what(),
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
