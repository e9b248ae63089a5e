// A product of few results and many terms leaves a device idle: its terms are dealt over parts, which are products of
// their own, and the parts are added up.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace ashlar::forms {

/// The length of each part of k (but for a shorter last one), a positive number, where an m×n product of k terms shall
/// be one of parts by the plans "split_k" and "at_once" (runtime/launch/plans.h); else 0. On a GPU the choice is by a
/// model of its multiprocessors; `along_k`: both operands lie so in memory, in aligned quads. On the CPU it depends on
/// the sizes alone, so that one call gives the same bits on any number of threads.
int64_t length_of_parts(const char* kernel, int64_t m, int64_t n, int64_t k, bool along_k, Device device);

}  // namespace ashlar::forms
