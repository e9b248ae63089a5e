#include "nn/data/dataset.h"

#include <cstring>
#include <string>
#include <utility>

#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// 64 bits of Philox's block of these two numbers under the seed: distinct streams for distinct numbers.
uint64_t seed_of(uint64_t seed, uint64_t epoch, uint64_t index) {
  const auto block = Random::philox({static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32),
                                     static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)},
                                    seed);
  return block[0] | uint64_t{block[1]} << 32;
}

}  // namespace

Random Dataset::Draw::of(int64_t index) const { return Random(seed_of(seed_, epoch_, static_cast<uint64_t>(index))); }

Dataset::Draw Dataset::Draw::inner() const { return Draw(of(-2).seed(), epoch_); }  // an index that no sample has

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
  check_indices("TensorDataset", indices, size());
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

void check_indices(const char* operation, std::span<const int64_t> indices, int64_t size) {
  for (const int64_t index : indices) {
    if (index >= 0 && index < size) continue;
    throw IndexError(operation, "sample " + std::to_string(index), "0 to " + std::to_string(size - 1),
                     "Ask for samples that the data set has");
  }
}

}  // namespace ashlar::nn
