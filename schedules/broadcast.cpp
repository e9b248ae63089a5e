#include "schedules/broadcast.h"

#include <algorithm>

#include "schedules/lowering/accesses.h"
#include "schedules/lowering/as_vectors.h"
#include "schedules/lowering/branches.h"
#include "schedules/lowering/certain_checks.h"
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
constexpr int kFewestAxes = 4;  // of all kernels but those for calls of more, which have no branches for fewer
constexpr int kLongRow = 4096;  // elements; from here on a block has a run of one row

/// Innermost strides that get a branch of their own: 1 of those inputs that have elements along a row, 0 of the others.
struct InnermostPattern {
  Expr holds = Halide::Internal::const_true();
  std::vector<bool> has_elements;  ///< of each input

  InnermostPattern(const std::vector<Parameter>& inputs, std::vector<bool> which) : has_elements(std::move(which)) {
    for (size_t i = 0; i < inputs.size(); i++) holds = holds && stride_of(inputs[i], 0) == (has_elements[i] ? 1 : 0);
    holds = Halide::Internal::simplify(holds);
  }
};

/// All have elements, or each but one of two or three (on the CPU of one, too: a value for all of a row). Of many
/// inputs, as normalisation has them, those declared first, one or two, have all elements, and the others are constants
/// of a row.
std::vector<InnermostPattern> innermost_patterns(const std::vector<Parameter>& inputs, bool is_on_cpu) {
  constexpr size_t kMany = 4;
  const std::vector<bool> all(inputs.size(), true);
  const auto leading = [&](size_t ones) {
    std::vector<bool> which(inputs.size(), false);
    for (const ArgumentDescription& argument : Descriptor::current->arguments) {
      const auto input = std::ranges::find(inputs, argument.name, [](const Parameter& p) { return p.name(); });
      if (input == inputs.end()) continue;
      which[static_cast<size_t>(input - inputs.begin())] = ones > 0;
      ones -= ones > 0;
    }
    return InnermostPattern(inputs, which);
  };
  std::vector<InnermostPattern> patterns{{inputs, all}};
  if (inputs.size() >= kMany) {
    patterns.push_back(leading(1));
    patterns.push_back(leading(2));
    return patterns;
  }
  for (size_t i = 0; (inputs.size() > 1 || is_on_cpu) && i < inputs.size(); i++) {
    std::vector<bool> which = all;
    which[i] = false;
    patterns.emplace_back(inputs, which);
  }
  if (is_on_cpu && inputs.size() + 1 == kMany) patterns.push_back(leading(1));
  return patterns;
}

struct OutputShape {
  explicit OutputShape(const Func& out) {
    const Halide::OutputImageParam buffer = out.output_buffer();
    for (int d = 0; d < out.dimensions(); d++) {
      extent.push_back(buffer.dim(d).extent());
      stride.push_back(buffer.dim(d).stride());
    }
  }
  int rank() const { return static_cast<int>(extent.size()); }
  Expr elements() const { return elements_from(0); }
  Expr is_flat() const { return is_one_from(1); }
  /// Of the dimensions from `first` on, outwards.
  Expr elements_from(size_t first) const {
    Expr product = extent[first];
    for (size_t d = first + 1; d < extent.size(); d++) product = product * extent[d];
    return product;
  }
  Expr is_one_from(size_t first) const {
    Expr all = extent[first] == 1;
    for (size_t d = first + 1; d < extent.size(); d++) all = all && extent[d] == 1;
    return all;
  }
  std::vector<Expr> extent, stride;  ///< innermost first
};

// One loop of `inside` and the outermost `count` of `index` (outermost first), those further in running faster.
void fuse_with(Halide::Stage stage, Var inside, const std::vector<Var>& index, int count, const Var& fused) {
  for (int d = count - 1; d >= 0; d--) {
    stage.fuse(inside, index[static_cast<size_t>(d)], fused);
    inside = fused;
  }
}
void fuse_outermost(Halide::Stage stage, const std::vector<Var>& index, int count, const Var& fused) {
  fuse_with(std::move(stage), index[static_cast<size_t>(count - 1)], index, count - 1, fused);
}

