// What a run of a bundle found: a file to which one line of JSON is added for each candidate and shape, so that an
// interrupt loses nothing.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tune/bundle.h"

namespace ashlar::tune {

/// What became of one candidate at one shape.
struct Outcome {
  std::string kernel, instance;
  Tunables tunables;
  std::vector<int64_t> sizes;  ///< none: of the conformance cases
  /// "timed", "slow" (left out of further rounds), "final" (timed side by side with the default), "checked" (only
  /// compared), "judged" (right in all conformance cases), "elsewhere" (another kernel is called at such sizes), or why
  /// it is out: "wrong", "failed", "out of memory", "crashed", "hung", "not compiled".
  std::string status;
  double microseconds = 0;
  double of_default = 0;  ///< in final ones: the median over rounds of its time over the default's
  std::string message;
  std::vector<int64_t> table_sizes = {};  ///< how a table knows such a call, where that isn't `sizes`

  bool is_out() const {
    constexpr std::array<std::string_view, 6> in{"timed", "slow", "final", "checked", "judged", "elsewhere"};
    return std::ranges::find(in, status) == in.end();
  }
};

/// The device that the results are of, in the words of runtime/device/device_identity.h.
struct Where {
  std::string target, device, family, driver;
};

struct Results {
  Where where;
  std::vector<Outcome> outcomes;
};

/// Of an even number of values the upper one of the middle two.
double median(std::vector<double> values);

/// A results file. A line that an interrupt cut short is ignored, and cut off before more is added.
class ResultsFile {
 public:
  /// Reads what is there. Throws DataError on a file that isn't one.
  explicit ResultsFile(std::filesystem::path file);

  const Results& results() const { return results_; }
  /// Throws DataError when the file already has results of another device.
  void set_where(const Where& where);
  void add(const Outcome& outcome);
  /// Keeps it without writing: what a worker does, whose parent writes.
  void remember(const Outcome& outcome);

  /// The outcome of that candidate at these sizes, or nullptr.
  const Outcome* find(const Instance& instance, const Candidate& candidate, const std::vector<int64_t>& sizes,
                      bool is_final) const;
  /// Why that candidate is out, at whatever sizes; nullptr: it isn't.
  const Outcome* why_out(const Instance& instance, const Candidate& candidate) const;

 private:
  void append(const std::string& line);
  static std::string key_of(const std::string& kernel, const std::string& instance, const Tunables& tunables);

  std::filesystem::path file_;
  Results results_;
  std::map<std::string, std::vector<size_t>> of_candidate_;
};

/// Of the line protocol between the processes, too.
std::string line_of(const Outcome& outcome);
Outcome outcome_of(const std::string& line);
std::string line_of(const Where& where);
Where where_of(const std::string& line);

}  // namespace ashlar::tune
