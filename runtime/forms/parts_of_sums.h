// A product of few results and many terms leaves a device idle: its terms are dealt over parts, which are products of
// their own, and the parts are added up.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/device/device.h"

namespace ashlar::forms {

struct PartsOfSums {
  int64_t length = 0;        ///< of each part of k but for a shorter last one; 0: one product
  double microseconds = -1;  ///< what the parts take by the model; -1: there's none
};

/// Whether an m×n product of k terms shall be one of parts, by the plans "split_k" and "at_once"
/// (runtime/launch/plans.h). On a GPU the choice is by a model of its multiprocessors; `along_k`: both operands lie so
/// in memory, in aligned quads; `own_plans`: what the kernel's plans take by their model, or -1. On the CPU it depends
/// on the sizes alone, so that one call gives the same bits on any number of threads.
PartsOfSums parts_of_sums(const char* kernel, int64_t m, int64_t n, int64_t k, bool along_k, Device device,
                          const std::function<double()>& own_plans);

}  // namespace ashlar::forms
