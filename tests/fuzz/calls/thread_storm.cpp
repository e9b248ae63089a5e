// Threads that make, share, use and drop tensors, streams and graphs on several devices at once, while memory caps come
// and go. Every element of a shared tensor has one value that all know, and so has every result.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ashlar/ops.h"
#include "runtime/device/counters.h"
#include "runtime/device/stream.h"
#include "runtime/graph/graph.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "tests/fuzz/calls/options.h"

namespace ashlar::fuzz {
namespace {

constexpr int kThreads = 6;
constexpr int64_t kMostElements = 200'000;

/// A tensor whose elements all have `value`. Nobody writes to it once it is shared.
struct Known {
  Tensor tensor;
  float value = 0;
};

/// Where threads leave tensors for each other.
class Shelf {
 public:
  Known at(size_t place) {
    const std::lock_guard lock(mutex_);
    return known_[place % known_.size()];
  }
  void put(size_t place, Known known) {
    {
      const std::lock_guard lock(mutex_);
      std::swap(known_[place % known_.size()], known);
    }
    // The old one is dropped here, by a thread that may never have used it.
  }

 private:
  std::mutex mutex_;
  std::array<Known, 24> known_;
};

class Storm {
 public:
  explicit Storm(const Options& options) : options_(options) {}

  /// Whether all went well.
  bool blow() {
    const auto live = live_bytes();
    {
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { run(i); });
      for (std::thread& thread : threads) thread.join();
    }
    for (const Device& device : options_.devices) set_memory_cap(device, 0);
    for (size_t i = 0; i < 24; ++i) shelf_.put(i, {});
    for (const Device& device : options_.devices) trim_memory(device);
    if (live_bytes() != live) fail("memory is in use after the last tensor is gone");
    std::printf("%lld calls, %lld of them without memory\n", static_cast<long long>(calls_.load()),
                static_cast<long long>(refused_.load()));
    return !failed_;
  }

 private:
  std::vector<int64_t> live_bytes() const {
    std::vector<int64_t> bytes;
    for (const Device& device : options_.devices) bytes.push_back(counters(device.kind).live_bytes);
    return bytes;
  }

  void fail(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (!failed_.exchange(true)) std::fprintf(stderr, "%s\n", what.c_str());
  }

  void run(int number) {
    std::mt19937_64 random(options_.seed + static_cast<uint64_t>(number));
    const Clock clock(options_.seconds);
    while (clock.runs() && !failed_) {
      try {
        ++calls_;
        step(random);
      } catch (const OutOfMemory&) {
        ++refused_;
      } catch (const std::exception& error) {
        fail(std::string("an exception: ") + error.what());
      }
    }
  }

  void require(const Tensor& x, float value, const char* what) {
    const std::vector<float> found = x.to_vector<float>();
    if (std::ranges::all_of(found, [value](float v) { return v == value; })) return;
    fail(std::string(what) + " on " + x.device().str() + ": not all " + std::to_string(value));
  }

  void step(std::mt19937_64& random) {
    const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
    const Device device = options_.devices[below(options_.devices.size())];
    const size_t place = below(24);
    Known known = shelf_.at(place);
    if (!known.tensor.defined() || below(6) == 0) {
      const auto size = static_cast<int64_t>(1 + below(below(8) == 0 ? kMostElements : 2000));
      const auto value = static_cast<float>(below(1000));
      known = {Tensor::full({size}, value, DType::f32, device), value};
      shelf_.put(place, known);
    }
    const Tensor& x = known.tensor;
    const float value = known.value;
    switch (below(12)) {
      case 0:
        require(x, value, "what was shared");
        break;
      case 1:
        shelf_.put(place + 1, {add(x, x), 2 * value});
        if (value > 1000) shelf_.put(place + 1, {});
        break;
      case 2:
        require(affine(relu(x), 2.0, 1.0), 2 * value + 1, "2 · relu(x) + 1");
        break;
      case 3:
        require(max(x), value, "max(x)");
        break;
      case 4:  // on a stream of its own, which is gone before its work may be done
        on_a_stream(x.device(), [&] { known.tensor = affine(x, 1.0, 3.0); });
        require(known.tensor, value + 3, "x + 3 on a stream");
        break;
      case 5:
        shelf_.put(place + 5, {x.to(device), value});
        break;
      case 6:
        require(x.slice(0, 0, Tensor::kEnd, 3).flip(0).clone(), value, "a stepped copy");
        break;
      case 7:
        replay(x, value);
        break;
      case 8:
        trim_memory(device);
        break;
      case 9:
        set_memory_cap(device, below(2) == 0 ? 0 : int64_t{1} << (18 + below(6)));
        break;
      case 10:
        require(softmax(Tensor::full({4, 8}, value, DType::f32, device)), 0.125f, "softmax of what is all alike");
        break;
      case 11: {
        const Tensor mine = x.clone();
        mine.fill_(-1);
        mine.slice(0, 0, 1).copy_(x.slice(0, 0, 1));
        require(mine.slice(0, 0, 1), value, "what was copied in");
        require(mine.slice(0, 1), -1, "what was filled");
        break;
      }
    }
  }

  static void on_a_stream(Device device, const std::function<void()>& work) {
    const Stream stream(device);
    const StreamScope scope(stream);
    work();
  }

  void replay(const Tensor& x, float value) {
    const Tensor total = Tensor::zeros(x.shape(), DType::f32, x.device());
    Tensor doubled;
    const Graph graph = capture(x.device(), [&] {
      doubled = add(x, x);
      total.copy_(add(total, doubled));
    });
    graph.replay();
    on_a_stream(x.device(), [&] { graph.replay(); });
    require(total, 4 * value, "a graph replayed twice");
  }

  const Options& options_;
  Shelf shelf_;
  std::mutex mutex_;
  std::atomic<bool> failed_{false};
  std::atomic<int64_t> calls_{0}, refused_{0};
};

}  // namespace
}  // namespace ashlar::fuzz

int main(int count, char** arguments) {
  const auto options = ashlar::fuzz::Options::parse(count, arguments,
                                                    "Threads making, sharing and dropping tensors, streams and graphs");
  return ashlar::fuzz::Storm(options).blow() ? 0 : 1;
}
