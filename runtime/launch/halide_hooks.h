// Our replacements for the weak functions of Halide's runtime: memory, threads, errors, contexts, driver entry points.
#pragma once

namespace ashlar::detail {

/// Keeps the hooks' translation unit in the program: in an archive that nobody refers to, the linker would silently
/// take Halide's weak functions instead. The launch gate calls it.
void require_hooks() noexcept;

/// Asks Halide's runtime for an error and sees whether it arrives here. False means that this program runs with
/// Halide's own memory, threads and (aborting) error handler.
bool hooks_active() noexcept;

/// Lets Halide's runtime look up its OpenCL entry points now; it does so without a lock. Called before the first
/// OpenCL launch can happen, once at a time.
void load_halide_opencl() noexcept;

}  // namespace ashlar::detail
