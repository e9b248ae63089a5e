// Kernels that run in clusters of thread blocks, in PTX: what schedules/lowering/cluster.h asks for.
#pragma once

#include <string>

#include "dsl/build/ptx_text.h"

namespace ashlar::dsl::clusters {

inline constexpr int kArchitecture = 90;  ///< the first that has them
inline constexpr const char* kArrive = "barrier.cluster.arrive.release.aligned";
inline constexpr const char* kWait = "barrier.cluster.wait.acquire.aligned";

/// What stands between parameters and body of a kernel whose clusters have that many blocks.
std::string directives(int blocks);
/// Marker give_I_B: its first argument goes to the block that is its second, to byte B + 4 · own rank there.
std::string give(const ptx::Marker& marker);
/// To Halide a block's shared memory begins at address 0, which in a cluster is another block's or nobody's: adds where
/// it does begin to every access between two lines. Returns the code of an access that it can't read, or nothing.
std::string move_shared_memory(ptx::Lines& lines, size_t begin, size_t end);
/// PTX that has such kernels for the GPUs that run them; other PTX as it is.
std::string for_their_gpus(std::string text);

}  // namespace ashlar::dsl::clusters
