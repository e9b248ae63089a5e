#include "runtime/memory/guard_bands.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/device/stream_state.h"

namespace ashlar::detail {
namespace {

std::atomic<bool> wanted{false};
std::atomic<uint16_t> poisons{0};

struct Reports {
  std::mutex mutex;
  std::vector<std::string> lines;
};

Reports& reports() {
  static Reports& all = *new Reports;
  return all;
}

void report(std::string line) {
  std::lock_guard lock(reports().mutex);
  reports().lines.push_back(std::move(line));
}

unsigned char poison_at(uint16_t poison, size_t i) { return static_cast<unsigned char>(i % 2 ? poison >> 8 : poison); }

}  // namespace

bool set_guard_bands(bool on) noexcept { return wanted.exchange(on); }

bool guard_bands_wanted() noexcept { return wanted.load(std::memory_order_relaxed); }

std::vector<std::string> take_guard_reports() {
  std::lock_guard lock(reports().mutex);
  return std::exchange(reports().lines, {});
}

// Twice 0xff81 to 0xffff in a row is NaN in every floating type. Arithmetic makes 0x7fff, 0x7fc0 and 0xffc0; copies of
// poison from one storage into another differ from what stood there.
uint16_t next_poison() noexcept {
  constexpr uint16_t kCount = 60;
  return static_cast<uint16_t>(0xff81 + poisons.fetch_add(1, std::memory_order_relaxed) % kCount);
}

void poison_bytes(void* memory, size_t bytes, uint16_t poison) noexcept {
  if (bytes == 0) return;
  auto* to = static_cast<unsigned char*>(memory);
  const size_t odd = reinterpret_cast<uintptr_t>(memory) % 2;
  if (odd) to[0] = poison_at(poison, 1);
  for (size_t i = odd; i + 1 < bytes; i += 2) std::memcpy(to + i, &poison, 2);
  if ((bytes - odd) % 2) to[bytes - 1] = poison_at(poison, 0);
}

void check_band(const void* band, size_t bytes, uint16_t poison, std::string_view where) noexcept {
  const auto* got = static_cast<const unsigned char*>(band);
  const size_t first = reinterpret_cast<uintptr_t>(band) % 2;
  // Most are whole: each byte as the one two before it.
  if (bytes >= 2 && got[0] == poison_at(poison, first) && got[1] == poison_at(poison, first + 1) &&
      std::memcmp(got, got + 2, bytes - 2) == 0) {
    return;
  }
  size_t begin = bytes, end = 0;
  for (size_t i = 0; i < bytes; ++i) {
    if (got[i] == poison_at(poison, first + i)) continue;
    begin = std::min(begin, i);
    end = i + 1;
  }
  if (end == 0) return;
  try {
    report("bytes [" + std::to_string(begin) + ", " + std::to_string(end) + ") of the " + std::to_string(bytes) + " " +
           std::string(where) + " were written");
  } catch (const std::bad_alloc&) {  // the test that asked is out of memory anyhow
  }
}

GuardBands::GuardBands(StreamState& stream, uint64_t block, int64_t bytes)
    : stream_(stream), block_(block), piece_(0), bytes_(bytes), poison_(next_poison()) {
  constexpr int64_t kPoisonedEnd = int64_t{8} << 20;
  const int64_t whole = bytes + 2 * kGuardBytes, front = whole > 2 * kPoisonedEnd ? kPoisonedEnd : whole;
  // From the host for a start, then by copies on the device, each as long as what is poisoned already.
  std::vector<unsigned char> chunk(static_cast<size_t>(std::min<int64_t>(front, 1 << 16)));
  poison_bytes(chunk.data(), chunk.size(), poison_);
  auto done = static_cast<int64_t>(chunk.size());
  stream.write(block, 0, chunk.data(), done);
  while (done < front) {
    const int64_t next = std::min(done, front - done);
    stream.copy(block, done, block, 0, next);
    done += next;
  }
  // An odd end is reached by odd bytes: the copy begins at an even one, as the poison does.
  if (front < whole) stream.copy(block, (whole - front + 1) / 2 * 2, block, 0, whole - (whole - front + 1) / 2 * 2);
  piece_ = stream.owner().part_of(block, kGuardBytes, std::max<int64_t>(bytes, 1));
}

GuardBands::~GuardBands() {
  stream_.owner().release_part(piece_);
  try {
    const std::string what = "of a storage of " + std::to_string(bytes_) + " bytes on " + stream_.device().str();
    // Like the block, the copies begin at an even address.
    alignas(2) unsigned char band[kGuardBytes + 1];
    stream_.read(band, block_, 0, kGuardBytes);
    check_band(band, kGuardBytes, poison_, "before the first " + what);
    const int64_t odd = bytes_ % 2;
    stream_.read(band + odd, block_, kGuardBytes + bytes_, kGuardBytes);
    check_band(band + odd, kGuardBytes, poison_, "behind the last " + what);
  } catch (const std::exception& error) {
    report(std::string("can't look at the guard bands: ") + error.what());
  }
}

}  // namespace ashlar::detail
