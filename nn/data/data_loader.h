// Batches of any data set, made by threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "nn/data/batch_source.h"
#include "nn/data/dataset.h"
#include "runtime/device/stream.h"

namespace ashlar::nn {

struct DataLoaderOptions {
  int64_t batch = 1;
  bool shuffle = false;
  uint64_t seed = 0;
  int workers = 1;         ///< threads that make batches
  int64_t prefetch = 2;    ///< batches that each makes ahead
  bool drop_last = false;  ///< no smaller batch at the end
  /// Where batches are given. The threads copy them there on a stream of their own, through page-locked memory on CUDA,
  /// while the device works.
  Device device = {};
};

/// One pass over the data per start(). Which batch comes when depends on seed, epoch and position only. next() is for
/// one thread; the destructor may interrupt an epoch.
class DataLoader : public BatchSource {
 public:
  /// The data set must outlive the loader. Throws ValueError unless batch, workers and prefetch are positive,
  /// DeviceError when the device isn't there.
  DataLoader(const Dataset& data, const DataLoaderOptions& options);
  ~DataLoader() override;
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Begins epoch number `epoch` at its batch number `first`: where an interrupted training was.
  void start(uint64_t epoch, int64_t first = 0) override;
  /// The next batch; nothing at the end of the epoch or before start(). Rethrows what the data set threw.
  std::optional<std::vector<Tensor>> next() override;

  /// Of an epoch.
  int64_t batches() const override;
  uint64_t epoch() const { return epoch_; }
  /// Number of the batch that next() gives.
  int64_t position() const override { return position_; }

 private:
  void stop();
  void work();
  std::vector<int64_t> order() const;

  const Dataset& data_;
  const DataLoaderOptions options_;
  std::optional<Stream> stream_;  ///< of the copies to the device; none on the CPU
  uint64_t epoch_ = 0;
  int64_t position_ = 0;
  std::vector<int64_t> order_;
  std::vector<std::thread> workers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::vector<Tensor>> ready_;  // guarded by mutex_, as all below
  int64_t claimed_ = 0;                           // the next batch to be made
  int64_t given_ = 0;                             // position_, for the workers
  bool stopping_ = false;
  std::exception_ptr failure_;
};

}  // namespace ashlar::nn
