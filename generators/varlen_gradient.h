// The gradients of attention within packed sequences: on a GPU each in a kernel of its own, as
// generators/attention_gradient.h has them for batches; on the CPU all in one, as generators/attention_grads.cpp.
#pragma once

#include "generators/attention_gradient.h"
#include "generators/sequence_tiles.h"
#include "schedules/attention_cpu.h"
#include "schedules/lowering/loop_end.h"

namespace ashlar::dsl {

// With weight[q,k] = e^(s[q,k] - lse[q]) and ds[q,k] = scale weight[q,k] (dy[q] · value[k] - delta[q]):
//   dquery[q] = Σ_k ds[q,k] key[k],  dkey[k] = Σ_q ds[q,k] query[q],  dvalue[k] = Σ_q weight[q,k] dy[q]
// over the pairs of each sequence; the result has rows for whole tiles.
template <class Derived, ElementType T, Wanted wanted>
class VarlenGradient : public Kernel<Derived>, AttentionGradientOperands, TilesOfSequences {
 public:
  static constexpr bool on_gpus_alone = true;
  static constexpr bool kOfQuery = wanted == Wanted::query, kOfValue = wanted == Wanted::value;
  Scalar<float> scale{"scale"};
  Out<T, 4> dx{"dx", kOfQuery   ? Sizes{batch, heads, any_size, width}
                     : kOfValue ? Sizes{batch, key_heads, any_size, value_width}
                                : Sizes{batch, key_heads, any_size, width}};

  VarlenGradient() {
    this->formula(kOfQuery   ? "dquery[q] = scale Σ_k ds[q,k] key[k] within each sequence, tile by tile"
                  : kOfValue ? "dvalue[k] = Σ_q weight[q,k] dy[q] within each sequence, tile by tile"
                             : "dkey[k] = scale Σ_q ds[q,k] query[q] within each sequence, tile by tile");
    this->internal();
  }

  // Row i of a tile u of the result meets column j of the t-th tile of the other side's rows of its sequence, in the
  // g-th head that shares it.
  void algorithm() {
    const auto& [c, i, j, t, g, u, h, b, x] = at;
    const Expr group = heads.extent() / key_heads.extent(), others = kOfQuery ? keys.extent() : queries.extent();
    tile = AttentionTile::for_columns(others);
    const RDom term(0, tile.depth, 0, tiles_of(width.extent(), tile.depth), "term");
    const RDom value_term(0, tile.depth, 0, tiles_of(value_width.extent(), tile.depth), "value_term");
    const RDom member(0, tile.depth, 0, tile.columns / tile.depth, 0, tiles_of(others, tile.columns), 0,
                      kOfQuery ? Expr(1) : group, "member");
    const Expr column = t * tile.columns + j;
    const Expr head = kOfQuery ? Expr(h) : h * group + g, key_head = kOfQuery ? h / group : Expr(h);
    const auto of_rows = [&](Func f, const In<T, 4>& x) { f(c, i, u, h, b) = own(x, b, h, u, i, c); };
    const auto of_columns = [&](Func f, const In<T, 4>& x) {
      f(c, j, t, g, u, h, b) = other(x, b, kOfQuery ? key_head : head, u, column, c);
    };
    of_rows(left, kOfQuery ? query : key);
    of_columns(right, kOfQuery ? key : query);
    of_rows(left_value, kOfQuery ? dy : value);
    of_columns(right_value, kOfQuery ? value : dy);
    of_columns(summand, kOfQuery ? key : kOfValue ? dy : query);

    const Expr place = term.y * tile.depth + term.x, value_place = value_term.y * tile.depth + value_term.x;
    dot(j, i, t, g, u, h, b) = 0.0f;
    dot(j, i, t, g, u, h, b) += left(place, i, u, h, b) * right(place, j, t, g, u, h, b);
    slope(j, i, t, g, u, h, b) = 0.0f;
    slope(j, i, t, g, u, h, b) += left_value(value_place, i, u, h, b) * right_value(value_place, j, t, g, u, h, b);
    const Expr is_seen =
        sees(u, i, column, !kOfQuery) && t < loop_end(tiles_of(other_count(u), tile.columns), member.z);
    const Expr at_b = certain(b, batch.extent()), at_h = certain(head, heads.extent()),
               at_q = inside(kOfQuery ? row(u, i) : other_row(u, column), queries.extent());
    const Expr score = dot(j, i, t, g, u, h, b) * Value(scale).expr();
    const Expr weight = exp(Value(score - logsumexp(at_b, at_h, at_q).expr()));
    const Expr shift = delta(at_b, at_h, at_q);
    coefficient(j, i, t, g, u, h, b) = Halide::select(
        is_seen, kOfValue ? weight : weight * (slope(j, i, t, g, u, h, b) - shift) * Value(scale).expr(), 0.0f);

    const Expr m = member.y * tile.depth + member.x;
    sums(c, i, u, h, b) = 0.0f;
    sums(c, i, u, h, b) += coefficient(m, i, member.z, member.w, u, h, b) * summand(c, m, member.z, member.w, u, h, b);
    dx(b, h, n, c) = Value(sums(c, n % tile.rows, n / tile.rows, h, b));
    stages = {.tile = tile,
              .at = at,
              .products = {{dot, term.x, term.y, left, right, j, true}},
              .weights = {coefficient},
              .result = {sums, member.x, member.y, coefficient, summand, c, false},
              .tiles = {member.z, member.w}};
    if (!kOfValue) stages.products.push_back({slope, value_term.x, value_term.y, left_value, right_value, j, true});
  }
  void schedule(auto target) { attention(target, stages, dx.func()); }

