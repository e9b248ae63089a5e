#include "nn/trainer/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ashlar::nn {
namespace {

constexpr std::chrono::milliseconds kLiveInterval{200};
constexpr std::chrono::milliseconds kLogInterval{5000};

template <class... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, arguments...);
  return text;
}

/// Columns of the terminal that standard output or error is; many where neither is one.
size_t terminal_width() {
  winsize size{};
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  }
  return 1000;
}

double seconds(std::chrono::steady_clock::duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

std::string duration_text(double seconds) {
  const auto total = static_cast<long long>(std::ceil(seconds));
  if (total >= 3600) return format("%lld h %02lld min", total / 3600, total % 3600 / 60);
  if (total >= 60) return format("%lld min %02lld s", total / 60, total % 60);
  return format("%lld s", total);
}

Progress::Progress(std::ostream& out, bool live, int epochs, int64_t samples_per_epoch, int64_t done)
    : out_(out),
      live_(live),
      epochs_(epochs),
      samples_per_epoch_(samples_per_epoch),
      before_(done),
      start_(Clock::now()),
      last_(start_) {}

bool Progress::is_due() const { return Clock::now() - last_ >= (live_ ? kLiveInterval : kLogInterval); }

/// In a second, at the state `done` into `epoch`.
double Progress::rate(int epoch, int64_t done) const {
  const double elapsed = seconds(Clock::now() - start_);
  const double finished = static_cast<double>(samples_per_epoch_ * (epoch - 1) + done - before_);
  return elapsed > 0 ? finished / elapsed : 0;
}

void Progress::update(int epoch, int64_t done, const Scores& scores) {
  show(epoch, done,
       format("loss %.4f  accuracy %.4f  %.0f samples/s", scores.loss, scores.accuracy, rate(epoch, done)));
}

void Progress::show(int epoch, int64_t done, const std::string& figures, const std::string& more) {
  last_ = Clock::now();
  const auto left = static_cast<double>(samples_per_epoch_ * (epochs_ - epoch + 1) - done);
  const double rate = this->rate(epoch, done);
  const double part = samples_per_epoch_ > 0 ? static_cast<double>(done) / static_cast<double>(samples_per_epoch_) : 1;
  print(format("epoch %d/%d %3.0f%%  ", epoch, epochs_, 100 * part) + figures + "  ETA " +
            (rate > 0 ? duration_text(left / rate) : "?") + more,
        !live_);
}

void Progress::finish_epoch(int epoch, const Scores& train, double samples_per_second, const std::string& text) {
  last_ = Clock::now();
  const double elapsed = seconds(last_ - start_);
  const double remaining = elapsed / epoch * (epochs_ - epoch);
  print(format("epoch %d/%d  loss %.4f  accuracy %.4f  %.0f samples/s", epoch, epochs_, train.loss, train.accuracy,
               samples_per_second) +
            text + "  ETA " + duration_text(remaining),
        true);
}

void Progress::print(std::string line, bool keep) {
  // A line that is rewritten must not be wrapped.
  if (live_ && !keep) line.resize(std::min(line.size(), terminal_width() - 1));
  if (live_) out_ << '\r';
  out_ << line;
  if (live_ && line.size() < width_) out_ << std::string(width_ - line.size(), ' ');
  if (keep) out_ << '\n';
  width_ = keep ? 0 : line.size();
  out_.flush();
}

}  // namespace ashlar::nn
