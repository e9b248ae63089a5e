// Compiling the kernels of one generator executable for one code target.
#pragma once

#include <filesystem>
#include <string>

#include "dsl/build/device_code.h"
#include "dsl/build/instances.h"

namespace ashlar::dsl {

/// Writes into `folder`: an object for each instance and each setting of its tunables that a table in the folder
/// `tuned` uses (for cuda its PTX and the assembler's report, too), a table for each kernel, and two response files,
/// objects.rsp and tables.rsp, that name them. Each is compiled in a process of its own: Halide numbers its names per
/// process, so that an object, and with it the hash in its table, depends on its kernel alone. Returns the number of functions. Throws DataError on a table
/// that doesn't fit.
int compile_kernels(const std::string& code_target, int cuda_capability, const std::filesystem::path& folder,
                    const std::filesystem::path& tuned, const DeviceTools& tools);

/// Compiles one instance ("f32_none") with one setting into `folder`; returns its symbol, which names the files.
std::string compile_setting(const std::string& kernel, const std::string& instance, const std::string& code_target,
                            int cuda_capability, const Setting& setting, const std::filesystem::path& folder,
                            const DeviceTools& tools);

/// Writes <code target>.cpp for each: empty tables for a code target that is not built or not
/// linked.
void write_absent_tables(const std::filesystem::path& folder);

}  // namespace ashlar::dsl
