// The product inside of steps of a recurrent network: for each hidden unit the sums of all its gates, so that what
// follows them, the update of the unit's state, stands in the same kernel.
//
// Steps are gone through one after the other, since an input of the next one may be what this one has written: the
// caller binds the input over the output's memory, a step behind it.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dsl/kernel.h"
#include "schedules/lowering/cluster.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/per_thread.h"
#include "schedules/lowering/stage_async.h"

namespace ashlar::dsl {

/// The index variables of such a kernel: step, member, row and column.
struct StepIndex {
  Var t{"t"}, m{"m"}, b{"b"}, c{"c"};
};

/// How many steps a call may have.
enum class Steps : uint8_t { one, many };

/// How the right operand of a product lies: whether its columns, or its terms, are side by side.
struct LieOfRight {
  Expr columns_contiguous, terms_contiguous;
};

/// sum(g)[t,m,b,c] = Σ_k left(t,m,b,k) right(m,k,g,c) of steps t, members m, rows b, columns c and a few gates g
class StepProduct {
 public:
  struct Sizes {
    int gates, spans;                           ///< spans: most terms for each column
    Expr terms, rows, columns, steps, members;  ///< how many k, b, c, t and m there are
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
      if (steps_ == Steps::one) {
        sums(c, g, b, m, t) += product(k.x, b, c);
      } else {
        define_by_panels(left, right);
      }
      return;
    }
    if (tile_.is_whole) return define_held(left, right);
    if (tile_.is_streamed) return define_streamed(left, right);
    // Slice s of k is what thread s of a column adds up: terms s, s + slices, …, rounds of so many of them that are
    // loaded at once, the last one guarded. Rows and columns beyond the last repeat it; nobody reads their sums.
    const Expr row = Halide::min(b, sizes.rows - 1), column = Halide::min(c, sizes.columns - 1);
    const auto inside = [&](const Expr& term) { return Halide::unsafe_promise_clamped(term, 0, sizes.terms - 1); };
    const auto guarded = [&](const Expr& term) {
      return Halide::select(term < sizes.terms, product(inside(Halide::min(term, sizes.terms - 1)), row, column), 0.0f);
    };
    const int of_round = tile_.slices * tile_.unrolled;
    const Expr rounds = sizes.terms / of_round, all_rounds = (sizes.terms + of_round - 1) / of_round;
    const auto term = [&](const Halide::RDom& of) { return (of.y * tile_.unrolled + of.x) * tile_.slices + s; };
    k = Halide::RDom(0, tile_.unrolled, 0, rounds, "k");
    rest = Halide::RDom(0, tile_.unrolled, rounds, all_rounds - rounds, "rest");
    sums(c, g, b, s, m, t) = 0.0f;
    sums(c, g, b, s, m, t) += product(inside(term(k)), row, column);
    sums(c, g, b, s, m, t) += guarded(term(rest));
    slices(c, g, b, s, m, t) = sums(c, g, b, s, m, t);
  }

