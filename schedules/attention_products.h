// Products of matrices on a GPU in whose sums a block takes part of the terms, by its place: those of causal attention
// (generators/attention_pairs.h). Tiles as of contraction_pipelined.h, in memory that is padded to whole tiles; their
// places are indices of their own, so that terms may depend on them.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schedules/contraction_pipelined.h"
#include "schedules/lowering/tile_coordinates.h"

namespace ashlar::dsl {

/// What a block leaves out by its place, of which Halide's loops over a reduction can't know: in terms of the output's
/// loops over blocks, and of elements of inputs.
struct BlockCuts {
  Expr runs;   ///< whether the block computes anything at all; undefined: it does
  Expr turns;  ///< of the reduction's outermost loop
};

namespace detail {

// Elements of inputs as lowered code loads them.
struct LoadInputs : Halide::Internal::IRMutator {
  using IRMutator::visit;
  Expr visit(const Halide::Internal::Call* op) override {
    if (op->call_type == Halide::Internal::Call::Halide) {  // of the function that stands for an input
      const Halide::Internal::Function input(op->func);
      std::map<std::string, Expr> index;
      for (size_t i = 0; i < op->args.size(); i++) index[input.args()[i]] = op->args[i];
      return mutate(Halide::Internal::substitute(index, input.values()[static_cast<size_t>(op->value_index)]));
    }
    if (op->call_type != Halide::Internal::Call::Image || !op->param.defined()) return IRMutator::visit(op);
    const auto field = [&](const char* name, int i, const Expr& known) {
      const std::string of_buffer = op->name + "." + name + "." + std::to_string(i);
      return known.defined() ? known : Halide::Internal::Variable::make(Halide::Int(32), of_buffer, op->param);
    };
    Expr index = 0;
    for (int i = 0; i < static_cast<int>(op->args.size()); i++) {
      const Expr from_first = mutate(op->args[static_cast<size_t>(i)]) - field("min", i, op->param.min_constraint(i));
      index = index + from_first * field("stride", i, op->param.stride_constraint(i));
    }
    return Halide::Internal::Load::make(op->type, op->name, index, {}, op->param, Halide::Internal::const_true(),
                                        Halide::Internal::ModulusRemainder());
  }
};

// The lowering pass behind cut_by_block().
class CutByBlock : public ir::EachKernel {
 public:
  CutByBlock(std::string out, std::string loop, BlockCuts cuts)
      : out_(std::move(out)), loop_(std::move(loop)), cuts_(std::move(cuts)) {}

 private:
  using EachKernel::visit;
  using Stmt = Halide::Internal::Stmt;
  using For = Halide::Internal::For;

  Stmt kernel(const Stmt& loop) override {
    if (!loop.as<For>()->name.starts_with(out_ + ".")) return loop;
    Inside inside(*this);
    const Stmt result = inside.mutate(loop);
    if (inside.loops != 1) ir::fail("cut_by_block", out_, "there's no loop " + loop_);
    return result;
  }

  struct Inside : Halide::Internal::IRMutator {
    explicit Inside(const CutByBlock& directive) : cut(directive) {}
    using IRMutator::visit;
    Stmt visit(const For* op) override {
      if (op->for_type == Halide::Internal::ForType::GPUBlock) {
        const size_t end = op->name.rfind('.'), begin = op->name.rfind('.', end - 1) + 1;
        places[op->name.substr(begin, end - begin)] = Halide::Internal::Variable::make(Halide::Int(32), op->name);
        depth++;
        Stmt body = mutate(op->body);
        if (deepest < depth && cut.cuts_.runs.defined()) {
          body = Halide::Internal::IfThenElse::make(at_block(cut.cuts_.runs), body);
        }
        deepest = std::max(deepest, depth--);
        return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, body);
      }
      if (!op->name.ends_with("." + cut.loop_)) return IRMutator::visit(op);
      loops++;
      const Expr turns = at_block(cut.cuts_.turns);
      return For::make(op->name, op->min, Halide::min(op->extent, turns), op->for_type, op->partition_policy,
                       op->device_api, op->body);
    }
    Expr at_block(const Expr& e) const { return LoadInputs().mutate(Halide::Internal::substitute(places, e)); }
    const CutByBlock& cut;
    std::map<std::string, Expr> places;
    int depth = 0, deepest = 0, loops = 0;
  };

  const std::string out_, loop_;
  const BlockCuts cuts_;
};

}  // namespace detail

