// Family: [outer, reduced, inner] with any strides, reduced to [outer, parts, inner]; part p takes one chunk.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// What a tuner may vary on GPUs; 0 is the family's own choice.
struct ReductionTunables {
  /// A long contiguous reduction: threads for it, and loads of each under way.
  Tunable<int> row_threads{"row_threads", {0, 64, 128, 256, 512}, On::gpu},
      row_unroll{"row_unroll", {0, 2, 4, 8}, On::gpu};
  /// Columns: bytes of a thread's results, 4 to each; threads that share them; steps of each under way.
  Tunable<int> column_bytes{"column_bytes", {16, 8, 4}, On::gpu}, column_members{"column_members", {8, 16, 4}, On::gpu},
      column_unroll{"column_unroll", {8, 4, 16}, On::gpu};

  ReductionTunables() {
    space_rule("OpenCL: a work-group has at most 256 threads", [this] {
      const bool fits = row_threads.value() <= 256 && column_members.value() <= 8;
      return fits || !Descriptor::target.has_feature(Halide::Target::OpenCL);
    });
    space_rule("a thread's loads under way fit into 64 registers",
               [this] { return column_bytes.value() / 4 * column_unroll.value() <= 64; });
    space_rule("rows and columns are different schedules: only what one reads varies", [this] {
      const bool rows = row_threads.value() != 0 || row_unroll.value() != 0;
      const bool columns = column_bytes.value() != 16 || column_members.value() != 8 || column_unroll.value() != 8;
      return !(rows && columns);
    });
  }
};

/// The stages of such a kernel: out(outer, part, inner) reads `reduce` at the same indices; `axis` runs over one chunk,
/// and a condition on it should have the form k + a < b.
struct ReductionStages {
  Stage& reduce;
  Halide::RVar axis;
  Halide::Func out;
  Var outer, part, inner;
  const ReductionTunables& tunables;
  bool has_parts = false;  ///< of every call: what is for one part alone isn't compiled
};

/// inner == 1: reduced in vector lanes; else vectors along inner. Parallel over the results.
void reduction(Cpu, const ReductionStages& stages);
/// inner == 1: a work-group for one long or several short reductions; else threads along inner and along the reduced
/// axis. Trees in local memory.
void reduction(OpenCL, const ReductionStages& stages);
void reduction(Cuda, const ReductionStages& stages);

}  // namespace ashlar::dsl
