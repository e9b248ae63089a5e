#include "schedules/broadcast.h"

#include <algorithm>

#include "schedules/lowering/accesses.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tasks.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::Parameter;
using Halide::TailStrategy;

namespace {

constexpr int kThreads = 256;
constexpr int kLongRow = 4096;  // elements; from here on a block has a run of one row

/// The innermost strides that get a branch of their own: all 1, and each input in turn 0 with the others 1.
struct InnermostPattern {
  Expr holds;
  int repeated;  ///< the input whose stride is 0, or -1
};
std::vector<InnermostPattern> innermost_patterns(const std::vector<Parameter>& inputs) {
  std::vector<InnermostPattern> patterns;
  const int count = static_cast<int>(inputs.size());
  for (int repeated = -1; repeated < count; repeated++) {
    Expr pattern = Halide::Internal::const_true();
    for (int i = 0; i < count; i++)
      pattern = pattern && stride_of(inputs[static_cast<size_t>(i)], 0) == (i == repeated ? 0 : 1);
    patterns.push_back({Halide::Internal::simplify(pattern), repeated});
    if (count == 1 && repeated < 0) break;
  }
  return patterns;
}

/// The same on the CPU. Of many inputs, as normalisation has them, those declared first, one or two, have all elements,
/// and the others are constants of a row.
std::vector<Expr> cpu_patterns(const std::vector<Parameter>& inputs) {
  constexpr size_t kMany = 4;
  std::vector<Expr> patterns;
  const auto leading = [&](size_t ones) {
    Expr pattern = Halide::Internal::const_true();
    for (const ArgumentDescription& argument : Descriptor::current->arguments) {
      const auto input = std::ranges::find(inputs, argument.name, [](const Parameter& p) { return p.name(); });
      if (input == inputs.end()) continue;
      pattern = pattern && stride_of(*input, 0) == (ones > 0 ? 1 : 0);
      ones -= ones > 0;
    }
    return Halide::Internal::simplify(pattern);
  };
  if (inputs.size() >= kMany) return {leading(inputs.size()), leading(1), leading(2)};
  for (const InnermostPattern& pattern : innermost_patterns(inputs)) patterns.push_back(pattern.holds);
  if (inputs.size() + 1 == kMany) patterns.push_back(leading(1));
  return patterns;
}

struct Shape4 {
  explicit Shape4(const Func& out) {
    const Halide::OutputImageParam buffer = out.output_buffer();
    for (int d = 0; d < 4; d++) extent.push_back(buffer.dim(d).extent()), stride.push_back(buffer.dim(d).stride());
  }
  Expr elements() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
  Expr is_flat() const { return extent[1] == 1 && extent[2] == 1 && extent[3] == 1; }
  std::vector<Expr> extent, stride;  ///< innermost first
};

// One input whose steps of one element run along the output's `dimension`-th loop (innermost first): square tiles are
// read along the one, turned round in registers and written along the other. Sixteen tiles in a block, for whole cache
// lines.
Branch cpu_transpose(Func out, const std::vector<Var>& index, const Parameter& input, int dimension) {
  constexpr int kTilesEachWay = 4;
  const int tile = input.type().bytes() < 4 ? 16 : 8;
  const Shape4 shape(out);
  const Var i = index[3], j = index[static_cast<size_t>(3 - dimension)];
  Func staged("staged" + std::to_string(dimension));
  staged(std::vector<Var>(index.rbegin(), index.rend())) = values_of(out)[0];
  return {stride_of(input, 0) != 1 && stride_of(input, dimension) == 1 && shape.extent[0] >= tile &&
              shape.extent[static_cast<size_t>(dimension)] >= tile,
          {staged(std::vector<Expr>(index.rbegin(), index.rend()))},
          [=](Halide::Stage branch) mutable {
            Var i_block("i_block"), i_tile("i_tile"), i_in("i_in"), j_block("j_block"), j_tile("j_tile"), j_in("j_in"),
                task("task"), block("block");
            branch.split(i, i_tile, i_in, tile, TailStrategy::ShiftInwards)
                .split(i_tile, i_block, i_tile, kTilesEachWay, TailStrategy::GuardWithIf)
                .split(j, j_tile, j_in, tile, TailStrategy::ShiftInwards)
                .split(j_tile, j_block, j_tile, kTilesEachWay, TailStrategy::GuardWithIf);
            std::vector<Halide::VarOrRVar> order{i_in, j_in, j_tile, i_tile, i_block, j_block};
            std::vector<Var> outer;
            for (int d = 1; d < 4; d++) {
              if (d != dimension) outer.push_back(index[static_cast<size_t>(3 - d)]);
            }
            order.insert(order.end(), outer.begin(), outer.end());
            branch.reorder(order).vectorize(i_in).unroll(j_in).fuse(i_block, j_block, block);
            for (const Var& v : outer) branch.fuse(block, v, block);
            // Few blocks to a task: threads side by side read lines that lie side by side.
            branch.split(block, task, block, kTilesEachWay * kTilesEachWay, TailStrategy::GuardWithIf).parallel(task);
            staged.compute_at(out, j_tile).store_in(Halide::MemoryType::Stack);
            staged.reorder_storage(j, i).reorder(j, i).vectorize(j).unroll(i);
          }};
}

}  // namespace

