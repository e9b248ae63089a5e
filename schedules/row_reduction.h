// Family: dense [rows, columns]; some stages reduce a row to a value, then every element of the row is computed from
// it.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// What a tuner may vary on CUDA.
struct RowTunables {
  /// Rows of up to 512 columns of 32 bits, 1024 of 16: vectors of a row in a lane before more lanes share the row, a
  /// lane's vectors under way, and warps in a block.
  Tunable<int> lane_vectors{"lane_vectors", {2, 4, 8}, On::cuda}, warp_vectors{"warp_vectors", {2, 4}, On::cuda},
      warps{"warps", {4, 8}, On::cuda};
  /// Longer ones that fit into 64 KB: vectors of a row in a thread; 0 is the family's own choice, as below.
  Tunable<int> block_vectors{"block_vectors", {0, 2, 4, 8}, On::cuda};
  /// Still longer ones: blocks of a cluster that share a row, where the device has clusters; 1 is none.
  Tunable<int> long_row_cluster{"long_row_cluster", {0, 1, 2, 4, 8}, On::cuda};

  RowTunables() {
    space_rule("short, longer and long rows have different schedules: only what one reads varies", [this] {
      const bool is_short = lane_vectors.value() != 2 || warp_vectors.value() != 2 || warps.value() != 4;
      return is_short + (block_vectors.value() != 0) + (long_row_cluster.value() != 0) <= 1;
    });
  }
};

/// The stages of such a kernel. `reductions` stand in the order in which they need each other; each is a sum, maximum
/// or minimum over all columns. `out` has indices (row, column), or (row) when nothing but the
/// reductions' result is wanted. `beside` are the other outputs, which are written as `out` is worked out: with indices
/// (row), or (row, column) where `out` has those. Plain stages between them are computed where they are read and aren't
/// listed.
struct RowStages {
  std::vector<std::reference_wrapper<Stage>> reductions;
  Halide::Func out;
  Var row, column;
  const RowTunables& tunables;
  std::vector<Halide::Func> beside = {};

  bool out_has_columns() const { return out.dimensions() == 2; }

  /// Throws Halide::CompileError where `out` needs a reduction that isn't among `reductions`.
  void check_complete() const {
    std::vector<std::string> names;
    for (Stage& stage : reductions) names.push_back(stage.func().name());
    check_reductions_listed(out, names, "row_reduction");
  }
};

/// Rows in parallel, each reduced in vector lanes.
void row_reduction(Cpu, const RowStages& stages);
/// By length: a thread, a share of a work-group or a work-group for each row; trees in local memory. Rows that fit into
/// 32 KB are loaded once, into local memory, by 16-byte vectors where they are whole ones; longer ones are shared by
/// 1024 threads where the device's work-groups have them.
void row_reduction(OpenCL, const RowStages& stages);
/// The same, but short rows by a warp for several, with trees over its lanes and no barrier and whole vectors in
/// registers. Rows of up to 64 KB are loaded once into shared memory, longer ones of
/// up to 131072 columns into what a block, or a cluster of them, has of that and of registers.
void row_reduction(Cuda, const RowStages& stages);

}  // namespace ashlar::dsl
