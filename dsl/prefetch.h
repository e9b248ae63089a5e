// Cache lines asked for before they are used, on the CPU.
#pragma once

#include <Halide.h>

#include <memory>
#include <string>

namespace ashlar::dsl {

enum class PrefetchFor : int { reading = 0, writing = 1 };

/// Asks for the line of the index-th element of a buffer, which then lies in all caches.
Halide::Internal::Stmt prefetch(const std::string& buffer, const Halide::Expr& index, const Halide::Type& type,
                                PrefetchFor use);

/// Halide 21 has lines that a schedule asks for (Func::prefetch) by prefetchnta, past all caches but the first: what
/// that one can't keep until it is used is read twice. This pass, which every kernel for the CPU has, brings them into
/// all caches.
std::shared_ptr<Halide::Internal::IRMutator> prefetches_into_all_caches();

}  // namespace ashlar::dsl
