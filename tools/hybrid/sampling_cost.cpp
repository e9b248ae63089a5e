#include "tools/hybrid/sampling_cost.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "nn/data/sample_forecast.h"
#include "runtime/device/stream.h"
#include "runtime/graph/graph.h"
#include "runtime/tensor/random.h"

namespace ashlar::tools {
namespace {

constexpr int kInGraph = 50;            // of a step's parts: the launch of the graph is shared by them
constexpr double kLeastSeconds = 0.05;  // that are measured
constexpr int kMeasurements = 5;        // the least counts

/// Microseconds of one `part`.
double cost_of(Device device, const std::function<void()>& part) {
  part();  // loads its kernels
  const Graph graph = capture(device, [&] {
    for (int i = 0; i < kInGraph; i++) part();
  });
  const Stream stream = Stream::current(device);
  const auto seconds_of = [&](int64_t replays) {
    stream.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < replays; i++) graph.replay();
    stream.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  int64_t replays = 1;
  while (seconds_of(replays) < kLeastSeconds) replays *= 2;
  double least = seconds_of(replays);
  for (int i = 1; i < kMeasurements; i++) least = std::min(least, seconds_of(replays));
  return least / static_cast<double>(replays * kInGraph) * 1e6;
}

}  // namespace

SamplingCost sampling_cost(const Task& task, Device device) {
  const int64_t batch = task.batch();
  nn::DeviceDataset shuffled(task.training(), {.batch = batch, .device = device});
  nn::SampleForecast chosen(task.training(),
                            {.batch = batch, .steps = int64_t{1} << 40, .device = device, .uniform_end = 0});
  chosen.start(0);
  Random random(1);
  const Tensor losses = Tensor::rand({batch}, random).to(device);
  SamplingCost cost;
  cost.shuffled = cost_of(device, [&] { shuffled.next(); });
  cost.draw = cost_of(device, [&] { chosen.draw(); });
  const double both = cost_of(device, [&] {
    chosen.draw();
    chosen.observe(losses);
  });
  cost.update = both - cost.draw;
  return cost;
}

}  // namespace ashlar::tools
