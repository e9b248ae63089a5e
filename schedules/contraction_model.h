// What a contraction's plans for GPUs take, by a model of the device: its multiprocessors work through the blocks of a
// plan, some of them at a time, in rounds. The numbers are measured (benchmarks/plan_choice.cpp, fit_plans.py).
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "runtime/launch/kernel_start.h"
#include "schedules/contraction.h"

namespace ashlar::dsl {

/// What a block computes: rows × columns of the result, `depth` terms in each stage, by so many warps.
struct ModelledTile {
  int rows, columns, depth, warps;
};

/// A tile that is worth a plan, by the plan's name.
template <class Tile>
struct NamedTile {
  std::string_view name;
  Tile tile;
};

/// What its work takes, in clock cycles.
struct BlockCost {
  const char* plan;
  int resident;       ///< blocks that a multiprocessor works on at a time
  int setup;          ///< of a block, once
  int latency;        ///< of a stage, however few blocks there are
  int share;          ///< of a stage for each block at work, where that is more
  float exposed;      ///< the part of the time of moving all operands and the result once that isn't hidden behind work
  float singles = 0;  ///< of the latency, what it grows by for each operand across k that is copied element by element
};

/// Fitted for the least loss by the choice (fit_plans.py) to an H200: tiles at 4170 products of f32 drawn at random and
/// 106 large layers; what few rows or columns, or threads, have at 2843 others and 600 with a side of up to 16 and more
/// than 32 MB to read, of both of which the choice takes 1.03 times the best plan's time; quads across k at 420 of up
/// to 16 rows (of 300 others 1.03 times). Blocks of other GPUs are taken to need as many cycles.
inline constexpr std::array kBlockCosts{
    BlockCost{"along_1", 1, 61, 218, 10, 0.09f},           BlockCost{"along_1_deep", 1, 107, 243, 21, 0.55f},
    BlockCost{"along_1_wide", 7, 257, 725, 10, 0.77f},     BlockCost{"along_4", 2, 104, 641, 42, 0.14f},
    BlockCost{"along_8", 1, 679, 452, 83, 0.06f},          BlockCost{"along_4_quads", 1, 350, 377, 83, 0.22f},
    BlockCost{"along_8_quads", 3, 1122, 297, 195, 0.37f},  BlockCost{"across_1", 4, 0, 418, 21, 1.36f},
    BlockCost{"across_1_deep", 5, 0, 680, 433, 1.14f},     BlockCost{"across_1_wide", 7, 0, 407, 150, 1.17f},
    BlockCost{"across_4", 3, 0, 518, 213, 1.46f},          BlockCost{"across_8", 2, 0, 839, 567, 1.76f},
    BlockCost{"across_8_quads", 3, 0, 1201, 613, 0.85f},   BlockCost{"across_8_quads_deep", 3, 0, 1534, 1769, 0.86f},
    BlockCost{"far_across_4", 2, 0, 1076, 914, 0.52f},     BlockCost{"tall_along_4", 3, 275, 834, 42, 0.15f},
    BlockCost{"tall_across_4", 3, 0, 540, 227, 1.50f},     BlockCost{"tall_far_across_4", 6, 0, 1551, 917, 0.49f},
    BlockCost{"layer_small", 1, 755, 651, 333, 0.45f},     BlockCost{"layer_32", 1, 2409, 995, 666, 0.08f},
    BlockCost{"layer_64", 1, 4910, 1823, 814, 0.50f},      BlockCost{"large_nn", 1, 3102, 1000, 5415, 0.77f},
    BlockCost{"large_tn", 4, 1044, 4256, 1313, 0.66f},     BlockCost{"large_nt", 8, 1032, 1602, 794, 0.75f},
    BlockCost{"large_tt", 5, 2965, 3938, 1300, 1.42f},     BlockCost{"medium_nt", 1, 3141, 1000, 3331, 0.94f},
    BlockCost{"medium_tt", 1, 3106, 1000, 3016, 0.63f},    BlockCost{"medium", 6, 1274, 1494, 1460, 0.48f},
    BlockCost{"even_small", 8, 578, 849, 380, 0.44f},      BlockCost{"odd_large", 2, 9967, 1583, 1445, 2.61f},
    BlockCost{"odd_medium", 6, 362, 912, 420, 0.86f},      BlockCost{"odd_wide", 4, 627, 589, 247, 0.74f},
    BlockCost{"odd_tall", 8, 636, 582, 257, 0.93f},        BlockCost{"few_rows", 2, 917, 1315, 893, 1.04f, 0.45f},
    BlockCost{"threads", 1, -864, 1330, 201, 0.27f},       BlockCost{"threads_deep", 2, -5074, 6299, 410, 1.66f},
    BlockCost{"dealt", 1, 791, 504, 174, 0.55f},           BlockCost{"dealt_row", 2, 111, 839, 194, 1.09f},
    BlockCost{"small", 2, 1931, 1105, 1119, 0.38f, 0.35f}, BlockCost{"smallest", 1, 932, 1219, 828, 0.93f, 0.45f},
};

/// OpenCL's, fitted to 1500 products on an H100.
inline constexpr std::array kOpenClBlockCosts{
    BlockCost{"large", 6, 0, 2477, 1913, 0.40f},      BlockCost{"odd_medium", 6, 525, 1642, 587, 0.93f},
    BlockCost{"odd_wide", 8, 294, 1305, 370, 0.70f},  BlockCost{"smallest", 2, 1282, 1386, 932, 1.20f},
    BlockCost{"threads", 2, 1824, 1052, 163, 0.00f},  BlockCost{"dealt", 2, 2576, 636, 108, 0.26f},
    BlockCost{"dealt_row", 4, 534, 1353, 108, 0.44f}, BlockCost{"tile", 4, 932, 2539, 1488, 0.56f},
    BlockCost{"split", 2, 52, 775, 42, 0.84f},
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
//     + Σ over rounds (setup + stages · max(latency · (1 + singles · operands so copied), blocks at work · crowding ·
//     share))
// All rounds but the last have `resident` blocks at work; a multiprocessor has ⌈blocks / multiprocessors⌉ in all. Three
// blocks of two warps take as long as four: some scheduler has two.
inline Expr modelled_microseconds(const ContractionProblem& p, const std::string& plan, const ModelledWork& work) {
  const bool is_opencl = Descriptor::target.has_feature(Halide::Target::OpenCL);
  const auto start = static_cast<float>(kernel_start(is_opencl ? DeviceKind::opencl : DeviceKind::cuda));
  const std::span<const BlockCost> costs = is_opencl ? std::span<const BlockCost>(kOpenClBlockCosts) : kBlockCosts;
  const auto cost = std::ranges::find(costs, plan, [](const BlockCost& one) { return std::string_view(one.plan); });
  if (cost == costs.end()) mistake("the plan " + plan + " has no place among the BlockCosts: measure it");
  const auto real = [](const Expr& e) { return Halide::cast<float>(e); };
  const Expr each = Halide::ceil(work.blocks / device_multiprocessors());
  const auto resident = static_cast<float>(cost->resident);
  const Expr full_rounds = Halide::ceil((each + 1.0f) / resident) - 1.0f, rest = each - full_rounds * resident;
  constexpr int kSchedulers = 4;
  const auto of_schedulers = static_cast<float>(std::max(1, kSchedulers / work.warps));
  const QuadLoads can = quad_loads(p);
  const auto singles_of = [&](const Expr& stride_along_k, const Expr& quads) {
    return select(stride_along_k != 1 && !quads, cost->singles, 0.0f);
  };
  const Expr latency =
      static_cast<float>(cost->latency) * (1.0f + singles_of(p.left.column_stride, can.left_along_rows) +
                                           singles_of(p.right.row_stride, can.right_along_columns));
  const auto round = [&](const Expr& at_work) {
    const Expr shares = Halide::ceil(at_work / of_schedulers) * of_schedulers;
    return static_cast<float>(cost->setup) +
           work.stages * max(latency, shares * work.crowding * static_cast<float>(cost->share));
  };
  const Expr cycles = full_rounds * round(resident) + select(rest > 0.0f, round(rest), 0.0f);
  const Expr rows = real(p.rows), columns = real(p.columns), inner = real(p.inner);
  const Expr bytes = 4.0f * real(p.batches) * (rows * inner + inner * columns + rows * columns);
  return start + cycles / (device_gigahertz() * 1000.0f) +
         bytes * cost->exposed / (device_gigabytes_per_second() * 1000.0f);
}

}  // namespace ashlar::dsl
