// Contractions on CUDA.
#pragma once

#include "schedules/contraction_model.h"
#include "schedules/contraction_pipelined.h"
#include "schedules/contraction_stream.h"
#include "schedules/contraction_threads.h"

namespace ashlar::dsl {

/// What a kernel offers for tuning: stages in flight, how much of a turn's work stands before its copies, and a limit
/// of registers, for results of many tiles and of fewer. kOwn: what the tile was made with.
struct PipelinedTuning {
  static constexpr int kOwn = -1;
  int large_stages, large_lead, large_registers, medium_stages, medium_lead, medium_registers;
};

/// Shared memory of a block that every GPU has.
inline constexpr int kSharedBytesOfAll = 48 << 10;

/// Elements of 16 bits: loaded, widened and kept in shared memory as f32, since an asynchronous copy moves four bytes
/// or more and can't widen; of a few rows straight into registers.
inline std::vector<ContractionPlan> narrow_contraction_plans(const ContractionProblem& p, const WorkgroupTile& tile) {
  constexpr int kSmall = 16;
  const Expr many = has_many_tiles(p, tile, kSmall);
  const std::vector<std::string> tunables{"tile_columns", "tile_rows", "thread_rows", "tile_depth", "tile_unroll"};
  const QuadLoads can = quad_loads(p);
  // A kernel each for the layouts of a layer's forward and backward passes: without a branch around the loads of the
  // two operands their latencies overlap (33 against 28 TFLOP/s at 2048).
  std::vector<Expr> layouts = {can.left_along_k && can.right_along_columns,
                               can.left_along_rows && can.right_along_columns, can.left_along_k && can.right_along_k};
  std::vector<ContractionPlan> plans;
  // They are 1.6 times as quick as the others at 550 products of up to 8 rows drawn at random (H200); of fewer terms
  // along k the others are, and of few columns they are up to 16 rows. Quads across k are 1.3 to 4 times as quick as
  // what else serves 2 to 16 rows of them (620 products in f16 and bf16; H200).
  constexpr int kLeastInner = 64;
  const auto add = [&](std::string_view name, const Expr& preferred) {
    plans.push_back(few_rows_plan(p, name).plan);
    plans.back().preferred = preferred;
  };
  const auto add_along = [&](std::string_view name, const Expr& most) {
    add(name, p.rows <= most && p.inner >= kLeastInner);
  };
  const Expr most_along = select(p.columns <= FewRows::kOfFewColumns, FewRows::kOfFewColumns, FewRows::kAlong);
  add_along("along_1_quads", 1);
  add_along("along_1", 1);
  add_along("along_4_quads", 4);
  add_along("along_4", 4);
  const Expr blocks_of_quads = tiles_of_result(p, FewRows::kRowsOfQuads, FewRows::kColumnsOfQuads);
  add("across_8_quads_deep", p.rows > 1 && FewRows::are_quads_deep(blocks_of_quads, p.inner));
  add("across_8_quads", p.rows > 1);
  add("across_1_deep", p.rows <= 2);
  add("across_4", p.rows <= 4);
  add_along("along_8_quads", most_along);
  add_along("along_8", most_along);
  add("across_8", p.rows <= 8);
  const auto of_many = [&](ContractionPlan plan) {
    plan.preferred = many;
    plan.tunables = tunables;
    plans.push_back(std::move(plan));
  };
  of_many(tile_plan(p, tile, TileLoads::quads, "tile", std::move(layouts)));
  of_many(tile_plan(p, tile, TileLoads::single, "odd_tile", {}));
  plans.push_back(split_plan(p, {.columns = kSmall, .rows = kSmall, .parts = 8, .unroll = 4}, "split"));
  return plans;
}

/// The tiles for results of many of them, by the layouts of the operands (n: as they are; t: transposed), and for
/// fewer. These shapes were quickest at 2048 and 4096, and at 1024, on an H200.
struct WideTiles {
  PipelinedTile large_nn{.lane_rows = 8,
                         .lane_columns = 16,
                         .lanes_n = 4,
                         .warps_m = 2,
                         .warps_n = 4,
                         .depth = 16,
                         .stages = 2,
                         .order = PipelinedOrder::rows,
                         .lead = 40};
  PipelinedTile large_nt{.lane_rows = 8,
                         .lane_columns = 16,
                         .lanes_n = 4,
                         .warps_m = 2,
                         .warps_n = 1,
                         .depth = 8,
                         .stages = 3,
                         .order = PipelinedOrder::rows,
                         .lead = 40};
  PipelinedTile large_tn{.lane_rows = 8,
                         .lane_columns = 16,
                         .lanes_n = 4,
                         .warps_m = 1,
                         .warps_n = 2,
                         .depth = 16,
                         .stages = 3,
                         .order = PipelinedOrder::rows,
                         .lead = 7};
  PipelinedTile large_tt{.lane_rows = 8,
                         .lane_columns = 16,
                         .lanes_n = 4,
                         .warps_m = 2,
                         .warps_n = 1,
                         .depth = 16,
                         .stages = 2,
                         .order = PipelinedOrder::columns,
                         .lead = 10};
  PipelinedTile medium{.lane_rows = 8,
                       .lane_columns = 8,
                       .lanes_n = 8,
                       .warps_m = 2,
                       .warps_n = 2,
                       .depth = 16,
                       .stages = 3,
                       .order = PipelinedOrder::quads,
                       .lead = 20};
  PipelinedTile medium_nt{.lane_rows = 8,
                          .lane_columns = 8,
                          .lanes_n = 8,
                          .warps_m = 2,
                          .warps_n = 2,
                          .warps_k = 2,
                          .depth = 16,
                          .stages = 2,
                          .order = PipelinedOrder::sums,
                          .lead = 20};
  PipelinedTile medium_tt{.lane_rows = 8,
                          .lane_columns = 8,
                          .lanes_n = 8,
                          .warps_m = 2,
                          .warps_n = 2,
                          .warps_k = 2,
                          .depth = 16,
                          .stages = 2,
                          .order = PipelinedOrder::columns,
                          .lead = 2};

