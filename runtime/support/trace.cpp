#include "runtime/support/trace.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>

#include "runtime/support/environment.h"

namespace ashlar::detail {
namespace {

int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// Small numbers, in the order in which threads are first seen: what a viewer shows as rows.
int thread_number() {
  static std::atomic<int> next{1};
  thread_local const int number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

[[gnu::cold]] void append_quoted(std::string& text, std::string_view value) {
  text += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  text += '"';
}

/// The open file: a JSON array of events, each a line. Whole at every moment but for the closing bracket, which viewers
/// don't need.
class TraceFile {
 public:
  [[gnu::cold]] void open(const std::string& path) {
    const std::lock_guard lock(mutex_);
    close_file();
    if (!path.empty()) file_ = std::fopen(path.c_str(), "w");
    if (file_ != nullptr) {
      std::fputs("[", file_);
    } else if (!path.empty()) {
      log("trace: can't write to " + path + "; nothing is traced");
    }
    count_ = 0;
    tracing_state.store(file_ != nullptr ? Tracing::on : Tracing::off, std::memory_order_relaxed);
  }
  [[gnu::cold]] void write(const std::string& event) {
    const std::lock_guard lock(mutex_);
    if (file_ == nullptr) return;  // it was closed in the meantime
    std::fputs(count_++ > 0 ? ",\n" : "\n", file_);
    std::fwrite(event.data(), 1, event.size(), file_);
  }
  ~TraceFile() {
    tracing_state.store(Tracing::off, std::memory_order_relaxed);
    close_file();
  }

 private:
  void close_file() {
    if (file_ == nullptr) return;
    std::fputs("\n]\n", file_);
    std::fclose(file_);
    file_ = nullptr;
  }
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
  int64_t count_ = 0;
};

TraceFile& trace_file() {
  static TraceFile file;
  return file;
}

}  // namespace

bool begin_tracing() noexcept try {
  static const bool opened = [] {
    trace_file().open(environment().trace);
    return true;
  }();
  static_cast<void>(opened);
  return tracing_state.load(std::memory_order_relaxed) == Tracing::on;
} catch (const std::exception&) {
  tracing_state.store(Tracing::off, std::memory_order_relaxed);
  return false;
}

void set_trace_file(const std::string& path) {
  begin_tracing();  // what the environment says comes first, and once
  trace_file().open(path);
}

void TraceSpan::start() noexcept { start_ns_ = now_ns(); }

void TraceSpan::note(const char* key, std::string_view value) noexcept try {
  if (!is_on()) return;
  std::string member = ",\"";
  member.append(key).append("\":");
  append_quoted(member, value);
  notes_ += member;
} catch (const std::bad_alloc&) {  // the event goes without
}

void TraceSpan::note(const char* key, int64_t value) noexcept try {
  if (!is_on()) return;
  notes_ += ",\"" + std::string(key) + "\":" + std::to_string(value);
} catch (const std::bad_alloc&) {
}

void TraceSpan::finish() noexcept try {
  const auto microseconds = [](int64_t ns) {
    char text[32];
    std::snprintf(text, sizeof text, "%lld.%03d", static_cast<long long>(ns / 1000), static_cast<int>(ns % 1000));
    return std::string(text);
  };
  std::string event = "{\"ph\":\"X\",\"cat\":";
  append_quoted(event, category_);
  event += ",\"name\":";
  append_quoted(event, name_);
  event += ",\"pid\":" + std::to_string(getpid()) + ",\"tid\":" + std::to_string(thread_number());
  event += ",\"ts\":" + microseconds(start_ns_) + ",\"dur\":" + microseconds(now_ns() - start_ns_) + ",\"args\":{";
  if (!notes_.empty()) event.append(notes_, 1);
  trace_file().write(event + "}}");
} catch (const std::exception&) {  // no room for it: an event less
}

}  // namespace ashlar::detail
