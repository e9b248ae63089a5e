// What a contraction's plans for CUDA take, by a model of the device: its multiprocessors work through the blocks of a
// plan, some of them at a time, in rounds. The numbers are measured (benchmarks/plan_choice.cpp, fit_plans.py).
#pragma once

#include <array>

#include "schedules/contraction.h"

namespace ashlar::dsl {

/// What a block computes: rows × columns of the result, `depth` terms in each stage.
struct ModelledTile {
  int rows, columns, depth;
};

/// What its work takes, in clock cycles.
struct BlockCost {
  const char* plan;
  int resident;   ///< blocks that a multiprocessor works on at a time
  int setup;      ///< of a block, once
  int latency;    ///< of a stage, however few blocks there are
  int share;      ///< of a stage for each block at work, where that is more
  float exposed;  ///< the part of the time of moving all operands and the result once that isn't hidden behind work
};

/// Fitted to an H200 in f32; blocks of other GPUs are taken to need as many cycles. What a call takes beside them, in
/// microseconds, includes the start of a kernel inside a graph.
inline constexpr float kModelledStart = 1.4f;
inline constexpr std::array kBlockCosts{
    BlockCost{"row", 2, 297, 693, 24, 0.24f},           BlockCost{"rows", 2, 347, 695, 94, 0.34f},
    BlockCost{"layer_small", 1, 771, 645, 375, 0.47f},  BlockCost{"layer_32", 8, 1466, 1098, 1086, 0.14f},
    BlockCost{"layer_64", 1, 5485, 1828, 1129, 0.61f},  BlockCost{"large_nn", 1, 3280, 990, 5533, 0.65f},
    BlockCost{"large_tn", 4, 1850, 4432, 1381, 0.73f},  BlockCost{"large_nt", 2, 1307, 1571, 818, 0.47f},
    BlockCost{"large_tt", 5, 2635, 3943, 1258, 2.30f},  BlockCost{"medium_nt", 1, 3858, 990, 3363, 0.66f},
    BlockCost{"medium_tt", 1, 3963, 990, 2931, 0.81f},  BlockCost{"medium", 4, 1196, 1513, 1451, 0.49f},
    BlockCost{"odd_large", 2, 18153, 990, 1495, 4.27f}, BlockCost{"odd_medium", 2, 2556, 1009, 902, 0.67f},
    BlockCost{"few_rows", 2, 663, 1822, 1693, 0.00f},   BlockCost{"small", 2, 2994, 1363, 1144, 0.47f},
    BlockCost{"smallest", 1, 1665, 1487, 751, 0.07f},
};

// t = start + exposed · bytes / bandwidth + Σ over rounds (setup + stages · max(latency, blocks at work · share))
// All rounds but the last have `resident` blocks at work; a multiprocessor has ⌈blocks / multiprocessors⌉ in all.
inline Expr modelled_microseconds(const ContractionProblem& p, const std::string& plan, const ModelledTile& tile) {
  const BlockCost* cost = nullptr;
  for (const BlockCost& one : kBlockCosts) {
    if (plan == one.plan) cost = &one;
  }
  if (cost == nullptr) mistake("the plan " + plan + " has no place in kBlockCosts: measure it");
  const auto real = [](const Expr& e) { return Halide::cast<float>(e); };
  const auto over = [&](const Expr& e, int unit) { return Halide::ceil(real(e) / static_cast<float>(unit)); };
  const Expr blocks = over(p.rows, tile.rows) * over(p.columns, tile.columns) * real(p.batches);
  const Expr each = Halide::ceil(blocks / device_multiprocessors()), stages = over(p.inner, tile.depth);
  const auto resident = static_cast<float>(cost->resident);
  const Expr full_rounds = Halide::ceil((each + 1.0f) / resident) - 1.0f, rest = each - full_rounds * resident;
  const auto round = [&](const Expr& at_work) {
    return static_cast<float>(cost->setup) +
           stages * max(static_cast<float>(cost->latency), at_work * static_cast<float>(cost->share));
  };
  const Expr cycles = full_rounds * round(resident) + select(rest > 0.0f, round(rest), 0.0f);
  const Expr rows = real(p.rows), columns = real(p.columns), inner = real(p.inner);
  const Expr bytes = 4.0f * real(p.batches) * (rows * inner + inner * columns + rows * columns);
  return kModelledStart + cycles / (device_gigahertz() * 1000.0f) +
         bytes * cost->exposed / (device_gigabytes_per_second() * 1000.0f);
}

}  // namespace ashlar::dsl
