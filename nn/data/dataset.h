// Data sets of any tensors: samples by their index.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/tensor/random.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// Samples that can be asked for by their index, on the CPU.
class Dataset {
 public:
  /// Randomness of a sample: the same for the same seed, epoch and index, whatever thread asks and in which order.
  class Draw {
   public:
    Draw(uint64_t seed, uint64_t epoch) : seed_(seed), epoch_(epoch) {}
    Random of(int64_t index) const;
    /// Another source, as good as independent of this one: for the data set inside of one that draws too.
    Draw inner() const;

   private:
    uint64_t seed_, epoch_;
  };

  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// The samples at these indices, a tensor for each of their parts (images, labels), samples along axis 0. Called by
  /// several threads at once. What it makes of chance (crops, flips) it draws from `draw.of(index)`. Throws IndexError
  /// on an index outside of [0, size()).
  virtual std::vector<Tensor> batch(std::span<const int64_t> indices, const Draw& draw) const = 0;
};

/// Rows of tensors on the CPU, each of which has as many.
class TensorDataset : public Dataset {
 public:
  /// Keeps views, no copies, where the tensors are dense. Throws ValueError without a tensor, ShapeError unless all
  /// have the same size(0), DeviceError unless they are on the CPU.
  explicit TensorDataset(std::vector<Tensor> tensors);
  int64_t size() const override { return tensors_[0].size(0); }
  std::vector<Tensor> batch(std::span<const int64_t> indices, const Draw& draw) const override;

 private:
  std::vector<Tensor> tensors_;
};

/// For data sets: throws IndexError naming `operation` unless all indices lie in [0, size).
void check_indices(const char* operation, std::span<const int64_t> indices, int64_t size);

}  // namespace ashlar::nn
