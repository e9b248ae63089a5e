// The radix sort of rows of u32 keys, which argsort and scatter_add stand on (generators/argsort.cpp).
#pragma once

#include "runtime/tensor/tensor.h"

namespace ashlar {

/// Dense [rows, n]: keys of u32 and, for each, where it stood before (i32).
struct SortedRows {
  Tensor keys;
  Tensor order;
};

/// Sorts each row by bits [first_bit, first_bit + bits) of its keys, equal ones in their order. Writes over `rows`.
SortedRows sort_rows(SortedRows rows, int first_bit, int bits);

}  // namespace ashlar
