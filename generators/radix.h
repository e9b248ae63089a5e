// What the kernels of the radix sort and the operator that calls them have to agree on (operators/argsort.cpp).
#pragma once

namespace ashlar {

/// A pass sorts by one digit of the keys. A row's keys are cut into blocks, each counted and moved by one writer.
struct RadixPass {
  int bits;   ///< of a digit
  int block;  ///< keys
  constexpr int digits() const { return 1 << bits; }
};

/// On the CPU a task counts in a table of its own, which the first-level cache holds. On a GPU a thread has its block
/// in registers, which can't be indexed: few keys, compared with each other.
constexpr RadixPass radix_pass(bool is_gpu) { return is_gpu ? RadixPass{4, 16} : RadixPass{8, 8192}; }

}  // namespace ashlar
