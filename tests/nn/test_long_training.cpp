// Many steps: what a training holds does not grow with them.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/optim/scheduler.h"
#include "runtime/device/counters.h"
#include "runtime/device/stream.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

/// The variable that says how many steps; a few thousand without it.
constexpr const char* kSteps = "ASHLAR_TEST_STEPS";

class LongTraining : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, LongTraining, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

struct Held {
  int64_t live, pool, host_live, host_pool, heap;
};
Held held_on(Device device) {
  Stream::current(device).synchronize();
  const Counters there = counters(device.kind), here = counters(DeviceKind::cpu);
  return {there.live_bytes, there.pool_bytes, here.live_bytes, here.pool_bytes,
          static_cast<int64_t>(mallinfo2().uordblks)};
}

TEST_P(LongTraining, HoldsNoMoreAfterManySteps) {
  const char* given = std::getenv(kSteps);
  const int64_t steps = given != nullptr ? std::stoll(given) : 4000, quarter = steps / 4;
  Random random(3);
  Sequential model;
  model.add<Linear>(6, 16, random).add<ReLU>().add<Linear>(16, 3, random);
  model.to(device());
  Adam optimizer(model.parameters(), {.learning_rate = 1e-3});
  Scheduler scheduler(optimizer, cosine_annealing_lr(steps));
  const Tensor x = Tensor::randn({8, 6}, random, DType::f32, device());
  const Tensor target = Tensor::from(std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1}, {8}, device());
  // What threads of PoCL keep of blocks that they freed grows late on a busy machine, but not for long: as many steps
  // more as there have to be until a quarter takes nothing.
  constexpr int64_t kMostTimes = 10;
  const int64_t least_leak = quarter / 75;  // bytes
  std::vector<Held> held;
  held.reserve(4 * kMostTimes);
  int64_t grown = INT64_MAX;
  for (int64_t step = 0; step < steps || (grown >= least_leak && step < kMostTimes * steps); step++) {
    optimizer.zero_grad();
    cross_entropy(model(Var(x)), target).backward();
    optimizer.step();
    scheduler.step();
    if (step % 100 == 99) Stream::current(device()).synchronize();
    if (step % quarter != quarter - 1) continue;
    held.push_back(held_on(device()));
    if (held.size() > 1) grown = std::min(grown, held.back().heap - held[held.size() - 2].heap);
  }
  const Held &before = held.front(), &after = held.back();
  EXPECT_EQ(after.live, before.live);
  EXPECT_EQ(after.host_live, before.host_live);
  EXPECT_EQ(after.pool, before.pool);
  EXPECT_EQ(after.host_pool, before.host_pool);
  EXPECT_LT(grown, least_leak) << "bytes of the host's heap";
}

}  // namespace
}  // namespace ashlar::nn