  /// The sum of gate `gate`.
  Value sum(const StepIndex& at, int gate) const {
    if (!on_gpu()) return Value(Expr(sums(at.c, gate, at.b, at.m, at.t)));
    std::vector<Expr> parts;
    for (int slice = 0; slice < tile_.slices; slice++) parts.push_back(slices(at.c, gate, at.b, slice, at.m, at.t));
    for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
      for (size_t i = 0; i < parts.size() / 2; i++) parts[i] = parts[i] + parts[i + parts.size() / 2];
    }
    return Value(parts[0]);
  }

  /// What is to be worked out once for each unit where the output has several elements of it (`inner` below). On a GPU
  /// the values themselves, which it finds to be the same.
  Values held(const StepIndex& at, const Values& values) {
    if (on_gpu()) return values;
    std::vector<Expr> all;
    for (const Value& value : values) all.push_back(value.expr());
    of_unit(at.c, at.b, at.m, at.t) = Halide::Tuple(all);
    Values results;
    for (size_t i = 0; i < all.size(); i++) results.emplace_back(of_unit(at.c, at.b, at.m, at.t)[static_cast<int>(i)]);
    return results;
  }

  /// What doesn't wait for the product: worked out before it where a step's time is the way from state to state.
  Values ahead(const StepIndex& at, const Values& values) {
    if (!tile_.is_whole) return values;
    const std::map<std::string, Expr> inside{{at.b.name(), Halide::min(at.b, sizes_.rows - 1)},
                                             {at.c.name(), Halide::min(at.c, sizes_.columns - 1)}};
    ahead_count_ = static_cast<int>(values.size());
    Expr all = 0.0f;
    for (int i = 0; i < ahead_count_; i++) {
      const Value& value = values[static_cast<size_t>(i)];
      all = Halide::select(of_ahead == i, Halide::Internal::substitute(inside, value.expr()), all);
    }
    aheads(of_ahead, at.c, at.b, at.m, at.t) = all;
    Values results;
    for (int i = 0; i < ahead_count_; i++) results.emplace_back(Expr(aheads(i, at.c, at.b, at.m, at.t)));
    return results;
  }

  /// `out`, of indices t, m, b, some of constant extent (`inner`, on which no sum depends) and c.
  /// On the CPU a tile of rows and one or two vectors of columns is summed in registers, all gates at once.
  void schedule(Cpu, Halide::Func out, const StepIndex& at, const std::vector<Var>& inner, const LieOfRight& lie) {
    if (steps_ == Steps::one) {
      schedule_one_step(out, at, inner, lie.columns_contiguous);
    } else {
      pack_panels(lie.terms_contiguous);
      plans.schedule(out, [&](const std::string& plan, const Halide::Stage& stage) {
        if (plan == "rows_apart") {
          rows_apart(stage, at, inner);
        } else {
          step_by_step(stage, at, inner);
        }
      });
      sums.compute_at(out, of_cpu.tile).bound_extent(c, width()).bound_extent(b, tile_.rows);
      if (of_unit.defined()) {
        of_unit.compute_at(out, of_cpu.row).store_in(Halide::MemoryType::Stack).bound_storage(at.c, width());
        of_unit.vectorize(at.c, lanes(), Halide::TailStrategy::GuardWithIf);
      }
    }
    Var vector("vector"), lane("lane");
    sums.store_in(Halide::MemoryType::Stack);
    for (Halide::Stage stage : {Halide::Stage(sums), Halide::Stage(sums.update())}) {
      stage.split(c, vector, lane, lanes(), Halide::TailStrategy::GuardWithIf).vectorize(lane);
    }
    sums.reorder(lane, vector, g, b, m, t).unroll(vector).unroll(g).unroll(b);
    sums.update().reorder(lane, vector, b, g, k.x, m, t).unroll(vector).unroll(g).unroll(b);
  }
  /// On a GPU a group of threads has a tile of rows and a column for each lane; its slices of k meet in shared memory.
  void schedule(auto, Halide::Func out, const StepIndex& at, const std::vector<Var>& inner, const LieOfRight&) {
    if (tile_.is_streamed) return schedule_streamed(out, at, inner);
    Var strip("strip"), column("column"), tile("tile"), row("row"), block("block"), some("some");
    plans.schedule(out, [&](const std::string&, Halide::Stage stage) {
      // The last plan is tried on every call: what it can't serve it refuses.
      if (tile_.blocks > 1) stage = out.specialize(sizes_.columns <= tile_.columns * tile_.blocks && has_clusters());
      stage.split(at.c, strip, column, tile_.columns, Halide::TailStrategy::GuardWithIf);
      stage.split(at.b, tile, row, tile_.rows, Halide::TailStrategy::GuardWithIf);
      std::vector<Halide::VarOrRVar> order(inner.begin(), inner.end());
      if (tile_.is_whole) {
        // The inner loop becomes the first dimension of blocks: strips are the second, a cluster's.
        for (const Var& v : {column, row, at.t, tile, at.m, strip}) order.emplace_back(v);
        stage.reorder(order).fuse(tile, at.m, block).gpu_blocks(block, strip).gpu_threads(column, row);
      } else {
        for (const Var& v : {column, row, at.t, strip, tile, at.m}) order.emplace_back(v);
        stage.reorder(order).fuse(strip, tile, block).fuse(block, at.m, block);
        stage.gpu_blocks(block).gpu_threads(column, row);
      }
      for (const Var& v : inner) stage.unroll(v);
    });
    if (tile_.blocks > 1) out.specialize_fail("the plan " + plans.chosen() + " can't serve this call");
    slices.compute_at(out, at.t)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_extent(c, tile_.columns)
        .bound_extent(b, tile_.rows)
        .bound_extent(g, sizes_.gates)
        .bound_extent(s, tile_.slices)
        .bound_extent(m, 1)
        .bound_extent(t, 1)
        .split(b, some, b, tile_.rows_at_once)
        .reorder(g, b, some, c, s, m, t)
        .unroll(g)
        .unroll(b)
        .unroll(some)
        .gpu_threads(c, s);
    sums.compute_at(slices, some).store_in(Halide::MemoryType::Register).unroll(g).unroll(b);
    if (tile_.is_whole) {
      schedule_held(out, at, block, strip, some);
    } else {
      sums.update(0).reorder(g, b, c, s, m, t, k.x, k.y).unroll(g).unroll(b).unroll(k.x);
      sums.update(1).reorder(g, b, c, s, m, t, rest.x, rest.y).unroll(g).unroll(b).unroll(rest.x);
    }
    index_arithmetic();
  }

 private:
  struct Tile {
    int columns = 32, rows = 4, slices = 8, unrolled = 4;
    int rows_at_once = rows;   ///< whose sums a thread holds
    int blocks = 1;            ///< of a cluster, which share the columns
    bool is_whole = false;     ///< it, or its cluster, has all columns of its rows
    bool is_streamed = false;  ///< through shared memory
  };

  // ---- CPU
  static int lanes() { return Descriptor::target.natural_vector_size<float>(); }
  int vectors() const { return sizes_.gates == 1 ? 2 : 1; }
  int width() const { return vectors() * lanes(); }
  /// Of a tile whose sums are in registers with what they are made of: an element of each row, and one vector of the
  /// right operand, or two and a row's element.
  int most_rows() const {
    const int registers = lanes() == 16 ? 32 : 16;
    return sizes_.gates == 1 ? registers * 3 / 8 : (registers - 1) / (sizes_.gates + 1);
  }

  // The right operand is packed once for all steps, a panel for each strip of columns, which a step then reads from
  // front to back. Columns beyond the last are zeros, rows beyond it repeat it; nobody reads their sums.
  void define_by_panels(const Left& left, const Right& right) {
    const Expr column = (of_cpu.strip * vectors() + of_cpu.vector) * lanes() + of_cpu.lane;
    const Expr is_there = Halide::likely(column) < sizes_.columns,
               inside = Halide::min(Halide::likely(column), sizes_.columns - 1);
    panels(of_cpu.lane, of_cpu.vector, g, of_cpu.term, of_cpu.strip, m) =
        Halide::select(is_there, right(m, of_cpu.term, g, inside).expr(), 0.0f);
    sums(c, g, b, m, t) += left(t, m, Halide::min(b, sizes_.rows - 1), k.x).expr() *
                           panels(c % lanes(), c % width() / lanes(), g, k.x, c / width(), m);
  }
  void pack_panels(const Expr& terms_contiguous) {
    Var term_in("term_in");
    panels.compute_root().bound(of_cpu.lane, 0, lanes()).bound(of_cpu.vector, 0, vectors()).bound(g, 0, sizes_.gates);
    panels.parallel(of_cpu.strip).unroll(of_cpu.vector);
    // Squares of it are transposed in registers.
    panels.specialize(terms_contiguous && sizes_.terms >= lanes())
        .split(of_cpu.term, of_cpu.term, term_in, lanes(), Halide::TailStrategy::ShiftInwards)
        .reorder(term_in, of_cpu.lane, of_cpu.vector, of_cpu.term, g, of_cpu.strip, m)
        .vectorize(term_in)
        .unroll(of_cpu.lane);
    panels.vectorize(of_cpu.lane);
  }
  // Rows go through all steps by themselves, some of them in a task.
  void rows_apart(Halide::Stage stage, const StepIndex& at, const std::vector<Var>& inner) {
    constexpr int kTasks = 8, kLeastTiles = 2;  // two of which read a panel while it is near
    constexpr Halide::TailStrategy kGuarded = Halide::TailStrategy::GuardWithIf;
    Var strip("strip_of_step"), column("column"), task("task"), in_task("in_task");
    const Expr tiles = Halide::max((sizes_.rows + kTasks * tile_.rows - 1) / (kTasks * tile_.rows), kLeastTiles);
    const Expr of_task = tiles * tile_.rows;
    stage.split(at.c, strip, column, width(), kGuarded)
        .split(at.b, task, in_task, of_task, kGuarded)
        .split(in_task, of_cpu.tile, of_cpu.row, tile_.rows, kGuarded);
    std::vector<Halide::VarOrRVar> order{column};
    order.insert(order.end(), inner.begin(), inner.end());
    for (const Var& v : {of_cpu.row, of_cpu.tile, strip, at.t, task, at.m}) order.emplace_back(v);
    stage.reorder(order).parallel(task).parallel(at.m).vectorize(column, lanes());
    for (const Var& v : inner) stage.unroll(v);
  }
  // Step after step, a task has some strips of columns.
  void step_by_step(Halide::Stage stage, const StepIndex& at, const std::vector<Var>& inner) {
    constexpr Halide::TailStrategy kGuarded = Halide::TailStrategy::GuardWithIf;
    Var strip("strip_of_step"), column("column"), task("task"), some("some");
    stage.split(at.c, strip, column, width(), kGuarded).split(at.b, of_cpu.tile, of_cpu.row, tile_.rows, kGuarded);
    std::vector<Halide::VarOrRVar> order{column};
    order.insert(order.end(), inner.begin(), inner.end());
    for (const Var& v : {of_cpu.row, of_cpu.tile, strip, at.m, at.t}) order.emplace_back(v);
    // A panel costs its way through memory at least, which is worth some rows.
    constexpr int kLeastWork = 1 << 17, kLeastRows = 4;
    const Expr work = Halide::max(
        1, Halide::max(sizes_.rows, kLeastRows) * (sizes_.gates * width()) * Halide::min(sizes_.terms, 1 << 12));
    stage.reorder(order)
        .fuse(strip, at.m, task)
        .split(task, task, some, Halide::max(1, kLeastWork / work), kGuarded)
        .parallel(task)
        .vectorize(column, lanes());
    for (const Var& v : inner) stage.unroll(v);
  }
  // A call of one step, whose operands are read where they lie; a task is a few strips of columns.
  void schedule_one_step(Halide::Func out, const StepIndex& at, const std::vector<Var>& inner, const Expr& contiguous) {
    Var strip("strip"), column("column"), tile("tile"), row("row"), task("task"), some("some");
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
      if (wide > 1) stage.vectorize(column, lanes());
    };
    const Expr is_wide = contiguous && sizes_.columns >= width();
    nest(out.specialize(is_wide && sizes_.rows >= most_rows()), most_rows(), width());
    nest(out.specialize(is_wide), 1, width());
    nest(out, 1, 1);
    sums.compute_at(out, tile);
  }

  // ---- CUDA, many steps
  // A thread holds its part of the right operand in registers through all steps: fours of terms, as many as there is
  // place for, the rest in shared memory. A step's rows of the left operand are staged in shared memory. Both have
  // zeros behind the last term.
  static constexpr int kFour = 4;
  int threads() const { return tile_.columns * tile_.slices; }
  int terms() const { return sizes_.spans * tile_.columns * tile_.blocks; }
  int registers() const { return std::min(255, kRegisters / threads() / 8 * 8); }
  int fours() const { return terms() / (tile_.slices * kFour); }
  int fours_held() const {
    constexpr int kOthers = 48;
    return std::min(fours(), (registers() - kOthers) / (kFour * sizes_.gates));
  }
  void define_held(const Left& left, const Right& right) {
    const Expr row = Halide::min(b, sizes_.rows - 1), column = Halide::min(c, sizes_.columns - 1);
    const auto with_zeros = [&](const Expr& term, const auto& value) {
      const Expr inside = Halide::min(term, sizes_.terms - 1);
      return Halide::select(term < sizes_.terms,
                            value(Halide::unsafe_promise_clamped(inside, 0, sizes_.terms - 1)).expr(), 0.0f);
    };
    const auto term = [&](const Expr& in_four, const Expr& four) {
      return (four * tile_.slices + s) * kFour + in_four;
    };
    const auto right_at = [&](const Expr& in_four, const Expr& four) {
      return with_zeros(term(in_four, four), [&](const Expr& at) { return right(m, at, g, column); });
    };
    staged(i, b, m, t) = with_zeros(i, [&](const Expr& at) { return left(t, m, row, at); });
    read(i, f, b, s, m, t) = staged(term(i, f), b, m, t);
    in_registers(c, i, f, g, s, m) = right_at(i, f);
    in_shared(c, i, f, g, s, m) = right_at(i, f);
    k = Halide::RDom(0, kFour, 0, fours_held(), "k");
    sums(c, g, b, s, m, t) = 0.0f;
    sums(c, g, b, s, m, t) += read(k.x, k.y, b, s, m, t) * in_registers(c, k.x, k.y, g, s, m);
    if (fours_held() < fours()) {
      rest = Halide::RDom(0, kFour, fours_held(), fours() - fours_held(), "rest");
      sums(c, g, b, s, m, t) += read(rest.x, rest.y, b, s, m, t) * in_shared(c, rest.x, rest.y, g, s, m);
    }
    slices(c, g, b, s, m, t) = sums(c, g, b, s, m, t);
  }
  void schedule_held(Halide::Func out, const StepIndex& at, const Var& block, const Var& strip, const Var& some) {
    Var span("span"), of_threads("of_threads"), of_block("of_block"), term("term");
    for (Halide::Func part : {in_registers, in_shared}) {
      const bool is_rest = part.name() == in_shared.name();
      if (is_rest && fours_held() == fours()) continue;
      part.compute_at(out, block)
          .bound_extent(c, tile_.columns)
          .bound_extent(i, kFour)
          .bound_extent(f, is_rest ? fours() - fours_held() : fours_held())
          .bound_extent(g, sizes_.gates)
          .bound_extent(s, tile_.slices)
          .bound_extent(m, 1)
          .reorder(i, f, g, c, s, m)
          .unroll(i)
          .unroll(f)
          .unroll(g)
          .gpu_threads(c, s);
    }
    per_thread(in_registers);
    in_shared.store_in(Halide::MemoryType::GPUShared);
    staged.compute_at(out, at.t)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_extent(i, terms())
        .bound_extent(b, tile_.rows)
        .bound_extent(m, 1)
        .bound_extent(t, 1)
        .split(i, of_threads, term, tile_.columns)
        .split(of_threads, span, of_block, std::min(tile_.slices, terms() / tile_.columns))
        .reorder(b, span, term, of_block, m, t)
        .unroll(b)
        .unroll(span)
        .gpu_threads(term, of_block);
    read.compute_at(slices, some)
        .store_in(Halide::MemoryType::Register)
        .bound_extent(i, kFour)
        .bound_extent(f, fours());
    read.reorder(i, f, b, s, m, t).vectorize(i).unroll(f).unroll(b);
    sums.update(0).reorder(g, b, k.x, k.y, c, s, m, t).unroll(g).unroll(b).unroll(k.x).unroll(k.y);
    if (fours_held() < fours()) {
      sums.update(1).reorder(g, b, rest.x, rest.y, c, s, m, t).unroll(g).unroll(b).unroll(rest.x).unroll(rest.y);
    }
    aheads.compute_at(out, at.t)
        .bound_extent(of_ahead, ahead_count_)
        .bound_extent(at.c, tile_.columns)
        .bound_extent(at.b, tile_.rows)
        .bound_extent(at.m, 1)
        .bound_extent(at.t, 1)
        .reorder(of_ahead, at.c, at.b, at.m, at.t)
        .unroll(of_ahead)
        .gpu_threads(at.c, at.b);
    per_thread(aheads);
    limit_registers(slices, registers());
    loads_see_stores();
    if (tile_.blocks > 1) steps_in_cluster(out, strip, tile_.blocks);
  }

  // ---- CUDA, a step of many rows
  // As matrices are multiplied: a block has 32 rows with 32 sums of each, a thread 8 by 4 of them, which are a column's
  // gates or four columns, and a warp every eighth eight of terms. Tiles of the operands stream through shared memory,
  // where the warps' sums meet at the end.
  static constexpr int kThreads = 8, kThreadRows = 4, kStreamedRows = 32, kSlices = 8, kTerms = 8, kStages = 3,
                       kQuad = 4, kDepth = kSlices * kTerms, kRegisters = 65536;  // of a multiprocessor
  int columns_of_thread() const { return sizes_.gates == 1 ? kQuad : 1; }
  void define_streamed(const Left& left, const Right& right) {
    const auto or_zero = [&](const Expr& is_there, const Value& value) {
      return Halide::select(is_there, value.expr(), 0.0f);
    };
    // What isn't there isn't read, or else what is read in its place is left out.
    const auto inside = [](const Expr& at, const Expr& extent) {
      return Halide::unsafe_promise_clamped(has_async_copies() ? at : Halide::min(at, extent - 1), 0, extent - 1);
    };
    const Expr term = inside(i, sizes_.terms), row = inside(b, sizes_.rows), column = inside(c, sizes_.columns);
    staged(i, b, m, t) = or_zero(i < sizes_.terms && b < sizes_.rows, left(t, m, row, term));
    staged_right(g, c, i, m) = or_zero(i < sizes_.terms && c < sizes_.columns && g < sizes_.gates,
                                       right(m, term, inside(g, sizes_.gates), column));
    k = Halide::RDom(0, kTerms, 0, (sizes_.terms + kDepth - 1) / kDepth, "k");
    const Expr at = k.y * kDepth + s * kTerms + k.x;
    sums(c, g, b, s, m, t) = 0.0f;
    sums(c, g, b, s, m, t) += staged(at, b, m, t) * staged_right(g, c, at, m);
    slices(c, g, b, s, m, t) = sums(c, g, b, s, m, t);
  }
  void schedule_streamed(Halide::Func out, const StepIndex& at, const std::vector<Var>& inner) {
    Var strip("strip"), tile("tile"), block("block"), tx("tx"), ty("ty"), tz("tz"), column("column"), row("row");
    const int columns = tile_.columns, gates = sizes_.gates > 1 ? kQuad : 1, rows = kStreamedRows / kThreadRows;
    plans.schedule(out, [&](const std::string&, Halide::Stage stage) {
      Var x("x"), y("y");
      stage.split(at.c, strip, x, columns, Halide::TailStrategy::GuardWithIf);
      stage.split(at.b, tile, y, kStreamedRows, Halide::TailStrategy::GuardWithIf);
      stage.split(x, tx, column, columns_of_thread());
      stage.split(y, tz, y, kStreamedRows / kSlices).split(y, ty, row, rows / kSlices);
      std::vector<Halide::VarOrRVar> order(inner.begin(), inner.end());
      for (const Var& v : {column, row, tx, ty, tz, strip, tile, at.m, at.t}) order.emplace_back(v);
      stage.reorder(order).fuse(strip, tile, block).fuse(block, at.m, block).fuse(block, at.t, block);
      stage.gpu_blocks(block).gpu_threads(tx, ty, tz).unroll(column).unroll(row);
      for (const Var& v : inner) stage.unroll(v);
    });
    const auto over_threads = [&](Halide::Stage stage, std::vector<Halide::VarOrRVar> within,
                                  const std::vector<Halide::VarOrRVar>& around) {
      stage.split(c, tx, column, columns_of_thread()).split(b, ty, row, rows);
      std::vector<Halide::VarOrRVar> order{g, column, row};
      order.insert(order.end(), within.begin(), within.end());
      for (const Var& v : {tx, ty, s, m, t}) order.emplace_back(v);
      order.insert(order.end(), around.begin(), around.end());
      stage.reorder(order).unroll(g).unroll(column).unroll(row).gpu_threads(tx, ty, s);
      for (const Halide::VarOrRVar& loop : within) stage.unroll(loop);
    };
    for (Halide::Func tile_of : {sums, slices}) {
      tile_of.compute_at(out, block).bound_extent(c, columns).bound_extent(g, sizes_.gates);
      tile_of.bound_extent(b, kStreamedRows).bound_extent(s, kSlices).bound_extent(m, 1).bound_extent(t, 1);
      over_threads(tile_of, {}, {});
    }
    over_threads(sums.update(), {k.x}, {k.y});
    slices.store_in(Halide::MemoryType::GPUShared).reorder_storage(g, c, b, s, m, t);
    per_thread(sums);
    limit_registers(sums, kRegisters / (2 * kThreads * kThreadRows * kSlices));
    // What a thread multiplies, read as vectors.
    const auto read_quads = [&](Halide::Func staged_tile, const Var& along, int extent) {
      Halide::Func quads = staged_tile.in(sums);
      quads.compute_at(sums, k.x).store_in(Halide::MemoryType::Register);
      for (const Var& v : quads.args()) quads.bound_extent(v, v.name() == along.name() ? extent : 1);
      Var quad("quad");
      quads.split(along, along, quad, kQuad).vectorize(quad).unroll(along);
    };
    read_quads(staged, b, rows);
    read_quads(staged_right, gates > 1 ? g : c, kQuad);
    const auto deal = [&](Halide::Func tile_of, const Var& item) {
      tile_of.split(item, item, tz, kThreads * kThreadRows * kSlices).split(tz, tz, ty, kThreads * kThreadRows);
      tile_of.split(ty, ty, tx, kThreads).reorder(item, tx, ty, tz).unroll(item).gpu_threads(tx, ty, tz);
    };
    Var low_term("low_term"), low_row("low_row"), item("item");
    staged.compute_at(sums, k.y).bound_extent(i, kDepth).bound_extent(b, kStreamedRows).bound_extent(m, 1);
    staged.bound_extent(t, 1).reorder_storage(b, i, m, t).align_storage(b, kStreamedRows + kQuad);
    staged.split(i, i, low_term, 8).split(b, b, low_row, 4).fuse(low_term, low_row, low_term).fuse(i, b, item);
    staged.fuse(low_term, item, item);
    deal(staged, item);
    staged_right.compute_at(sums, k.y).bound_extent(g, gates).bound_extent(c, columns).bound_extent(i, kDepth);
    staged_right.bound_extent(m, 1).fuse(c, g, item).fuse(item, i, item);
    deal(staged_right, item);
    stage_async({staged, staged_right}, out, block, kStages, 0, /*bounded=*/true);
    index_arithmetic();
  }

  // CUDA goes through several steps at once where a group of threads, or a cluster of them, has all columns: it alone
  // reads what it wrote.
  // Calls of several steps with more columns than that aren't made (operators/recurrent.cpp).
  void declare_plans() {
    if (steps_ == Steps::many && !on_gpu()) {
      // Whether a core's own cache holds the right operand.
      constexpr int kOwnCache = 64 * 1024;  // elements
      const int rows = most_rows();
      const Expr is_small =
          Halide::min(sizes_.terms, 1 << 12) * sizes_.gates * Halide::min(sizes_.columns, 1 << 12) <= kOwnCache;
      plans.declare({{.name = "one_row", .applies = sizes_.rows <= 1},
                     {.name = "few_rows", .applies = sizes_.rows < rows},
                     {.name = "rows_apart", .applies = is_small && sizes_.rows >= 2 * rows},
                     {.name = "many_rows"}});
      const std::array heights{1, (rows + 1) / 2, rows, rows};
      tile_.rows = heights[plans.chosen_index()];
      return;
    }
    if (steps_ == Steps::one || !Descriptor::target.has_feature(Halide::Target::CUDA)) {
      plans.declare({{.name = "step"}});
      return;
    }
    // Of few groups each waits for memory: twice as many, with twice as many threads and loads on their way, wait less.
    constexpr int kMany = 264;  // two for each of an H200's multiprocessors
    // Of few rows most of a matrix's tile is empty, and few blocks leave most of the GPU idle.
    constexpr int kManyRows = 16, kBlocks = 48;
    const auto tiles = [](const Expr& of, int size) { return (of + size - 1) / size; };
    const Expr groups = tiles(sizes_.columns, tile_.columns) * tiles(sizes_.rows, tile_.rows) * sizes_.members;
    const Expr blocks =
        tiles(sizes_.columns, kThreads * columns_of_thread()) * tiles(sizes_.rows, kStreamedRows) * sizes_.members;
    const Expr has_matrices = sizes_.rows > kManyRows && blocks >= kBlocks;
    plans.declare({{.name = "step_of_matrices", .applies = sizes_.steps <= 1 && has_matrices},
                   {.name = "step", .applies = sizes_.steps <= 1 && groups < kMany},
                   {.name = "step_of_many", .applies = sizes_.steps <= 1},
                   {.name = "steps_of_32", .applies = sizes_.columns <= 32},
                   {.name = "steps_of_64", .applies = sizes_.columns <= 64},
                   {.name = "steps_of_96", .applies = sizes_.columns <= 96},
                   {.name = "steps_of_128", .applies = sizes_.columns <= 128},
                   {.name = "steps_of_256"}});
    enum : size_t { kMatrices, kStep, kStepOfMany, kSteps32, kClusters = kSteps32 + 4 };
    const size_t chosen = plans.chosen_index();
    if (chosen == kMatrices)
      tile_ = {
          .columns = kThreads * columns_of_thread(), .rows = kStreamedRows, .slices = kSlices, .is_streamed = true};
    if (chosen == kStep) tile_ = {.columns = 16, .slices = 32, .unrolled = 8};
    if (chosen >= kSteps32)
      tile_ = {.columns = 32 * static_cast<int>(chosen - kSteps32 + 1), .rows = 1, .slices = 4, .is_whole = true};
    if (chosen == kClusters)
      tile_ = {.columns = 32, .rows = 8, .slices = 8, .rows_at_once = 2, .blocks = 8, .is_whole = true};
  }

  Plans plans;
  Steps steps_;
  Tile tile_;
  Sizes sizes_{};
  int ahead_count_ = 0;
  Halide::Func sums{"sums"}, slices{"slices"}, panels{"panels"}, of_unit{"of_unit"};
  Halide::Func aheads{"aheads"}, in_registers{"in_registers"}, in_shared{"in_shared"}, staged{"staged"},
      staged_right{"staged_right"}, read{"read"};
  struct {
    Var lane{"lane_of_panel"}, vector{"vector_of_panel"}, term{"term"}, strip{"strip"}, tile{"tile"}, row{"row"};
  } of_cpu;
  Halide::RDom k, rest;
  Var t{"t"}, m{"m"}, b{"b"}, g{"g"}, c{"c"}, s{"s"}, i{"i"}, f{"f"}, of_ahead{"of_ahead"};
};

}  // namespace ashlar::dsl
