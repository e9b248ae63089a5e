#include "nn/data/data_loader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "nn/data/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "DataLoader";

/// 64 bits of Philox's block of these two numbers under the seed: distinct streams for distinct numbers.
uint64_t seed_of(uint64_t seed, uint64_t epoch, uint64_t index) {
  const auto block = Random::philox({static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32),
                                     static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)},
                                    seed);
  return block[0] | uint64_t{block[1]} << 32;
}

}  // namespace

Random Dataset::Draw::of(int64_t index) const { return Random(seed_of(seed_, epoch_, static_cast<uint64_t>(index))); }

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  if (tensors_.empty()) throw ValueError("TensorDataset", "no tensors", "at least one", "Pass inputs and targets");
  for (Tensor& tensor : tensors_) {
    if (tensor.device().kind != DeviceKind::cpu) {
      throw DeviceError("TensorDataset", tensor.str(), "tensors on the CPU", "Move them with to(Device::cpu())");
    }
    if (tensor.rank() == 0 || tensor.size(0) != tensors_[0].size(0)) {
      throw ShapeError("TensorDataset", tensors_[0].str() + " and " + tensor.str(), "equal sizes of axis 0",
                       "Axis 0 counts the samples");
    }
    tensor = tensor.contiguous();
  }
}

std::vector<Tensor> TensorDataset::batch(std::span<const int64_t> indices, const Draw& /*draw*/) const {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors_) {
    Shape shape = tensor.shape();
    const auto row = static_cast<size_t>(size() == 0 ? 0 : tensor.bytes() / size());
    shape[0] = static_cast<int64_t>(indices.size());
    const Tensor part = Tensor::empty(shape, tensor.dtype());
    if (part.numel() > 0) {
      const auto* from = static_cast<const uint8_t*>(tensor.data());
      auto* to = static_cast<uint8_t*>(part.data());
      for (size_t i = 0; i < indices.size(); i++) {
        std::memcpy(to + i * row, from + static_cast<size_t>(indices[i]) * row, row);
      }
    }
    result.push_back(part);
  }
  return result;
}

DataLoader::DataLoader(const Dataset& data, const DataLoaderOptions& options) : data_(data), options_(options) {
  if (options.batch <= 0 || options.workers <= 0 || options.prefetch <= 0) {
    throw ValueError(kName,
                     "batch " + std::to_string(options.batch) + ", workers " + std::to_string(options.workers) +
                         ", prefetch " + std::to_string(options.prefetch),
                     "positive numbers", "Start with {.batch = 128}");
  }
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

// Fisher and Yates. Every epoch has a generator of its own, so that any epoch can be repeated alone.
std::vector<int64_t> DataLoader::order() const {
  std::vector<int64_t> indices(static_cast<size_t>(data_.size()));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  if (!options_.shuffle) return indices;
  Random random(seed_of(options_.seed, epoch_, ~uint64_t{0}));  // an index that no sample has
  for (size_t i = indices.size(); i > 1; i--) std::swap(indices[i - 1], indices[random.below(i)]);
  return indices;
}

}  // namespace ashlar::nn
