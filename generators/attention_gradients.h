// The gradients of attention by query, key and value in one kernel, for the CPU: weights and their slopes are worked
// out once for all three.
#pragma once

#include "generators/attention_rows.h"
#include "runtime/forms/attention.h"
#include "schedules/attention_cpu.h"

namespace ashlar::dsl {

// With weight[q,k] = e^(s[q,k] - lse[q]) and ds[q,k] = scale weight[q,k] (dy[q] · value[k] - delta[q]):
//   dquery[q] = Σ_k ds[q,k] key[k],  dkey[k] = Σ_q ds[q,k] query[q],  dvalue[k] = Σ_q weight[q,k] dy[q]
// A head's tiles of 32 queries are cut into parts by the call's shape alone, which are worked out beside each other
// where heads are few, each tile after the other: its own gradient, and what it adds to those of all keys that it sees.
template <class Derived, ElementType T, class Rows>
class AttentionGradients : public Kernel<Derived>, AttentionGradientOperands, Rows {
 public:
  static constexpr bool on_cpu_alone = true;
  Out<T, 4> dquery{"dquery", {batch, heads, Rows::results(queries), width}};
  Out<T, 4> dkey{"dkey", {batch, key_heads, keys, width}};
  Out<T, 4> dvalue{"dvalue", {batch, key_heads, keys, value_width}};

  AttentionGradients() : Rows(static_cast<AttentionSizes&>(*this)) {
    this->formula(
        "dquery[q] = Σ_k ds[q,k] key[k], dkey[k] = Σ_q ds[q,k] query[q], dvalue[k] = Σ_q weight[q,k] dy[q], "
        "ds = scale weight (dy valueᵀ - delta), weight = e^(score - logsumexp)");
    if constexpr (!Rows::kArePacked) this->form(forms::Attention::signature);
    this->internal();
  }

  void algorithm() {
    const auto& [c, i, k, u, h, b] = cpu;
    constexpr int kQueries = AttentionOnCpu::kQueries;
    const int rows = AttentionOnCpu::rows();
    Rows::rows_of_tile = kQueries;
    const Expr group = heads.extent() / key_heads.extent(), row = Rows::row(u, i);
    const Expr in_batch = certain(b, batch.extent()), in_heads = certain(h, heads.extent()),
               in_key_heads = certain(h / group, key_heads.extent());
    const Expr in_queries = inside(row, queries.extent()), in_keys = inside(Rows::met_row(u, k), keys.extent());
    const auto turned = [&](Func f, const In<T, 4>& x) { f(i, c, u, h, b) = x(in_batch, in_heads, in_queries, c); };
    turned(query_turned, query);
    turned(dy_turned, dy);
    query_tile(c, i, u, h, b) = Rows::own(query, b, h, u, i, c);
    dy_tile(c, i, u, h, b) = Rows::own(dy, b, h, u, i, c);
    key_tile(c, k, h, b) = padded(key, b, h / group, k, c);

    const RDom term(0, width.extent(), "term"), value_term(0, value_width.extent(), "value_term");
    dot(i, k, u, h, b) = 0.0f;
    dot(i, k, u, h, b) +=
        key(in_batch, in_key_heads, in_keys, certain(term, width.extent())) * query_turned(i, term, u, h, b);
    slope(i, k, u, h, b) = 0.0f;
    slope(i, k, u, h, b) += value(in_batch, in_key_heads, in_keys, certain(value_term, value_width.extent())) *
                            dy_turned(i, value_term, u, h, b);
    block = RDom(0, rows, 0, tiles_of(keys.extent(), rows), "block");
    block.where(block.y * rows <= Rows::last_met(u, rows, block.y));
    const Expr at = block.y * rows + block.x;
    const Expr score = Rows::score(*this, dot(i, at, u, h, b), in_batch, in_heads, u, i, at, /*are_keys=*/false);
    // Where nothing is seen the logarithm is -∞ as well. Queries beyond the last are none. Keys behind the last that is
    // seen aren't looked at.
    weight(i, k, u, h, b) = Halide::undef<float>();
    weight(i, at, u, h, b) =
        Halide::select((Value(score) < Value(kLowest)).expr() || row >= queries.extent(), 0.0f,
                       exp_below_zero(Value(score - logsumexp(in_batch, in_heads, in_queries).expr())));
    const Expr shift = delta(in_batch, in_heads, in_queries);
    ds(i, k, u, h, b) = Halide::undef<float>();
    ds(i, at, u, h, b) =
        Rows::of_pair(weight(i, at, u, h, b) * (slope(i, at, u, h, b) - shift) * Value(Rows::scale).expr(), u, i, at,
                      /*are_keys=*/false);

    // What a tile comes to, a row of each gradient.
    RDom seen(0, keys.extent(), "seen");
    seen.where(seen <= Rows::last_met(u, 1, seen.x));
    const RDom member(0, kQueries, "member");
    of_query(c, i, u, h, b) = 0.0f;
    of_query(c, i, u, h, b) += ds(i, seen, u, h, b) * key_tile(c, certain(Rows::met_row(u, seen), keys.extent()), h, b);
    of_key(c, k, u, h, b) = 0.0f;
    of_key(c, k, u, h, b) += ds(member, k, u, h, b) * query_tile(c, member, u, h, b);
    of_value(c, k, u, h, b) = 0.0f;
    of_value(c, k, u, h, b) += weight(member, k, u, h, b) * dy_tile(c, member, u, h, b);

    // Added up, of indices (place, row, gradient, part, head, batch): of each turn a block of rows.
    constexpr int kLeastTiles = 8, kTasks = 8;
    const Expr count_of_tiles = Rows::count_of_tiles(queries.extent());
    parts = Halide::clamp(kTasks / (heads.extent() * batch.extent()), 1, tiles_of(count_of_tiles, kLeastTiles));
    const Expr of_part = tiles_of(count_of_tiles, parts), all = Halide::max(keys.extent(), kQueries);
    turn = RDom(0, rows, 0, tiles_of(all, rows), 0, 3, 0, of_part, "turn");
    const Expr line = turn.y * rows + turn.x, gradient = turn.z, tile = p * of_part + turn.w;
    const Expr last =
        Halide::select(gradient == 0, kQueries - 1, Halide::min(keys.extent() - 1, Rows::last_met(tile, rows, turn.y)));
    turn.where(tile < count_of_tiles && turn.y * rows <= last);
    sums(c, n, of, p, h, b) = 0.0f;
    // The last block that a tile meets may end behind the last key.
    most = Halide::max(count_of_tiles * kQueries, tiles_of(keys.extent(), rows) * rows + (Rows::kArePacked ? rows : 0));
    const Expr into = Halide::unsafe_promise_clamped(
        Halide::select(gradient == 0, tile * kQueries + line, Rows::met_row(tile, line)), 0, most - 1);
    const Expr in_tile = Halide::min(turn.y, kQueries / rows - 1) * rows + turn.x;
    sums(c, into, gradient, p, h, b) += Halide::select(gradient == 0, of_query(c, in_tile, tile, h, b), gradient == 1,
                                                       of_key(c, line, tile, h, b), of_value(c, line, tile, h, b));
    const auto all_parts = [&](Func f, int of, const Expr& sharing) {
      const RDom part(0, parts, 0, sharing, "part");
      f(c, n, h, b) = 0.0f;
      f(c, n, h, b) += sums(c, n, of, part.x, h * sharing + part.y, b);
      return Value(Expr(f(c, n, h, b)));
    };
    dquery(b, h, n, c) = all_parts(all_of_query, 0, 1);
    dkey(b, h, n, c) = all_parts(all_of_key, 1, group);
    dvalue(b, h, n, c) = all_parts(all_of_value, 2, group);
  }