// One input whose steps of one element run along the output's `dimension`-th loop (innermost first): tiles are read
// along the one, turned round in registers and written along the other, few rows at a time: an AMD EPYC joins stores of
// whole cache lines to four places without reading these first, to eight it doesn't (561 × 8561 elements take 1.6 ms in
// place of 2.9).
Branch cpu_transpose(Func out, const std::vector<Var>& index, const Parameter& input, int dimension) {
  constexpr int kRows = 4, kLineBytes = 64, kPageBytes = 4096;
  const int bytes = input.type().bytes();
  // Along the output. Vectors of 16-bit elements, else of eight elements: larger tiles take more code.
  const int tile_i = bytes == 2 ? std::clamp(Descriptor::target.natural_vector_size(input.type()), 8, 16) : 8;
  const int tile_j = bytes == 1 ? 8 : kRows;  // of bytes, which are dear to turn round
  const OutputShape shape(out);
  const int rank = shape.rank();
  const auto loop = [&](int d) { return index[static_cast<size_t>(rank - 1 - d)]; };  // of the output's dimension d
  const Var i = loop(0), j = loop(dimension);
  Func staged("staged" + std::to_string(dimension));
  staged(std::vector<Var>(index.rbegin(), index.rend())) = values_of(out)[0];
  // A block has a cache line of the input along j. Of rows that lie whole pages apart few fit into a cache.
  const Expr are_apart = stride_of(input, 0) % (kPageBytes / bytes) == 0;
  const int line = std::max(1, kLineBytes / bytes / tile_j);
  const Expr i_tiles = Halide::select(are_apart, 4, 16), j_tiles = Halide::select(are_apart, 4 * line, line);
  return {stride_of(input, 0) != 1 && stride_of(input, dimension) == 1 && shape.extent[0] >= tile_i &&
              shape.extent[static_cast<size_t>(dimension)] >= tile_j,
          {staged(std::vector<Expr>(index.rbegin(), index.rend()))},
          [=](Halide::Stage branch) mutable {
            Var i_block("i_block"), i_tile("i_tile"), i_in("i_in"), j_block("j_block"), j_tile("j_tile"), j_in("j_in"),
                task("task"), block("block");
            branch.split(i, i_tile, i_in, tile_i, TailStrategy::ShiftInwards)
                .split(i_tile, i_block, i_tile, i_tiles, TailStrategy::GuardWithIf)
                .split(j, j_tile, j_in, tile_j, TailStrategy::ShiftInwards)
                .split(j_tile, j_block, j_tile, j_tiles, TailStrategy::GuardWithIf);
            std::vector<Halide::VarOrRVar> order{i_in, j_in, i_tile, j_tile, i_block, j_block};
            std::vector<Var> outer;
            for (int d = 1; d < rank; d++) {
              if (d != dimension) outer.push_back(index[static_cast<size_t>(rank - 1 - d)]);
            }
            order.insert(order.end(), outer.begin(), outer.end());
            branch.reorder(order).vectorize(i_in).unroll(j_in).fuse(i_block, j_block, block);
            for (const Var& v : outer) branch.fuse(block, v, block);
            // Few blocks to a task: threads side by side read lines that lie side by side.
            constexpr int kBlocks = 8;
            branch.split(block, task, block, kBlocks, TailStrategy::GuardWithIf).parallel(task);
            staged.compute_at(out, i_tile).store_in(Halide::MemoryType::Stack);
            staged.reorder_storage(j, i).reorder(j, i).vectorize(j).unroll(i);
            as_vectors(staged);
          }};
}

}  // namespace