 private:
  AttentionIndex at;
  Var n{"n"};
  AttentionTile tile;
  AttentionStages stages;
  Func left{"left"}, right{"right"}, left_value{"left_value"}, right_value{"right_value"}, summand{"summand"},
      dot{"dot"}, slope{"slope"}, coefficient{"coefficient"}, sums{"sums"};
};

// A head's tiles of queries are cut into parts by the call's shape alone, which are worked out beside each other where
// heads are few, each tile after the other: its own gradient, with rows for whole tiles, and what it adds to those of
// the keys that it sees.
template <ElementType T>
class VarlenGradients : public Kernel<VarlenGradients<T>>, AttentionGradientOperands, TilesOfSequences {
 public:
  static constexpr bool on_cpu_alone = true;
  Scalar<float> scale{"scale"};
  Out<T, 4> dquery{"dquery", {batch, heads, any_size, width}};
  Out<T, 4> dkey{"dkey", {batch, key_heads, keys, width}};
  Out<T, 4> dvalue{"dvalue", {batch, key_heads, keys, value_width}};

  VarlenGradients() {
    this->formula(
        "dquery[q] = Σ_k ds[q,k] key[k], dkey[k] = Σ_q ds[q,k] query[q], dvalue[k] = Σ_q weight[q,k] dy[q] within each "
        "sequence");
    this->internal();
  }

