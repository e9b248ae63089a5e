// Not a family: a schedule for any pipeline, right on every target. Where to begin; a family, or a schedule of a
// kernel's own, is for more speed (docs/how-to/schedule-a-kernel.md).
#pragma once

#include "dsl/kernel.h"
#include "dsl/neighbours.h"
#include "schedules/scan.h"

namespace ashlar::dsl {

/// Schedules `outputs` and every Scratch below them that has no schedule yet: each is one pass over memory, on a GPU
/// one kernel. Plain stages are computed where they are read.
///   elements     vectors and threads on the CPU, one thread for each on a GPU (several, or a vector, where it pays)
///   reductions   that each element has for itself, or a whole row of elements together (softmax's); along the
///                contiguous axis in vector lanes on the CPU and by 32 to 256 threads on a GPU, else element by element
///   scans        along rows, by blocks, read by an output of rows and columns at its own indices; their ScanScratch
///                holds the states of blocks
///   updates      a pass each: indices that are Vars in threads, a reduction's indices in order within
/// Throws Halide::CompileError where a reduction would be worked out again and again, because elements all over an
/// output read it, where a stage is written at computed places, or where a scan is read in another way: the message
/// says what to keep in a Scratch.
void generic(Cpu, const std::vector<Halide::Func>& outputs);
void generic(OpenCL, const std::vector<Halide::Func>& outputs);
void generic(Cuda, const std::vector<Halide::Func>& outputs);

namespace detail {
inline Halide::Func func_of(const Halide::Func& output) { return output; }
template <class Output>
Halide::Func func_of(const Output& output) requires requires {
  output.func();
}
{ return output.func(); }
}  // namespace detail

/// The same with each output by itself: generic(target, y), generic(target, mean, y).
template <class... Output>
void generic(auto target, const Output&... outputs) requires(sizeof...(Output) > 0) {
  generic(target, std::vector<Halide::Func>{detail::func_of(outputs)...});
}

}  // namespace ashlar::dsl
