// Contractions on CUDA.
#pragma once

#include "schedules/contraction_workgroup.h"

namespace ashlar::dsl {

/// Under this many 64 × 64 tiles the device is better filled by dealing k over threads.
inline constexpr int kCudaMinTiles = 24;

inline std::vector<ContractionPlan> contraction_plans(Cuda, const ContractionProblem& p, const WorkgroupTile& tile) {
  const Expr tiles = (p.columns + tile.columns - 1) / tile.columns * ((p.rows + tile.rows - 1) / tile.rows) * p.batches;
  const Expr many = tiles >= kCudaMinTiles;
  const QuadLoads can = quad_loads(p);
  // A kernel each for the layouts of a layer's forward and backward passes: without a branch around the loads of the
  // two operands their latencies overlap (33 against 28 TFLOP/s at 2048).
  std::vector<Expr> layouts = {many && can.left_along_k && can.right_along_columns,
                               many && can.left_along_rows && can.right_along_columns,
                               many && can.left_along_k && can.right_along_k};
  return {tile_plan(p, tile, TileLoads::quads, "tile", std::move(layouts)),
          tile_plan(p, tile, TileLoads::single, "odd_tile", {many}),
          split_plan(p, {.columns = 16, .rows = 16, .parts = 8, .unroll = 4}, "split")};
}

}  // namespace ashlar::dsl
