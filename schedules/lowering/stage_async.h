// stage_async({tiles}, stages): tiles of a reduction's operands, copied into shared memory while earlier ones are used.
//
// The reduction's loop fills its tiles, waits for all threads, uses them, and waits again. This directive gives shared
// memory room for `stages` of each tile and lets the loop fill the one that is used stages − 1 turns later, by
// cp.async, which needs no registers and doesn't stop the thread. What happens in one turn, then:
//
//   wait for the own copies into this turn's tiles; barrier; start copying tiles of a later turn; use this turn's tiles
//
// The one barrier stands for both that Halide had put in. Before it every thread has waited for its own copies, so
// after it all of the tile is there (read after write). And the stage that is filled after it was used in the turn
// before, by threads that have reached this barrier (write after read). After the loop come one more wait and barrier,
// so that whatever uses the memory next finds no copy under way and no reader left.
#pragma once

#include <Halide.h>

#include <memory>
#include <string>
#include <vector>

namespace ashlar::dsl {

/// A tile is a plain copy of a tensor: its value is a load, or select(condition, load, 0), which becomes a copy of
/// no bytes and zeros where the condition is false.
struct AsyncTiles {
  std::vector<std::string> tiles;  ///< Funcs, computed in the same loop
  int stages;                      ///< 2 or more
  int lead;                        ///< how many statements of the use stand before the copies: they overlap
  bool async;                      ///< false: the same pipeline with loads and stores, for devices below sm_80
  bool bounded = false;            ///< conditions are false in turns beyond the loop's, and say so to the copies too
};

/// Whether stage_async() copies asynchronously on the target under construction. A copy of no bytes then reads nothing:
/// its address may lie anywhere.
bool has_async_copies();

/// Schedules the storage of `tiles`, already computed at the loop over the reduction's stages, to last for the whole of
/// `block`, the innermost block loop of `out`, and has the kernel under construction lowered with the pass below.
/// `bounded`: see AsyncTiles.
void stage_async(std::vector<Halide::Func> tiles, Halide::Func out, const Halide::Var& block, int stages, int lead = 0,
                 bool bounded = false);

/// The lowering pass behind stage_async(). Throws Halide::CompileError, naming the tile, on any other structure.
std::unique_ptr<Halide::Internal::IRMutator> stage_async_pass(const AsyncTiles& directive);

}  // namespace ashlar::dsl
