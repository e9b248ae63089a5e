// The product inside of steps of a recurrent network: for each hidden unit the sums of all its gates, so that what
// follows them, the update of the unit's state, stands in the same kernel.
//
// Steps are gone through one after the other, since an input of the next one may be what this one has written: the
// caller binds the input over the output's memory, a step behind it.
#pragma once

#include <functional>

#include "dsl/kernel.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/per_thread.h"

namespace ashlar::dsl {

/// The index variables of such a kernel: step, member, row and column.
struct StepIndex {
  Var t{"t"}, m{"m"}, b{"b"}, c{"c"};
};

/// How many steps a call may have.
enum class Steps : uint8_t { one, many };

/// sum(g)[t,m,b,c] = Σ_k left(t,m,b,k) right(m,k,g,c) of steps t, members m, rows b, columns c and a few gates g
class StepProduct {
 public:
  struct Sizes {
    int gates;
    Expr terms, rows, columns, steps;  ///< how many k, b, c and t there are
  };
  using Left = std::function<Value(const Expr& t, const Expr& m, const Expr& b, const Expr& k)>;
  using Right = std::function<Value(const Expr& m, const Expr& k, const Expr& g, const Expr& c)>;

  explicit StepProduct(Steps steps = Steps::many) : steps_(steps) {}

  /// To be called in algorithm(), before sums are read.
  void define(const Sizes& sizes, const Left& left, const Right& right) {
    sizes_ = sizes;
    declare_plans();
    const auto product = [&](const Expr& term, const Expr& row, const Expr& column) {
      return left(t, m, row, term).expr() * right(m, term, g, column).expr();
    };
    if (!on_gpu()) {
      k = Halide::RDom(0, sizes.terms, "k");
      sums(c, g, b, m, t) = 0.0f;
      sums(c, g, b, m, t) += product(k.x, b, c);
      return;
    }
    // Slice s of k is what thread s of a column adds up: terms s, s + kSlices, …, rounds of kUnrolled of them. Rows and
    // columns beyond the last repeat it; nobody reads their sums.
    const Expr row = Halide::min(b, sizes.rows - 1), column = Halide::min(c, sizes.columns - 1);
    const auto inside = [&](const Expr& term) { return Halide::unsafe_promise_clamped(term, 0, sizes.terms - 1); };
    const auto guarded = [&](const Expr& term) {
      return Halide::select(term < sizes.terms, product(inside(Halide::min(term, sizes.terms - 1)), row, column), 0.0f);
    };
    // Many terms leave a rest to a loop of its own, few are one round.
    constexpr int kRound = kSlices * kUnrolled;
    const Expr rounds = tile_.is_whole ? (sizes.terms + kRound - 1) / kRound : sizes.terms / kRound;
    k = Halide::RDom(0, kUnrolled, 0, rounds, "k");
    const Expr term = (k.y * kUnrolled + k.x) * kSlices + s;
    sums(c, g, b, s, m, t) = 0.0f;
    if (tile_.is_whole) {
      sums(c, g, b, s, m, t) += guarded(term);
    } else {
      const Expr done = rounds * kRound;
      rest = Halide::RDom(0, (sizes.terms - done + kSlices - 1) / kSlices, "rest");
      sums(c, g, b, s, m, t) += product(inside(term), row, column);
      sums(c, g, b, s, m, t) += guarded(done + rest.x * kSlices + s);
    }
    slices(c, g, b, s, m, t) = sums(c, g, b, s, m, t);
  }

  /// The sum of gate `gate`.
  Value sum(const StepIndex& at, int gate) const {
    if (!on_gpu()) return Value(Expr(sums(at.c, gate, at.b, at.m, at.t)));
    std::vector<Expr> parts;
    for (int slice = 0; slice < kSlices; slice++) parts.push_back(slices(at.c, gate, at.b, slice, at.m, at.t));
    for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
      for (size_t i = 0; i < parts.size() / 2; i++) parts[i] = parts[i] + parts[i + parts.size() / 2];
    }
    return Value(parts[0]);
  }

