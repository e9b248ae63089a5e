// How much of a loop over elements is one task of the CPU's thread pool.
#pragma once

#include <Halide.h>

namespace ashlar::dsl {

/// Elements per task for a call on `total` of them: enough to be worth a task's start, a few tens of tasks where there
/// are many, because two threads that take turns at short pieces of memory get less of its bandwidth (16M floats summed
/// in pieces of 64 KB took 2.1 ms, of 1 MB 1.5 ms). By the call's shape alone, so that results don't depend on threads.
inline Halide::Expr elements_per_task(const Halide::Expr& total) {
  constexpr int kLeast = 16384, kMost = 1 << 20, kTasks = 64;
  return Halide::clamp(total / kTasks, kLeast, kMost);
}

}  // namespace ashlar::dsl
