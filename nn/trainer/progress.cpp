#include "nn/trainer/progress.h"

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

double seconds(std::chrono::steady_clock::duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

std::string duration_text(double seconds) {
  const auto total = static_cast<long long>(std::ceil(seconds));
  if (total >= 3600) return format("%lld h %02lld min", total / 3600, total % 3600 / 60);
  if (total >= 60) return format("%lld min %02lld s", total / 60, total % 60);
  return format("%lld s", total);
}

Progress::Progress(std::ostream& out, bool live, int epochs, int64_t samples_per_epoch)
    : out_(out),
      live_(live),
      epochs_(epochs),
      samples_per_epoch_(samples_per_epoch),
      start_(Clock::now()),
      last_(start_) {}

bool Progress::is_due() const { return Clock::now() - last_ >= (live_ ? kLiveInterval : kLogInterval); }

void Progress::update(int epoch, int64_t done, const Scores& scores) {
  last_ = Clock::now();
  const double elapsed = seconds(last_ - start_);
  const double total = static_cast<double>(samples_per_epoch_) * epochs_;
  const double finished = static_cast<double>(samples_per_epoch_) * (epoch - 1) + static_cast<double>(done);
  const double rate = elapsed > 0 ? finished / elapsed : 0;
  const std::string remaining = rate > 0 ? duration_text((total - finished) / rate) : "?";
  const double part = samples_per_epoch_ > 0 ? static_cast<double>(done) / static_cast<double>(samples_per_epoch_) : 1;
  print(format("epoch %d/%d %3.0f%%  loss %.4f  accuracy %.4f  %.0f samples/s  ETA %s", epoch, epochs_, 100 * part,
               scores.loss, scores.accuracy, rate, remaining.c_str()),
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

void Progress::print(const std::string& line, bool keep) {
  if (live_) out_ << '\r';
  out_ << line;
  if (live_ && line.size() < width_) out_ << std::string(width_ - line.size(), ' ');
  if (keep) out_ << '\n';
  width_ = keep ? 0 : line.size();
  out_.flush();
}

}  // namespace ashlar::nn
