// Byte copies, and streams that wait for each other.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/device/counters.h"
#include "runtime/device/stream.h"
#include "runtime/device/stream_state.h"
#include "runtime/support/error.h"
#include "tests/runtime/devices.h"

namespace ashlar {
namespace {

using detail::copy_bytes;
using detail::copy_from_host;
using detail::copy_rows;
using detail::copy_to_host;
using detail::Storage;
using testing::memory_devices;
using testing::ramp;

std::vector<float> contents(Storage& storage, size_t count) {
  std::vector<float> values(count);
  copy_to_host(values.data(), storage, 0, static_cast<int64_t>(count) * 4);
  return values;
}

TEST(Transfer, BetweenEveryPairOfDevices) {
  const std::vector<float> values = ramp(1000);
  for (const Device& from : memory_devices()) {
    for (const Device& to : memory_devices()) {
      auto a = Storage::create(4000, from);
      auto b = Storage::create(4000, to);
      copy_from_host(*a, 0, values.data(), 4000);
      copy_from_host(*b, 0, ramp(1000, 5000).data(), 4000);
      copy_bytes(*b, 400, *a, 80, 1200);
      std::vector<float> expected = ramp(1000, 5000);
      std::copy_n(values.begin() + 20, 300, expected.begin() + 100);
      EXPECT_EQ(contents(*b, 1000), expected) << from.str() << " to " << to.str();
    }
  }
}

TEST(Transfer, RowsAtPitches) {
  for (const Device& device : memory_devices()) {
    auto a = Storage::create(4000, device);
    auto b = Storage::create(4000, device);
    copy_from_host(*a, 0, ramp(1000).data(), 4000);
    copy_from_host(*b, 0, std::vector<float>(1000, -1).data(), 4000);
    // Seven rows of 3 floats: from float 11 on every 10th, to float 13 on every 6th.
    copy_rows(*b, 13 * 4, 6 * 4, *a, 11 * 4, 10 * 4, 3 * 4, 7);
    copy_rows(*b, 900 * 4, 8, *a, 500 * 4, 8, 8, 4);  // dense
    std::vector<float> expected(1000, -1);
    for (size_t r = 0; r < 7; ++r) {
      for (size_t c = 0; c < 3; ++c) expected[13 + 6 * r + c] = static_cast<float>(11 + 10 * r + c);
    }
    for (size_t i = 0; i < 8; ++i) expected[900 + i] = static_cast<float>(500 + i);
    EXPECT_EQ(contents(*b, 1000), expected) << device.str();
  }
}

TEST(Transfer, IsCounted) {
  for (const Device& device : memory_devices()) {
    auto a = Storage::create(4000, device);
    auto b = Storage::create(4000, device);
    const std::vector<float> values = ramp(100);
    std::vector<float> back(50);
    const Counters before = counters(device.kind);
    copy_from_host(*a, 0, values.data(), 400);
    copy_bytes(*b, 0, *a, 0, 300);
    copy_to_host(back.data(), *b, 0, 200);
    copy_rows(*b, 1000, 40, *a, 0, 40, 20, 3);
    const Counters span = counters(device.kind) - before;
    EXPECT_EQ(span.bytes_to_device, 400);
    EXPECT_EQ(span.bytes_on_device, 360);
    EXPECT_EQ(span.bytes_to_host, 200);
  }
}

TEST(Transfer, RangesAreChecked) {
  for (const Device& device : memory_devices()) {
    auto a = Storage::create(100, device);
    auto b = Storage::create(100, device);
    char bytes[200] = {};
    EXPECT_THROW(copy_from_host(*a, 0, bytes, 101), ValueError);
    EXPECT_THROW(copy_from_host(*a, -1, bytes, 10), ValueError);
    EXPECT_THROW(copy_to_host(bytes, *a, 90, 11), ValueError);
    EXPECT_THROW(copy_to_host(bytes, *a, 0, -5), ValueError);
    EXPECT_THROW(copy_bytes(*a, 0, *b, 50, 51), ValueError);
    EXPECT_THROW(copy_rows(*a, 0, 30, *b, 0, 10, 10, 5), ValueError);
    EXPECT_THROW(copy_rows(*a, 0, 5, *b, 0, 10, 10, 2), ValueError);
    EXPECT_NO_THROW(copy_to_host(bytes, *a, 100, 0));
    EXPECT_NO_THROW(copy_rows(*a, 0, 10, *b, 0, 10, 10, 0));
  }
  alignas(256) char outside[512] = {};
  auto borrowed = Storage::borrow(outside + 16, 64);
  EXPECT_THROW(copy_from_host(*borrowed, 0, outside, 4), ValueError);
  EXPECT_NO_THROW(copy_from_host(*borrowed, 16, outside + 256, 64));
}

TEST(Stream, ScopesAndThreads) {
  for (const Device& device : memory_devices()) {
    const Stream own = Stream::current(device);
    EXPECT_EQ(Stream::current(device), own);
    EXPECT_EQ(own.device(), device);
    const Stream other(device);
    EXPECT_NE(other, own);
    {
      StreamScope scope(other);
      EXPECT_EQ(Stream::current(device), other);
      EXPECT_EQ(&Storage::create(10, device)->home(), &other.state());
    }
    EXPECT_EQ(Stream::current(device), own);
    std::thread([&] { EXPECT_NE(Stream::current(device), own); }).join();
    EXPECT_NO_THROW(own.wait(other));
    EXPECT_NO_THROW(own.wait(own));
    EXPECT_NO_THROW(own.wait(Stream::current(Device::cpu())));
    EXPECT_NO_THROW(own.synchronize());
  }
}

// Written on one stream, read on another without a word: the storage orders them.
TEST(Stream, StorageFollowsWorkAcrossStreams) {
  for (const Device& device : memory_devices()) {
    const Stream streams[3] = {Stream(device), Stream(device), Stream(device)};
    constexpr int64_t kBytes = 4 << 20;
    const std::vector<float> first = ramp(kBytes / 4), second = ramp(kBytes / 4, 7);
    for (int round = 0; round < 3; ++round) {
      std::shared_ptr<Storage> a, b;
      {
        StreamScope scope(streams[0]);
        a = Storage::create(kBytes, device);
        b = Storage::create(kBytes, device);
        copy_from_host(*a, 0, first.data(), kBytes);
      }
      {
        StreamScope scope(streams[1]);
        copy_bytes(*b, 0, *a, 0, kBytes);
      }
      {
        StreamScope scope(streams[2]);
        copy_from_host(*a, 0, second.data(), kBytes);  // has to wait for the copy out of a
      }
      StreamScope scope(streams[round]);
      EXPECT_EQ(contents(*b, first.size()), first);
      EXPECT_EQ(contents(*a, second.size()), second);
    }
  }
}

}  // namespace
}  // namespace ashlar
