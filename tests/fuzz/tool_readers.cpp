// Readers of the tuner and of the conformance program's reports.
#include "dsl/build/tuned_table.h"
#include "runtime/support/error.h"
#include "tests/conformance/report.h"
#include "tests/fuzz/targets.h"
#include "tools/tune/bundle.h"
#include "tools/tune/results.h"

namespace ashlar::fuzz {

void read_tuned_table(Bytes bytes) {
  const std::filesystem::path file = file_with(bytes, "table.json");
  try {
    dsl::write_tuned_table(dsl::read_tuned_table(file), file);
  } catch (const DataError&) {
    return;
  }
  dsl::read_tuned_table(file);  // what was accepted is accepted again
}

void read_tune_results(Bytes bytes) {
  const std::filesystem::path file = file_with(bytes, "results.jsonl");
  try {
    const tune::ResultsFile first(file);
    // Whatever was cut off, the rest says the same again, and each line as it is written now is one.
    const tune::ResultsFile second(file);
    require(first.results().outcomes.size() == second.results().outcomes.size(), "the same outcomes");
    for (const tune::Outcome& outcome : first.results().outcomes) tune::outcome_of(tune::line_of(outcome));
  } catch (const DataError&) {
  }
}

void read_tune_bundle(Bytes bytes) {
  try {
    tune::read_bundle(file_with(bytes, "bundle.json").parent_path());
  } catch (const DataError&) {
  }
}

void read_conformance_results(Bytes bytes) {
  try {
    conformance::read_results(file_with(bytes, "report.json").string());
  } catch (const DataError&) {
  }
}

}  // namespace ashlar::fuzz
