// Contractions on OpenCL: no lanes, at most 256 threads and 32 KB of local memory in a work-group, and one kernel for
// all layouts, because programs are compiled from source at their first use.
#pragma once

#include "schedules/contraction_pipelined.h"
#include "schedules/contraction_threads.h"

namespace ashlar::dsl {

/// Terms that a tile of either takes at a time, and rows and columns of a small one.
inline constexpr int kOpenClDepth = 16, kOpenClSmall = 16;

/// The plans for every size and type.
inline std::vector<ContractionPlan> contraction_plans(OpenCL, const ContractionProblem& p, WorkgroupTile tile) {
  tile.depth = kOpenClDepth;
  tile.unroll = 4;
  ContractionPlan tiled = tile_plan(p, tile, TileLoads::quads, "tile", {});
  tiled.preferred = has_many_tiles(p, tile, kOpenClSmall);
  tiled.tunables = {"tile_columns", "tile_rows", "thread_rows"};
  return {tiled, split_plan(p, {.columns = kOpenClSmall, .rows = kOpenClSmall, .parts = 4, .unroll = 4}, "split")};
}

/// More of them, for f32, chosen by the model: tiles whose sums stay in registers, and threads where a side is short.
/// OpenCL has no asynchronous copies, so that the stages in flight are filled by loads and stores. Plain matrices of
/// whole tiles have a kernel without a branch between layouts, which at 1024 takes a fifth of the time. Of 14 plans
/// that were measured these lose least: 0.98 of the speed of the best at each of 1500 sizes (H100).
inline std::vector<ContractionPlan> wide_contraction_plans(OpenCL, const ContractionProblem& p,
                                                           const WorkgroupTile& workgroup) {
  const QuadLoads can = quad_loads(p);
  std::vector<ContractionPlan> plans;
  const auto modelled = [&](ContractionPlan plan, const ModelledWork& work) {
    plan.microseconds = modelled_microseconds(p, plan.name, work);
    plans.push_back(std::move(plan));
  };
  const auto add = [&](const PipelinedTile& tile, const PipelinedAccess& access, const std::string& name,
                       std::vector<Expr> when) {
    modelled(pipelined_plan(p, tile, access, name, std::move(when)),
             work_of_tiles(p, {tile.rows(), tile.columns(), tile.stage_depth(), tile.warps()}));
    plans.back().preferred = Expr(false);
  };
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
  add(large, {.whole_stages = true, .whole_tiles = true}, "large", {fits && is_plain, fits && has_layout});
  constexpr int kLeastTiles = 24;
  plans.back().preferred = (p.rows / large.rows()) * (p.columns / large.columns()) * p.batches >= kLeastTiles;
  PipelinedTile odd_medium = kTileOfTwoWarps, smallest = kSmallestTile;
  odd_medium.stages = smallest.stages = 2;
  smallest.depth = 4;
  PipelinedTile odd_wide = odd_medium;
  odd_wide.lane_rows = 4;
  add(odd_medium, {.columns_apart = true}, "odd_medium", {});
  add(odd_wide, {.columns_apart = true}, "odd_wide", {});
  add(smallest, {}, "smallest", {});
  add_thread_plans(p, {"threads", "dealt", "dealt_row"}, plans);
  const std::vector<ContractionPlan> of_all = contraction_plans(OpenCL{}, p, workgroup);
  constexpr int kWarp = 32, kWarpsOfSplit = 8;
  modelled(of_all[0], work_of_tiles(p, {workgroup.rows, workgroup.columns, kOpenClDepth, workgroup.threads() / kWarp}));
  modelled(of_all[1], work_of_tiles(p, {kOpenClSmall, kOpenClSmall, kOpenClDepth, kWarpsOfSplit}));
  return plans;
}

}  // namespace ashlar::dsl
