// Family: a dense rank-4 output whose inputs have any strides, 0 where they are broadcast.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// What a tuner may vary on GPUs: vectors of a thread where operands are one flat run, and where rows are long (0: as
/// many as make blocks of 256 threads).
struct BroadcastTunables {
  Tunable<int> flat_vectors{"flat_vectors", {1, 2, 4}, On::gpu}, row_vectors{"row_vectors", {0, 2, 4, 8}, On::gpu};

  BroadcastTunables() {
    space_rule("flat operands and rows are different loops: only what one reads varies",
               [this] { return flat_vectors.value() == 1 || row_vectors.value() == 0; });
  }
};

/// `index`: the output's variables, outermost first. Branches chosen by the call's strides: one flat run (dense or
/// scalar operands), rows (operands broadcast along outer dimensions), and anything else.
void broadcast(Cpu, Halide::Func out, const std::vector<Var>& index, const BroadcastTunables* tunables = nullptr);
void broadcast(OpenCL, Halide::Func out, const std::vector<Var>& index, const BroadcastTunables* tunables = nullptr);
void broadcast(Cuda, Halide::Func out, const std::vector<Var>& index, const BroadcastTunables* tunables = nullptr);

}  // namespace ashlar::dsl