/// Has the kernel of `out` under construction lowered with these cuts; it has that loop over a reduction once. Before
/// stage_async().
inline void cut_by_block(const Halide::Func& out, const Halide::RVar& loop, const BlockCuts& cuts) {
  Descriptor::current->lowering_passes.emplace_back(
      std::make_shared<detail::CutByBlock>(out.name(), loop.name(), cuts));
}

/// How the left operand of a product lies in memory. One that lies along k is turned round on its way; what is computed
/// of it on the way isn't copied asynchronously.
enum class LeftLies { along_rows, along_k, along_k_computed };

// at(x, i, …) = Σ_s part(x, i, s, …),  part = Σ_{k in slice s of each turn} left(k, i, …) right(x, k, …)
// The tiles of the operands are copied whole: memory behind them has to be there, and terms beyond the last to be 0.
class TiledProduct {
 public:
  /// Row i and column x of a tile, k along the sum.
  Var i{"i"}, x{"x"}, k{"k"};

  explicit TiledProduct(const std::string& name)
      : left(name + "_left"),
        right(name + "_right"),
        left_quad_(name + "_left_quad"),
        right_quad_(name + "_right_quad"),
        sums_(name + "_sums"),
        part_(name + "_part") {}

  /// Defined by the caller: left(k, i, of_left…), right(x, k, of_right…).
  Halide::Func left, right;

  /// The sum over that many turns of the tile's stage_depth() terms, with indices `all` behind x and i.
  void define(const PipelinedTile& tile, const std::vector<Var>& all, const std::vector<Var>& of_left,
              const std::vector<Var>& of_right, const Expr& turns) {
    tile_ = tile;
    all_ = all;
    const auto with = [](std::vector<Expr> first, const std::vector<Var>& others) {
      first.insert(first.end(), others.begin(), others.end());
      return first;
    };
    const auto vars = [](std::vector<Var> first, const std::vector<Var>& others) {
      first.insert(first.end(), others.begin(), others.end());
      return first;
    };
    if (!on_gpu()) {  // right alone
      r_ = Halide::RDom(0, turns * tile_.stage_depth(), "r");
      sums_(vars({x, i, s_}, all)) = 0.0f;
      sums_(vars({x, i, s_}, all)) += left(with({r_, i}, of_left)) * right(with({x, r_}, of_right));
      return;
    }
    left_quad_(vars({kr_, i, kq_}, of_left)) = left(with({kq_ * 4 + kr_, i}, of_left));
    right_quad_(vars({kr_, x, kq_}, of_right)) = right(with({x, kq_ * 4 + kr_}, of_right));
    r_ = Halide::RDom(0, 4, 0, tile_.depth / 4, 0, turns, "r");
    const Expr quad = r_.z * (tile_.stage_depth() / 4) + s_ * (tile_.depth / 4) + r_.y;
    sums_(vars({x, i, s_}, all)) = 0.0f;
    sums_(vars({x, i, s_}, all)) +=
        left_quad_(with({r_.x, i, quad}, of_left)) * right_quad_(with({r_.x, x, quad}, of_right));
    part_(vars({x, i, s_}, all)) = sums_(vars({x, i, s_}, all));
  }

  /// The sum at a column and a row of all tiles, whose numbers come before the `others`.
  Expr at(const Expr& column, const Expr& row, std::vector<Expr> others) const {
    const int columns = tile_.columns(), rows = tile_.rows();
    others.insert(others.begin(), {column / columns, row / rows});
    return in_tile(column % columns, row % rows, others);
  }

  /// `out`, whose two innermost indices are a column and a row, by blocks: loops over block_x, block_y and `outer`.
  /// Memory that is padded is written as whole tiles. `aligned` holds always, and says that quads are.
  void schedule(Halide::Func out, const Var& block_x, const Var& block_y, const Var& outer, bool is_padded,
                LeftLies left_lies, const Expr& aligned, const BlockCuts& cuts) const {
    const auto loops = [&](Halide::Stage stage) {
      loops_of_output(stage, out.args(), {block_x, block_y, outer}, is_padded);
    };
    loops(out.specialize(aligned));
    out.specialize_fail("a tile isn't aligned");
    loops(out);
    tile_coordinates();
    cut_by_block(out, r_.z, cuts);
    stages(out, block_x, left_lies);
  }

