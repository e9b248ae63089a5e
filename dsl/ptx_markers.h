// Markers: calls by which schedules/lowering and the element types ask for instructions that Halide's code generator
// can't write. The functions exist nowhere; dsl/build/ptx_rewriter.h puts the instructions in their place.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace ashlar::dsl::ptx {

/// Everything constant stands in a marker's name, ashlar_marker_KIND_NUMBER_…; the rest are its arguments.
struct MarkerKind {
  const char* name;
  size_t numbers = 0, arguments = 0;
};

inline const std::string kMarkerPrefix = "ashlar_marker_";

inline constexpr MarkerKind
    /// copy_B_R_I: cp.async of B bytes, the I-th copy of region R. Arguments: a load from the destination in shared
    /// memory, a load from the source in global memory, how many bytes to copy (the rest becomes 0). The loads only
    /// give addresses and vanish.
    kCopy{"copy", 3, 3},
    /// commit_R_C: cp.async.commit_group; region R, of C copies, ends here.
    kCommit{"commit", 2},
    /// wait_I_P: cp.async.wait_group P; all but the newest P groups have arrived. A barrier follows.
    kWait{"wait", 2},
    /// end_S_W: nothing; there were S regions and W waits.
    kEnd{"end", 2},
    /// registers_N: .maxnreg N of the kernel.
    kRegisters{"registers", 1},
    /// Loads of global memory are ld.global in the kernel, not ld.global.nc.
    kCoherent{"coherent"},
    /// cluster_C_E: .reqnctapercluster 1, C, 1 of the kernel, which has E exchanges; arrives at the cluster's barrier.
    kCluster{"cluster", 2},
    /// Waits there: all blocks of the cluster have started.
    kPeers{"peers"},
    /// give_I_B: exchange I; st.shared::cluster of the first argument into the second, a block of the cluster, at byte
    /// B + 4 · own rank.
    kGive{"give", 2, 2},
    /// meet_I: the cluster's barrier in place of the block's, which follows.
    kMeet{"meet", 1},
    /// group_C: .reqnctapercluster 1, C, 1 of the kernel, whose blocks meet once in each turn of a loop.
    kGroup{"group", 1},
    /// Meets there: the cluster's barrier in place of the block's, which follows.
    kAssemble{"assemble"},
    /// cvt.rn.bf16x2.f32 of the argument and 0: the low 16 bits of the result. This and the next are functions: LLVM
    /// may drop, move and repeat their calls. Every other marker is consumed exactly once.
    kNarrow{"bf16", 0, 1},
    /// cvt.rn.bf16x2.f32 of two arguments, the first in the low 16 bits.
    kNarrowPair{"bf16x2", 0, 2};

inline constexpr std::array kMarkerKinds{kCopy,  kCommit, kWait, kEnd,   kRegisters, kCoherent, kCluster,
                                         kPeers, kGive,   kMeet, kGroup, kAssemble,  kNarrow,   kNarrowPair};

/// Throws std::logic_error for another count of numbers than the kind has.
inline std::string marker_name(const MarkerKind& kind, const std::vector<int>& numbers = {}) {
  if (numbers.size() != kind.numbers) throw std::logic_error(std::string("marker ") + kind.name + ": numbers");
  std::string name = kMarkerPrefix + kind.name;
  for (const int number : numbers) name += "_" + std::to_string(number);
  return name;
}

}  // namespace ashlar::dsl::ptx
