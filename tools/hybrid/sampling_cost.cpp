#include "tools/hybrid/sampling_cost.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "nn/data/sample_forecast.h"
#include "runtime/device/stream.h"
#include "runtime/graph/graph.h"
#include "runtime/tensor/random.h"

namespace ashlar::tools {
namespace {

constexpr int kInGraph = 50;             // of a step's parts: the launch of the graph is shared by them
constexpr double kLeastSeconds = 0.005;  // that are measured at once
constexpr int kMeasurements = 50;        // the least counts

/// Repeats a part of a step.
class Repeated {
 public:
  Repeated(Device device, const std::function<void()>& part) : stream_(Stream::current(device)) {
    part();  // loads its kernels
    graph_ = capture(device, [&] {
      for (int i = 0; i < kInGraph; i++) part();
    });
    while (seconds() < kLeastSeconds) replays_ *= 2;
  }
  void measure() { least_ = std::min(least_, seconds()); }
  double microseconds() const { return least_ / static_cast<double>(replays_ * kInGraph) * 1e6; }

 private:
  double seconds() const {
    stream_.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < replays_; i++) graph_.replay();
    stream_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Stream stream_;
  Graph graph_;
  int64_t replays_ = 1;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

SamplingCost sampling_cost(const Task& task, Device device) {
  const int64_t batch = task.batch();
  nn::DeviceDataset shuffled(task.training(), {.batch = batch, .device = device});
  nn::SampleForecast chosen(task.training(),
                            {.batch = batch, .steps = int64_t{1} << 40, .device = device, .uniform_end = 0});
  chosen.start(0);
  Random random(1);
  const Tensor losses = Tensor::rand({batch}, random).to(device);
  Repeated next(device, [&] { shuffled.next(); });
  Repeated draw(device, [&] { chosen.draw(); });
  Repeated both(device, [&] {
    chosen.draw();
    chosen.observe(losses);
  });
  for (int i = 0; i < kMeasurements; i++) {  // in turn: what else the machine does meets all of them
    for (Repeated* part : {&next, &draw, &both}) part->measure();
  }
  return {.shuffled = next.microseconds(),
          .draw = draw.microseconds(),
          .update = both.microseconds() - draw.microseconds()};
}

}  // namespace ashlar::tools