  /// `out`, of indices t, m, b, some of constant extent (`inner`, on which no sum depends) and c. `contiguous`: columns
  /// of the right operand lie side by side.
  /// On the CPU a tile of rows and one or two vectors of columns is summed in registers, all gates at once, and a task
  /// is a few strips of columns.
  void schedule(Cpu, Halide::Func out, const StepIndex& at, const std::vector<Var>& inner, const Expr& contiguous) {
    const int lanes = Descriptor::target.natural_vector_size<float>(), registers = lanes == 16 ? 32 : 16;
    const int width = sizes_.gates == 1 ? 2 * lanes : lanes;
    const int tile_rows = registers * 3 / 4 / (sizes_.gates * width / lanes);
    Var strip("strip"), column("column"), tile("tile"), row("row"), task("task"), some("some");
    Var vector("vector"), lane("lane");
    const auto nest = [&](Halide::Stage stage, int high, int wide) {
      // The last tile moves inwards: what it computes twice is the same bits.
      constexpr Halide::TailStrategy kInwards = Halide::TailStrategy::ShiftInwards;
      stage.split(at.c, strip, column, wide, wide == 1 ? Halide::TailStrategy::GuardWithIf : kInwards);
      stage.split(at.b, tile, row, high, high == 1 ? Halide::TailStrategy::GuardWithIf : kInwards);
      std::vector<Halide::VarOrRVar> order{column};
      order.insert(order.end(), inner.begin(), inner.end());
      for (const Var& v : {row, tile, strip, at.m, at.t}) order.emplace_back(v);
      constexpr int kLeastWork = 1 << 17;
      const Expr work = Halide::max(1, sizes_.rows * (sizes_.gates * wide) * Halide::min(sizes_.terms, 1 << 12));
      stage.reorder(order)
          .fuse(strip, at.m, task)
          .split(task, task, some, Halide::max(1, kLeastWork / work), Halide::TailStrategy::GuardWithIf)
          .parallel(task);
      for (const Var& v : inner) stage.unroll(v);
      if (wide > 1) stage.vectorize(column, lanes);
    };
    const Expr is_wide = contiguous && sizes_.columns >= width;
    nest(out.specialize(is_wide && sizes_.rows >= tile_rows), tile_rows, width);
    nest(out.specialize(is_wide), 1, width);
    nest(out, 1, 1);
    sums.compute_at(out, tile).store_in(Halide::MemoryType::Stack);
    for (Halide::Stage stage : {Halide::Stage(sums), Halide::Stage(sums.update())}) {
      stage.split(c, vector, lane, lanes, Halide::TailStrategy::GuardWithIf).vectorize(lane);
    }
    sums.reorder(lane, vector, g, b, m, t).unroll(vector).unroll(g).unroll(b);
    sums.update().reorder(lane, vector, g, b, k.x, m, t).unroll(vector).unroll(g).unroll(b);
  }
  /// On a GPU a group of threads has a tile of rows and a column for each lane; its slices of k meet in shared memory.
  void schedule(auto, Halide::Func out, const StepIndex& at, const std::vector<Var>& inner, const Expr&) {
    Var strip("strip"), column("column"), tile("tile"), row("row"), block("block");
    plans.schedule(out, [&](const std::string&, Halide::Stage stage) {
      stage.split(at.c, strip, column, tile_.columns, Halide::TailStrategy::GuardWithIf)
          .split(at.b, tile, row, tile_.rows, Halide::TailStrategy::GuardWithIf);
      std::vector<Halide::VarOrRVar> order(inner.begin(), inner.end());
      for (const Var& v : {column, row, at.t, strip, tile, at.m}) order.emplace_back(v);
      stage.reorder(order).fuse(strip, tile, block).fuse(block, at.m, block);
      stage.gpu_blocks(block).gpu_threads(column, row);
      for (const Var& v : inner) stage.unroll(v);
    });
    slices.compute_at(out, at.t)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_extent(c, tile_.columns)
        .bound_extent(b, tile_.rows)
        .bound_extent(g, sizes_.gates)
        .bound_extent(s, kSlices)
        .bound_extent(m, 1)
        .bound_extent(t, 1)
        .reorder(g, b, c, s, m, t)
        .unroll(g)
        .unroll(b)
        .gpu_threads(c, s);
    sums.compute_at(slices, c).store_in(Halide::MemoryType::Register).unroll(g).unroll(b);
    sums.update(0).reorder(g, b, c, s, m, t, k.x, k.y).unroll(g).unroll(b).unroll(k.x);
    if (!tile_.is_whole) sums.update(1).reorder(g, b, c, s, m, t, rest.x).unroll(g).unroll(b);
    index_arithmetic();
    if (!tile_.is_whole) return;
    constexpr int kRegisters = 65536;  // of a multiprocessor
    limit_registers(slices, std::min(255, kRegisters / (tile_.columns * kSlices)));
    loads_see_stores();
  }

 private:
  static constexpr int kSlices = 8, kUnrolled = 4;
  struct Tile {
    int columns = 32, rows = 4;
    bool is_whole = false;  ///< it has all columns of its rows
  };

  // CUDA goes through several steps at once where a group of threads has all columns: it alone reads what it wrote.
  // Calls of several steps with more columns than that aren't made (operators/recurrent.cpp).
  void declare_plans() {
    if (steps_ == Steps::one || !Descriptor::target.has_feature(Halide::Target::CUDA)) {
      plans.declare({{.name = "step"}});
      return;
    }
    plans.declare({{.name = "step", .applies = sizes_.steps <= 1},
                   {.name = "steps_of_32", .applies = sizes_.columns <= 32},
                   {.name = "steps_of_64", .applies = sizes_.columns <= 64},
                   {.name = "steps_of_128"}});
    if (plans.chosen_index() > 0) tile_ = {.columns = 16 << plans.chosen_index(), .rows = 2, .is_whole = true};
  }

  Plans plans;
  Steps steps_;
  Tile tile_;
  Sizes sizes_{};
  Halide::Func sums{"sums"}, slices{"slices"};
  Halide::RDom k, rest;
  Var t{"t"}, m{"m"}, b{"b"}, g{"g"}, c{"c"}, s{"s"};
};

}  // namespace ashlar::dsl
