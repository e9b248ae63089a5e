// Vector accesses on GPUs, where Halide 21 needs help with them.
#pragma once

#include <Halide.h>

#include <memory>

namespace ashlar::dsl {

/// One lane of a vector, with no more work than that lane takes.
Halide::Expr lane_of(const Halide::Expr& vector, int lane);

/// Has the kernel under construction lowered with the first pass below on CUDA, the second on OpenCL.
void vector_accesses();

/// Has it lowered with aligned_vectors_pass().
void aligned_vectors();

/// Vectors of a tensor's neighbouring elements that begin at a multiple of their length, by the conditions around the
/// kernel, are loaded and stored at once. Halide forgets that where it gives a condition a name, or moves what a loop
/// doesn't change out of it.
std::unique_ptr<Halide::Internal::IRMutator> aligned_vectors_pass();

/// Has it lowered with the last one; before vector_accesses().
void uniform_guards();

/// Has it lowered with whole_vectors_pass() on CUDA; before vector_accesses().
void whole_vectors();

/// A vector that crosses the end of dense, aligned inputs is loaded and worked out as all others are, by the same code,
/// and stored element by element as far as it is inside. What lies beyond is in the same 16 bytes, which no allocation
/// and no page shares with another. Halide masks each load, and has code of its own for that. Of several vectors of a
/// thread all are worked out before the first is stored.
std::unique_ptr<Halide::Internal::IRMutator> whole_vectors_pass();

/// Eight neighbouring 16-bit elements, known to begin at a multiple of eight, are loaded and stored as four 32-bit
/// words: those the PTX back end turns into one access of 16 bytes. Those of a tensor that begin anywhere are put
/// together from the words around them. Vectors of bf16 are widened and narrowed in pairs.
std::unique_ptr<Halide::Internal::IRMutator> wide_accesses_pass();

/// What the OpenCL back end can't write: a vector of which a guard lets only some lanes through, at a tensor's end, is
/// stored lane by lane in a loop, and strict comparisons of vectors become plain ones (OpenCL C has no others).
std::unique_ptr<Halide::Internal::IRMutator> plain_vectors_pass();

/// For kernels whose vectors never cross a tensor's or row's end: a vector's guard, which Halide checks for each of its
/// lanes, is checked once. The schedule answers for that: it uses vectors only where whole ones fit. A vector that
/// value_stored_at() has a place for loses its guard. A store that
/// Halide writes twice, for vectors wholly inside and for others, is written once: where `is_text`, the one that makes
/// the shorter text.
std::unique_ptr<Halide::Internal::IRMutator> uniform_guards_pass(bool is_text);

}  // namespace ashlar::dsl
