// A product of few results and many terms leaves a device idle: its terms are dealt over parts, which are products of
// their own, and the parts are added up.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "runtime/launch/kernel.h"

namespace ashlar::forms {

struct PartsOfSums {
  int64_t length = 0;        ///< of each part of k but for a shorter last one; 0: one product
  double microseconds = -1;  ///< what the product takes so by the model; -1: there's none
};

/// What the kernel's plans take by their model for so many parts of so many terms each; -1: there's no model.
using PartsModel = std::function<double(int64_t parts, int64_t terms)>;

/// A product of fewer terms is always one.
inline constexpr int64_t kLeastTermsOfParts = 128;

/// Whether the sum of the parts has the `rest` of k as well, a few terms of each of m·n results, in place of one more
/// kernel for a part of its own. On GPUs.
constexpr bool is_rest_in_sum(int64_t results, int64_t rest, Device device) {
  constexpr int64_t kMostTerms = 32, kMostInAll = 1 << 21;
  return device.kind != DeviceKind::cpu && rest > 0 && rest <= kMostTerms && results <= kMostInAll / rest;
}

/// How the operands lie in memory.
struct PartsLayout {
  bool along_k;                      ///< both along k, in aligned quads
  bool is_few;                       ///< there are so few rows or columns that plans of their own serve them on CUDA
  std::span<const int64_t> numbers;  ///< at most ten: what the model's answers depend on beside m, n, k and the device
};

/// Whether an m×n product of k terms shall be one of parts, by the plans "split_k" and "at_once"
/// (runtime/launch/plans.h). The choice is by a model, which on the CPU depends on sizes and strides alone, so that one
/// call gives the same bits on any number of threads.
PartsOfSums parts_of_sums(const KernelInfo& kernel, int64_t m, int64_t n, int64_t k, const PartsLayout& layout,
                          Device device, const PartsModel& model);

}  // namespace ashlar::forms
