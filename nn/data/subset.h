// Parts of a data set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/data/dataset.h"

namespace ashlar::nn {

/// Some samples of a data set, which must outlive it. What is drawn for a sample is what the whole set draws for it.
class Subset : public Dataset {
 public:
  /// Throws IndexError on an index that the data set hasn't.
  Subset(const Dataset& data, std::vector<int64_t> indices);
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  const std::vector<int64_t>& indices() const { return indices_; }
  std::vector<Tensor> batch(std::span<const int64_t> indices, const Draw& draw) const override;

 private:
  const Dataset& data_;
  std::vector<int64_t> indices_;
};

/// Subsets of these lengths, every sample in one of them by chance; the same seed gives the same. The lengths are
/// numbers of samples that add up to data.size(), or parts of it that add up to 1 (of which what rounding leaves goes
/// to the first subsets, one each). Throws ValueError otherwise.
std::vector<Subset> random_split(const Dataset& data, const std::vector<double>& lengths, uint64_t seed = 0);

}  // namespace ashlar::nn
