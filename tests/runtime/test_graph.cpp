// Capturing work once and replaying it, on every device that runs kernels. What the CUDA driver is asked for is tested
// in test_cuda.cpp.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/maths.h"
#include "ashlar/ops/nonzero.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/unary.h"
#include "runtime/device/counters.h"
#include "runtime/graph/graph.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "tests/runtime/devices.h"

namespace ashlar {
namespace {

using testing::ramp;

class Graphs : public ::testing::TestWithParam<Device> {
 protected:
  const Device device_ = GetParam();
  const DeviceKind kind_ = device_.kind;
  Tensor make(const std::vector<float>& values) const {
    return Tensor::from(values, {static_cast<int64_t>(values.size())}, device_);
  }
  Tensor ramp_of(int64_t n, float first = 0) const { return make(ramp(n, first)); }
};

// Of sin there's no f16 instance, of relu there is.
TEST_P(Graphs, ConversionsOfACallAreCaptured) {
  const Tensor x = ramp_of(1000).to(DType::f16);
  Tensor y;
  const Graph graph = capture(device_, [&] { y = relu(sin(x)); });
  x.copy_(ramp_of(1000, 5).to(DType::f16));
  graph.replay();
  EXPECT_EQ(y.dtype(), DType::f16);
  EXPECT_EQ(y.to(DType::f32).to_vector<float>(),
            relu(sin(x.to(DType::f32)).to(DType::f16)).to(DType::f32).to_vector<float>());
}

TEST_P(Graphs, NothingRunsUntilTheReplayAndThenEverythingDoes) {
  const Tensor x = ramp_of(1000);
  Tensor y;
  const Counters before = counters(kind_);
  const Graph graph = capture(device_, [&] { y = add(relu(affine(x, 2.0, -100.0)), x); });
  EXPECT_EQ((counters(kind_) - before).launches, 0);
  EXPECT_EQ(graph.device(), device_);
  for (int round = 0; round < 3; ++round) {
    x.copy_(ramp_of(1000, static_cast<float>(round)));
    const uint64_t version = y.version();
    const Counters start = counters(kind_);
    graph.replay();
    const Counters span = counters(kind_) - start;
    EXPECT_EQ(span.launches, 3);
    EXPECT_EQ(span.allocations + span.pool_hits, 0);
    EXPECT_EQ(span.bytes_to_device + span.bytes_to_host + span.bytes_on_device, 0);
    EXPECT_GT(y.version(), version);
    const std::vector<float> values = y.to_vector<float>();
    for (int i = 0; i < 1000; ++i) {
      const auto v = static_cast<float>(i + round);
      ASSERT_EQ(values[static_cast<size_t>(i)], std::max(0.0f, 2 * v - 100) + v) << i;
    }
  }
}

TEST_P(Graphs, StateAndParametersChangeBetweenReplays) {
  const Tensor total = Tensor::zeros({8}, DType::f32, device_);
  const Tensor rate = Tensor::full({}, 1, DType::f32, device_);
  const Graph graph = capture(device_, [&] { total.copy_(add(total, rate)); });
  for (int i = 0; i < 5; ++i) graph.replay();
  EXPECT_EQ(total.to_vector<float>(), std::vector<float>(8, 5));
  rate.fill_(0.5);
  graph.replay();
  graph.replay();
  EXPECT_EQ(total.to_vector<float>(), std::vector<float>(8, 6));
}

// A step whose state for the next one is computed beside the rest of it; memory that either side drops goes to nobody
// who would be beside it.
TEST_P(Graphs, WorkBesideTheRestGivesTheSameNumbers) {
  constexpr int64_t n = 20000;
  const Tensor state = ramp_of(n), next = Tensor::zeros({n}, DType::f32, device_);
  const Tensor total = Tensor::zeros({}, DType::f32, device_);
  const auto step = [&] {
    const Tensor x = affine(state, 2.0, 1.0);
    beside(device_, [&] {
      Tensor y = x;
      for (int i = 0; i < 20; i++) y = affine(y, 1.0, 1.0);
      next.copy_(affine(y, 0.25, 0.0));
    });
    Tensor z = x;
    for (int i = 0; i < 20; i++) z = relu(affine(z, 1.0, -1.0));
    total.copy_(add(total, mean(z)));
    state.copy_(next);
  };
  std::vector<std::vector<float>> results;
  for (const bool replayed : {false, true}) {
    state.copy_(ramp_of(n));
    total.fill_(0);
    const Graph graph = replayed ? capture(device_, step) : Graph();
    for (int i = 0; i < 30; i++) replayed ? graph.replay() : step();
    results.push_back(state.to_vector<float>());
    results.back().push_back(total.item());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_GT(results[0].back(), 0);
}

// The memory of what a capture made and dropped may go to nobody else.
TEST_P(Graphs, OwnsItsMemoryAndKeepsItsTensors) {
  Tensor x = ramp_of(5000);
  Tensor y;
  const Graph graph = capture(device_, [&] {
    y = x;
    for (int i = 0; i < 10; ++i) y = affine(y, 1.0, 1.0);
  });
  x = Tensor();
  std::vector<Tensor> others;
  for (int i = 0; i < 30; ++i) {
    trim_memory(device_);
    others.push_back(Tensor::full({5000}, -1, DType::f32, device_));
  }
  graph.replay();
  EXPECT_EQ(y.to_vector<float>(), ramp(5000, 10));
  for (const Tensor& other : others) EXPECT_EQ(other.to_vector<float>(), std::vector<float>(5000, -1));
}

TEST_P(Graphs, GivesItsMemoryBack) {
  trim_memory(device_);
  const Counters before = counters(kind_);
  {
    const Tensor x = ramp_of(100000);
    Tensor y;
    const Graph graph = capture(device_, [&] { y = relu(relu(relu(x))); });
    graph.replay();
    EXPECT_GT(counters(kind_).pool_bytes, before.pool_bytes);
  }
  trim_memory(device_);
  EXPECT_EQ(counters(kind_).live_bytes, before.live_bytes);
  EXPECT_EQ(counters(kind_).pool_bytes, before.pool_bytes);
}

TEST_P(Graphs, CopiesViewsAndReductions) {
  const Tensor x = ramp_of(600);
  const Tensor target = Tensor::zeros({701}, DType::f32, device_);
  Tensor sums;
  const Graph graph = capture(device_, [&] {
    const Tensor part = target.slice(0, 1, 601);  // an offset at which no device stores in place
    part.copy_(x);
    sums = sum(part.reshape({20, 30}), {1});
    target.slice(0, 601, 621).copy_(sums);
  });
  x.copy_(ramp_of(600, 1));
  graph.replay();
  std::vector<float> expected(701, 0);
  for (int i = 0; i < 600; ++i) expected[static_cast<size_t>(i + 1)] = static_cast<float>(i + 1);
  for (int r = 0; r < 20; ++r) {
    for (int c = 0; c < 30; ++c) expected[static_cast<size_t>(601 + r)] += static_cast<float>(30 * r + c + 1);
  }
  EXPECT_EQ(target.to_vector<float>(), expected);
}

TEST_P(Graphs, OtherStreamsAndThreadsReplay) {
  const Tensor total = Tensor::zeros({1 << 16}, DType::f32, device_);
  const Graph graph = capture(device_, [&] {
    Tensor t = total;
    for (int i = 0; i < 4; ++i) t = affine(t, 1.0, 0.25);
    total.copy_(t);
  });
  const Stream other(device_);
  for (int i = 0; i < 10; ++i) {
    graph.replay();
    const StreamScope scope(other);
    graph.replay();
  }
  std::thread([&] { graph.replay(); }).join();
  EXPECT_EQ(total.to_vector<float>(), std::vector<float>(1 << 16, 21));
}

TEST_P(Graphs, WhatCantBeReplayedIsATypedErrorAndLeavesEverythingUsable) {
  const Tensor x = ramp_of(100);
  const Stream stream = Stream::current(device_);
  const Graph inner = capture(device_, [&] { relu(x); });
  const std::vector<std::function<void()>> mistakes = {
      [&] { sum(x).item(); },
      [&] { relu(x).to_vector<float>(); },
      [&] { nonzero(x); },
      [&] {
        Tensor::from(std::vector<float>{1, 2}, {2}, device_);
      },
      [&] { Stream::current(device_).synchronize(); },
      [&] { Stream::current(device_).wait(Stream(device_)); },
      [&] { inner.replay(); },
      [&] { capture(device_, [] {}); },
  };
  for (size_t i = 0; i < mistakes.size(); ++i) {
    EXPECT_THROW(capture(device_, [&] { relu(x), mistakes[i](); }), GraphError) << i;
    EXPECT_EQ(Stream::current(device_), stream);
    EXPECT_EQ(relu(x).to_vector<float>(), ramp(100));
  }
  if (kind_ == DeviceKind::cpu) {
    EXPECT_THROW(capture(device_, [&] { relu(x).data(); }), GraphError);
  } else {
    EXPECT_THROW(capture(device_, [&] { relu(x).to(Device::cpu()); }), GraphError);
    Tensor on_cpu;  // another device's work isn't captured
    capture(device_, [&] { on_cpu = relu(Tensor::full({3}, 2)); });
    EXPECT_EQ(on_cpu.to_vector<float>(), std::vector<float>(3, 2));
  }
  EXPECT_THROW(capture(device_, [] { throw std::out_of_range("mine"); }), std::out_of_range);
  EXPECT_THROW(capture(device_, [&] { add(x, ramp_of(3)); }), Error);
  Tensor y;
  const Graph good = capture(device_, [&] { y = relu(x); });
  good.replay();
  EXPECT_EQ(y.to_vector<float>(), ramp(100));
}

TEST_P(Graphs, ATensorInCaptureIsRefusedOnOtherStreams) {
  if (kind_ == DeviceKind::cpu) GTEST_SKIP() << "a CPU's streams have nothing to wait for";
  const Tensor x = ramp_of(100);
  const Stream other(device_);
  EXPECT_THROW(capture(device_,
                       [&] {
                         const Tensor y = relu(x);
                         const StreamScope scope(other);
                         relu(y);
                       }),
               GraphError);
  EXPECT_EQ(relu(x).to_vector<float>(), ramp(100));
}

TEST(Graph, AnUndefinedOneDoesNothing) {
  const Graph graph;
  EXPECT_FALSE(graph.defined());
  EXPECT_NO_THROW(graph.replay());
  EXPECT_THROW(graph.device(), GraphError);
}

TEST(Graph, AnEmptyOneDoesNothing) {
  EXPECT_NO_THROW(capture(Device::cpu(), [] {}).replay());
}

INSTANTIATE_TEST_SUITE_P(Devices, Graphs, ::testing::ValuesIn(testing::kernel_devices()),
                         [](const auto& info) { return std::string(name_of(info.param.kind)); });

}  // namespace
}  // namespace ashlar
