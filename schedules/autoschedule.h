// A start for a schedule of one's own on the CPU: what one of Halide's autoschedulers makes of a kernel.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

struct Autoscheduler {
  std::string name = "Adams2019";                 ///< or "Mullapudi2016"
  std::map<std::string, std::vector<int>> sizes;  ///< of every input and output to have in mind, outermost first
  int threads = 8;                                ///< of the processor to have in mind
};

/// Schedules `outputs` by it, and prints the schedule as C++ to stderr: to read, cut down and paste into schedule(Cpu),
/// not to stay (it holds for the sizes that it was made for). Throws Halide::CompileError where a size is missing.
void autoschedule(const Autoscheduler& autoscheduler, const std::vector<Halide::Func>& outputs);

}  // namespace ashlar::dsl
