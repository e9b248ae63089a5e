// From markers to instructions: what schedules/lowering asks for and Halide's code generator can't write.
#pragma once

#include <string>

namespace ashlar::dsl {

/// Rewrites PTX in which calls of ashlar_marker_… functions stand for instructions, as put there by stage_async,
/// limit_registers and the element type bf16:
///   copy_B_R_I    cp.async of B bytes, the I-th copy of region R; arguments: a load from the destination in shared
///                 memory, a load from the source in global memory, how many bytes to copy (the rest becomes 0)
///   commit_R_C    cp.async.commit_group: region R, of C copies, ends here
///   wait_I_P      cp.async.wait_group P: all but the newest P groups have arrived; a barrier follows
///   end_S_W       nothing; there were S regions and W waits
///   registers_N   .maxnreg N of the kernel
///   bf16          cvt.rn.bf16x2.f32 of the argument and 0: the low 16 bits of the result
///   bf16x2        cvt.rn.bf16x2.f32 of two arguments, the first in the low 16 bits
/// The loads only give addresses and vanish. The last two are functions: LLVM may drop, move and repeat their calls.
/// Every other marker is consumed exactly once. Along every path through a kernel
/// the regions must be filled in order, the last of them only between a barrier that follows a wait and its commit; no
/// shared memory is read between the first commit and the first wait, nor between a wait and its barrier. PTX without
/// markers comes back unchanged. Throws std::runtime_error, naming kernel and line, on anything else.
std::string rewrite_ptx(const std::string& ptx);

}  // namespace ashlar::dsl
