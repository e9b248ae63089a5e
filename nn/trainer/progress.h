// The progress line of a training run.
//
// Written here because Debian 12 has no C++ library for it (indicators isn't packaged), and one line is all it takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

#include "nn/trainer/meter.h"

namespace ashlar::nn {

/// On a terminal one line that is rewritten a few times a second; elsewhere (a log) plain lines every few seconds.
class Progress {
 public:
  /// `live`: `out` is a terminal. Total work: epochs × samples each, of which `done` were done before.
  Progress(std::ostream& out, bool live, int epochs, int64_t samples_per_epoch, int64_t done = 0);

  /// Is it time for update()? Asking is cheap; reading the scores for update() may not be.
  bool is_due() const;
  /// Shows the state `done` samples into `epoch` (from 1).
  void update(int epoch, int64_t done, const Scores& scores);
  /// The same with other figures; `done` may be counted in anything that the constructor's numbers are counted in.
  /// `more` stands at the end, which a narrow terminal cuts off.
  void show(int epoch, int64_t done, const std::string& figures, const std::string& more = {});
  /// A line that stays: the epoch's result. `text` is appended.
  void finish_epoch(int epoch, const Scores& train, double samples_per_second, const std::string& text);
  /// Any line that stays.
  void keep(const std::string& line) { print(line, true); }

 private:
  using Clock = std::chrono::steady_clock;
  double rate(int epoch, int64_t done) const;
  void print(std::string line, bool keep);

  std::ostream& out_;
  bool live_;
  int epochs_;
  int64_t samples_per_epoch_;
  int64_t before_;
  Clock::time_point start_;
  Clock::time_point last_;
  size_t width_ = 0;  // of the line that the next one overwrites
};

/// "1 h 02 min", "2 min 05 s", "7 s"
std::string duration_text(double seconds);

}  // namespace ashlar::nn