void broadcast(Cpu, Func out, const std::vector<Var>& index, const BroadcastTunables*) {
  // Names of their own for the inner loops: split(i, run, i, …) left unvectorised computes element 0 only in Halide 21.
  Var outer("outer"), outer_task("outer_task"), outer_run("outer_run"), row("row"), row_task("row_task"), task("task"),
      run("run"), element("element"), vector("vector"), lane("lane");
  const int lanes = 2 * Descriptor::target.natural_vector_size<float>();
  const Shape4 shape(out);
  // Tasks of whole rows, as many as make a task worth its start; long rows are cut instead. A task's place is divided
  // into indices once for each run of rows along one dimension.
  const Expr per_task = elements_per_task(shape.elements());
  const Expr rows = Halide::max(1, per_task / Halide::max(1, shape.extent[0]));
  const Expr runs = Halide::max(1, rows / Halide::max(1, shape.extent[1]));
  const auto tiled = [&](auto&& stage, bool vectors) {
    const Var &i = index[3], &j = index[2];
    // Vectors first: a short row then runs its few vectors, not a whole run of masked ones.
    if (vectors) {
      stage.split(i, vector, lane, lanes, TailStrategy::GuardWithIf)
          .split(vector, run, element, per_task / lanes, TailStrategy::GuardWithIf)
          .vectorize(lane);
    } else {
      stage.split(i, run, element, per_task, TailStrategy::GuardWithIf);
    }
    stage.fuse(index[1], index[0], outer)
        .split(outer, outer_task, outer_run, runs, TailStrategy::GuardWithIf)
        .split(j, row_task, row, rows, TailStrategy::GuardWithIf)
        .reorder(element, row, outer_run, run, row_task, outer_task)
        .fuse(run, row_task, task)
        .parallel(task)
        .parallel(outer_task);  // fused with these, its bounds would be lost to Halide 21
  };
  const std::vector<Parameter> inputs = inputs_of(out);
  if (inputs.size() == 1) {
    choose(out, {cpu_transpose(out, index, inputs[0], 1), cpu_transpose(out, index, inputs[0], 2),
                 cpu_transpose(out, index, inputs[0], 3)});
  }
  // A vector of a short row is mostly empty, which is dear where there is nothing to compute.
  constexpr int kFewOperations = 2, kShortRow = 8;
  const bool is_cheap = operations_of(values_of(out)[0]) <= kFewOperations;
  for (const Expr& pattern : cpu_patterns(inputs)) {
    tiled(out.specialize(is_cheap ? pattern && shape.extent[0] > kShortRow : pattern), true);
  }
  tiled(out, false);
}

