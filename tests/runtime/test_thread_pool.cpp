// The thread pool behind parallel loops, and the scratch memory of CPU kernels.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/cpu/scratch.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/device/counters.h"
#include "runtime/memory/memory.h"

namespace ashlar::detail {
namespace {

struct Sum {
  std::vector<int> visits;
  std::atomic<int> running{0};
  int fail_at = -1;
  ThreadPool* pool = nullptr;

  static int piece(void* context, int i, uint8_t* closure) {
    auto& self = *reinterpret_cast<Sum*>(closure);
    EXPECT_EQ(context, &self);
    ++self.visits[static_cast<size_t>(i)];
    return i == self.fail_at ? 77 : 0;
  }
  // Each piece of the outer loop runs an inner loop of ten.
  static int nested(void*, int i, uint8_t* closure) {
    auto& self = *reinterpret_cast<Sum*>(closure);
    return self.pool->run(&self, &Sum::piece, 10 * i, 10, closure);
  }
  uint8_t* closure() { return reinterpret_cast<uint8_t*>(this); }
};

class ThreadPoolOf : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolOf, RunsEveryPieceOnce) {
  ThreadPool pool(GetParam());
  for (int size : {0, 1, 2, 3, 17, 1000}) {
    Sum sum;
    sum.visits.assign(static_cast<size_t>(size) + 5, 0);
    EXPECT_EQ(pool.run(&sum, &Sum::piece, 5, size, sum.closure()), 0);
    EXPECT_EQ(std::accumulate(sum.visits.begin(), sum.visits.end(), 0), size);
    for (int i = 5; i < 5 + size; ++i) ASSERT_EQ(sum.visits[static_cast<size_t>(i)], 1);
  }
}

TEST_P(ThreadPoolOf, ManyLoopsInARow) {
  ThreadPool pool(GetParam());
  Sum sum;
  sum.visits.assign(8, 0);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(pool.run(&sum, &Sum::piece, 0, 8, sum.closure()), 0);
  for (int v : sum.visits) EXPECT_EQ(v, 3000);
}

TEST_P(ThreadPoolOf, AnErrorStopsTheLoopAndComesBack) {
  ThreadPool pool(GetParam());
  Sum sum;
  sum.visits.assign(100'000, 0);
  sum.fail_at = 3;
  EXPECT_EQ(pool.run(&sum, &Sum::piece, 0, 100'000, sum.closure()), 77);
  EXPECT_LT(std::accumulate(sum.visits.begin(), sum.visits.end(), 0), 100'000);
}

TEST_P(ThreadPoolOf, ALoopInsideALoopRunsInline) {
  ThreadPool pool(GetParam());
  Sum sum;
  sum.visits.assign(500, 0);
  sum.pool = &pool;
  EXPECT_EQ(pool.run(&sum, &Sum::nested, 0, 50, sum.closure()), 0);
  for (int v : sum.visits) ASSERT_EQ(v, 1);
}

TEST_P(ThreadPoolOf, SeveralCallersShareIt) {
  ThreadPool pool(GetParam());
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&pool] {
      for (int i = 0; i < 200; ++i) {
        Sum sum;
        sum.visits.assign(32, 0);
        ASSERT_EQ(pool.run(&sum, &Sum::piece, 0, 32, sum.closure()), 0);
        for (int v : sum.visits) ASSERT_EQ(v, 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, ::testing::Values(1, 2, 3, 8));

TEST(Scratch, IsAlignedReusedAndTrimmed) {
  trim_scratch();
  const int64_t held = counters(DeviceKind::cpu).pool_bytes;
  void* a = allocate_scratch(1000);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 128, 0u);
  std::memset(a, 1, 1000);
  EXPECT_GT(counters(DeviceKind::cpu).pool_bytes, held);
  free_scratch(a);
#ifndef __SANITIZE_ADDRESS__
  void* b = allocate_scratch(1000);
  EXPECT_EQ(b, a);
  free_scratch(b);
#endif
  trim_memory(Device::cpu());
  EXPECT_LE(counters(DeviceKind::cpu).pool_bytes, held);
  EXPECT_EQ(allocate_scratch(size_t{1} << 62), nullptr);
  EXPECT_EQ(allocate_scratch(size_t{1} << 50), nullptr);
  free_scratch(nullptr);
}

TEST(Scratch, MayBeFreedByAnotherThread) {
  std::vector<void*> blocks;
  std::thread maker([&blocks] {
    for (int i = 0; i < 40; ++i) blocks.push_back(allocate_scratch(64u << (i % 10)));
  });
  maker.join();
  for (void* block : blocks) {
    ASSERT_NE(block, nullptr);
    free_scratch(block);
  }
}

}  // namespace
}  // namespace ashlar::detail