  explicit WideTiles(const PipelinedTuning& tuning) {
    const auto tune = [](PipelinedTile& tile, int stages, int lead, int registers) {
      if (stages != PipelinedTuning::kOwn) tile.stages = stages;
      if (lead != PipelinedTuning::kOwn) tile.lead = lead;
      tile.registers = registers;
    };
    for (PipelinedTile* tile : {&large_nn, &large_nt, &large_tn, &large_tt}) {
      tune(*tile, tuning.large_stages, tuning.large_lead, tuning.large_registers);
    }
    for (PipelinedTile* tile : {&medium, &medium_nt, &medium_tt}) {
      tune(*tile, tuning.medium_stages, tuning.medium_lead, tuning.medium_registers);
    }
  }
};

/// Elements of f32. The preferences below are for 132 multiprocessors, of which a block takes one or shares it with one
/// more: tiles shrink, and k is dealt over more warps, as the result does.
inline std::vector<ContractionPlan> contraction_plans(Cuda, const ContractionProblem& p, const PipelinedTuning& tuning,
                                                      EpilogueLength epilogue) {
  const QuadLoads can = quad_loads(p);
  const auto fits = [&](const PipelinedTile& tile) { return p.rows >= tile.rows() && p.columns >= tile.columns(); };
  const auto whole = [&](const PipelinedTile& tile) { return p.inner % tile.stage_depth() == 0; };
  const Expr many = tiles_of_result(p, 64, 128) >= 400, some = tiles_of_result(p, 64, 128) >= 90;
  constexpr int kSomeTiles = 90;

  std::vector<ContractionPlan> plans;
  const auto push = [&](ContractionPlan plan, const Expr& preferred, const ModelledTile& tile) {
    plan.preferred = preferred;
    plan.microseconds = modelled_microseconds(p, plan.name, work_of_tiles(p, tile));
    plans.push_back(std::move(plan));
  };
  const auto add = [&](PipelinedTile tile, const PipelinedAccess& access, const std::string& name,
                       std::vector<Expr> when, const Expr& preferred, std::vector<std::string> tunables = {}) {
    // Before sm_80 there are no asynchronous copies to have in flight, and no more shared memory than this for certain.
    if (Descriptor::target.get_cuda_capability_lower_bound() < 80) {
      tile.stages = 2;
      if (tile.shared_bytes() > kSharedBytesOfAll) return;
    }
    push(pipelined_plan(p, tile, access, name, std::move(when)), preferred,
         {tile.rows(), tile.columns(), tile.stage_depth(), tile.warps()});
    plans.back().tunables = std::move(tunables);
  };
  // A kernel for each pair of layouts, so that no branch stands among a turn's copies (10 % at 2048).
  const Expr aligned = p.columns % 4 == 0 && p.result_row_stride % 4 == 0 && p.result_batch_stride % 4 == 0;
  const Expr left_n = aligned && p.left.column_stride == 1,
             left_t = aligned && p.left.column_stride != 1 && can.left_along_rows, right_n = can.right_along_columns,
             right_t = p.right.column_stride != 1 && p.right.row_stride == 1,
             right_t_quads = p.right.column_stride != 1 && can.right_along_k;
  const PipelinedAccess even{.whole_stages = true, .quads = true, .whole_tiles = true},
      apart{.whole_tiles = true, .columns_apart = true, .by_layouts = true};
  PipelinedAccess even_right_k = even;
  even_right_k.right_along_k = true;
  PipelinedAccess even_k = even_right_k;
  even_k.left_along_k = true;
  const WideTiles tiles(tuning);

  constexpr int kLeastInner = 256;
  for (const char* name : {"along_1", "along_1_deep", "along_1_wide", "along_4", "along_8", "along_4_quads",
                           "along_8_quads", "across_1", "across_1_deep", "across_1_wide", "across_4", "across_8",
                           "across_8_quads", "across_8_quads_deep", "far_across_4"}) {
    FewRowsPlan few = few_rows_plan(p, name);
    push(std::move(few.plan), few.is_along_k ? p.inner >= kLeastInner : Expr(false), few.tile);
  }
  if (lies_either_way(p)) {
    for (const char* name : {"along_4", "across_4", "far_across_4"}) {
      FewRowsPlan few = few_columns_plan(p, name);
      push(std::move(few.plan), Expr(false), few.tile);
    }
  }
  const Expr layer = can.left_along_k && right_t_quads;
  const PipelinedAccess along_k{.left_along_k = true, .right_along_k = true};
  const PipelinedTile layer_small{.lane_rows = 4,
                                  .lane_columns = 4,
                                  .lanes_n = 8,
                                  .warps_m = 1,
                                  .warps_n = 1,
                                  .warps_k = 8,
                                  .depth = 8,
                                  .stages = 3,
                                  .order = PipelinedOrder::sums,
                                  .lead = 2};
  const PipelinedTile layer_32{.lane_rows = 8,
                               .lane_columns = 8,
                               .lanes_n = 4,
                               .lanes_k = 2,
                               .warps_m = 1,
                               .warps_n = 1,
                               .warps_k = 4,
                               .depth = 8,
                               .stages = 4,
                               .order = PipelinedOrder::sums,
                               .lead = 2};
  const PipelinedTile layer_64{.lane_rows = 8,
                               .lane_columns = 8,
                               .lanes_n = 4,
                               .warps_m = 1,
                               .warps_n = 1,
                               .warps_k = 8,
                               .depth = 8,
                               .stages = 3,
                               .order = PipelinedOrder::sums,
                               .lead = 2};
  add(layer_small, along_k, "layer_small", {p.rows <= 64 && layer}, tiles_of_result(p, 32, 32) < kSomeTiles);
  add(layer_32, along_k, "layer_32", {p.rows <= 32 && layer}, {});
  add(layer_64, along_k, "layer_64", {p.rows <= 64 && layer}, tiles_of_result(p, 64, 32) >= kSomeTiles);

  const PipelinedTile odd_large{.lane_rows = 8,
                                .lane_columns = 16,
                                .lanes_n = 4,
                                .warps_m = 2,
                                .warps_n = 2,
                                .depth = 8,
                                .stages = 3,
                                .order = PipelinedOrder::columns,
                                .lead = 10};
  if (epilogue != EpilogueLength::long_one) {
    const auto add_large = [&](const PipelinedTile& tile, const PipelinedAccess& access, const std::string& layouts,
                               const Expr& applies) {
      add(tile, access, "large_" + layouts, {fits(tile) && whole(tile) && applies}, many,
          {"large_stages", "large_lead", "large_registers"});
    };
    add_large(tiles.large_nn, even, "nn", left_n && right_n);
    add_large(tiles.large_tn, even, "tn", left_t && right_n);
    add_large(tiles.large_nt, even, "nt", left_n && right_t);
    add_large(tiles.large_tt, even_right_k, "tt", left_t && right_t_quads);
  }
  const auto add_medium = [&](const PipelinedTile& tile, const PipelinedAccess& access, const std::string& name,
                              const std::vector<Expr>& layouts) {
    std::vector<Expr> when;
    for (const Expr& layout : layouts) when.push_back(fits(tile) && whole(tile) && layout);
    add(tile, access, name, std::move(when), some, {"medium_stages", "medium_lead", "medium_registers"});
  };
  add_medium(tiles.medium_nt, even_k, "medium_nt", {aligned && layer});
  add_medium(tiles.medium_tt, even_right_k, "medium_tt", {left_t && right_t_quads});
  add_medium(tiles.medium, even, "medium", {left_n && right_n, left_t && right_n});
  const PipelinedTile odd_medium = kTileOfTwoWarps;
  PipelinedTile even_small = odd_medium, odd_wide = odd_medium, odd_tall = odd_medium;
  // Copies of single elements keep their addresses in registers: so many leave room for another block.
  odd_wide.registers = 112;
  even_small.order = PipelinedOrder::quads;
  odd_wide.lane_rows = odd_tall.lane_columns = 4;
  even_small.lead = odd_wide.lead = odd_tall.lead = 2;
  add(even_small, even, "even_small",
      {fits(even_small) && whole(even_small) && left_n && right_n,
       fits(even_small) && whole(even_small) && left_t && right_n},
      Expr(false));
  if (epilogue != EpilogueLength::long_one) {
    add(odd_large, apart, "odd_large", {fits(odd_large)}, many);
  }
  const PipelinedTile few_rows{.lane_rows = 8,
                               .lane_columns = 4,
                               .lanes_n = 8,
                               .lanes_k = 2,
                               .warps_m = 1,
                               .warps_n = 1,
                               .warps_k = 4,
                               .depth = 12,
                               .stages = 3,
                               .order = PipelinedOrder::quads,
                               .lead = 2};
  const PipelinedTile small{.lane_rows = 8,
                            .lane_columns = 8,
                            .lanes_n = 8,
                            .warps_m = 1,
                            .warps_n = 1,
                            .warps_k = 4,
                            .depth = 8,
                            .stages = 3,
                            .order = PipelinedOrder::quads,
                            .lead = 2,
                            .registers = 168};
  const PipelinedAccess apart_anywhere{.columns_apart = true, .by_layouts = true}, anyhow{.by_layouts = true};
  add(odd_medium, apart, "odd_medium", {fits(odd_medium)}, some);
  add(odd_wide, apart_anywhere, "odd_wide", {}, Expr(false));
  add(odd_tall, apart_anywhere, "odd_tall", {}, Expr(false));
  add(few_rows, {}, "few_rows", {p.rows <= few_rows.rows()}, {});
  add(small, anyhow, "small", {}, tiles_of_result(p, 32, 64) >= kSomeTiles);
  add_thread_plans(p, {"threads", "threads_deep", "dealt", "dealt_row"}, plans);
  add(kSmallestTile, anyhow, "smallest", {}, {});
  return plans;
}

}  // namespace ashlar::dsl