namespace {

// One input whose steps of one element run along the output's second dimension: tiles of both go through shared memory,
// read along the one and written along the other. Threads beyond an edge repeat the last row or column.
Branch transposed_tiles(Func out, const std::vector<Var>& index, const Parameter& input) {
  constexpr int kTile = 64, kShortest = 8, kBankBytes = 4,
                kMostBlocks = 65535;  // of a grid's second and third dimension
  const int bytes = input.type().bytes(), tile = bytes > 4 ? kTile / 2 : kTile;
  const int padding = std::max(1, kBankBytes / bytes);  // a column of a tile then lies in different banks
  const Shape4 shape(out);
  const Var &a = index[0], &b = index[1], &c = index[2], &d = index[3];
  Var x("x"), y("y"), tile_x("tile_x"), tile_y("tile_y");
  const Rewrite in_tile{{{c.name(), Halide::min(tile_x * tile + x, shape.extent[1] - 1)},
                         {d.name(), Halide::min(tile_y * tile + y, shape.extent[0] - 1)}},
                        {}};
  Func staged("staged");
  staged(x, y, tile_y, tile_x, b, a) = in_tile(values_of(out)[0]);
  return {stride_of(input, 0) != 1 && stride_of(input, 1) == 1 && shape.extent[0] >= kShortest &&
              shape.extent[1] >= kShortest && shape.extent[1] <= kMostBlocks * tile &&
              shape.extent[2] <= kMostBlocks / Halide::max(1, shape.extent[3]),
          {staged(c % tile, d % tile, d / tile, c / tile, b, a)},
          [=](Halide::Stage branch) mutable {
            Var block("tile"), thread("thread"), row("row"), step("step"), block_y("block_y"), batch("batch");
            const int rows = kThreads / tile;
            branch.split(d, block, thread, tile, TailStrategy::GuardWithIf)
                .split(c, block_y, row, tile, TailStrategy::GuardWithIf)
                .split(row, step, row, rows)
                .reorder(step, thread, row, block, block_y, b, a)
                .unroll(step)
                .fuse(b, a, batch)
                .gpu_blocks(block, block_y, batch)
                .gpu_threads(thread, row);
            staged.compute_at(out, block).store_in(Halide::MemoryType::GPUShared);
            staged.bound(x, 0, tile).bound(y, 0, tile).align_storage(x, tile + padding);
            staged.split(y, step, y, rows).reorder(step, x, y).unroll(step).gpu_threads(x, y);
          }};
}

// The same for 16-bit elements, two at a time either way: a thread loads two pairs of neighbours, turns the four round
// in registers, and stores them in shared memory as pairs along the other dimension.
Branch transposed_pairs(Func out, const std::vector<Var>& index, const Parameter& input) {
  constexpr int kTile = 64, kPairs = kTile / 2, kRows = kThreads / kPairs, kShortest = 16, kMostBlocks = 65535;
  const Shape4 shape(out);
  const Var &a = index[0], &b = index[1], &c = index[2], &d = index[3];
  Var x("x"), y("y"), x_pair("x_pair"), x_in("x_in"), tile_x("tile_x"), tile_y("tile_y");
  const Expr pair = Halide::min(tile_x * kPairs + x_pair, shape.extent[1] / 2 - 1);
  const Rewrite in_tile{{{c.name(), pair * 2 + x_in}, {d.name(), Halide::min(tile_y * kTile + y, shape.extent[0] - 1)}},
                        {}};
  Func loaded("loaded"), staged("staged_pairs");
  loaded(x_in, y, x_pair, tile_y, tile_x, b, a) = in_tile(values_of(out)[0]);
  staged(y, x, tile_y, tile_x, b, a) = loaded(x % 2, y, x / 2, tile_y, tile_x, b, a);
  Expr even = stride_of(input, 0) % 2 == 0 && stride_of(input, 2) % 2 == 0 && stride_of(input, 3) % 2 == 0 &&
              hidden_min(input) % 2 == 0 && shape.extent[0] % 2 == 0 && shape.extent[1] % 2 == 0;
  for (int dimension = 1; dimension < 4; dimension++) even = even && shape.stride[dimension] % 2 == 0;
  return {even && stride_of(input, 0) != 1 && stride_of(input, 1) == 1 && shape.extent[0] >= kShortest &&
              shape.extent[1] >= kShortest && shape.extent[1] <= kMostBlocks * kTile &&
              shape.extent[2] <= kMostBlocks / Halide::max(1, shape.extent[3]),
          {staged(d % kTile, c % kTile, d / kTile, c / kTile, b, a)},
          [=](Halide::Stage branch) mutable {
            Var block("pairs_tile"), thread("pair_thread"), lane("lane"), row("row"), step("step"), block_y("block_y"),
                batch("batch"), y_in("y_in");
            branch.split(d, block, thread, kTile, TailStrategy::GuardWithIf)
                .split(thread, thread, lane, 2)
                .split(c, block_y, row, kTile, TailStrategy::GuardWithIf)
                .split(row, step, row, kRows)
                .reorder(lane, step, thread, row, block, block_y, b, a)
                .vectorize(lane)
                .unroll(step)
                .fuse(b, a, batch)
                .gpu_blocks(block, block_y, batch)
                .gpu_threads(thread, row);
            staged.compute_at(out, block).store_in(Halide::MemoryType::GPUShared);
            staged.bound(x, 0, kTile).bound(y, 0, kTile).align_storage(y, kTile + 2);
            staged.split(y, y, y_in, 2)
                .split(y, step, y, kRows)
                .split(x, x_pair, x_in, 2)
                .reorder(y_in, x_in, step, x_pair, y)
                .vectorize(y_in)
                .unroll(x_in)
                .unroll(step)
                .gpu_threads(x_pair, y);
            loaded.compute_at(staged, step).bound(x_in, 0, 2).vectorize(x_in).unroll(y);
          }};
}

void broadcast_gpu(Func out, const std::vector<Var>& index, const BroadcastTunables* tunables) {
  constexpr int kUnroll = 4;
  const int flat_vectors = tunables != nullptr ? tunables->flat_vectors.value() : 1;
  const int chosen_vectors = tunables != nullptr ? tunables->row_vectors.value() : 0;
  Var outer("outer"), block("block"), thread("thread"), lane("lane"), step("step"), vector("vector");
  const Var& i = index[3];
  const Shape4 shape(out);
  const int lanes = lanes_of_access(out);
  whole_vectors();
  vector_accesses();
  index_arithmetic();
  const std::vector<Parameter> inputs = inputs_of(out);
  if (inputs.size() == 1) {
    std::vector<Branch> branches{transposed_tiles(out, index, inputs[0])};
    if (inputs[0].type().bytes() == 2) branches.insert(branches.begin(), transposed_pairs(out, index, inputs[0]));
    choose(out, branches);
  }
  // A thread for each of few elements of 16 bits, since it would fetch the code of eight one after the other.
  constexpr int kFew = 1 << 16, kFewLanes = 4;
  const bool is_short = lanes > kFewLanes;
  const Expr are_few = shape.elements() < kFew, in_vectors = is_short ? !are_few : Halide::Internal::const_true();
  const auto one_each = [&](auto&& branch, const Var& run) {
    branch.split(run, block, thread, kThreads, TailStrategy::GuardWithIf)
        .gpu_blocks(block)
        .gpu_threads(thread)
        .partition(block, Halide::Partition::Never);
  };
  const auto few_of_one_run = [&] { one_each(out.specialize(shape.is_flat() && are_few), i); };
  if (is_short) few_of_one_run();
  for (const auto& [pattern, repeated] : innermost_patterns(inputs)) {
    Expr offsets_aligned = Halide::Internal::const_true(), aligned = shape.extent[0] % lanes == 0;
    // Every row starts at a multiple of the vector, but of an operand that is one element for all of a row.
    for (int operand = 0; operand < static_cast<int>(inputs.size()); operand++) {
      if (operand == repeated) continue;
      const Parameter& input = inputs[static_cast<size_t>(operand)];
      offsets_aligned = offsets_aligned && hidden_min(input) % lanes == 0;
      for (int d = 1; d < 4; d++) aligned = aligned && stride_of(input, d) % lanes == 0;
    }
    for (int d = 1; d < 4; d++) aligned = aligned && shape.stride[d] % lanes == 0;
    aligned = aligned && offsets_aligned;
    // The outer loops have one iteration and vanish: nothing is divided, and the run's start is known to be aligned.
    out.specialize(pattern && shape.is_flat() && offsets_aligned)
        .split(i, block, thread, kThreads * lanes * flat_vectors, TailStrategy::GuardWithIf)
        .split(thread, step, thread, kThreads * lanes)
        .split(thread, thread, lane, lanes)
        .reorder(lane, step, thread, block)
        .unroll(step)
        .vectorize(lane)
        .gpu_blocks(block)
        .gpu_threads(thread)
        .partition(block, Halide::Partition::Never)
        .partition(thread, Halide::Partition::Never);
    // Long rows: several vectors of a row for each thread, so that only a block's number is divided.
    const int row_vectors = chosen_vectors != 0 ? chosen_vectors : std::max(1, kLongRow / (kThreads * lanes));
    const int threads = std::min(kThreads, kLongRow / (row_vectors * lanes));
    out.specialize(pattern && aligned && in_vectors && shape.extent[0] >= kLongRow)
        .split(i, vector, lane, lanes, TailStrategy::GuardWithIf)
        .fuse(index[2], index[1], outer)
        .fuse(outer, index[0], outer)
        .split(vector, block, step, threads * row_vectors, TailStrategy::GuardWithIf)
        .split(step, step, thread, threads)
        .reorder(lane, step, thread, block, outer)
        .fuse(block, outer, block)
        .unroll(step)
        .vectorize(lane)
        .gpu_blocks(block)
        .gpu_threads(thread);
    // A permuted tensor's short rows: a block has some vectors of some rows that follow each other, without a division.
    if (inputs.size() == 1) {
      constexpr int kAcross = 8, kRows = kThreads / kAcross, kEach = 2, kMostBlocks = 65535;
      Var row("row"), block_y("block_y"), batch("batch");
      out.specialize(pattern && aligned && shape.extent[0] % (kAcross * lanes) == 0 && shape.extent[1] >= kRows &&
                     shape.extent[1] <= kMostBlocks * kRows &&
                     shape.extent[2] <= kMostBlocks / Halide::max(1, shape.extent[3]))
          .split(i, vector, lane, lanes, TailStrategy::GuardWithIf)
          .split(vector, block, thread, kAcross, TailStrategy::GuardWithIf)
          .split(index[2], block_y, row, kRows * kEach, TailStrategy::GuardWithIf)
          .split(row, step, row, kRows)
          .reorder({lane, step, thread, row, block, block_y, index[1], index[0]})
          .unroll(step)
          .vectorize(lane)
          .fuse(index[1], index[0], batch)
          .gpu_blocks(block, block_y, batch)
          .gpu_threads(thread, row);
    }
    // A thread divides its number once for a whole vector.
    out.specialize(pattern && aligned && in_vectors)
        .split(i, vector, lane, lanes, TailStrategy::GuardWithIf)
        .fuse(vector, index[2], outer)
        .fuse(outer, index[1], outer)
        .fuse(outer, index[0], outer)
        .split(outer, block, thread, kThreads, TailStrategy::GuardWithIf)
        .vectorize(lane)
        .gpu_blocks(block)
        .gpu_threads(thread);
  }
  if (!is_short) few_of_one_run();
  // Several for each thread, a block apart. None is worked out twice: the output may be an input as well.
  const auto some_each = [&](auto&& branch, const Var& run) {
    branch.split(run, block, step, kThreads * kUnroll, TailStrategy::GuardWithIf)
        .split(step, step, thread, kThreads)
        .reorder(step, thread, block)
        .unroll(step);
  };
  Halide::Stage rows = out.specialize(shape.extent[0] >= kThreads * kUnroll && !are_few);
  rows.fuse(index[2], index[1], outer).fuse(outer, index[0], outer);
  some_each(rows, i);
  rows.fuse(block, outer, block).gpu_blocks(block).gpu_threads(thread);
  // Of a matrix one division for each element; the other outer loops have one iteration.
  const Expr is_matrix = shape.extent[2] == 1 && shape.extent[3] == 1;
  Halide::Stage matrix = out.specialize(is_matrix && !are_few);
  matrix.fuse(i, index[2], outer);
  some_each(matrix, outer);
  matrix.gpu_blocks(block).gpu_threads(thread);
  Halide::Stage small = out.specialize(is_matrix);
  one_each(small.fuse(i, index[2], outer), outer);
  one_each(out.fuse(i, index[2], outer).fuse(outer, index[1], outer).fuse(outer, index[0], outer), outer);
}

}  // namespace

void broadcast(OpenCL, Func out, const std::vector<Var>& index, const BroadcastTunables* tunables) {
  broadcast_gpu(out, index, tunables);
}
void broadcast(Cuda, Func out, const std::vector<Var>& index, const BroadcastTunables* tunables) {
  broadcast_gpu(out, index, tunables);
}

}  // namespace ashlar::dsl