  void algorithm() {
    const auto& [c, i, k, u, h, b] = cpu;
    constexpr int kQueries = AttentionOnCpu::kQueries;
    const int rows = AttentionOnCpu::rows();
    const Expr group = heads.extent() / key_heads.extent(), count_of_tiles = tiles.extent(0);
    const Expr in_batch = certain(b, batch.extent()), in_heads = certain(h, heads.extent()),
               in_key_heads = certain(h / group, key_heads.extent()), key_row = inside(other_row(u, k), keys.extent()),
               query_row = inside(row(u, i), queries.extent());
    query_turned(i, c, u, h, b) = own(query, b, h, u, i, c);
    dy_turned(i, c, u, h, b) = own(dy, b, h, u, i, c);
    query_tile(c, i, u, h, b) = own(query, b, h, u, i, c);
    dy_tile(c, i, u, h, b) = own(dy, b, h, u, i, c);
    key_tile(c, k, h, b) = padded(key, b, h / group, k, c);

    const RDom term(0, width.extent(), "term"), value_term(0, value_width.extent(), "value_term");
    dot(i, k, u, h, b) = 0.0f;
    dot(i, k, u, h, b) +=
        key(in_batch, in_key_heads, key_row, certain(term, width.extent())) * query_turned(i, term, u, h, b);
    slope(i, k, u, h, b) = 0.0f;
    slope(i, k, u, h, b) += value(in_batch, in_key_heads, key_row, certain(value_term, value_width.extent())) *
                            dy_turned(i, value_term, u, h, b);
    block = RDom(0, rows, 0, tiles_of(keys.extent(), rows), "block");
    block.where(block.y < loop_end(tiles_of(other_count(u), rows), block.y));
    const Expr met = block.y * rows + block.x;
    const Expr score = dot(i, met, u, h, b) * Value(scale).expr();
    // Keys behind the last that is met aren't looked at.
    weight(i, k, u, h, b) = Halide::undef<float>();
    weight(i, met, u, h, b) = Halide::select(
        sees(u, i, met), exp_below_zero(Value(score - logsumexp(in_batch, in_heads, query_row).expr())), 0.0f);
    const Expr shift = delta(in_batch, in_heads, query_row);
    ds(i, k, u, h, b) = Halide::undef<float>();
    // A NaN of another sequence, which is next to this one's last row, stays there.
    ds(i, met, u, h, b) = Halide::select(
        sees(u, i, met), weight(i, met, u, h, b) * (slope(i, met, u, h, b) - shift) * Value(scale).expr(), 0.0f);

    // What a tile comes to, a row of each gradient.
    RDom seen(0, keys.extent(), "seen");
    seen.where(seen.x < loop_end(other_count(u), seen.x));
    const RDom member(0, kQueries, "member");
    of_query(c, i, u, h, b) = 0.0f;
    of_query(c, i, u, h, b) += ds(i, seen, u, h, b) * key_tile(c, certain(other_row(u, seen), keys.extent()), h, b);
    of_key(c, k, u, h, b) = 0.0f;
    of_key(c, k, u, h, b) += ds(member, k, u, h, b) * query_tile(c, member, u, h, b);
    of_value(c, k, u, h, b) = 0.0f;
    of_value(c, k, u, h, b) += weight(member, k, u, h, b) * dy_tile(c, member, u, h, b);

    // Added up, of indices (place, row, gradient, part, head, batch): of each turn a block of rows.
    constexpr int kLeastTiles = 8, kTasks = 8;
    parts = Halide::clamp(kTasks / (heads.extent() * batch.extent()), 1, tiles_of(count_of_tiles, kLeastTiles));
    const Expr of_part = tiles_of(count_of_tiles, parts), all = Halide::max(keys.extent(), kQueries);
    turn = RDom(0, rows, 0, tiles_of(all, rows), 0, 3, 0, of_part, "turn");
    const Expr line = turn.y * rows + turn.x, gradient = turn.z, tile = p * of_part + turn.w;
    const Expr blocks = loop_end(tiles_of(other_count(tile), rows), turn.y);
    turn.where(tile < count_of_tiles && turn.y < Halide::select(gradient == 0, kQueries / rows, blocks));
    sums(c, n, of, p, h, b) = 0.0f;
    most = Halide::max(count_of_tiles * kQueries, keys.extent() + rows);  // a last block has rows behind its sequence's
    const Expr into = Halide::unsafe_promise_clamped(
        Halide::select(gradient == 0, tile * kQueries + line, other_row(tile, line)), 0, most - 1);
    const Expr in_tile = Halide::min(turn.y, kQueries / rows - 1) * rows + turn.x;
    const auto if_met = [&](const Expr& x) { return Halide::select(line < other_count(tile), x, 0.0f); };
    sums(c, into, gradient, p, h, b) +=
        Halide::select(gradient == 0, of_query(c, in_tile, tile, h, b), gradient == 1,
                       if_met(of_key(c, line, tile, h, b)), if_met(of_value(c, line, tile, h, b)));
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
