// Batches of labelled images in random order, made ready by a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "nn/data/labeled_images.h"

namespace ashlar::nn {

/// On the CPU: images u8 [batch, pixels], labels i64 [batch].
struct Batch {
  Tensor images;
  Tensor labels;
  int64_t size() const { return images.size(0); }
};

struct LoaderOptions {
  int64_t batch = 128;
  bool shuffle = true;
  uint64_t seed = 0;
  size_t prefetch = 4;  ///< batches made ahead, at least 1
};

/// One pass over the data per start(). The order depends on seed and epoch only. The last batch holds what is left.
/// next() is for one thread; the destructor may interrupt an epoch.
class BatchLoader {
 public:
  /// Throws ValueError unless batch and prefetch are positive. Keeps views of the data, no copy.
  BatchLoader(const LabeledImages& data, const LoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// Begins (or begins anew) epoch number `epoch`.
  void start(uint64_t epoch);
  /// The next batch; nothing at the end of the epoch or before start(). Rethrows what the thread ran into.
  std::optional<Batch> next();

  int64_t batches() const { return (data_.size() + options_.batch - 1) / options_.batch; }
  int64_t samples() const { return data_.size(); }

 private:
  void stop();
  void produce(uint64_t epoch);
  std::vector<int64_t> order(uint64_t epoch) const;
  Batch gather(const int64_t* indices, int64_t count) const;

  const LabeledImages data_;
  const LoaderOptions options_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;  // guarded by mutex_, as all below
  bool stopping_ = false;
  bool finished_ = true;
  std::exception_ptr failure_;
  std::thread producer_;  // the consumer's only
};

}  // namespace ashlar::nn