 private:
  Expr in_tile(const Expr& column, const Expr& row, const std::vector<Expr>& others) const {
    Expr total;
    for (int slice = 0; slice < (on_gpu() ? tile_.slices() : 1); slice++) {
      std::vector<Expr> index{column, row, slice};
      index.insert(index.end(), others.begin(), others.end());
      const Expr one = (on_gpu() && tile_.slices() > 1 ? part_ : sums_)(index);
      total = total.defined() ? total + one : one;
    }
    return total;
  }

  // A block's tile over its threads.
  struct Loops {
    Var x4{"x4"}, x1{"x1"}, i4{"i4"}, i1{"i1"}, lane{"lane"}, warp{"warp"};
  };
  void over_threads(Halide::Stage stage, const Loops& v, const Var& column, const Var& row, bool with_slices) const {
    Var warp_n("warp_n"), warp_m("warp_m"), lane_n("lane_n"), lane_m("lane_m"), lane_k("lane_k"), warp_k("warp_k"),
        lane_low("lane_low"), in_n("in_n"), in_m("in_m");
    const int lanes_n = tile_.lanes_n, lanes_m = tile_.lanes_m();
    stage.split(column, warp_n, in_n, tile_.columns() / tile_.warps_n);
    stage.split(row, warp_m, in_m, tile_.rows() / tile_.warps_m);
    stage.split(in_n, v.x4, in_n, 4 * lanes_n).split(in_n, lane_n, v.x1, 4);
    stage.split(in_m, v.i4, in_m, 4 * lanes_m).split(in_m, lane_m, v.i1, 4);
    // As in contraction_pipelined.h: two lanes next to each other share a column quad.
    if (lanes_m > 1) stage.split(lane_m, lane_m, lane_low, 2).fuse(lane_low, lane_n, lane_n);
    stage.fuse(lane_n, lane_m, v.lane).fuse(warp_n, warp_m, v.warp);
    if (!with_slices) return;
    stage.split(s_, warp_k, lane_k, tile_.lanes_k).fuse(v.lane, lane_k, v.lane).fuse(v.warp, warp_k, v.warp);
  }

  void loops_of_output(Halide::Stage out, const std::vector<Var>& index, const std::vector<Var>& blocks,
                       bool is_padded) const {
    using Halide::TailStrategy;
    const int warps = tile_.warps();
    const TailStrategy tail = is_padded ? TailStrategy::RoundUp : TailStrategy::GuardWithIf;
    Var column("column_of_tile"), row("row_of_tile");
    out.split(index[0], blocks[0], column, tile_.columns(), tail).split(index[1], blocks[1], row, tile_.rows(), tail);
    std::vector<Halide::VarOrRVar> order;
    if (tile_.slices() > 1) {
      Var lane("lane"), warp("warp"), item("item");
      out.fuse(column, row, item).split(item, item, lane, 32 * warps).split(lane, warp, lane, 32);
      order = {item, lane, warp};
    } else {
      Loops v;
      over_threads(out, v, column, row, false);
      order = {v.x1, v.x4, v.i1, v.i4, v.lane, v.warp};
      (is_padded ? out.vectorize(v.x1) : out.unroll(v.x1)).unroll(v.x4).unroll(v.i1).unroll(v.i4);
    }
    out.gpu_threads(order[order.size() - 2].var, order.back().var);
    order.insert(order.end(), blocks.begin(), blocks.end());
    out.reorder(order).gpu_blocks(blocks[0], blocks[1], blocks[2]);
  }