void broadcast(Cpu, Func out, const std::vector<Var>& index, const BroadcastTunables*) {
  // Names of their own for the inner loops: split(i, run, i, …) left unvectorised computes element 0 only in Halide 21.
  Var outer("outer"), outer_task("outer_task"), outer_run("outer_run"), row("row"), row_task("row_task"), task("task"),
      run("run"), element("element"), vector("vector"), lane("lane");
  const int lanes = 2 * Descriptor::target.natural_vector_size<float>();
  const OutputShape shape(out);
  // Tasks of whole rows, as many as make a task worth its start; long rows are cut instead. A task's place is divided
  // into indices once for each run of rows along one dimension.
  const Expr per_task = elements_per_task(shape.elements());
  const Expr rows = Halide::max(1, per_task / Halide::max(1, shape.extent[0]));
  const Expr runs = Halide::max(1, rows / Halide::max(1, shape.extent[1]));
  const auto tiled = [&](auto&& stage, bool vectors) {
    const Var &i = index[index.size() - 1], &j = index[index.size() - 2];
    // Vectors first: a short row then runs its few vectors, not a whole run of masked ones.
    if (vectors) {
      stage.split(i, vector, lane, lanes, TailStrategy::GuardWithIf)
          .split(vector, run, element, per_task / lanes, TailStrategy::GuardWithIf)
          .vectorize(lane);
    } else {
      stage.split(i, run, element, per_task, TailStrategy::GuardWithIf);
    }
    fuse_outermost(stage, index, static_cast<int>(index.size()) - 2, outer);
    stage.split(outer, outer_task, outer_run, runs, TailStrategy::GuardWithIf)
        .split(j, row_task, row, rows, TailStrategy::GuardWithIf)
        .reorder(element, row, outer_run, run, row_task, outer_task)
        .fuse(run, row_task, task)
        .parallel(task)
        .parallel(outer_task);  // fused with these, its bounds would be lost to Halide 21
  };
  const std::vector<Parameter> inputs = inputs_of(out);
  if (inputs.size() == 1) {
    std::vector<Branch> branches;
    for (int d = 1; d < shape.rank(); d++) branches.push_back(cpu_transpose(out, index, inputs[0], d));
    choose(out, branches);
  }
  // A vector of a short row is mostly empty, which is dear where there is nothing to compute.
  constexpr int kFewOperations = 2, kManyOperations = 32, kShortRow = 8;
  const int operations = operations_of(values_of(out)[0]);
  const bool is_cheap = operations <= kFewOperations;
  for (const InnermostPattern& pattern : innermost_patterns(inputs, /*is_on_cpu=*/true)) {
    tiled(out.specialize(is_cheap ? pattern.holds && shape.extent[0] > kShortRow : pattern.holds), true);
  }
  // Other steps: elements come into a vector one by one, which pays where there is much to compute (of pow 10 times).
  tiled(out, operations >= kManyOperations);
}

namespace {

// The loops but the innermost two, from the inside outwards.
std::vector<Var> outer_loops(const std::vector<Var>& index) { return {index.rbegin() + 2, index.rend()}; }

template <class T = Var>
std::vector<T> with_outer(std::vector<T> indices, const std::vector<Var>& outer) {
  for (const Var& loop : outer) indices.emplace_back(loop);
  return indices;
}

// What a grid's second and third dimension are made of: tiles along the output's second dimension, and the outer loops.
// Of three of these the innermost goes with the tiles: where a loop was divided twice, Halide 21 takes a tile's place
// along it for all places up to it, and asks for shared memory for them.
struct OuterBlocks {
  static constexpr int kMost = 65535;

