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

/// Fitted to an H200 in f32, at 6000 products drawn at random (row's last number to the largest of its few). From medium
/// on, and layer_small, then for the least loss by the choice, to an H100 at 2350: fitted to half of them, the choice
/// took 1.03 to 1.04 times the best plan's time on the other. Blocks of other GPUs are taken to need as many cycles.
/// What a call takes beside them, in microseconds, includes the start of a kernel inside a graph.
inline constexpr float kModelledStart = 1.4f;
inline constexpr std::array kBlockCosts{
    BlockCost{"row", 8, 0, 923, 42, 1.50f},
    BlockCost{"rows", 1, 372, 652, 83, 0.00f},
    BlockCost{"layer_small", 1, 678, 642, 333, 0.68f},
    BlockCost{"layer_32", 1, 2122, 995, 666, 0.51f},
    BlockCost{"layer_64", 1, 5453, 1000, 1809, 0.93f},
    BlockCost{"large_nn", 1, 3955, 1000, 5409, 0.62f},
    BlockCost{"large_tn", 5, 1086, 4388, 1315, 0.85f},
    BlockCost{"large_nt", 2, 1134, 1590, 519, 0.55f},
    BlockCost{"large_tt", 4, 3415, 3753, 1296, 2.23f},
    BlockCost{"medium_nt", 1, 3898, 1000, 3337, 0.70f},
    BlockCost{"medium_tt", 1, 3902, 1000, 2972, 0.65f},
    BlockCost{"medium", 3, 1276, 1514, 1347, 0.45f},
    BlockCost{"even_small", 4, 713, 836, 343, 0.43f},
    BlockCost{"odd_large", 7, 10373, 1596, 1526, 2.93f},
    BlockCost{"odd_medium", 2, 914, 961, 492, 0.42f},
    BlockCost{"odd_wide", 4, 650, 759, 284, 0.66f},
    BlockCost{"odd_tall", 4, 935, 659, 355, 0.55f},
    BlockCost{"few_rows", 2, 1475, 1771, 1442, 0.20f},
    BlockCost{"threads", 2, 0, 1300, 199, 0.67f},
    BlockCost{"threads_deep", 2, 0, 2290, 396, 0.88f},
    BlockCost{"dealt", 2, 1454, 716, 190, 1.26f},
    BlockCost{"dealt_row", 2, 354, 801, 189, 0.80f},
    BlockCost{"small", 2, 2697, 1413, 1152, 0.50f},
    BlockCost{"smallest", 1, 1587, 1000, 1386, 0.41f},
};

/// What a plan deals to blocks: how many, the stages of each, and how many times its share each stage takes.
struct ModelledWork {
  Expr blocks, stages, crowding = 1.0f;
};

inline ModelledWork work_of_tiles(const ContractionProblem& p, const ModelledTile& tile) {
  const auto over = [](const Expr& e, int unit) {
    return Halide::ceil(Halide::cast<float>(e) / static_cast<float>(unit));
  };
  return {over(p.rows, tile.rows) * over(p.columns, tile.columns) * Halide::cast<float>(p.batches),
          over(p.inner, tile.depth)};
}

// t = start + exposed · bytes / bandwidth
//     + Σ over rounds (setup + stages · max(latency, blocks at work · crowding · share))
// All rounds but the last have `resident` blocks at work; a multiprocessor has ⌈blocks / multiprocessors⌉ in all.
inline Expr modelled_microseconds(const ContractionProblem& p, const std::string& plan, const ModelledWork& work) {
  const BlockCost* cost = nullptr;
  for (const BlockCost& one : kBlockCosts) {
    if (plan == one.plan) cost = &one;
  }
  if (cost == nullptr) mistake("the plan " + plan + " has no place in kBlockCosts: measure it");
  const auto real = [](const Expr& e) { return Halide::cast<float>(e); };
  const Expr each = Halide::ceil(work.blocks / device_multiprocessors());
  const auto resident = static_cast<float>(cost->resident);
  const Expr full_rounds = Halide::ceil((each + 1.0f) / resident) - 1.0f, rest = each - full_rounds * resident;
  const auto round = [&](const Expr& at_work) {
    return static_cast<float>(cost->setup) +
           work.stages *
               max(static_cast<float>(cost->latency), at_work * work.crowding * static_cast<float>(cost->share));
  };
  const Expr cycles = full_rounds * round(resident) + select(rest > 0.0f, round(rest), 0.0f);
  const Expr rows = real(p.rows), columns = real(p.columns), inner = real(p.inner);
  const Expr bytes = 4.0f * real(p.batches) * (rows * inner + inner * columns + rows * columns);
  return kModelledStart + cycles / (device_gigahertz() * 1000.0f) +
         bytes * cost->exposed / (device_gigabytes_per_second() * 1000.0f);
}

}  // namespace ashlar::dsl
