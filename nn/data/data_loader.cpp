#include "nn/data/data_loader.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "nn/data/host_memory.h"
#include "nn/data/shuffle.h"
#include "runtime/support/error.h"
#include "runtime/tensor/upload.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "DataLoader";

}  // namespace

DataLoader::DataLoader(const Dataset& data, const DataLoaderOptions& options) : data_(data), options_(options) {
  if (options.batch <= 0 || options.workers <= 0 || options.prefetch <= 0) {
    throw ValueError(kName,
                     "batch " + std::to_string(options.batch) + ", workers " + std::to_string(options.workers) +
                         ", prefetch " + std::to_string(options.prefetch),
                     "positive numbers", "Start with {.batch = 128}");
  }
  if (options.device.kind != DeviceKind::cpu) stream_.emplace(options.device);
}

DataLoader::~DataLoader() { stop(); }

int64_t DataLoader::batches() const {
  return (data_.size() + (options_.drop_last ? 0 : options_.batch - 1)) / options_.batch;
}

void DataLoader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void DataLoader::start(uint64_t epoch, int64_t first) {
  stop();
  if (first < 0 || first > batches()) {
    throw ValueError(kName, "batch " + std::to_string(first), "0 to " + std::to_string(batches()),
                     "Start where position() was in an epoch of the same data");
  }
  epoch_ = epoch;
  position_ = claimed_ = given_ = first;
  ready_.clear();
  failure_ = nullptr;
  stopping_ = false;
  with_host_memory(kName, "an epoch's order and its threads", [&] {
    order_ = order();
    for (int i = 0; i < options_.workers; i++) workers_.emplace_back([this] { work(); });
  });
}

std::optional<std::vector<Tensor>> DataLoader::next() {
  if (workers_.empty() || position_ == batches()) return std::nullopt;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_.contains(position_) || failure_ != nullptr; });
  const auto found = ready_.find(position_);
  if (found == ready_.end()) std::rethrow_exception(failure_);
  std::vector<Tensor> batch = std::move(found->second);
  ready_.erase(found);
  given_ = ++position_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void DataLoader::work() {
  const Dataset::Draw draw(options_.seed, epoch_);
  const int64_t ahead = options_.prefetch * options_.workers;
  try {
    std::optional<Upload> upload;
    if (stream_) upload.emplace(*stream_);
    while (true) {
      int64_t mine = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || failure_ != nullptr || claimed_ < given_ + ahead; });
        if (stopping_ || failure_ != nullptr || claimed_ == batches()) return;
        mine = claimed_++;
      }
      const int64_t first = mine * options_.batch, count = std::min(options_.batch, data_.size() - first);
      std::vector<Tensor> batch = data_.batch({order_.data() + first, static_cast<size_t>(count)}, draw);
      if (upload) std::ranges::transform(batch, batch.begin(), std::ref(*upload));
      {
        const std::lock_guard lock(mutex_);
        with_host_memory(kName, "a batch", [&] { ready_.emplace(mine, std::move(batch)); });
      }
      changed_.notify_all();
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
    changed_.notify_all();
  }
}

// Every epoch has a generator of its own, so that any epoch can be repeated alone.
std::vector<int64_t> DataLoader::order() const {
  if (options_.shuffle) return shuffled(data_.size(), Dataset::Draw(options_.seed, epoch_).of(-1));  // no sample's
  std::vector<int64_t> indices(static_cast<size_t>(data_.size()));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

}  // namespace ashlar::nn
