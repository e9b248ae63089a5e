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
  int members = 1;         ///< rows that are under way at once
  int warps = 0;           ///< in a block, each with a part of its own; 0: a block for each part
  int registers = 0;       ///< at most so many for a thread; 0: any number
  int at_work = 512;       ///< threads that a multiprocessor has at once
  bool in_shared = false;  ///< rows and what is of columns lie in shared memory, not in registers
  bool is_run = false;     ///< rows may begin inside a vector: all of them are one run of vectors
  constexpr int columns() const { return threads * steps * vector; }
  /// Of shared memory, for at most two matrices and what threads add up.
  constexpr int shared_bytes() const { return in_shared ? (3 * columns() + 4 * threads) * 4 : 0; }
};

// Narrow ones first; those for rows of any length after those of whole vectors, and those of any alignment last. What a
// row's shape isn't filled by is work for nothing, and several blocks have to be at work, so that one loads while the
// threads of another meet: 30 lengths from 64 to 12001 columns on an H200 say which shapes there are.
inline constexpr RowSumShape kRowSumShapesOfCuda[] = {
    {.name = "warp_of_32", .threads = 32, .steps = 1, .vector = 1, .members = 4, .warps = 8, .registers = 128},
    {.name = "warp_of_64", .threads = 32, .steps = 1, .vector = 2, .members = 4, .warps = 8, .registers = 128},
    {.name = "odd_warp_of_64", .threads = 32, .steps = 2, .vector = 1, .members = 4, .warps = 8, .registers = 128},
    {.name = "warp_of_128", .threads = 32, .steps = 1, .vector = 4, .members = 4, .warps = 8, .registers = 128},
    {.name = "warp_of_256", .threads = 32, .steps = 2, .vector = 4, .members = 2, .warps = 8, .registers = 128},
    {.name = "run_warp_of_128",
     .threads = 32,
     .steps = 1,
     .vector = 4,
     .members = 4,
     .warps = 8,
     .registers = 128,
     .is_run = true},
    {.name = "run_warp_of_256",
     .threads = 32,
     .steps = 2,
     .vector = 4,
     .members = 2,
     .warps = 8,
     .registers = 128,
     .is_run = true},
    {.name = "run_warp_of_384", .threads = 32, .steps = 3, .vector = 4, .warps = 8, .registers = 128, .is_run = true},
    {.name = "run_block_of_512",
     .threads = 64,
     .steps = 2,
     .vector = 4,
     .registers = 64,
     .at_work = 2048,
     .is_run = true},
    {.name = "run_warp_of_640",
     .threads = 32,
     .steps = 5,
     .vector = 4,
     .warps = 4,
     .registers = 168,
     .at_work = 384,
     .is_run = true},
    {.name = "run_block_of_768",
     .threads = 96,
     .steps = 2,
     .vector = 4,
     .registers = 80,
     .at_work = 768,
     .is_run = true},
    {.name = "run_block_of_1024",
     .threads = 128,
     .steps = 2,
     .vector = 4,
     .registers = 64,
     .at_work = 1024,
     .is_run = true},
    {.name = "run_block_of_1536",
     .threads = 128,
     .steps = 3,
     .vector = 4,
     .registers = 96,
     .at_work = 640,
     .is_run = true},
    {.name = "run_block_of_2048",
     .threads = 256,
     .steps = 2,
     .vector = 4,
     .registers = 64,
     .at_work = 1024,
     .is_run = true},
    {.name = "run_block_of_2304",
     .threads = 192,
     .steps = 3,
     .vector = 4,
     .registers = 96,
     .at_work = 576,
     .is_run = true},
    {.name = "run_block_of_2560",
     .threads = 320,
     .steps = 2,
     .vector = 4,
     .registers = 64,
     .at_work = 960,
     .is_run = true},
    {.name = "run_block_of_3072", .threads = 256, .steps = 3, .vector = 4, .registers = 96, .is_run = true},
    {.name = "run_block_of_3840",
     .threads = 320,
     .steps = 3,
     .vector = 4,
     .registers = 96,
     .at_work = 640,
     .is_run = true},
    {.name = "run_block_of_4096", .threads = 256, .steps = 4, .vector = 4, .registers = 128, .is_run = true},
    {.name = "run_block_of_4608",
     .threads = 384,
     .steps = 3,
     .vector = 4,
     .registers = 80,
     .at_work = 768,
     .is_run = true},
    {.name = "run_block_of_5120",
     .threads = 320,
     .steps = 4,
     .vector = 4,
     .registers = 96,
     .at_work = 640,
     .is_run = true},
    {.name = "run_block_of_6144",
     .threads = 384,
     .steps = 4,
     .vector = 4,
     .registers = 128,
     .at_work = 384,
     .is_run = true},
    {.name = "run_block_of_7168",
     .threads = 448,
     .steps = 4,
     .vector = 4,
     .registers = 128,
     .at_work = 448,
     .is_run = true},
    {.name = "run_block_of_8192", .threads = 512, .steps = 4, .vector = 4, .registers = 128, .is_run = true},
    {.name = "run_block_of_10240",
     .threads = 640,
     .steps = 4,
     .vector = 4,
     .registers = 96,
     .at_work = 640,
     .in_shared = true,
     .is_run = true},
    {.name = "run_block_of_12288",
     .threads = 768,
     .steps = 4,
     .vector = 4,
     .registers = 80,
     .at_work = 768,
     .in_shared = true,
     .is_run = true},
    {.name = "run_block_of_16384",
     .threads = 1024,
     .steps = 4,
     .vector = 4,
     .registers = 64,
     .at_work = 1024,
     .in_shared = true,
     .is_run = true},
    {.name = "odd_warp_of_256", .threads = 32, .steps = 8, .vector = 1, .warps = 8, .registers = 80},
    {.name = "odd_warp_of_512", .threads = 32, .steps = 16, .vector = 1, .warps = 8, .registers = 128},
    {.name = "odd_warp_of_1024", .threads = 32, .steps = 32, .vector = 1, .warps = 4, .registers = 255},
    {.name = "odd_block_of_2048", .threads = 256, .steps = 8, .vector = 1, .registers = 80, .at_work = 768},
    {.name = "odd_block_of_4096", .threads = 1024, .steps = 4, .vector = 1, .registers = 64, .at_work = 1024},
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

/// That of rows of so many columns, the first of which begins at a multiple of 4 elements, or not. Null: longer than
/// any.
constexpr const RowSumShape* row_sum_shape(DeviceKind kind, int64_t columns, bool is_aligned) {
  for (const RowSumShape& shape : row_sum_shapes(kind)) {
    const bool are_whole = columns % shape.vector == 0;
    const int64_t places = are_whole ? columns : columns + shape.vector - 1;
    const bool is_served = shape.vector == 1 || (is_aligned && (shape.is_run || are_whole));
    if (places <= shape.columns() && is_served) return &shape;
  }
  return nullptr;
}

/// How rows are dealt out as parts: part p has rows of class p mod `classes`, `rows_of_part` of them (RowSumStages).
struct DealtRows {
  int64_t classes, rows_of_part, parts;
};

/// So many parts that all threads at work begin one. Rows of one of the `groups` in turn have a class of their own, or
/// several, so that all rows of a class begin at the same distance from a multiple of 4 elements.
constexpr DealtRows dealt_rows(const RowSumShape& shape, int64_t rows, int64_t columns, int64_t groups,
                               int64_t multiprocessors) {
  constexpr int64_t kVector = 4, kMembers = 4;
  int64_t classes = groups;
  while (classes * columns % kVector != 0) classes *= 2;
  const int64_t of_class = detail::over(rows, classes), most = multiprocessors * shape.at_work / shape.threads;
  const int64_t rows_of_part = detail::round_up(detail::over(of_class, std::max<int64_t>(1, most / classes)), kMembers);
  return {classes, rows_of_part, detail::over(of_class, rows_of_part) * classes};
}

}  // namespace ashlar::forms
