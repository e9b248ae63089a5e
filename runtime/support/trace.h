// A timeline of what the runtime does, for ASHLAR_TRACE=file: calls of kernels, launches of GPU functions, copies,
// replays. The file is in Chrome's trace format (chrome://tracing, ui.perfetto.dev). Times are the host's: a GPU's work
// is queued when its launch ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace ashlar::detail {

enum class Tracing : uint8_t { unknown, off, on };
inline std::atomic<Tracing> tracing_state{Tracing::unknown};

/// Opens the file on the first call of the process, where one is asked for.
[[gnu::cold]] bool begin_tracing() noexcept;

/// One relaxed load where nothing is traced.
inline bool is_tracing() noexcept {
  const Tracing state = tracing_state.load(std::memory_order_relaxed);
  return state != Tracing::off && (state == Tracing::on || begin_tracing());
}

/// One event from its making to its end. `category` and `name` must live as long.
class TraceSpan {
 public:
  TraceSpan(const char* category, const char* name) noexcept : category_(category), name_(name) {
    if (is_tracing()) [[unlikely]]
      start();
  }
  ~TraceSpan() {
    if (start_ns_ >= 0) [[unlikely]]
      finish();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  bool is_on() const { return start_ns_ >= 0; }
  /// What a reader is shown beside the name. Does nothing where is_on() is false.
  [[gnu::cold]] void note(const char* key, std::string_view value) noexcept;
  [[gnu::cold]] void note(const char* key, int64_t value) noexcept;

 private:
  [[gnu::cold]] void start() noexcept;
  [[gnu::cold]] void finish() noexcept;

  const char* category_;
  const char* name_;
  int64_t start_ns_ = -1;
  std::string notes_;  ///< members of a JSON object, each after a comma
};

/// Writes to `path` from now on, instead of what ASHLAR_TRACE says; an empty one ends the file. For tests.
void set_trace_file(const std::string& path);

}  // namespace ashlar::detail
