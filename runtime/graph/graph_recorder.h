// What a stream is told while its work is captured into a graph, and what a driver makes of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/device/stream.h"
#include "runtime/tensor/storage.h"

namespace ashlar::detail {

class StreamState;

/// A graph as the device's driver holds it.
class DriverGraph {
 public:
  virtual ~DriverGraph() = default;
  /// Throws DriverError.
  virtual void replay(StreamState& stream) = 0;
};

/// Captures a graph's work, and owns the memory of what is made meanwhile; nothing ever runs on it.
struct GraphQueue {
  explicit GraphQueue(Device device);
  ~GraphQueue();
  GraphQueue(const GraphQueue&) = delete;
  GraphQueue& operator=(const GraphQueue&) = delete;

  Stream stream;
};

/// A storage that captured work uses.
struct GraphUse {
  std::shared_ptr<Storage> storage;
  bool written;
};

/// Belongs to one capture; the capturing stream points to it. Used by the capturing thread only.
class GraphRecorder {
 public:
  /// One piece of work, run again on whatever stream the graph is replayed on.
  using Step = std::function<void(StreamState& stream)>;

  GraphRecorder(StreamState& stream, bool driver_records) : stream_(stream), driver_records_(driver_records) {}
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  /// True when the driver itself writes down what is submitted (CUDA); otherwise the runtime adds steps instead of
  /// running them.
  bool driver_records() const { return driver_records_; }
  void add(Step step) { steps_.push_back(std::move(step)); }

  /// Storage from elsewhere is kept alive. The capturing stream's own goes back to its pool as soon as the captured
  /// code drops it, and its place serves again: replays keep the order.
  void use(const std::shared_ptr<Storage>& storage, bool written);

  /// Captures what `work` does on a second queue of the graph, which waits for all captured so far. What is captured
  /// later waits for it as soon as it uses what the work writes, or writes what it uses (Storage keeps the same order
  /// between streams). Called within such work, it is `work()`. The driver records.
  void beside(const std::function<void()>& work);
  /// All that is captured from now on comes after the second queue's work.
  void join();
  /// The second queue; null where nothing asked for one.
  const std::shared_ptr<GraphQueue>& beside_queue() const { return beside_queue_; }

  void count_launch() noexcept { ++launches_; }
  void count_copy(int64_t bytes) noexcept { bytes_copied_ += bytes; }
  int64_t launches() const { return launches_ + (beside_ ? beside_->launches_ : 0); }
  int64_t bytes_copied() const { return bytes_copied_ + (beside_ ? beside_->bytes_copied_ : 0); }

  std::vector<Step> take_steps() { return std::move(steps_); }
  /// The storages that still exist: what a replay has to order against other streams.
  std::vector<GraphUse> uses() const;

 private:
  struct Use {
    std::shared_ptr<Storage> kept;
    std::weak_ptr<Storage> watched;
    bool written;
  };
  using Uses = std::unordered_map<const Storage*, Use>;
  static Use& use_in(Uses& uses, const std::shared_ptr<Storage>& storage, bool written);

  StreamState& stream_;
  const bool driver_records_;
  std::vector<Step> steps_;
  Uses uses_;
  Uses beside_uses_;  // of the second queue's work that the first hasn't waited for
  std::shared_ptr<GraphQueue> beside_queue_;
  std::unique_ptr<GraphRecorder> beside_;
  GraphRecorder* first_ = nullptr;  // of a second queue's recorder: the first's
  int64_t launches_ = 0;
  int64_t bytes_copied_ = 0;
};

}  // namespace ashlar::detail
