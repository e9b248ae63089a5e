#include "nn/data/subset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "nn/data/host_memory.h"
#include "nn/data/shuffle.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

std::vector<int64_t> counts_of(const std::vector<double>& lengths, int64_t size) {
  const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  const bool are_counts =
      std::ranges::all_of(lengths, [](double n) { return n >= 0 && n == std::floor(n); }) && sum == double(size);
  const bool are_parts = std::ranges::all_of(lengths, [](double p) { return p >= 0; }) && std::abs(sum - 1) < 1e-6;
  if (!are_counts && !are_parts) {
    throw ValueError("random_split", "lengths that add up to " + std::to_string(sum),
                     std::to_string(size) + " samples, or parts that add up to 1",
                     "{0.9, 0.1} splits off a tenth for validation");
  }
  std::vector<int64_t> counts;
  int64_t left = size;
  for (const double length : lengths) {
    // A part that is a whole number of samples but for rounding is one.
    const auto count = static_cast<int64_t>(are_counts ? length : std::floor(length * double(size) + 1e-6));
    counts.push_back(std::min(count, left));
    left -= counts.back();
  }
  for (size_t i = 0; left > 0; i = (i + 1) % counts.size(), left--) counts[i]++;
  return counts;
}

}  // namespace

Subset::Subset(const Dataset& data, std::vector<int64_t> indices) : data_(data), indices_(std::move(indices)) {
  check_indices("Subset", indices_, data.size());
}

std::vector<Tensor> Subset::batch(std::span<const int64_t> indices, const Draw& draw) const {
  check_indices("Subset", indices, size());
  return with_host_memory("Subset", "a batch", [&] {
    std::vector<int64_t> whole;
    for (const int64_t index : indices) whole.push_back(indices_[static_cast<size_t>(index)]);
    return data_.batch(whole, draw);
  });
}

std::vector<Subset> random_split(const Dataset& data, const std::vector<double>& lengths, uint64_t seed) {
  return with_host_memory("random_split", "the samples' order", [&] {
    const std::vector<int64_t> counts = counts_of(lengths, data.size());
    const std::vector<int64_t> order = shuffled(data.size(), Random(seed));
    std::vector<Subset> parts;
    auto first = order.begin();
    for (const int64_t count : counts) {
      parts.emplace_back(data, std::vector<int64_t>(first, first + count));
      first += count;
    }
    return parts;
  });
}

}  // namespace ashlar::nn
