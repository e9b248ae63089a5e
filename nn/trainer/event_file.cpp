#include "nn/trainer/event_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

#include "nn/data/file.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "EventFile";

// Protocol buffers' wire format: a field is its number and kind, then a varint, eight or four bytes (little-endian), or
// a length and so many bytes.
enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

template <class Bits>
void put_little_endian(std::string& to, Bits bits) {
  for (size_t i = 0; i < sizeof bits; i++) to += static_cast<char>(bits >> (8 * i));
}

void put_key(std::string& to, int field, Wire wire) {
  put_varint(to, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}
void put_number(std::string& to, int field, int64_t value) {
  put_key(to, field, Wire::varint);
  put_varint(to, static_cast<uint64_t>(value));
}
void put_double(std::string& to, int field, double value) {
  put_key(to, field, Wire::fixed64);
  put_little_endian(to, std::bit_cast<uint64_t>(value));
}
void put_float(std::string& to, int field, float value) {
  put_key(to, field, Wire::fixed32);
  put_little_endian(to, std::bit_cast<uint32_t>(value));
}
void put_bytes(std::string& to, int field, std::string_view bytes) {
  put_key(to, field, Wire::bytes);
  put_varint(to, bytes.size());
  to += bytes;
}

// Event {1: wall_time, 2: step, 3: file_version, 5: summary, 7: session_log}, Summary {1: value},
// Value {1: tag, 2: simple_value}, SessionLog {1: status}
constexpr int kStart = 1;  // SessionLog::START

std::string event_at(int64_t step) {
  std::string event;
  put_double(event, 1, std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  put_number(event, 2, step);
  return event;
}

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; bit++) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0x82F63B78U : 0);
    table[byte] = rest;
  }
  return table;
}();

/// As TFRecords keep it, so that a checksum of bytes that hold checksums is none of chance's.
uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

/// events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER, as TensorFlow names them: no two the same, in order of time.
std::string file_name() {
  static std::atomic<int> made = 0;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == 0) std::strcpy(host.data(), "localhost");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string seconds = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count());
  seconds.insert(0, seconds.size() < 10 ? 10 - seconds.size() : 0, '0');
  return "events.out.tfevents." + seconds + "." + host.data() + "." + std::to_string(getpid()) + "." +
         std::to_string(made++);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t rest = ~0U;
  for (const char byte : bytes) rest = rest >> 8 ^ kTable[(rest ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~rest;
}

EventFile::EventFile(const std::filesystem::path& folder, int64_t first_step) : file_(folder / file_name()) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw WriteError(kName, folder, failure.message());
  out_.open(file_, std::ios::binary);
  std::string version = event_at(0);
  put_bytes(version, 3, "brain.Event:2");
  record(version);
  if (first_step > 0) {  // what other files say of this step and later ones is out of date
    std::string session, start = event_at(first_step);
    put_number(session, 1, kStart);
    put_bytes(start, 7, session);
    record(start);
  }
  check();
}

void EventFile::write(int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, scalar] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);
    put_float(value, 2, static_cast<float>(scalar));
    put_bytes(summary, 1, value);
  }
  std::string event = event_at(step);
  put_bytes(event, 5, summary);
  record(event);
  check();
}

/// Length, its checksum, the bytes, their checksum.
void EventFile::record(std::string_view event) {
  std::string bytes;
  put_little_endian(bytes, static_cast<uint64_t>(event.size()));
  put_little_endian(bytes, masked_crc32c(bytes));
  bytes += event;
  put_little_endian(bytes, masked_crc32c(event));
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void EventFile::check() {
  out_.flush();
  if (!out_) throw WriteError(kName, file_, "can't be written");
}

}  // namespace ashlar::nn