  void stages(const Halide::Func& out, const Var& block, LeftLies left_lies) const {
    using Halide::Func;
    using Halide::Stage;
    const int rows = tile_.rows(), columns = tile_.columns(), depth = tile_.stage_depth(), warps = tile_.warps();
    Func sums = sums_, parts = part_, left_tile = left, right_tile = right;
    const auto one_of_each_other = [](Func f, size_t own) {
      const std::vector<Var> all = f.args();
      for (size_t at = own; at < all.size(); at++) f.bound_extent(all[at], 1);
    };
    const auto tile_of = [&](Func f) {
      f.compute_at(out, block).bound(x, 0, columns).bound(i, 0, rows).bound(s_, 0, tile_.slices());
      one_of_each_other(f, 3);
    };
    const auto nest = [&](Stage stage, const std::vector<Halide::VarOrRVar>& within,
                          const std::vector<Halide::VarOrRVar>& around) {
      Loops v;
      over_threads(stage, v, x, i, true);
      std::vector<Halide::VarOrRVar> order{v.x1, v.i1, v.x4, v.i4};
      order.insert(order.end(), within.begin(), within.end());
      order.insert(order.end(), {v.lane, v.warp});
      order.insert(order.end(), all_.begin(), all_.end());
      order.insert(order.end(), around.begin(), around.end());
      stage.reorder(order).unroll(v.x1).unroll(v.i1).unroll(v.x4).unroll(v.i4).gpu_threads(v.lane, v.warp);
      for (const Halide::VarOrRVar& loop : within) stage.unroll(loop);
      return v;
    };
    tile_of(sums);
    nest(sums, {}, {});
    const Loops v = nest(sums.update(), {r_.x, r_.y}, {r_.z});
    per_thread(sums);
    if (tile_.registers > 0) limit_registers(sums, tile_.registers);
    if (tile_.slices() > 1) {
      tile_of(parts);
      parts.store_in(Halide::MemoryType::GPUShared);
      nest(parts, {}, {});
    }
    // What a thread multiplies in a step, four neighbours at a time.
    const auto read_quads = [&](Func quads, const Var& at, const Var& along) {
      quads.compute_at(sums, at).store_in(Halide::MemoryType::Register).bound_extent(along, 4).vectorize(along);
    };
    read_quads(left_quad_, v.i4, i);
    read_quads(right_quad_, v.x4, x);

    const auto deal = [&](Stage stage, const Var& item) {
      Var warp("warp");
      stage.split(item, item, warp, warps).unroll(item);
      return warp;
    };
    const auto copy_quads = [&](Func tile, const Var& along) {
      Var quad("quad"), lane("lane"), item("item");
      tile.split(along, along, quad, 4).vectorize(quad).fuse(along, k, item).split(item, item, lane, 32);
      const Var warp = deal(tile, item);
      tile.reorder({quad, item, lane, warp}).gpu_threads(lane, warp);
    };
    const auto copy_turned = [&](Func tile, const Var& along) {  // 8 of k × 4 of the other for a warp
      Var lane("lane"), item("item"), low("low"), high("high");
      tile.split(k, k, lane, 8).split(along, high, low, 4).fuse(lane, low, lane).fuse(k, high, item);
      const Var warp = deal(tile, item);
      tile.reorder({item, lane, warp}).gpu_threads(lane, warp);
    };
    const auto quads_turned = [&](Func tile, const Var& along) {  // 2 quads of k × 16 of the other
      Var quad("quad"), lane("lane"), item("item"), low("low"), high("high");
      tile.split(k, k, quad, 4).vectorize(quad).split(k, k, lane, 2).split(along, high, low, 16);
      tile.fuse(lane, low, lane).fuse(k, high, item);
      const Var warp = deal(tile, item);
      tile.reorder({quad, item, lane, warp}).gpu_threads(lane, warp);
    };
    const auto in_shared = [&](Func tile, const Var& along, int extent) {
      std::vector<Var> storage = tile.args();
      std::swap(storage[0], storage[along.name() == storage[0].name() ? 0 : 1]);
      tile.compute_at(sums, r_.z).reorder_storage(storage).align_storage(along, extent + 4);
      tile.bound_extent(along, extent).bound_extent(k, depth);
      one_of_each_other(tile, 2);
    };
    in_shared(left_tile, i, rows);
    in_shared(right_tile, x, columns);
    if (left_lies == LeftLies::along_k)
      copy_turned(left_tile, i);
    else if (left_lies == LeftLies::along_rows)
      copy_quads(left_tile, i);
    else
      quads_turned(left_tile, i);
    copy_quads(right_tile, x);
    if (left_lies != LeftLies::along_k_computed) {
      return stage_async({left_tile, right_tile}, out, block, tile_.stages, tile_.lead);
    }
    AsyncTiles ahead{{}, tile_.stages, tile_.lead, false};
    for (Func tile : {left_tile, right_tile}) {
      tile.store_in(Halide::MemoryType::GPUShared).hoist_storage(out, block).ring_buffer(tile_.stages);
      ahead.tiles.push_back(tile.name());
    }
    Descriptor::current->lowering_passes.emplace_back(stage_async_pass(ahead));
  }

  PipelinedTile tile_{};
  Var s_{"s"}, kr_{"kr"}, kq_{"kq"};
  Halide::Func left_quad_, right_quad_, sums_, part_;
  Halide::RDom r_;
  std::vector<Var> all_;
};

}  // namespace ashlar::dsl
