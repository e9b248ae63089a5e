// Shapes that reach the branches of row kernels for many rows.
#pragma once

#include <string>

#include "runtime/tensor/shape.h"

namespace ashlar::conformance {

/// On a GPU a lane has several of the short ones, or each of them one lane or four; long ones have a block each.
inline const Shape kManyRows[] = {{16400, 3},
                                  {16400, 6},
                                  {16400, 13},
                                  {16400, 18},
                                  {16400, 34},
                                  {16400, 99},
                                  {4200, 61},
                                  {4200, 85},
                                  {33000, 3},
                                  {33000, 7},
                                  {17, 9001},
                                  {16401, 4},
                                  {4097, 8},
                                  {4097, 515},
                                  {2, 70001},
                                  // As runs of vectors, each shape full or with threads left over.
                                  {5, 381},
                                  {5, 382},
                                  {5, 765},
                                  {5, 766},
                                  {5, 1149},
                                  {5, 1150},
                                  {5, 2045},
                                  {5, 2046},
                                  {5, 4093},
                                  {5, 4094},
                                  {5, 6141},
                                  {5, 6142},
                                  {17, 9213},
                                  {18, 9214},
                                  {19, 16381}};
/// Of a view, whose rows aren't runs of vectors.
inline const Shape kRowsOfViews[] = {{5, 701}, {5, 1501}, {5, 3001}, {5, 8001}, {17, 9001}, {3, 12001}};

inline std::string name_of_rows(const Shape& shape) {
  return std::to_string(shape[0]) + "_rows_of_" + std::to_string(shape[1]);
}

}  // namespace ashlar::conformance
