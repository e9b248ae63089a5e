// Contractions on CUDA.
#pragma once

#include "schedules/contraction_pipelined.h"

namespace ashlar::dsl {

/// What a kernel offers for tuning: stages in flight, and how much of a turn's work stands before its copies, for
/// results of many tiles and of fewer.
struct PipelinedTuning {
  int large_stages, large_lead, medium_stages, medium_lead;
};

/// Sums and epilogues of a tile stand unrolled in the code. A long epilogue is kept out of the biggest ones.
enum class EpilogueLength { short_one, long_one };

/// Under this many 64 × 64 tiles the device is better filled by dealing k over threads.
inline constexpr int kCudaMinTiles = 24;

/// Elements of 16 bits: loaded, widened and kept in shared memory as f32, since an asynchronous copy moves four bytes
/// or more and can't widen.
inline std::vector<ContractionPlan> narrow_contraction_plans(const ContractionProblem& p, const WorkgroupTile& tile) {
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

/// Elements of f32. The numbers below are for 132 multiprocessors, of which a block takes one or shares it with one
/// more: tiles shrink, and k is dealt over more warps, as the result does.
inline std::vector<ContractionPlan> contraction_plans(Cuda, const ContractionProblem& p, const PipelinedTuning& tuning,
                                                      EpilogueLength epilogue) {
  const QuadLoads can = quad_loads(p);
  const auto count = [&](int rows, int columns) {
    return (p.columns + columns - 1) / columns * ((p.rows + rows - 1) / rows) * p.batches;
  };
  const auto fits = [&](const PipelinedTile& tile, int at_least) {
    return p.rows >= tile.rows() && p.columns >= tile.columns() && count(64, 128) >= at_least;
  };
  const auto whole = [&](const PipelinedTile& tile) { return p.inner % tile.stage_depth() == 0; };
  constexpr int kManyTiles = 400, kSomeTiles = 90;  // of 64 × 128

  // A kernel for each pair of layouts, so that no branch stands among a turn's copies (10 % at 2048).
  const Expr aligned = p.columns % 4 == 0 && p.result_row_stride % 4 == 0 && p.result_batch_stride % 4 == 0;
  const Expr left_n = aligned && p.left.column_stride == 1,
             left_t = aligned && p.left.column_stride != 1 && can.left_along_rows, right_n = can.right_along_columns,
             right_t = p.right.column_stride != 1 && p.right.row_stride == 1;
  const auto large = [&](int warps_m, int warps_n, int depth) {
    return PipelinedTile{
        8, 16, 4, 1, warps_m, warps_n, 1, depth, tuning.large_stages, PipelinedOrder::rows, tuning.large_lead};
  };
  const PipelinedTile medium{8, 8, 8, 1, 2, 2, 1, 16, tuning.medium_stages, PipelinedOrder::quads, tuning.medium_lead};
  const PipelinedAccess even{.whole_stages = true, .quads = true, .whole_tiles = true}, odd{.whole_tiles = true};
  const PipelinedTile odd_large{8, 16, 4, 1, 2, 2, 1, 8, 3, PipelinedOrder::rows, 40};
  const PipelinedTile odd_medium{8, 8, 8, 1, 2, 2, 2, 8, 2, PipelinedOrder::quads, 2};
  const PipelinedTile few_rows{8, 4, 8, 2, 1, 1, 4, 12, 3, PipelinedOrder::quads, 2};
  const PipelinedTile small{8, 8, 8, 1, 1, 1, 4, 8, 3, PipelinedOrder::quads, 2};
  const PipelinedTile smallest{8, 4, 8, 1, 1, 1, 8, 8, 3, PipelinedOrder::quads, 2};

  std::vector<ContractionPlan> plans;
  if (epilogue == EpilogueLength::short_one) {
    const auto add = [&](const PipelinedTile& tile, const std::string& layouts, const Expr& applies) {
      plans.push_back(
          pipelined_plan(p, tile, even, "large_" + layouts, {fits(tile, kManyTiles) && whole(tile) && applies}));
    };
    // The shapes that were quickest at 2048 and 4096 on an H200.
    add(large(1, 2, 8), "nn", left_n && right_n);
    add(large(1, 2, 16), "tn", left_t && right_n);
    add(large(2, 1, 8), "nt", left_n && right_t);
    add(large(2, 2, 8), "tt", left_t && right_t);
  }
  const Expr some = fits(medium, kSomeTiles) && whole(medium);
  plans.push_back(pipelined_plan(p, medium, even, "medium",
                                 {some && left_n && right_n, some && left_t && right_n, some && left_n && right_t}));
  if (epilogue == EpilogueLength::short_one) {
    plans.push_back(pipelined_plan(p, odd_large, odd, "odd_large", {fits(odd_large, kManyTiles)}));
  }
  plans.push_back(pipelined_plan(p, odd_medium, odd, "odd_medium", {fits(odd_medium, kSomeTiles)}));
  plans.push_back(pipelined_plan(p, few_rows, {}, "few_rows", {p.rows <= few_rows.rows()}));
  plans.push_back(pipelined_plan(p, small, {}, "small", {count(32, 64) >= kSomeTiles}));
  plans.push_back(pipelined_plan(p, smallest, {}, "smallest", {}));
  return plans;
}

}  // namespace ashlar::dsl
