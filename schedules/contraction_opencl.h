// Contractions on OpenCL: no lanes, at most 256 threads and 32 KB of local memory in a work-group, and one kernel for
// all layouts, because programs are compiled from source at their first use.
#pragma once

#include "schedules/contraction_workgroup.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

/// Under this many 64 × 64 tiles the device is better filled by dealing k over threads.
inline constexpr int kOpenClMinTiles = 24;

inline std::vector<ContractionPlan> contraction_plans(OpenCL, const ContractionProblem& p, WorkgroupTile tile) {
  index_arithmetic();
  tile.depth = 16;
  tile.unroll = 4;
  const Expr tiles = (p.columns + tile.columns - 1) / tile.columns * ((p.rows + tile.rows - 1) / tile.rows) * p.batches;
  return {tile_plan(p, tile, TileLoads::quads, "tile", {tiles >= kOpenClMinTiles}),
          split_plan(p, {.columns = 16, .rows = 16, .parts = 4, .unroll = 4}, "split")};
}

}  // namespace ashlar::dsl
