// From markers to instructions: what schedules/lowering asks for and Halide's code generator can't write.
#pragma once

#include <string>

namespace ashlar::dsl {

/// Rewrites PTX in which calls of ashlar_marker_… functions stand for instructions, as put there by stage_async,
/// limit_registers, across_cluster, steps_in_cluster and the element type bf16:
///   copy_B_R_I    cp.async of B bytes, the I-th copy of region R; arguments: a load from the destination in shared
///                 memory, a load from the source in global memory, how many bytes to copy (the rest becomes 0)
///   commit_R_C    cp.async.commit_group: region R, of C copies, ends here
///   wait_I_P      cp.async.wait_group P: all but the newest P groups have arrived; a barrier follows
///   end_S_W       nothing; there were S regions and W waits
///   registers_N   .maxnreg N of the kernel
///   coherent      its loads of global memory are ld.global, not ld.global.nc
///   cluster_C_E   .reqnctapercluster 1, C, 1 of the kernel, which has E exchanges; arrives at the cluster's barrier
///   peers         waits there: all blocks of the cluster have started
///   give_I_B      exchange I: st.shared::cluster of the first argument into the second, a block of the cluster, at
///                 byte B + 4 · own rank
///   meet_I        the cluster's barrier in place of the block's, which follows
///   group_C       .reqnctapercluster 1, C, 1 of the kernel, whose blocks meet once in each turn of a loop
///   assemble      meets there: the cluster's barrier in place of the block's, which follows
///   bf16          cvt.rn.bf16x2.f32 of the argument and 0: the low 16 bits of the result
///   bf16x2        cvt.rn.bf16x2.f32 of two arguments, the first in the low 16 bits
/// The loads only give addresses and vanish. The last two are functions: LLVM may drop, move and repeat their calls.
/// Every other marker is consumed exactly once. Every path through a kernel of a cluster takes its steps in order, to
/// the last. Along every path through a kernel the regions must be filled in order, the last of them only between a
/// barrier that follows a wait and its commit; no shared memory is read between the first commit and the first wait,
/// nor between a wait and its barrier. PTX without markers comes back unchanged. Throws std::runtime_error, naming
/// kernel and line, on anything else. PTX with clusters comes back for sm_90, as no older one has them.
std::string rewrite_ptx(const std::string& ptx);

/// What rewrite_ptx() made of `original`, for GPUs that `original` was written for and that have no clusters: a kernel
/// that needs them is a trap there. The same text where no kernel does.
std::string without_clusters(const std::string& rewritten, const std::string& original);

}  // namespace ashlar::dsl
