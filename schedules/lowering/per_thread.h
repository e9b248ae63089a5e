// per_thread(sums): register accumulators for blocks of several warps.
//
// Halide 21 gives a Func that is computed at block level and stored in registers to every thread in full: the sums of
// all threads, of which a thread uses its own. This directive says that threads share nothing of it, so that each
// keeps its own part: the part of the index that depends on the thread is dropped, the rest, a constant in unrolled
// code, is numbered from 0.
#pragma once

#include <Halide.h>

#include <memory>
#include <string>
#include <vector>

namespace ashlar::dsl {

/// Schedules the store of `sums`, already computed at block level under gpu_threads and fully unrolled within a thread,
/// and has the kernel under construction lowered with PerThread.
void per_thread(Halide::Func sums);

/// Asks the assembler for at most that many registers in the kernel that computes `func`; fewer let more blocks run at
/// once, at the price of spills. Goes into the PTX as .maxnreg.
void limit_registers(Halide::Func func, int registers);

/// For CUDA kernels whose caller binds an input over an output's memory: what a block stored before a barrier, its
/// loads behind that see. Else inputs are loaded as memory that nobody writes to (ld.global.nc).
void loads_see_stores();

/// The lowering pass behind per_thread(). Throws Halide::CompileError, naming the Func, unless every access of it
/// within a kernel has one and the same thread-dependent part, plus a constant.
std::unique_ptr<Halide::Internal::IRMutator> per_thread_pass(const std::string& func);

/// The lowering pass behind limit_registers().
std::unique_ptr<Halide::Internal::IRMutator> limit_registers_pass(const std::string& func, int registers);

}  // namespace ashlar::dsl
