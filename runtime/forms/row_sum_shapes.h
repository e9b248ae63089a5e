// How the gradients of normalisations share rows among a GPU's threads: known to their schedule (schedules/row_sums.h),
// which has a plan for each shape, and to the operator, which deals rows out to as many parts as are at work at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/device/device.h"

namespace ashlar::forms {

/// A warp, or a block, goes through the rows of a part. A row's column ((step · threads) + thread) · vector + element
/// is a thread's; what a row is too short for loads what another thread does.
struct RowSumShape {
  const char* name;
  int threads, steps, vector;
  int members = 1;    ///< of a warp's rows, how many are under way
  int warps = 0;      ///< in a block, each with a part of its own; 0: a block for each part
  int registers = 0;  ///< at most so many for a thread; 0: any number
  int at_work = 512;  ///< threads that a multiprocessor has at once
  constexpr int columns() const { return threads * steps * vector; }
};

// Narrow ones first; those for rows of any length and alignment after those of whole vectors. What a row's shape isn't
// filled by is work for nothing: 131072 to 4096 rows of 64 to 8191 columns on an H200 say which there are.
inline constexpr RowSumShape kRowSumShapesOfCuda[] = {{"warp_of_32", 32, 1, 1, 4, 8, 128},
                                                      {"warp_of_64", 32, 1, 2, 4, 8, 128},
                                                      {"warp_of_128", 32, 1, 4, 4, 8, 128},
                                                      {"warp_of_256", 32, 2, 4, 2, 8, 128},
                                                      {"warp_of_512", 32, 4, 4, 1, 8, 128},
                                                      {"warp_of_640", 32, 5, 4, 1, 4, 200},
                                                      {"warp_of_768", 32, 6, 4, 1, 4, 255},
                                                      {"warp_of_1024", 32, 8, 4, 1, 4, 255},
                                                      {"block_of_1536", 128, 3, 4, 1, 0, 104},
                                                      {"block_of_2048", 128, 4, 4, 1, 0, 128},
                                                      {"block_of_3072", 256, 3, 4, 1, 0, 104},
                                                      {"block_of_4096", 256, 4, 4, 1, 0, 128},
                                                      {"block_of_6144", 512, 3, 4, 1, 0, 104},
                                                      {"block_of_8192", 512, 4, 4, 1, 0, 128},
                                                      {"odd_warp_of_64", 32, 2, 1, 4, 8, 128},
                                                      {"odd_warp_of_128", 32, 4, 1, 2, 8, 128},
                                                      {"odd_warp_of_256", 32, 8, 1, 1, 8, 80},
                                                      {"odd_warp_of_384", 32, 12, 1, 1, 8, 104},
                                                      {"odd_warp_of_512", 32, 16, 1, 1, 8, 128},
                                                      {"odd_warp_of_640", 32, 20, 1, 1, 4, 200},
                                                      {"odd_warp_of_768", 32, 24, 1, 1, 4, 255},
                                                      {"odd_warp_of_1024", 32, 32, 1, 1, 4, 255},
                                                      {"odd_block_of_1280", 256, 5, 1, 1, 0, 72, 768},
                                                      {"odd_block_of_1536", 256, 6, 1, 1, 0, 72, 768},
                                                      {"odd_block_of_1792", 256, 7, 1, 1, 0, 80, 768},
                                                      {"odd_block_of_2048", 256, 8, 1, 1, 0, 80, 768},
                                                      {"odd_block_of_2304", 256, 9, 1, 1, 0, 96},
                                                      {"odd_block_of_2560", 256, 10, 1, 1, 0, 96},
                                                      {"odd_block_of_3072", 256, 12, 1, 1, 0, 104},
                                                      {"odd_block_of_4096", 1024, 4, 1, 1, 0, 64, 1024},
                                                      {"odd_block_of_5120", 1024, 5, 1, 1, 0, 64, 1024},
                                                      {"odd_block_of_6144", 1024, 6, 1, 1, 0, 64, 1024},
                                                      {"odd_block_of_8192", 1024, 8, 1, 1, 0, 64, 1024}};
// OpenCL has no lanes: narrow rows have small work-groups of their own.
inline constexpr RowSumShape kRowSumShapesOfOpenCl[] = {
    {"block_of_32", 32, 1, 1},         {"block_of_128", 32, 1, 4},      {"block_of_256", 64, 1, 4},
    {"block_of_1024", 128, 2, 4},      {"block_of_2048", 256, 2, 4},    {"block_of_4096", 256, 4, 4},
    {"odd_block_of_128", 32, 4, 1},    {"odd_block_of_512", 128, 4, 1}, {"odd_block_of_2048", 256, 8, 1},
    {"odd_block_of_8192", 256, 32, 1},
};

constexpr std::span<const RowSumShape> row_sum_shapes(DeviceKind kind) {
  if (kind == DeviceKind::opencl) return kRowSumShapesOfOpenCl;
  return kRowSumShapesOfCuda;
}

/// That of rows of so many columns, which `are_vectors`, each a whole number of aligned ones of 4, or not. Null: longer
/// than any.
constexpr const RowSumShape* row_sum_shape(DeviceKind kind, int64_t columns, bool are_vectors) {
  for (const RowSumShape& shape : row_sum_shapes(kind)) {
    if (columns <= shape.columns() && (shape.vector == 1 || are_vectors)) return &shape;
  }
  return nullptr;
}

/// So many rows a part that all threads at work begin one, a multiple of what a warp has under way.
constexpr int64_t rows_of_part(const RowSumShape& shape, int64_t rows, int64_t multiprocessors) {
  constexpr int64_t kMembers = 4;
  const int64_t most = std::max<int64_t>(1, multiprocessors * shape.at_work / shape.threads);
  return ((rows + most - 1) / most + kMembers - 1) / kMembers * kMembers;
}

}  // namespace ashlar::forms
