#include "nn/data/loader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "nn/data/host_memory.h"
#include "nn/data/shuffle.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

BatchLoader::BatchLoader(const LabeledImages& data, const LoaderOptions& options)
    : data_{data.images.contiguous(), data.labels.contiguous()}, options_(options) {
  if (options.batch <= 0 || options.prefetch == 0) {
    throw ValueError("BatchLoader",
                     "batch " + std::to_string(options.batch) + ", prefetch " + std::to_string(options.prefetch),
                     "positive numbers", "Start with {.batch = 128}");
  }
}

BatchLoader::~BatchLoader() { stop(); }

void BatchLoader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (producer_.joinable()) producer_.join();
}

void BatchLoader::start(uint64_t epoch) {
  stop();
  ready_.clear();
  stopping_ = false;
  finished_ = false;
  failure_ = nullptr;
  with_host_memory("BatchLoader", "a thread", [&] { producer_ = std::thread([this, epoch] { produce(epoch); }); });
}

std::optional<Batch> BatchLoader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || finished_; });
  if (!ready_.empty()) {
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  return std::nullopt;
}

void BatchLoader::produce(uint64_t epoch) {
  std::exception_ptr failure;
  try {
    const std::vector<int64_t> indices =
        with_host_memory("BatchLoader", "an epoch's order", [&] { return order(epoch); });
    const auto total = static_cast<int64_t>(indices.size());
    for (int64_t first = 0; first < total; first += options_.batch) {
      Batch batch = gather(indices.data() + first, std::min(options_.batch, total - first));
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || ready_.size() < options_.prefetch; });
      if (stopping_) break;
      with_host_memory("BatchLoader", "a batch", [&] { ready_.push_back(std::move(batch)); });
      lock.unlock();
      changed_.notify_all();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    failure_ = std::move(failure);
  }
  changed_.notify_all();
}

// Every epoch has a generator of its own, so that any epoch can be repeated alone.
std::vector<int64_t> BatchLoader::order(uint64_t epoch) const {
  // An odd constant: distinct seeds per epoch.
  if (options_.shuffle) return shuffled(data_.size(), Random(options_.seed + epoch * 0x9E3779B97F4A7C15U));
  std::vector<int64_t> indices(static_cast<size_t>(data_.size()));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

Batch BatchLoader::gather(const int64_t* indices, int64_t count) const {
  const int64_t pixels = data_.pixels();
  const Batch batch{Tensor::empty({count, pixels}, DType::u8), Tensor::empty({count}, DType::i64)};
  const auto* from = static_cast<const uint8_t*>(data_.images.data());
  const auto* labels = static_cast<const uint8_t*>(data_.labels.data());
  auto* to = static_cast<uint8_t*>(batch.images.data());
  auto* to_labels = static_cast<int64_t*>(batch.labels.data());
  for (int64_t i = 0; i < count; i++) {
    std::memcpy(to + i * pixels, from + indices[i] * pixels, static_cast<size_t>(pixels));
    to_labels[i] = labels[indices[i]];
  }
  return batch;
}

}  // namespace ashlar::nn
