// The GPU half of a kernel: Halide leaves PTX or OpenCL C in a Module. A program carries machine code for CUDA.
#pragma once

#include <Halide.h>

#include <filesystem>
#include <string>
#include <vector>

#include "dsl/build/code_cache.h"

namespace ashlar::dsl {

/// What turns PTX into machine code, and for which GPUs.
struct DeviceTools {
  std::string ptxas;                       ///< path of the assembler; empty: kernels stay PTX
  std::string nvfatbin;                    ///< path of libnvfatbin.so, which packs machine code for several GPUs
  std::vector<std::string> architectures;  ///< compute capabilities times ten: "80", "90"
  std::string identity;                    ///< changes with the two tools
};

/// The names of a module's GPU functions as Halide wrote it, separated by blanks; empty for the CPU.
std::string device_functions(const Halide::Module& module);

/// The same module with its PTX, markers turned into instructions (ptx_rewriter.h), replaced by a compressed container
/// ("fatbin") that holds machine code for each architecture, and the PTX for later ones; the driver picks what its GPU
/// runs. Leaves `stem`.ptx (the final PTX) and `stem`.ptxas (what the assembler says of registers, spills and shared
/// memory) beside the object. What was assembled before is taken from the cache. A module without GPU code comes back
/// as it is; without an assembler the PTX stays. Throws std::runtime_error when a tool fails.
Halide::Module with_machine_code(const Halide::Module& module, const DeviceTools& tools, const CodeCache& cache,
                                 const std::filesystem::path& stem);

/// The same module with its OpenCL C as opencl_source.h leaves it, packed (runtime/support/packed_text.h).
Halide::Module with_plain_source(const Halide::Module& module);

}  // namespace ashlar::dsl
