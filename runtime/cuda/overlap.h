// What the build and the runtime have to agree on about kernels that begin before the one ahead of them has ended.
#pragma once

namespace ashlar::detail::cuda {

/// The first GPUs that have it. PTX that was written for these or later ones waits for what is ahead (dsl/build/
/// ptx_overlap.h), and no other does.
inline constexpr int kOverlapArchitecture = 90;

}  // namespace ashlar::detail::cuda
