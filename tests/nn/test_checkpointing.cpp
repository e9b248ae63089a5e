// ad::checkpoint: the same gradients, less memory.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/autograd.h"
#include "nn/modules/activations.h"
#include "nn/modules/channel_norm.h"
#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"
#include "nn/modules/module_list.h"
#include "nn/modules/sequential.h"
#include "nn/optim/sgd.h"
#include "runtime/device/stream_state.h"
#include "runtime/graph/graph.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class CheckpointOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, CheckpointOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

/// Blocks with dropout and a batch norm, with or without checkpoints. The input is data: it needs no gradient.
struct Blocks {
  std::vector<Sequential> blocks;
  Tensor x;
  explicit Blocks(Device device, int count = 3, int64_t width = 8, int64_t rows = 6) {
    Random random(5);
    for (int i = 0; i < count; i++) {
      blocks.emplace_back(Linear(width, width, random), BatchNorm1d(width), Tanh(), Dropout(0.3, {.random = &random}));
      blocks.back().to(device);
    }
    x = Tensor::randn({rows, width}, random).to(device);
  }
  Var loss(bool checkpointed) {
    Var h = x;
    for (Sequential& block : blocks) {
      h = checkpointed ? ad::checkpoint([&block](const Var& input) { return block(input); }, h) : block(h);
    }
    return ad::mean(ad::mul(h, h));
  }
  /// Gradients, then all buffers: running statistics, counts, random numbers.
  std::vector<std::vector<double>> state() const {
    std::vector<std::vector<double>> all;
    for (const Sequential& block : blocks) {
      for (const Var& parameter : block.parameters()) all.push_back(parameter.grad().to_doubles());
      for (const auto& [name, buffer] : block.named_buffers()) all.push_back(buffer.value().to_doubles());
    }
    return all;
  }
};

TEST_P(CheckpointOnDevice, GivesTheSameBits) {
  Blocks plain(device()), checkpointed(device());
  for (int step = 0; step < 2; step++) {  // the second one goes on with other random numbers
    const Var wanted = plain.loss(false), loss = checkpointed.loss(true);
    EXPECT_EQ(loss.item(), wanted.item());
    backward(wanted);
    backward(loss);
    EXPECT_EQ(checkpointed.state(), plain.state());
  }
}

TEST_P(CheckpointOnDevice, GivesTheSameBitsInAReplayedStep) {
  Blocks plain(device()), checkpointed(device());
  const auto step = [](Blocks& blocks, bool with) {
    for (const Sequential& block : blocks.blocks) block.zero_grad();
    backward(blocks.loss(with));
  };
  for (int i = 0; i < 3; i++) step(plain, false);
  step(checkpointed, true);
  const Graph graph = capture(device(), [&] { step(checkpointed, true); });
  graph.replay();
  graph.replay();
  EXPECT_EQ(checkpointed.state(), plain.state());
}

/// Bytes that a stream of its own held at most, in use or free, for forward and backward of 8 blocks.
int64_t peak_bytes(Device device, bool checkpointed) {
  Blocks blocks(device, 8, 32, 512);
  const Stream stream(device);
  const StreamScope current(stream);
  backward(blocks.loss(checkpointed));
  const ashlar::detail::MemoryPool::Statistics statistics = stream.state().pool().statistics();
  return statistics.used_bytes + statistics.free_bytes;
}

TEST_P(CheckpointOnDevice, TakesLessMemory) {
  const int64_t plain = peak_bytes(device(), false), checkpointed = peak_bytes(device(), true);
  EXPECT_LT(checkpointed, plain * 6 / 10);  // gradients of parameters are in both
  EXPECT_GT(checkpointed, 0);
}

TEST(Checkpoint, SeveralInputsAndOutputs) {
  Random random(2);
  const Tensor a = Tensor::randn({3, 4}, random), b = Tensor::randn({4}, random);
  const auto function = [](const std::vector<Var>& in) {
    const Var product = ad::mul(in[0], in[1]);
    return std::vector<Var>{ad::exp(product), ad::tanh(product), in[0]};
  };
  const auto gradients = [&](bool with, bool all_used) {
    const Var x(a, true), y(b, true);
    const auto out = with ? ad::checkpoint(function, {x, y}) : function({x, y});
    Var loss = ad::sum(out[1]);
    if (all_used) loss = ad::add(loss, ad::sum(ad::mul(out[0], out[2])));
    std::vector<std::vector<double>> result;
    for (const Var& gradient : grad({loss}, {x, y})) result.push_back(gradient.value().to_doubles());
    EXPECT_FALSE(x.grad().defined());
    return result;
  };
  EXPECT_EQ(gradients(true, false), gradients(false, false));
  EXPECT_EQ(gradients(true, true), gradients(false, true));
}

TEST(Checkpoint, NestsAndEvaluates) {
  Random random(2);
  Linear first(4, 4, random), second(4, 4, random);
  const Tensor x = Tensor::randn({2, 4}, random);
  const auto inner = [&](const Var& h) { return ad::tanh(second(h)); };
  const auto outer = [&](const Var& h) { return ad::checkpoint(inner, first(h)); };
  const auto gradients = [&](const Var& y) {
    first.zero_grad();
    second.zero_grad();
    backward(ad::sum(y));
    return std::pair(first.parameters()[0].grad().to_doubles(), second.parameters()[0].grad().to_doubles());
  };
  EXPECT_EQ(gradients(ad::checkpoint(outer, Var(x))), gradients(inner(first(x))));
  EXPECT_FALSE(ad::is_recomputing());
  const NoGrad no_grad;
  EXPECT_EQ(ad::checkpoint(outer, Var(x)).value().to_doubles(), inner(first(x)).value().to_doubles());
}

TEST(Checkpoint, RefusesWhatItCannotDo) {
  const Var x(Tensor::ones({2}), true);
  const auto square = [](const Var& v) { return ad::mul(v, v); };
  const Var y = ad::sum(ad::checkpoint(square, x));
  EXPECT_THROW(grad({y}, {x}, {}, {.create_graph = true}), AutogradError);
  const Var z = ad::sum(ad::checkpoint(square, x));
  x.value().fill_(2);
  EXPECT_THROW(backward(z), AutogradError);
  std::vector<Var> many(70, Var(Tensor::ones({1}), true));
  for (Var& one : many) one = Var(Tensor::ones({1}), true);
  EXPECT_THROW(ad::checkpoint([&](const std::vector<Var>& in) { return in; }, many), ValueError);
  // An error of the function's leaves random states and the mode as they were.
  int calls = 0;
  const Var failing = ad::checkpoint(
      [&](const Var& v) {
        if (++calls == 2) throw std::runtime_error("second time");
        return ad::exp(v);
      },
      x);
  EXPECT_THROW(backward(ad::sum(failing)), std::runtime_error);
  EXPECT_FALSE(ad::is_recomputing());
}

}  // namespace
}  // namespace ashlar::nn
