// Compiling the kernels of one generator executable for one code target.
#pragma once

#include <filesystem>
#include <string>

#include "dsl/build/instance_code.h"

namespace ashlar::dsl {

/// Writes into `folder`: an object for each instance, each of its plans, and each setting of its tunables that a table
/// in the folder `tuned` uses (instance_code.h says what lies beside it), a table for each kernel, two response files,
/// objects.rsp and tables.rsp, that name them, and report.tsv: what each cost when it was compiled, a line "kernel
/// instance setting seconds bytes compiled|kept" with tabs between; "kept" came from the cache. Each is compiled in a
/// process of its own: Halide numbers its names per process, so that an object, and with it the hash in its table,
/// depends on its kernel alone. As many run at once as `slots` allows (job_slots.h). Throws DataError on a table that
/// doesn't fit.
void compile_kernels(const Compiling& with, const std::filesystem::path& folder, const std::filesystem::path& tuned,
                     const std::filesystem::path& slots);

/// Compiles one instance ("f32_none") with one setting into `folder`; returns its symbol, which names the files.
std::string compile_setting(const std::string& kernel, const std::string& instance, const Compiling& with,
                            const Setting& setting, const std::filesystem::path& folder);

/// Writes <code target>.cpp for each: empty tables for a code target that is not built or not
/// linked.
void write_absent_tables(const std::filesystem::path& folder);

}  // namespace ashlar::dsl
