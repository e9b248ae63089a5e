// Memory pools: size classes, reuse, cap, trimming, running out, dying elsewhere.
#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

#include "runtime/device/counters.h"
#include "runtime/device/stream.h"
#include "runtime/device/stream_state.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/memory_pool.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/transfer.h"
#include "tests/runtime/devices.h"

namespace ashlar {
namespace {

using detail::size_class;
using detail::Storage;
using testing::memory_devices;

TEST(SizeClass, WastesAtMostAnEighthAndStaysAligned) {
  int64_t previous = 0;
  for (int64_t bytes = 0; bytes < 300'000; bytes += bytes < 5000 ? 1 : 97) {
    const int64_t size = size_class(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_GE(size, previous) << bytes;
    ASSERT_EQ(size % 256, 0) << bytes;
    ASSERT_EQ(size_class(size), size) << bytes;
    ASSERT_LE(size - bytes, std::max<int64_t>(256, bytes / 8 + 1)) << bytes;
    previous = size;
  }
  EXPECT_EQ(size_class(0), 256);
  EXPECT_EQ(size_class(int64_t{3} << 40), int64_t{3} << 40);
}

class Pool : public ::testing::TestWithParam<Device> {
 protected:
  // A stream of its own, so that other tests' blocks don't answer this one's requests.
  Pool() : stream_(GetParam()), scope_(stream_) {}
  detail::MemoryPool& pool() { return stream_.state().pool(); }
  void TearDown() override { set_memory_cap(GetParam(), 0); }

  Stream stream_;
  StreamScope scope_;
};

TEST_P(Pool, BlocksAreAlignedAndReused) {
  const Counters before = counters(GetParam().kind);
  auto a = Storage::create(5000, GetParam());
  const uint64_t handle = a->handle();
  ASSERT_NE(handle, 0u);
  if (GetParam().kind != DeviceKind::opencl) {  // there it is a cl_mem
    EXPECT_EQ(handle % 256, 0u);
  }
  EXPECT_EQ(a->bytes(), 5000);
  EXPECT_EQ(pool().statistics().used_blocks, 1);
  a.reset();
  EXPECT_EQ(pool().statistics().used_bytes, 0);
  EXPECT_EQ(pool().statistics().free_bytes, size_class(5000));

  auto b = Storage::create(4990, GetParam());
  EXPECT_EQ(b->handle(), handle);
  auto smaller = Storage::create(100, GetParam());
  EXPECT_NE(smaller->handle(), handle);
  const Counters span = counters(GetParam().kind) - before;
  EXPECT_EQ(span.allocations, 2);
  EXPECT_EQ(span.pool_hits, 1);
  EXPECT_EQ(span.live_bytes, size_class(4990) + 256);
}

TEST_P(Pool, TheMostBytesInUseAtOnceAreKept) {
  const DeviceKind kind = GetParam().kind;
  reset_peak_live_bytes(kind);
  const int64_t before = peak_live_bytes(kind);
  EXPECT_EQ(before, counters(kind).live_bytes);
  Storage::create(5000, GetParam());
  const auto a = Storage::create(100, GetParam());
  EXPECT_EQ(peak_live_bytes(kind), before + size_class(5000));
  const auto b = Storage::create(5000, GetParam());  // from the pool
  EXPECT_EQ(peak_live_bytes(kind), before + 256 + size_class(5000));
  reset_peak_live_bytes(kind);
  EXPECT_EQ(peak_live_bytes(kind), before + 256 + size_class(5000));
}

TEST_P(Pool, ABlockMuchTooLargeIsNotWasted) {
  const uint64_t large = Storage::create(1 << 20, GetParam())->handle();
  EXPECT_NE(Storage::create(1 << 19, GetParam())->handle(), large);
  EXPECT_EQ(Storage::create((1 << 20) - (1 << 17), GetParam())->handle(), large);
}

TEST_P(Pool, TrimGivesFreeBlocksBack) {
  auto kept = Storage::create(1000, GetParam());
  Storage::create(100'000, GetParam());
  const int64_t held = counters(GetParam().kind).pool_bytes;
  EXPECT_GE(trim_memory(GetParam()), size_class(100'000));
  EXPECT_LE(counters(GetParam().kind).pool_bytes, held - size_class(100'000));
  EXPECT_EQ(pool().statistics().free_blocks, 0);
  EXPECT_EQ(pool().statistics().used_bytes, size_class(1000));
}

TEST_P(Pool, CapTrimsThenThrowsAndTensorsStayValid) {
  trim_memory(GetParam());
  const std::vector<float> values = testing::ramp(1000);
  const Tensor kept = testing::upload(values, GetParam());
  Storage::create(1 << 20, GetParam());  // now free in the pool
  const int64_t held = detail::device_state(GetParam()).held_bytes();
  set_memory_cap(GetParam(), held + (1 << 19));
  // Fits only after the free megabyte went back.
  auto fits = Storage::create((1 << 20) + (1 << 18), GetParam());
  EXPECT_EQ(pool().statistics().free_blocks, 0);
  EXPECT_THROW(Storage::create(1 << 20, GetParam()), OutOfMemory);
  EXPECT_EQ(testing::download(kept), values);
  fits.reset();
  EXPECT_NO_THROW(Storage::create(1 << 20, GetParam()));
  set_memory_cap(GetParam(), 0);
  EXPECT_NO_THROW(Storage::create(4 << 20, GetParam()));
  EXPECT_THROW(set_memory_cap(GetParam(), -1), ValueError);
}

TEST_P(Pool, ImpossibleSizesAreOutOfMemory) {
  for (int64_t bytes : {int64_t{1} << 48, int64_t{1} << 50, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THROW(Storage::create(bytes, GetParam()), OutOfMemory) << bytes;
  }
  EXPECT_THROW(Storage::create(-1, GetParam()), ValueError);
  auto empty = Storage::create(0, GetParam());
  EXPECT_NE(empty->handle(), 0u);
  EXPECT_EQ(empty->bytes(), 0);
}

TEST_P(Pool, ATensorMayDieOnAnotherThreadAndAfterItsStream) {
  const int64_t live = counters(GetParam().kind).live_bytes;
  std::vector<std::shared_ptr<Storage>> made;
  std::thread maker([&] {  // its stream ends with it
    for (int i = 0; i < 20; ++i) made.push_back(Storage::create(1 << (8 + i % 8), GetParam()));
  });
  maker.join();
  std::thread dropper([&] { made.resize(10); });
  dropper.join();
  made.clear();
  EXPECT_EQ(counters(GetParam().kind).live_bytes, live);
}

INSTANTIATE_TEST_SUITE_P(Devices, Pool, ::testing::ValuesIn(memory_devices()),
                         [](const auto& info) { return std::string(name_of(info.param.kind)); });

TEST(Storage, BorrowsMemoryOfAnyAlignment) {
  alignas(256) static char bytes[1024];
  for (int64_t shift : {0, 1, 4, 255, 256, 300}) {
    auto storage = Storage::borrow(bytes + shift, 64);
    EXPECT_EQ(reinterpret_cast<uint64_t>(storage->host()) % 256, 0u);
    EXPECT_EQ(storage->host() + storage->begin(), bytes + shift);
    EXPECT_EQ(storage->bytes(), storage->begin() + 64);
    EXPECT_TRUE(storage->is_borrowed());
    const uint64_t version = storage->version();
    storage->bump();
    EXPECT_GT(storage->version(), version);
  }
  EXPECT_THROW(Storage::borrow(nullptr, 4), ValueError);
  EXPECT_THROW(Storage::borrow(bytes, -4), ValueError);
  EXPECT_NE(Storage::borrow(nullptr, 0)->host(), nullptr);
}

}  // namespace
}  // namespace ashlar
