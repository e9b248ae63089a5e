// Which plans a contraction has on each target, and what of them a tuner may vary.
#pragma once

#include "schedules/contraction_cpu.h"
#include "schedules/contraction_cuda.h"
#include "schedules/contraction_opencl.h"

namespace ashlar::dsl {

/// The tunables of a kernel with a contraction. A member of the kernel, with the element type of its operands.
template <ElementType T>
struct ContractionTunables {
  Tunable<int> tile_columns{"tile_columns", {64, 32, 128}, On::gpu}, tile_rows{"tile_rows", {64, 32, 128}, On::gpu};
  Tunable<int> thread_rows{"thread_rows", {8, 4}, On::gpu}, tile_depth{"tile_depth", {32, 16}, On::gpu},
      tile_unroll{"tile_unroll", {16, 8, 32}, On::gpu};
  // CUDA, f32: stages in flight, the place of a turn's copies among its work (-1: the tile's own), and at most so many
  // registers of a thread (0: any number)
  Tunable<int> large_stages{"large_stages", {-1, 2, 3}, On::cuda}, large_lead{"large_lead", {-1, 7, 40}, On::cuda},
      large_registers{"large_registers", {0, 168}, On::cuda};
  Tunable<int> medium_stages{"medium_stages", {-1, 2, 3}, On::cuda}, medium_lead{"medium_lead", {-1, 2}, On::cuda},
      medium_registers{"medium_registers", {0, 128}, On::cuda};
  Tunable<int> micro_rows{"micro_rows", {6, 4}, On::cpu}, panel_depth{"panel_depth", {512, 256}, On::cpu};

  ContractionTunables() {
    space_rule("a work-group has 64 to 512 threads", [this] {
      const int threads = tile_columns.value() * tile_rows.value() / (4 * thread_rows.value());
      return threads >= 64 && threads <= 512;
    });
    space_rule("a tile's totals and operands fit into 48 KB of local memory", [this] {
      const int columns = tile_columns.value(), rows = tile_rows.value();
      return 4 * (columns * rows + tile_depth.value() * (columns + rows + 8)) <= 48 * 1024;
    });
    space_rule("a chunk is unrolled no further than it is deep",
               [this] { return tile_unroll.value() <= tile_depth.value(); });
    space_rule("fewer registers are for more blocks on a multiprocessor, as its registers and shared memory allow",
               [this] {
                 PipelinedTuning free = pipelined();
                 free.large_registers = free.medium_registers = 0;
                 const WideTiles with(pipelined()), without(free);
                 const auto pays = [](const PipelinedTile& some, const PipelinedTile& any) {
                   return some.registers == 0 || some.resident_blocks() > any.resident_blocks();
                 };
                 return pays(with.large_tn, without.large_tn) && pays(with.medium, without.medium);
               });
    space_rule("a tile's stages fit into the 99 KB of shared memory that GPUs have from sm_80 on", [this] {
      const WideTiles tiles(pipelined());
      return std::max({tiles.large_nn.shared_bytes(), tiles.large_nt.shared_bytes(), tiles.large_tn.shared_bytes(),
                       tiles.large_tt.shared_bytes(), tiles.medium.shared_bytes(), tiles.medium_nt.shared_bytes(),
                       tiles.medium_tt.shared_bytes()}) <= 99 << 10;
    });
  }
  PipelinedTuning pipelined() const {
    return {large_stages.value(),  large_lead.value(),  large_registers.value(),
            medium_stages.value(), medium_lead.value(), medium_registers.value()};
  }
  WorkgroupTile workgroup() const {
    return {.columns = tile_columns.value(),
            .rows = tile_rows.value(),
            .thread_columns = 4,
            .thread_rows = thread_rows.value(),
            .depth = tile_depth.value(),
            .unroll = tile_unroll.value()};
  }
  PackedTile packed() const { return {.micro_rows = micro_rows.value(), .depth = panel_depth.value()}; }
};

/// The plans for operands of type T on the target that the kernel is compiled for, in the order in which they are
/// tried: Contraction::define().
template <ElementType T>
std::vector<ContractionPlan> contraction_plans(const ContractionProblem& problem,
                                               const ContractionTunables<T>& tunables, EpilogueLength epilogue) {
  constexpr bool is_f32 = std::is_same_v<T, f32>;
  if (Descriptor::target.has_feature(Halide::Target::CUDA)) {
    if (!is_f32) return narrow_contraction_plans(problem, tunables.workgroup());
    return contraction_plans(Cuda{}, problem, tunables.pipelined(), epilogue);
  }
  if (Descriptor::target.has_feature(Halide::Target::OpenCL)) {
    return is_f32 ? wide_contraction_plans(OpenCL{}, problem, tunables.workgroup())
                  : contraction_plans(OpenCL{}, problem, tunables.workgroup());
  }
  const std::vector<ContractionPlan> on_cpu = contraction_plans(Cpu{}, problem, tunables.packed(), epilogue, is_f32);
  // Every plan costs 30 KB in each instance; the last one is for any size. The others go, from AVX2 on, to f32, and to
  // 16-bit products without an epilogue.
  const bool all_plans =
      Descriptor::target.has_feature(Halide::Target::AVX2) && (is_f32 || epilogue == EpilogueLength::none);
  if (!all_plans) return {on_cpu.back()};
  return on_cpu;
}

}  // namespace ashlar::dsl