  void schedule(Cpu) {
    const auto& [c, i, k, u, h, b] = cpu;
    const int lanes = AttentionOnCpu::lanes(), width_of_tile = AttentionOnCpu::width();
    Var panel("panel"), vector("vector");
    const auto write = [&](Func out, Func all) {
      const std::vector<Var> index = out.args();
      out.split(index[0], vector, index[0], lanes, Halide::TailStrategy::GuardWithIf).vectorize(index[0]);
      out.parallel(index[2]).parallel(index[3]);
      all.compute_at(out, vector).store_in(Halide::MemoryType::Stack).bound_extent(c, lanes).vectorize(c);
      all.update().reorder(c, all.rvars()[0], all.rvars()[1]).vectorize(c);
    };
    write(dquery.func(), all_of_query);
    write(dkey.func(), all_of_key);
    write(dvalue.func(), all_of_value);
    sums.compute_root().align_bounds(c, width_of_tile).bound(n, 0, most).bound(of, 0, 3);
    sums.bound(p, 0, parts).bound(h, 0, heads.extent()).bound(b, 0, batch.extent());
    sums.vectorize(c, lanes).parallel(p).parallel(h).parallel(b);
    Halide::Stage adding = sums.update();
    adding.split(c, panel, c, width_of_tile).reorder(c, turn.x, turn.y, panel, turn.z, turn.w, p, h, b);
    adding.vectorize(c, lanes).unroll(c).unroll(turn.x).unroll(turn.z).parallel(p).parallel(h).parallel(b);
    const Halide::LoopLevel each_part(sums, p), each_tile(sums, turn.w), each_block(sums, turn.y);
    cpu.padded(key_tile, each_part);
    for (const Func& f : {query_tile, dy_tile}) {
      cpu.padded(f, each_tile);
      Func(f).bound(i, 0, AttentionOnCpu::kQueries).bound_extent(u, 1);
    }
    for (const Func& f : {query_turned, dy_turned}) cpu.of_queries(f, each_tile);
    cpu.of_products(weight, block, dot, each_tile);
    if (const Expr usual = Rows::usual(*this); usual.defined()) weight.update().specialize(usual);
    cpu.of_products(ds, block, slope, each_tile);
    cpu.micro_tile(of_query, c, i, each_block);
    cpu.micro_tile(of_key, c, k, each_block);
    cpu.micro_tile(of_value, c, k, each_block);
  }

 private:
  AttentionOnCpu cpu;
  Var n{"n"}, of{"of"}, p{"p"};
  Expr parts, most;
  RDom turn, block;
  Func query_turned{"query_turned"}, dy_turned{"dy_turned"}, query_tile{"query_tile"}, dy_tile{"dy_tile"},
      key_tile{"key_tile"}, dot{"dot"}, slope{"slope"}, weight{"weight"}, ds{"ds"}, of_query{"of_query"},
      of_key{"of_key"}, of_value{"of_value"}, sums{"sums"}, all_of_query{"all_of_query"}, all_of_key{"all_of_key"},
      all_of_value{"all_of_value"};
};

}  // namespace ashlar::dsl
