// The product inside of a step of a recurrent network: for each hidden unit the sums of all its gates, so that what
// follows them, the update of the unit's state, stands in the same kernel.
#pragma once

#include <functional>

#include "dsl/kernel.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

/// sum(g)[m,b,c] = Σ_k left(m,b,k) right(m,k,g,c) of members m, rows b, columns c and a few gates g
class StepProduct {
 public:
  struct Sizes {
    int gates;
    Expr terms, rows, columns;  ///< how many k, b and c there are
  };
  using Left = std::function<Value(const Expr& m, const Expr& b, const Expr& k)>;
  using Right = std::function<Value(const Expr& m, const Expr& k, const Expr& g, const Expr& c)>;

  /// To be called in algorithm(), before sums are read.
  void define(const Sizes& sizes, const Left& left, const Right& right) {
    sizes_ = sizes;
    const auto product = [&](const Expr& term, const Expr& row, const Expr& column) {
      return left(m, row, term).expr() * right(m, term, g, column).expr();
    };
    if (!Descriptor::target.has_gpu_feature()) {
      k = Halide::RDom(0, sizes.terms, "k");
      sums(c, g, b, m) = 0.0f;
      sums(c, g, b, m) += product(k.x, b, c);
      return;
    }
    // Slice s of k is what thread s of a column adds up: terms s, s + kSlices, …, so many rounds of kUnrolled of them
    // and the rest. Rows and columns beyond the last repeat it; nobody reads their sums.
    const Expr rounds = sizes.terms / (kSlices * kUnrolled), done = rounds * (kSlices * kUnrolled);
    const Expr row = Halide::min(b, sizes.rows - 1), column = Halide::min(c, sizes.columns - 1);
    k = Halide::RDom(0, kUnrolled, 0, rounds, "k");
    rest = Halide::RDom(0, (sizes.terms - done + kSlices - 1) / kSlices, "rest");
    const Expr last = done + rest.x * kSlices + s;
    const auto inside = [&](const Expr& term) { return Halide::unsafe_promise_clamped(term, 0, sizes.terms - 1); };
    sums(c, g, b, s, m) = 0.0f;
    sums(c, g, b, s, m) += product(inside((k.y * kUnrolled + k.x) * kSlices + s), row, column);
    sums(c, g, b, s, m) +=
        Halide::select(last < sizes.terms, product(inside(Halide::min(last, sizes.terms - 1)), row, column), 0.0f);
    slices(c, g, b, s, m) = sums(c, g, b, s, m);
  }

  /// The sum of gate `gate`.
  Value sum(const Var& of_m, const Var& of_b, const Var& of_c, int gate) const {
    if (!Descriptor::target.has_gpu_feature()) return Value(Expr(sums(of_c, gate, of_b, of_m)));
    std::vector<Expr> parts;
    for (int slice = 0; slice < kSlices; slice++) parts.push_back(slices(of_c, gate, of_b, slice, of_m));
    for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
      for (size_t i = 0; i < parts.size() / 2; i++) parts[i] = parts[i] + parts[i + parts.size() / 2];
    }
    return Value(parts[0]);
  }

  /// `out`, of indices m, b, some of constant extent (`inner`, on which no sum depends) and c. `contiguous`: columns of
  /// the right operand lie side by side.
  /// On the CPU a tile of rows and one or two vectors of columns is summed in registers, all gates at once, and a task
  /// is a few strips of columns.
  void schedule(Cpu, Halide::Func out, const Var& of_m, const Var& of_b, const Var& of_c, const std::vector<Var>& inner,
                const Expr& contiguous) {
    const int lanes = Descriptor::target.natural_vector_size<float>(), registers = lanes == 16 ? 32 : 16;
    const int width = sizes_.gates == 1 ? 2 * lanes : lanes;
    const int tile_rows = registers * 3 / 4 / (sizes_.gates * width / lanes);
    Var strip("strip"), column("column"), tile("tile"), row("row"), task("task"), some("some");
    Var vector("vector"), lane("lane");
    const auto nest = [&](Halide::Stage stage, int high, int wide) {
      // The last tile moves inwards: what it computes twice is the same bits.
      constexpr Halide::TailStrategy kInwards = Halide::TailStrategy::ShiftInwards;
      stage.split(of_c, strip, column, wide, wide == 1 ? Halide::TailStrategy::GuardWithIf : kInwards);
      stage.split(of_b, tile, row, high, high == 1 ? Halide::TailStrategy::GuardWithIf : kInwards);
      std::vector<Halide::VarOrRVar> order{column};
      order.insert(order.end(), inner.begin(), inner.end());
      for (const Var& v : {row, tile, strip, of_m}) order.emplace_back(v);
      constexpr int kLeastWork = 1 << 17;
      const Expr work = Halide::max(1, sizes_.rows * (sizes_.gates * wide) * Halide::min(sizes_.terms, 1 << 12));
      stage.reorder(order)
          .fuse(strip, of_m, task)
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
    sums.reorder(lane, vector, g, b, m).unroll(vector).unroll(g).unroll(b);
    sums.update().reorder(lane, vector, g, b, k.x, m).unroll(vector).unroll(g).unroll(b);
  }
  /// On a GPU a group of threads has a tile of rows and a column for each lane; its slices of k meet in shared memory.
  void schedule(auto, Halide::Func out, const Var& of_m, const Var& of_b, const Var& of_c,
                const std::vector<Var>& inner, const Expr&) {
    Var strip("strip"), column("column"), tile("tile"), row("row"), block("block");
    out.split(of_c, strip, column, kColumns, Halide::TailStrategy::GuardWithIf)
        .split(of_b, tile, row, kRows, Halide::TailStrategy::GuardWithIf);
    std::vector<Halide::VarOrRVar> order(inner.begin(), inner.end());
    for (const Var& v : {column, row, strip, tile, of_m}) order.emplace_back(v);
    out.reorder(order).fuse(strip, tile, block).fuse(block, of_m, block).gpu_blocks(block).gpu_threads(column, row);
    for (const Var& v : inner) out.unroll(v);
    slices.compute_at(out, block)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_extent(c, kColumns)
        .bound_extent(b, kRows)
        .bound_extent(g, sizes_.gates)
        .bound_extent(s, kSlices)
        .bound_extent(m, 1)
        .reorder(g, b, c, s, m)
        .unroll(g)
        .unroll(b)
        .gpu_threads(c, s);
    sums.compute_at(slices, c).store_in(Halide::MemoryType::Register).unroll(g).unroll(b);
    sums.update(0).reorder(g, b, c, s, m, k.x, k.y).unroll(g).unroll(b).unroll(k.x);
    sums.update(1).reorder(g, b, c, s, m, rest.x).unroll(g).unroll(b);
    index_arithmetic();
  }

 private:
  static constexpr int kColumns = 32, kRows = 4, kSlices = 8, kUnrolled = 4;
  Sizes sizes_{};
  Halide::Func sums{"sums"}, slices{"slices"};
  Halide::RDom k, rest;
  Var m{"m"}, b{"b"}, g{"g"}, c{"c"}, s{"s"};
};

}  // namespace ashlar::dsl
