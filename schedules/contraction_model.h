// What a contraction's plans for CUDA take, by a model of the device: its multiprocessors work through the blocks of a
// plan, some of them at a time, in rounds. The numbers are measured (benchmarks/plan_choice.cpp, fit_plans.py).
#pragma once

#include <algorithm>
#include <array>

#include "schedules/contraction.h"

namespace ashlar::dsl {

/// What a block computes: rows × columns of the result, `depth` terms in each stage, by so many warps.
struct ModelledTile {
  int rows, columns, depth, warps;
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
    BlockCost{"layer_small", 1, 737, 651, 333, 0.56f},
    BlockCost{"layer_32", 1, 2122, 995, 666, 0.51f},
    BlockCost{"layer_64", 1, 4872, 1810, 1825, 0.74f},
    BlockCost{"large_nn", 1, 3100, 1000, 5415, 0.65f},
    BlockCost{"large_tn", 4, 1106, 4229, 1308, 0.80f},
    BlockCost{"large_nt", 2, 1246, 1592, 797, 0.46f},
    BlockCost{"large_tt", 4, 3093, 3807, 1248, 2.39f},
    BlockCost{"medium_nt", 1, 3014, 1000, 3355, 0.80f},
    BlockCost{"medium_tt", 1, 3177, 1000, 2973, 0.80f},
    BlockCost{"medium", 3, 1319, 1532, 1347, 0.49f},
    BlockCost{"even_small", 8, 623, 844, 359, 0.43f},
    BlockCost{"odd_large", 4, 10358, 1596, 1499, 2.94f},
    BlockCost{"odd_medium", 2, 948, 521, 473, 0.35f},
    BlockCost{"odd_wide", 4, 574, 759, 271, 0.75f},
    BlockCost{"odd_tall", 4, 946, 658, 272, 0.61f},
    BlockCost{"few_rows", 2, 995, 1633, 1553, 0.45f},
    BlockCost{"threads", 2, 0, 1311, 200, 0.78f},
    BlockCost{"threads_deep", 2, 0, 3755, 412, 0.39f},
    BlockCost{"dealt", 2, 1433, 732, 190, 1.10f},
    BlockCost{"dealt_row", 2, 353, 854, 176, 0.87f},
    BlockCost{"small", 2, 2735, 1413, 1152, 0.48f},
    BlockCost{"smallest", 1, 1591, 1387, 1386, 0.37f},
};

/// What a plan deals to blocks: how many, the stages of each, how many times its share each stage takes, and its warps,
/// of which a multiprocessor's four schedulers have one each.
struct ModelledWork {
  Expr blocks, stages, crowding = 1.0f;
  int warps = 4;
};

inline ModelledWork work_of_tiles(const ContractionProblem& p, const ModelledTile& tile) {
  const auto over = [](const Expr& e, int unit) {
    return Halide::ceil(Halide::cast<float>(e) / static_cast<float>(unit));
  };
  return {over(p.rows, tile.rows) * over(p.columns, tile.columns) * Halide::cast<float>(p.batches),
          over(p.inner, tile.depth), 1.0f, tile.warps};
}

// t = start + exposed · bytes / bandwidth
//     + Σ over rounds (setup + stages · max(latency, blocks at work · crowding · share))
// All rounds but the last have `resident` blocks at work; a multiprocessor has ⌈blocks / multiprocessors⌉ in all. Three
// blocks of two warps take as long as four: some scheduler has two.
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
  constexpr int kSchedulers = 4;
  const auto of_schedulers = static_cast<float>(std::max(1, kSchedulers / work.warps));
  const auto round = [&](const Expr& at_work) {
    const Expr shares = Halide::ceil(at_work / of_schedulers) * of_schedulers;
    return static_cast<float>(cost->setup) +
           work.stages *
               max(static_cast<float>(cost->latency), shares * work.crowding * static_cast<float>(cost->share));
  };
  const Expr cycles = full_rounds * round(resident) + select(rest > 0.0f, round(rest), 0.0f);
  const Expr rows = real(p.rows), columns = real(p.columns), inner = real(p.inner);
  const Expr bytes = 4.0f * real(p.batches) * (rows * inner + inner * columns + rows * columns);
  return kModelledStart + cycles / (device_gigahertz() * 1000.0f) +
         bytes * cost->exposed / (device_gigabytes_per_second() * 1000.0f);
}

}  // namespace ashlar::dsl
