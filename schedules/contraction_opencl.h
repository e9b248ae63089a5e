// Contractions on OpenCL: no lanes, at most 256 threads and 32 KB of local memory in a work-group, and one kernel for
// all layouts, because programs are compiled from source at their first use.
#pragma once

#include "schedules/contraction_pipelined.h"

namespace ashlar::dsl {

/// Under this many 64 × 64 tiles the device is better filled by dealing k over threads.
inline constexpr int kOpenClMinTiles = 24;

/// The plans for every size and type.
inline std::vector<ContractionPlan> contraction_plans(OpenCL, const ContractionProblem& p, WorkgroupTile tile) {
  tile.depth = 16;
  tile.unroll = 4;
  const Expr tiles = tiles_of_result(p, tile.rows, tile.columns);
  ContractionPlan tiled = tile_plan(p, tile, TileLoads::quads, "tile", {});
  tiled.preferred = tiles >= kOpenClMinTiles;
  tiled.tunables = {"tile_columns", "tile_rows", "thread_rows"};
  return {tiled, split_plan(p, {.columns = 16, .rows = 16, .parts = 4, .unroll = 4}, "split")};
}

/// One more, tried first, for f32 and sizes that tiles divide: sums stay in registers. OpenCL has no asynchronous
/// copies, so that the stages in flight are filled by loads and stores. Matrices as they are have a kernel without a
/// branch between layouts, which at 1024 takes a fifth of the time; of the others, programs would grow too large.
inline std::vector<ContractionPlan> wide_contraction_plans(OpenCL, const ContractionProblem& p,
                                                           const WorkgroupTile& tile) {
  const QuadLoads can = quad_loads(p);
  const PipelinedTile large{.lane_rows = 8,
                            .lane_columns = 8,
                            .lanes_n = 8,
                            .warps_m = 2,
                            .warps_n = 2,
                            .depth = 16,
                            .stages = 2,
                            .order = PipelinedOrder::quads,
                            .lead = 20};
  const Expr fits = p.rows >= large.rows() && p.columns >= large.columns() && p.inner % large.stage_depth() == 0;
  const Expr is_plain = p.left.column_stride == 1 && can.right_along_columns,
             has_layout = (p.left.column_stride == 1 || can.left_along_rows) &&
                          (p.right.row_stride == 1 || can.right_along_columns);
  std::vector<ContractionPlan> plans = contraction_plans(OpenCL{}, p, tile);
  plans.insert(plans.begin(), pipelined_plan(p, large, {.whole_stages = true, .whole_tiles = true}, "large",
                                             {fits && is_plain, fits && has_layout}));
  plans.front().preferred = (p.rows / large.rows()) * (p.columns / large.columns()) * p.batches >= kOpenClMinTiles;
  return plans;
}

}  // namespace ashlar::dsl