  static Expr fit(const OutputShape& shape, int tile) {
    const Expr tiles = (shape.extent[1] + tile - 1) / tile;
    if (shape.rank() <= kFewestAxes) return tiles <= kMost && shape.elements_from(2) <= kMost;
    return tiles <= kMost / shape.extent[2] && shape.elements_from(3) <= kMost;
  }
  static void fuse(Halide::Stage stage, const std::vector<Var>& index, const Var& tiles, const Var& batch) {
    const int outer = static_cast<int>(index.size()) - 2, with_tiles = outer > 2 ? 1 : 0;
    if (with_tiles > 0) stage.fuse(tiles, index[static_cast<size_t>(outer - 1)], tiles);
    fuse_outermost(stage, index, outer - with_tiles, batch);
  }
};

// Of a transposing copy's output: so many elements along its second dimension, which is the input's innermost, and
// along its innermost.
struct Tile {
  int x, y;
};

// One input whose steps of one element run along the output's second dimension: tiles of both go through shared memory,
// read along the one and written along the other. Threads beyond an edge repeat the last row or column.
Branch transposed_tiles(Func out, const std::vector<Var>& index, const Parameter& input, const Tile& tile,
                        const Expr& condition) {
  constexpr int kBankBytes = 4;
  const int padding = std::max(1, kBankBytes / input.type().bytes());  // a column of a tile lies in different banks
  const OutputShape shape(out);
  const std::vector<Var> outer = outer_loops(index);
  const Var &c = index[index.size() - 2], &d = index[index.size() - 1];
  Var x("x"), y("y"), tile_x("tile_x"), tile_y("tile_y");
  const Rewrite in_tile{{{c.name(), Halide::min(tile_x * tile.x + x, shape.extent[1] - 1)},
                         {d.name(), Halide::min(tile_y * tile.y + y, shape.extent[0] - 1)}},
                        {}};
  const std::string name = std::to_string(tile.x) + "x" + std::to_string(tile.y);
  Func staged("staged" + name);
  staged(with_outer({x, y, tile_y, tile_x}, outer)) = in_tile(values_of(out)[0]);
  return {stride_of(input, 0) != 1 && stride_of(input, 1) == 1 && OuterBlocks::fit(shape, tile.x) && condition,
          {staged(with_outer<Expr>({c % tile.x, d % tile.y, d / tile.y, c / tile.x}, outer))},
          [=](Halide::Stage branch) mutable {
            Var block("tile" + name), thread("thread"), row("row"), step("step"), block_y("block_y"), batch("batch");
            branch.split(d, block, thread, tile.y, TailStrategy::GuardWithIf)
                .split(c, block_y, row, tile.x, TailStrategy::GuardWithIf)
                .split(row, step, row, kThreads / tile.y)
                .reorder(with_outer<Halide::VarOrRVar>({step, thread, row, block, block_y}, outer))
                .unroll(step)
                .fuse(thread, row, thread);
            OuterBlocks::fuse(branch, index, block_y, batch);
            branch.gpu_blocks(block, block_y, batch).gpu_threads(thread);
            staged.compute_at(out, block).store_in(Halide::MemoryType::GPUShared);
            staged.bound(x, 0, tile.x).bound(y, 0, tile.y).align_storage(x, tile.x + padding);
            staged.bound_extent(tile_x, 1).bound_extent(tile_y, 1);  // else the host works it out, block by block
            staged.split(y, step, y, kThreads / tile.x).reorder(step, x, y).unroll(step).fuse(x, y, x).gpu_threads(x);
          }};
}

// The same for 16-bit elements, two at a time either way: a thread loads two pairs of neighbours, turns the four round
// in registers, and stores them in shared memory as pairs along the other dimension.
Branch transposed_pairs(Func out, const std::vector<Var>& index, const Parameter& input) {
  constexpr int kTile = 64, kPairs = kTile / 2, kRows = kThreads / kPairs, kShortest = 16;
  const OutputShape shape(out);
  const std::vector<Var> outer = outer_loops(index);
  const Var &c = index[index.size() - 2], &d = index[index.size() - 1];
  Var x("x"), y("y"), x_pair("x_pair"), x_in("x_in"), tile_x("tile_x"), tile_y("tile_y");
  const Expr pair = Halide::min(tile_x * kPairs + x_pair, shape.extent[1] / 2 - 1);
  const Rewrite in_tile{{{c.name(), pair * 2 + x_in}, {d.name(), Halide::min(tile_y * kTile + y, shape.extent[0] - 1)}},
                        {}};
  Func loaded("loaded"), staged("staged_pairs");
  loaded(with_outer({x_in, y, x_pair, tile_y, tile_x}, outer)) = in_tile(values_of(out)[0]);
  staged(with_outer({y, x, tile_y, tile_x}, outer)) =
      loaded(with_outer<Expr>({x % 2, y, x / 2, tile_y, tile_x}, outer));
  Expr even = hidden_min(input) % 2 == 0 && shape.extent[0] % 2 == 0 && shape.extent[1] % 2 == 0;
  for (int dimension = 0; dimension < shape.rank(); dimension++) {
    if (dimension != 1) even = even && stride_of(input, dimension) % 2 == 0;
    if (dimension != 0) even = even && shape.stride[static_cast<size_t>(dimension)] % 2 == 0;
  }
  return {even && stride_of(input, 0) != 1 && stride_of(input, 1) == 1 && shape.extent[0] >= kShortest &&
              shape.extent[1] >= kShortest && OuterBlocks::fit(shape, kTile),
          {staged(with_outer<Expr>({d % kTile, c % kTile, d / kTile, c / kTile}, outer))},
          [=](Halide::Stage branch) mutable {
            Var block("pairs_tile"), thread("pair_thread"), lane("lane"), row("row"), step("step"), block_y("block_y"),
                batch("batch"), y_in("y_in");
            branch.split(d, block, thread, kTile, TailStrategy::GuardWithIf)
                .split(thread, thread, lane, 2)
                .split(c, block_y, row, kTile, TailStrategy::GuardWithIf)
                .split(row, step, row, kRows)
                .reorder(with_outer<Halide::VarOrRVar>({lane, step, thread, row, block, block_y}, outer))
                .vectorize(lane)
                .unroll(step);
            OuterBlocks::fuse(branch, index, block_y, batch);
            branch.gpu_blocks(block, block_y, batch).gpu_threads(thread, row);
            staged.compute_at(out, block).store_in(Halide::MemoryType::GPUShared);
            staged.bound(x, 0, kTile).bound(y, 0, kTile).align_storage(y, kTile + 2);
            staged.bound_extent(tile_x, 1).bound_extent(tile_y, 1);
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

// Operands whose elements lie side by side along the output's second dimension, in a branch of their own: a block has a
// square of places, a warp some neighbours of a few rows, so that what comes with an element of either is used while a
// cache has it.
void across_rows(Func out, const std::vector<Var>& index, const std::vector<Parameter>& inputs) {
  constexpr int kWarp = 32, kWarps = kThreads / kWarp, kSectorBytes = 32, kSide = 64, kShortest = 8;
  int bytes = 4;
  for (const Parameter& input : inputs) bytes = std::min(bytes, input.type().bytes());
  const int beside = std::min(kSectorBytes / bytes, kWarp / 2), columns = 2 * beside;  // of a warp, of a block
  const OutputShape shape(out);
  Expr is_across = Halide::Internal::const_false();
  for (const Parameter& input : inputs) {
    is_across = is_across || (stride_of(input, 0) > 1 && stride_of(input, 1) == 1);
  }
  const size_t rank = index.size();
  const Var &i = index[rank - 1], &j = index[rank - 2];
  Var block("block_of_rows"), block_y("block_y"), batch("batch"), lane("lane"), group("group"), row("row"),
      step("step"), below("below"), thread("thread");
  Halide::Stage branch = out.specialize(is_across && shape.extent[0] >= kShortest && shape.extent[1] >= kShortest &&
                                        OuterBlocks::fit(shape, kSide));
  branch.split(i, block, group, columns, TailStrategy::GuardWithIf)
      .split(group, group, lane, beside)
      .split(j, block_y, row, kSide, TailStrategy::GuardWithIf)
      .split(row, step, row, kWarps / (columns / beside) * (kWarp / beside))
      .split(row, row, below, kWarp / beside)
      .reorder(with_outer<Halide::VarOrRVar>({step, lane, below, group, row, block, block_y}, outer_loops(index)))
      .unroll(step)
      .fuse(lane, below, thread)
      .fuse(group, row, group);
  OuterBlocks::fuse(branch, index, block_y, batch);
  branch.gpu_blocks(block, block_y, batch).gpu_threads(thread, group);
}

void broadcast_gpu(Func out, const std::vector<Var>& index, const BroadcastTunables* tunables) {
  constexpr int kUnroll = 4;
  const int flat_vectors = tunables != nullptr ? tunables->flat_vectors.value() : 1;
  const int chosen_vectors = tunables != nullptr ? tunables->row_vectors.value() : 0;
  Var outer("outer"), block("block"), thread("thread"), lane("lane"), step("step"), vector("vector");
  const OutputShape shape(out);
  const int rank = shape.rank();
  const Var &i = index[static_cast<size_t>(rank - 1)], &j = index[static_cast<size_t>(rank - 2)];
  const int lanes = lanes_of_access(out);
  leave_out_certain_checks();
  whole_vectors();
  vector_accesses();
  index_arithmetic();
  const std::vector<Parameter> inputs = inputs_of(out);
  if (inputs.size() == 1) {
    // Tiles as narrow as the tensor is; small ones where large ones would leave the device half empty.
    constexpr int kShortest = 8, kNarrow = 16, kVeryNarrow = 8, kLeast = 3, kLong = 32, kLarge = 1 << 20;
    const int bytes = inputs[0].type().bytes(), side = bytes > 4 ? 32 : 64, wide = bytes > 4 ? 128 : 256;
    const Expr &columns = shape.extent[0], &rows = shape.extent[1];
    const Expr has_tiles = columns >= kShortest && rows >= kShortest;
    std::vector<Branch> branches{
        transposed_tiles(out, index, inputs[0], {.x = 32, .y = 32}, has_tiles && shape.elements() < kLarge),
        transposed_tiles(out, index, inputs[0], {.x = wide, .y = kNarrow}, has_tiles && columns <= kNarrow),
        transposed_tiles(out, index, inputs[0], {.x = kNarrow, .y = wide}, has_tiles && rows <= kNarrow),
        transposed_tiles(out, index, inputs[0], {.x = wide, .y = kVeryNarrow},
                         columns >= kLeast && columns < kShortest && rows >= kLong),
        transposed_tiles(out, index, inputs[0], {.x = kVeryNarrow, .y = wide},
                         rows >= kLeast && rows < kShortest && columns >= kLong)};
    if (bytes == 2) branches.push_back(transposed_pairs(out, index, inputs[0]));
    branches.push_back(transposed_tiles(out, index, inputs[0], {.x = side, .y = side}, has_tiles));
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
  const bool may_be_flat = rank <= kFewestAxes;
  if (may_be_flat && is_short) one_each(out.specialize(shape.is_flat() && are_few), i);
  for (const auto& [pattern, has_elements] : innermost_patterns(inputs, /*is_on_cpu=*/false)) {
    Expr offsets_aligned = Halide::Internal::const_true();
    Expr aligned = shape.extent[0] % lanes == 0 && lines_are_aligned(out.output_buffer(), lanes);
    // Every row starts at a multiple of the vector, but of an operand that is one element for all of a row.
    for (size_t operand = 0; operand < inputs.size(); operand++) {
      if (!has_elements[operand]) continue;
      offsets_aligned = offsets_aligned && hidden_min(inputs[operand]) % lanes == 0;
      aligned = aligned && lines_are_aligned(inputs[operand], lanes);
    }
    // The outer loops have one iteration and vanish: nothing is divided, and the run's start is known to be aligned.
    if (may_be_flat) {
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
    }
    // Long rows: several vectors of a row for each thread, so that only a block's number is divided.
    const int row_vectors = chosen_vectors != 0 ? chosen_vectors : std::max(1, kLongRow / (kThreads * lanes));
    const int threads = std::min(kThreads, kLongRow / (row_vectors * lanes));
    Halide::Stage long_rows = out.specialize(pattern && aligned && in_vectors && shape.extent[0] >= kLongRow);
    long_rows.split(i, vector, lane, lanes, TailStrategy::GuardWithIf);
    fuse_outermost(long_rows, index, rank - 1, outer);
    long_rows.split(vector, block, step, threads * row_vectors, TailStrategy::GuardWithIf)
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
      Halide::Stage short_rows =
          out.specialize(pattern && aligned && shape.extent[0] % (kAcross * lanes) == 0 && shape.extent[1] >= kRows &&
                         shape.extent[1] <= kMostBlocks * kRows && shape.elements_from(2) <= kMostBlocks);
      short_rows.split(i, vector, lane, lanes, TailStrategy::GuardWithIf)
          .split(vector, block, thread, kAcross, TailStrategy::GuardWithIf)
          .split(j, block_y, row, kRows * kEach, TailStrategy::GuardWithIf)
          .split(row, step, row, kRows)
          .reorder(with_outer<Halide::VarOrRVar>({lane, step, thread, row, block, block_y}, outer_loops(index)))
          .unroll(step)
          .vectorize(lane);
      fuse_outermost(short_rows, index, rank - 2, batch);
      short_rows.gpu_blocks(block, block_y, batch).gpu_threads(thread, row);
    }
    // A thread divides its number once for a whole vector.
    Halide::Stage whole = out.specialize(pattern && aligned && in_vectors);
    whole.split(i, vector, lane, lanes, TailStrategy::GuardWithIf);
    fuse_with(whole, vector, index, rank - 1, outer);
    whole.split(outer, block, thread, kThreads, TailStrategy::GuardWithIf)
        .vectorize(lane)
        .gpu_blocks(block)
        .gpu_threads(thread);
  }
  // Of one run that begins anywhere: a thread for each of some elements; of 16 bits words (lowering/accesses.h).
  constexpr int kSome = 1 << 18;
  if (may_be_flat && is_short) {
    const InnermostPattern runs(inputs, std::vector<bool>(inputs.size(), true));
    out.specialize(runs.holds && shape.is_flat())
        .split(i, thread, lane, lanes, TailStrategy::GuardWithIf)
        .split(thread, block, thread, kThreads, TailStrategy::GuardWithIf)
        .vectorize(lane)
        .gpu_blocks(block)
        .gpu_threads(thread);
  } else if (may_be_flat) {
    one_each(out.specialize(shape.is_flat() && shape.elements() < kSome), i);
  }
  // Several for each thread, a block apart. None is worked out twice: the output may be an input as well.
  const auto some_each = [&](auto&& branch, const Var& run) {
    branch.split(run, block, step, kThreads * kUnroll, TailStrategy::GuardWithIf)
        .split(step, step, thread, kThreads)
        .reorder(step, thread, block)
        .unroll(step);
  };
  if (may_be_flat) {
    Halide::Stage one_run = out.specialize(shape.is_flat());
    some_each(one_run, i);
    one_run.gpu_blocks(block).gpu_threads(thread);
  }
  if (inputs.size() > 1) across_rows(out, index, inputs);
  Halide::Stage rows = out.specialize(shape.extent[0] >= kThreads * kUnroll && !are_few);
  fuse_outermost(rows, index, rank - 1, outer);
  some_each(rows, i);
  rows.fuse(block, outer, block).gpu_blocks(block).gpu_threads(thread);
  // Of a matrix one division for each element; the other outer loops have one iteration.
  if (may_be_flat) {
    Halide::Stage matrix = out.specialize(shape.is_one_from(2) && !are_few);
    matrix.fuse(i, j, outer);
    some_each(matrix, outer);
    matrix.gpu_blocks(block).gpu_threads(thread);
  }
  // Matrices of short rows: a thread has the same place of several, so that it is divided once.
  constexpr int kMostBlocks = 65535;
  const Expr of_matrix = shape.extent[0] * shape.extent[1];
  Var place("place"), batch("batch");
  Halide::Stage alike = out.specialize(of_matrix >= kThreads / 2 && of_matrix <= kMostBlocks * kThreads &&
                                       shape.elements_from(2) >= kUnroll && !are_few);
  alike.fuse(i, j, place);
  fuse_outermost(alike, index, rank - 2, outer);
  alike.split(place, block, thread, kThreads, TailStrategy::GuardWithIf)
      .split(outer, batch, step, kUnroll, TailStrategy::GuardWithIf)
      .reorder(step, thread, batch, block)
      .unroll(step)
      .gpu_blocks(batch, block)
      .gpu_threads(thread);
  Halide::Stage few = out.specialize(are_few);
  fuse_with(few, i, index, rank - 1, outer);
  one_each(few, outer);
  fuse_with(out, i, index, rank - 1, outer);
  some_each(Halide::Stage(out), outer);
  out.gpu_blocks(block).gpu_threads(thread);
}

}  // namespace

void broadcast(OpenCL, Func out, const std::vector<Var>& index, const BroadcastTunables* tunables) {
  broadcast_gpu(out, index, tunables);
}
void broadcast(Cuda, Func out, const std::vector<Var>& index, const BroadcastTunables* tunables) {
  broadcast_gpu(out, index, tunables);
}

}  // namespace ashlar::dsl
