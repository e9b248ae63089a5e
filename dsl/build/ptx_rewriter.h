// From markers to instructions: what schedules/lowering asks for and Halide's code generator can't write.
#pragma once

#include <string>

namespace ashlar::dsl {

/// Rewrites PTX in which markers (dsl/ptx_markers.h) stand for instructions. Every path through a kernel of a cluster
/// takes its steps in order, to the last. Along every path through a kernel the regions must be filled in order, the
/// last of them only between a barrier that follows a wait and its commit; no shared memory is read between the first
/// commit and the first wait, nor between a wait and its barrier. PTX without markers comes back unchanged. Throws
/// std::runtime_error, naming kernel and line, on anything else. PTX with clusters comes back for sm_90, as no older
/// one has them.
std::string rewrite_ptx(const std::string& ptx);

/// What rewrite_ptx() made of `original`, for GPUs that `original` was written for and that have no clusters: a kernel
/// that needs them is a trap there. The same text where no kernel does.
std::string without_clusters(const std::string& rewritten, const std::string& original);

}  // namespace ashlar::dsl
