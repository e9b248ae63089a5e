#include "tools/tune/supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "runtime/support/error.h"
#include "tools/tune/call.h"

namespace ashlar::tune {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

volatile sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

/// Takes the interrupts for as long as it lives.
class Interrupts {
 public:
  Interrupts() {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    interrupted = 0;
    sigaction(SIGINT, &action, &before_int_);
    sigaction(SIGTERM, &action, &before_term_);
  }
  ~Interrupts() {
    sigaction(SIGINT, &before_int_, nullptr);
    sigaction(SIGTERM, &before_term_, nullptr);
  }

 private:
  struct sigaction before_int_, before_term_;
};

void send(int pipe, const char* kind, const std::string& line) {
  const std::string whole = std::string(kind) + " " + line + "\n";
  for (size_t at = 0; at < whole.size();) {
    const ssize_t n = write(pipe, whole.data() + at, whole.size() - at);
    if (n < 0 && errno != EINTR) _exit(4);  // the parent is gone
    if (n > 0) at += static_cast<size_t>(n);
  }
}

/// A worker process and the pipe that it tells its outcomes through.
class Child {
 public:
  Child(const Bundle& bundle, ResultsFile& results, const RunOptions& options, WorkFunction worker) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw DataError("ashlar-tune run", std::strerror(errno), "a pipe", "");
    id_ = fork();
    if (id_ < 0) throw DataError("ashlar-tune run", std::strerror(errno), "another process", "");
    if (id_ == 0) {
      close(ends[0]);
      signal(SIGINT, SIG_IGN);  // the parent decides
      const Teller tell{[&](const Where& where) { send(ends[1], "where", line_of(where)); },
                        [&](const Outcome& outcome) { send(ends[1], "begin", line_of(outcome)); },
                        [&](const Outcome& outcome) { send(ends[1], "done", line_of(outcome)); }};
      try {
        _exit(worker(bundle, results, options, tell) ? 0 : 3);
      } catch (const std::exception& error) {
        send(ends[1], "error", json(error.what()).dump(-1, ' ', false, json::error_handler_t::replace));
        _exit(1);
      }
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() {
    kill();
    close(pipe_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits up to a tenth of a second for lines; false when the worker has ended and all is read.
  template <class Handle>
  bool read(Handle handle) {
    pollfd waiting{pipe_, POLLIN, 0};
    if (poll(&waiting, 1, 100) <= 0) return true;
    char buffer[65536];
    const ssize_t n = ::read(pipe_, buffer, sizeof buffer);
    if (n < 0) return errno == EINTR;
    if (n == 0) return false;
    text_.append(buffer, static_cast<size_t>(n));
    for (size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      const std::string line = text_.substr(0, end);
      const size_t space = line.find(' ');
      handle(line.substr(0, space), line.substr(space + 1));
    }
    return true;
  }

  void kill() {
    if (id_ > 0) ::kill(id_, SIGKILL);
    wait();
  }
  /// Exit code, or 128 + signal.
  int wait() {
    if (id_ <= 0) return code_;
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_ = 0;
  int pipe_ = -1;
  int code_ = 0;
  std::string text_;
};

class Supervisor {
 public:
  Supervisor(const Bundle& bundle, ResultsFile& results, const RunOptions& options, std::ostream& progress,
             bool is_terminal, WorkFunction worker)
      : bundle_(bundle),
        results_(results),
        options_(options),
        progress_(progress),
        is_terminal_(is_terminal),
        worker_(worker) {
    for (const Instance& instance : bundle.instances) total_ += instance.candidates.size() * instance.sizes.size();
    for (const Outcome& outcome : results.results().outcomes) note(outcome);
  }

  Summary run() {
    const Interrupts interrupts;
    bool goes_on = true;
    while (goes_on && !must_stop()) goes_on = run_worker();
    if (is_terminal_) progress_ << "\n";
    Summary summary{timed_, out_, 0, must_stop()};
    for (const Instance& instance : bundle_.instances) {
      for (const Candidate& candidate : instance.candidates) {
        if (results_.why_out(instance, candidate)) continue;
        for (const std::vector<int64_t>& sizes : instance.sizes) {
          summary.todo += results_.find(instance, candidate, sizes, false) == nullptr;
        }
      }
    }
    return summary;
  }

 private:
  bool must_stop() const {
    return interrupted != 0 || (options_.seconds > 0 && seconds_since(start_) > options_.seconds);
  }
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  /// One worker's life; true when another one has something to do.
  bool run_worker() {
    Child child(bundle_, results_, options_, worker_);
    std::optional<Outcome> current;
    std::string error;
    int finished = 0;
    Clock::time_point last = Clock::now();
    const auto handle = [&](const std::string& kind, const std::string& line) {
      last = Clock::now();
      if (kind == "where") results_.set_where(where_of(line));
      if (kind == "begin") current = outcome_of(line);
      if (kind == "error") error = json::parse(line).get<std::string>();
      if (kind != "done") return;
      const Outcome outcome = outcome_of(line);
      current.reset();
      finished++;
      results_.add(outcome);
      note(outcome);
      show(outcome);
    };
    bool hung = false;
    while (child.read(handle)) {
      if (must_stop()) {
        child.kill();
        return false;
      }
      // The first candidate pays for opening the device and for what a driver compiles.
      const double limit = options_.seconds_per_candidate * (finished == 0 ? 3 : 1);
      if (!hung && seconds_since(last) > limit) {
        hung = true;
        child.kill();
      }
    }
    const int code = child.wait();
    if (code == 0 && !hung) return false;
    if (current) {
      current->status = hung ? "hung" : "crashed";
      current->message = hung         ? "no sign of life for " + std::to_string(options_.seconds_per_candidate) + " s"
                         : code > 128 ? std::string(strsignal(code - 128))
                                      : error + " (exit code " + std::to_string(code) + ")";
      results_.add(*current);
      note(*current);
      show(*current);
      return true;
    }
    if (!error.empty() || finished == 0) {
      throw DataError("ashlar-tune run",
                      error.empty() ? "a worker that ended with code " + std::to_string(code) : error,
                      "a device and a bundle that work", "");
    }
    return true;  // it gave up after a device's error, which is written down
  }

  void note(const Outcome& outcome) {
    timed_ += outcome.status == "timed";
    slow_ += outcome.status == "slow";
    out_ += outcome.is_out();
    if (outcome.status == "timed" && (best_ == 0 || outcome.sizes != best_sizes_ || outcome.microseconds < best_)) {
      best_ = outcome.microseconds;
      best_sizes_ = outcome.sizes;
    }
  }

  void show(const Outcome& outcome) {
    const bool is_time = outcome.status == "timed" || outcome.status == "final";
    // Without a terminal only what one wants to find in a log.
    if (!is_terminal_ && !outcome.is_out() && outcome.status != "final") return;
    char time[64] = "";
    if (is_time) std::snprintf(time, sizeof time, " %.4g us, best %.4g", outcome.microseconds, best_);
    std::string line = std::to_string(timed_ + slow_) + "/" + std::to_string(total_) + " timed, " +
                       std::to_string(out_) + " out, " + std::to_string(static_cast<int>(seconds_since(start_))) +
                       " s | " + outcome.kernel + " " + outcome.instance + " " +
                       (outcome.sizes.empty() ? "conformance cases" : text_of(outcome.sizes)) + " " +
                       text_of(outcome.tunables) + ": " + outcome.status + time;
    if (outcome.is_out()) line += ", " + outcome.message.substr(0, outcome.message.find('\n'));
    if (is_terminal_)
      progress_ << "\r\x1b[K" << line.substr(0, 150) << (outcome.is_out() ? "\n" : "") << std::flush;
    else
      progress_ << line << std::endl;
  }

  const Bundle& bundle_;
  ResultsFile& results_;
  const RunOptions& options_;
  std::ostream& progress_;
  const bool is_terminal_;
  const WorkFunction worker_;
  const Clock::time_point start_ = Clock::now();
  size_t total_ = 0;
  int timed_ = 0, slow_ = 0, out_ = 0;
  double best_ = 0;
  std::vector<int64_t> best_sizes_;
};

}  // namespace

Summary supervise(const Bundle& bundle, ResultsFile& results, const RunOptions& options, std::ostream& progress,
                  bool is_terminal, WorkFunction worker) {
  return Supervisor(bundle, results, options, progress, is_terminal, worker).run();
}

}  // namespace ashlar::tune
