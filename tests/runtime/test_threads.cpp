// Several threads, each with streams of its own, launching kernels and handing tensors to each other.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/ops/copy.h"
#include "ashlar/ops/unary.h"
#include "runtime/device/counters.h"
#include "runtime/device/stream.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "tests/runtime/devices.h"

namespace ashlar {
namespace {

using testing::download;
using testing::ramp;
using testing::upload;

class Threads : public ::testing::TestWithParam<Device> {};

void relu(const Tensor& x, const Tensor& y) {
  const std::vector<Tensor> inputs = {x.unsqueeze(0)}, outputs = {y};  // rows and columns
  launch(kernels::relu, KernelKey{}, inputs, {}, outputs);
}

TEST_P(Threads, EachOnItsOwnStream) {
  constexpr int kThreads = 4, kRounds = 25;
  std::atomic<int> wrong{0};
  const int64_t live = counters(GetParam().kind).live_bytes;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&wrong, t, device = GetParam()] {
      for (int round = 0; round < kRounds; ++round) {
        const int64_t n = 1000 + 997 * t + 31 * round;
        const Tensor x = upload(ramp(n, static_cast<float>(-100 * t)), device);
        const Tensor y = Tensor::empty({n}, DType::f32, device);
        relu(x, y);
        relu(y, x);
        const std::vector<float> values = download(x);
        for (int64_t i = 0; i < n; ++i) {
          wrong += values[static_cast<size_t>(i)] != std::max(0.0f, static_cast<float>(i - 100 * t));
        }
        if (round % 10 == t) trim_memory(device);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(counters(GetParam().kind).live_bytes, live);
}

// One thread computes, another takes over the tensors without synchronising, a third one frees them.
TEST_P(Threads, TensorsChangeHands) {
  constexpr int kTensors = 12;
  constexpr int64_t kSize = 1 << 16;
  std::vector<Tensor> made(kTensors), taken(kTensors);
  const auto on_thread = [](auto work) { std::thread(work).join(); };
  on_thread([&] {
    for (int i = 0; i < kTensors; ++i) {
      made[static_cast<size_t>(i)] = Tensor::empty({kSize}, DType::f32, GetParam());
      relu(upload(ramp(kSize, static_cast<float>(-i)), GetParam()), made[static_cast<size_t>(i)]);
    }
  });
  on_thread([&] {
    for (int i = 0; i < kTensors; ++i) {
      taken[static_cast<size_t>(i)] = Tensor::empty({kSize}, DType::f32, GetParam());
      relu(made[static_cast<size_t>(i)], taken[static_cast<size_t>(i)]);
    }
  });
  on_thread([&] { made.clear(); });
  for (int i = 0; i < kTensors; ++i) {
    const std::vector<float> values = download(taken[static_cast<size_t>(i)]);
    EXPECT_EQ(values[0], 0);
    EXPECT_EQ(values[kSize - 1], static_cast<float>(kSize - 1 - i));
  }
}

// All threads read one tensor at once, which is what makes it shared between streams.
TEST_P(Threads, OneTensorReadByMany) {
  const Tensor x = upload(ramp(50'000), GetParam());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        const Tensor y = Tensor::empty({50'000}, DType::f32, x.device());
        relu(x, y);
        wrong += download(y) != ramp(50'000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// One kernel on grids of one size and, meanwhile, of ever larger ones: PoCL ends the process where these run on queues
// of their own.
TEST_P(Threads, GridsGrowWhileOthersAreSmall) {
  constexpr int kSmall = 5;
  constexpr int64_t kStep = 1 << 16, kMost = 1 << 22;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kSmall; ++t) {
    threads.emplace_back([&done, device = GetParam()] {
      const Tensor x = upload(ramp(4096), device), y = Tensor::empty({4096}, DType::f32, device);
      while (!done) {
        for (int i = 0; i < 16; ++i) relu(x, y);
        Stream::current(device).synchronize();
      }
    });
  }
  const Tensor x = Tensor::full({kMost}, 2.0, DType::f32, GetParam());
  const Tensor y = Tensor::zeros({kMost}, DType::f32, GetParam());
  for (int64_t n = kStep; n <= kMost; n += kStep) relu(x.slice(0, 0, n), y.slice(0, 0, n));
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(download(y), std::vector<float>(kMost, 2.0f));
}

TEST_P(Threads, FailuresStayWithTheirThread) {
  std::atomic<int> caught{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&caught, t, device = GetParam()] {
      const Tensor x = upload(ramp(100), device);
      for (int round = 0; round < 30; ++round) {
        try {
          relu(x, t == 0 ? Tensor::empty({100}, DType::f64, device) : x);
        } catch (const DTypeError&) {
          caught += t == 0 ? 1 : 1000;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(caught, 30);
}

INSTANTIATE_TEST_SUITE_P(Devices, Threads, ::testing::ValuesIn(testing::kernel_devices()),
                         [](const auto& info) { return std::string(name_of(info.param.kind)); });

}  // namespace
}  // namespace ashlar
