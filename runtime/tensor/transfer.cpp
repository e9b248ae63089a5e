#include "runtime/tensor/transfer.h"

#include <memory>
#include <string>

#include "runtime/device/stream_state.h"
#include "runtime/support/error.h"
#include "runtime/support/trace.h"

namespace ashlar::detail {
namespace {

void check_range(const char* operation, const Storage& storage, int64_t offset, int64_t bytes) {
  if (bytes >= 0 && offset >= storage.begin() && bytes <= storage.bytes() - offset) return;
  throw ValueError(operation,
                   "bytes [" + std::to_string(offset) + ", " + std::to_string(offset) + " + " + std::to_string(bytes) +
                       ") of a storage on " + storage.device().str(),
                   "a range inside [" + std::to_string(storage.begin()) + ", " + std::to_string(storage.bytes()) + ")",
                   "");
}

std::string_view kind_of(const Storage& storage) { return name_of(storage.device().kind); }

/// A copy's event: how much goes from where to where.
class CopySpan {
 public:
  CopySpan(const char* name, int64_t bytes, std::string_view from, std::string_view to) : span_("copy", name) {
    span_.note("bytes", bytes);
    span_.note("from", from);
    span_.note("to", to);
  }

 private:
  TraceSpan span_;
};

/// Submits copy(stream), or writes it down while the stream is in capture.
template <class Copy>
void submit(StreamState& stream, int64_t bytes, Copy copy) {
  GraphRecorder* recorder = stream.recorder();
  if (recorder == nullptr) {
    copy(stream);
    count(stream.owner().counters().bytes_on_device, bytes);
  } else if (recorder->driver_records()) {
    copy(stream);
    recorder->count_copy(bytes);
  } else {
    recorder->count_copy(bytes);
    recorder->add(copy);
  }
}

}  // namespace

void copy_from_host(Storage& destination, int64_t offset, const void* source, int64_t bytes) {
  check_range("copy from host", destination, offset, bytes);
  if (bytes == 0) return;
  StreamState& stream = current_stream(destination.device());
  refuse_in_capture(stream, "copy from host");
  const CopySpan span("copy from host", bytes, "host", kind_of(destination));
  destination.prepare_write(stream);
  stream.write(destination.handle(), offset, source, bytes);
  count(stream.owner().counters().bytes_to_device, bytes);
}

void copy_to_host(void* destination, Storage& source, int64_t offset, int64_t bytes) {
  check_range("copy to host", source, offset, bytes);
  if (bytes == 0) return;
  StreamState& stream = current_stream(source.device());
  refuse_in_capture(stream, "copy to host");
  const CopySpan span("copy to host", bytes, kind_of(source), "host");
  source.prepare_read(stream);
  stream.read(destination, source.handle(), offset, bytes);
  count(stream.owner().counters().bytes_to_host, bytes);
}

void copy_bytes(Storage& destination, int64_t destination_offset, Storage& source, int64_t source_offset,
                int64_t bytes) {
  check_range("copy bytes", destination, destination_offset, bytes);
  check_range("copy bytes", source, source_offset, bytes);
  if (bytes == 0) return;
  if (destination.device() == source.device()) {
    StreamState& stream = current_stream(source.device());
    const CopySpan span("copy bytes", bytes, kind_of(source), kind_of(source));
    source.prepare_read(stream);
    destination.prepare_write(stream);
    submit(stream, bytes,
           [to = destination.handle(), destination_offset, from = source.handle(), source_offset,
            bytes](StreamState& on) { on.copy(to, destination_offset, from, source_offset, bytes); });
    return;
  }
  refuse_in_capture(current_stream(source.device()), "copy between devices");
  refuse_in_capture(current_stream(destination.device()), "copy between devices");
  if (source.host() != nullptr) {
    copy_from_host(destination, destination_offset, source.host() + source_offset, bytes);
  } else if (destination.host() != nullptr) {
    copy_to_host(destination.host() + destination_offset, source, source_offset, bytes);
  } else {
    const std::shared_ptr<Storage> staging = Storage::create(bytes, Device::cpu());
    copy_to_host(staging->host(), source, source_offset, bytes);
    copy_from_host(destination, destination_offset, staging->host(), bytes);
  }
}

void copy_rows(Storage& destination, int64_t destination_offset, int64_t destination_pitch, Storage& source,
               int64_t source_offset, int64_t source_pitch, int64_t row_bytes, int64_t rows) {
  if (rows <= 0 || row_bytes == 0) return;
  if (destination.device() != source.device() || destination_pitch < row_bytes || source_pitch < row_bytes) {
    throw ValueError("copy rows",
                     "rows of " + std::to_string(row_bytes) + " bytes at pitches " + std::to_string(destination_pitch) +
                         " and " + std::to_string(source_pitch) + ", from " + source.device().str() + " to " +
                         destination.device().str(),
                     "one device and pitches no smaller than a row", "");
  }
  check_range("copy rows", destination, destination_offset, (rows - 1) * destination_pitch + row_bytes);
  check_range("copy rows", source, source_offset, (rows - 1) * source_pitch + row_bytes);
  StreamState& stream = current_stream(source.device());
  const CopySpan span("copy rows", rows * row_bytes, kind_of(source), kind_of(source));
  source.prepare_read(stream);
  destination.prepare_write(stream);
  submit(stream, rows * row_bytes,
         [to = destination.handle(), destination_offset, destination_pitch, from = source.handle(), source_offset,
          source_pitch, row_bytes, rows](StreamState& on) {
           if (destination_pitch == row_bytes && source_pitch == row_bytes) {
             on.copy(to, destination_offset, from, source_offset, rows * row_bytes);
           } else {
             on.copy_rows(to, destination_offset, destination_pitch, from, source_offset, source_pitch, row_bytes,
                          rows);
           }
         });
}

}  // namespace ashlar::detail
