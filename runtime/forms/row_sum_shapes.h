// How the gradients of normalisations share rows among a GPU's threads: known to their schedule (schedules/row_sums.h),
// which has a plan for each shape, and to the operator, which deals rows out to as many parts as are at work at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/device/device.h"
#include "runtime/support/rounding.h"

namespace ashlar::forms {

/// A warp, or a block, goes through the rows of a part. A row's column ((step · threads) + thread) · vector + element
/// is a thread's; what a row is too short for loads what another thread does.
struct RowSumShape {
  const char* name;
  int threads, steps, vector;
  int members = 1;    ///< rows that are under way at once
  int warps = 0;      ///< in a block, each with a part of its own; 0: a block for each part
  int registers = 0;  ///< at most so many for a thread; 0: any number
  int at_work = 512;  ///< threads that a multiprocessor has at once
  constexpr int columns() const { return threads * steps * vector; }
};

// Narrow ones first; those for rows of any length and alignment after those of whole vectors. What a row's shape isn't
// filled by is work for nothing: 131072 to 4096 rows of 64 to 8191 columns on an H200 say which there are.
inline constexpr RowSumShape kRowSumShapesOfCuda[] = {
    {.name = "warp_of_32", .threads = 32, .steps = 1, .vector = 1, .members = 4, .warps = 8, .registers = 128},
    {.name = "warp_of_64", .threads = 32, .steps = 1, .vector = 2, .members = 4, .warps = 8, .registers = 128},
    {.name = "warp_of_128", .threads = 32, .steps = 1, .vector = 4, .members = 4, .warps = 8, .registers = 128},
    {.name = "warp_of_256", .threads = 32, .steps = 2, .vector = 4, .members = 2, .warps = 8, .registers = 128},
    {.name = "warp_of_512", .threads = 32, .steps = 4, .vector = 4, .warps = 8, .registers = 128},
    {.name = "warp_of_640", .threads = 32, .steps = 5, .vector = 4, .warps = 4, .registers = 200},
    {.name = "warp_of_768", .threads = 32, .steps = 6, .vector = 4, .warps = 4, .registers = 255},
    {.name = "warp_of_1024", .threads = 32, .steps = 8, .vector = 4, .warps = 4, .registers = 255},
    {.name = "block_of_1536", .threads = 128, .steps = 3, .vector = 4, .registers = 104},
    {.name = "block_of_2048", .threads = 128, .steps = 4, .vector = 4, .registers = 128},
    {.name = "block_of_3072", .threads = 256, .steps = 3, .vector = 4, .registers = 104},
    {.name = "block_of_4096", .threads = 256, .steps = 4, .vector = 4, .registers = 128},
    {.name = "block_of_6144", .threads = 512, .steps = 3, .vector = 4, .registers = 104},
    {.name = "block_of_8192", .threads = 512, .steps = 4, .vector = 4, .registers = 128},
    {.name = "odd_warp_of_64", .threads = 32, .steps = 2, .vector = 1, .members = 4, .warps = 8, .registers = 128},
    {.name = "odd_warp_of_128", .threads = 32, .steps = 4, .vector = 1, .members = 2, .warps = 8, .registers = 128},
    {.name = "odd_warp_of_256", .threads = 32, .steps = 8, .vector = 1, .warps = 8, .registers = 80},
    {.name = "odd_warp_of_384", .threads = 32, .steps = 12, .vector = 1, .warps = 8, .registers = 104},
    {.name = "odd_warp_of_512", .threads = 32, .steps = 16, .vector = 1, .warps = 8, .registers = 128},
    {.name = "odd_warp_of_640", .threads = 32, .steps = 20, .vector = 1, .warps = 4, .registers = 200},
    {.name = "odd_warp_of_768", .threads = 32, .steps = 24, .vector = 1, .warps = 4, .registers = 255},
    {.name = "odd_warp_of_1024", .threads = 32, .steps = 32, .vector = 1, .warps = 4, .registers = 255},
    {.name = "odd_block_of_1280", .threads = 256, .steps = 5, .vector = 1, .registers = 72, .at_work = 768},
    {.name = "odd_block_of_1536", .threads = 256, .steps = 6, .vector = 1, .registers = 72, .at_work = 768},
    {.name = "odd_block_of_1792", .threads = 256, .steps = 7, .vector = 1, .registers = 80, .at_work = 768},
    {.name = "odd_block_of_2048", .threads = 256, .steps = 8, .vector = 1, .registers = 80, .at_work = 768},
    {.name = "odd_block_of_2304", .threads = 256, .steps = 9, .vector = 1, .registers = 96},
    {.name = "odd_block_of_2560", .threads = 256, .steps = 10, .vector = 1, .registers = 96},
    {.name = "odd_block_of_3072", .threads = 256, .steps = 12, .vector = 1, .registers = 104},
    {.name = "odd_block_of_4096", .threads = 1024, .steps = 4, .vector = 1, .registers = 64, .at_work = 1024},
    {.name = "odd_block_of_5120", .threads = 1024, .steps = 5, .vector = 1, .registers = 64, .at_work = 1024},
    {.name = "odd_block_of_6144", .threads = 1024, .steps = 6, .vector = 1, .registers = 64, .at_work = 1024},
    {.name = "odd_block_of_8192", .threads = 1024, .steps = 8, .vector = 1, .registers = 64, .at_work = 1024},
};
// OpenCL has no lanes: narrow rows have small work-groups of their own, which meet once for a few of them.
inline constexpr RowSumShape kRowSumShapesOfOpenCl[] = {
    {.name = "block_of_32", .threads = 32, .steps = 1, .vector = 1, .members = 4},
    {.name = "block_of_128", .threads = 32, .steps = 1, .vector = 4, .members = 4},
    {.name = "block_of_256", .threads = 64, .steps = 1, .vector = 4, .members = 2},
    {.name = "block_of_512", .threads = 128, .steps = 1, .vector = 4, .members = 2},
    {.name = "block_of_1024", .threads = 128, .steps = 2, .vector = 4},
    {.name = "block_of_1536", .threads = 128, .steps = 3, .vector = 4},
    {.name = "block_of_2048", .threads = 256, .steps = 2, .vector = 4},
    {.name = "block_of_3072", .threads = 256, .steps = 3, .vector = 4},
    {.name = "block_of_4096", .threads = 256, .steps = 4, .vector = 4},
    {.name = "odd_block_of_64", .threads = 32, .steps = 2, .vector = 1, .members = 4},
    {.name = "odd_block_of_128", .threads = 32, .steps = 4, .vector = 1, .members = 4},
    {.name = "odd_block_of_256", .threads = 64, .steps = 4, .vector = 1, .members = 2},
    {.name = "odd_block_of_384", .threads = 128, .steps = 3, .vector = 1, .members = 2},
    {.name = "odd_block_of_512", .threads = 128, .steps = 4, .vector = 1, .members = 2},
    {.name = "odd_block_of_768", .threads = 128, .steps = 6, .vector = 1},
    {.name = "odd_block_of_1024", .threads = 128, .steps = 8, .vector = 1},
    {.name = "odd_block_of_1536", .threads = 256, .steps = 6, .vector = 1},
    {.name = "odd_block_of_2048", .threads = 256, .steps = 8, .vector = 1},
    {.name = "odd_block_of_3072", .threads = 256, .steps = 12, .vector = 1},
    {.name = "odd_block_of_4096", .threads = 256, .steps = 16, .vector = 1},
    {.name = "odd_block_of_8192", .threads = 256, .steps = 32, .vector = 1},
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
  return detail::round_up(detail::over(rows, most), kMembers);
}

}  // namespace ashlar::forms
