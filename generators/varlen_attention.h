// Attention within packed sequences (generators/attention.h is that of batches): a tile's queries are of one sequence,
// whose keys it goes through where they lie.
#pragma once

#include <string>

#include "dsl/plans.h"
#include "generators/online_softmax.h"
#include "generators/sequence_tiles.h"
#include "schedules/attention_cpu.h"
#include "schedules/lowering/loop_end.h"

namespace ashlar::dsl {

// y[q] = Σ_k e^(s[q,k] - lse[q]) value[k],  s[q,k] = scale query[q] · key[k],  lse[q] = ln Σ_k e^s[q,k],  k of q's
// sequence; y and lse with rows for whole tiles
template <ElementType T>
class VarlenAttention : public Kernel<VarlenAttention<T>>, AttentionOperands, TilesOfSequences {
 public:
  Scalar<float> scale{"scale"};
  Out<T, 4> y{"y", {batch, heads, any_size, value_width}};
  Out<f32, 3> logsumexp{"logsumexp", {batch, heads, any_size}};

  VarlenAttention() {
    this->formula("y = softmax(scale query keyᵀ) value within each sequence, tile by tile").internal();
  }

  // Row i of the queries' tile u meets column j of the t-th tile of keys of its sequence.
  void algorithm() {
    declare_plans();
    if (!on_gpu()) return define_on_cpu();
    const auto& [c, i, j, t, g, u, h, b, x] = at;
    term = RDom(0, tile.depth, 0, tiles_of(width.extent(), tile.depth), "term");
    member = RDom(0, tile.depth, 0, tile.columns / tile.depth, "member");
    tiles_of_keys = RDom(0, tiles_of(keys.extent(), tile.columns), "tiles_of_keys");
    const Expr place = term.y * tile.depth + term.x, m = member.y * tile.depth + member.x;
    const Expr column = t * tile.columns + j, key_head = h / (heads.extent() / key_heads.extent());
    query_tile(c, i, u, h, b) = own(query, b, h, u, i, c);
    key_tile(c, j, t, u, h, b) = other(key, b, key_head, u, column, c);
    value_tile(c, j, t, u, h, b) = other(value, b, key_head, u, column, c);

    dot(j, i, t, u, h, b) = 0.0f;
    dot(j, i, t, u, h, b) += query_tile(place, i, u, h, b) * key_tile(place, j, t, u, h, b);
    const Expr is_seen = sees(u, i, column) && t < loop_end(tiles_of(other_count(u), tile.columns), tiles_of_keys.x);
    score(j, i, t, u, h, b) = Halide::select(is_seen, dot(j, i, t, u, h, b) * Value(scale).expr(), kMinusInfinity);
    best.maximum(at, tile, [&](const Expr& k) -> Expr { return score(k, i, t, u, h, b); });  // a NaN is in the sum
    own_weight(j, i, t, u, h, b) = exp_below_zero(Value(score(j, i, t, u, h, b) - best.of_all(i, t, u, h, b)));
    weight(j, i, t, u, h, b) = own_weight(j, i, t, u, h, b);
    total.sum(at, tile, [&](const Expr& k) -> Expr { return own_weight(k, i, t, u, h, b); });
    part(c, i, t, u, h, b) = 0.0f;
    part(c, i, t, u, h, b) += weight(m, i, t, u, h, b) * value_tile(c, m, t, u, h, b);

    running.define(at, tile, tiles_of_keys, {best.of_all, total.of_all, part}, query_tile(0, i, u, h, b));
    const Value all = Value(running.total(tile, {q, h, b}, c));
    y(b, h, q, c) = select(all == 0, 0, Value(running.weighted(tile, {q, h, b}, c)) / all);
    logsumexp(b, h, q) = log(Value(running.total(tile, {q, h, b}, 0))) + Value(running.largest(tile, {q, h, b}, 0));
  }
  void schedule(Cpu) {
    using Halide::LoopLevel;
    const auto& [c, i, k, u, h, b] = cpu;
    Func out = y.func();
    const std::vector<Var> index = out.args();
    Var task("task"), row_of_task("row"), block("block"), line("line"), panel("panel");
    compute_rows_beside(out, {logsumexp.func()});
    out.split(index[1], task, row_of_task, AttentionOnCpu::kQueries, Halide::TailStrategy::GuardWithIf)
        .reorder(index[0], row_of_task, task, index[2], index[3])
        .vectorize(index[0], cpu.lanes(), Halide::TailStrategy::GuardWithIf);
    out.parallel(task).parallel(index[2]).parallel(index[3]);
    store_beside({logsumexp.func()});

    const LoopLevel each_head(out, index[2]), each_tile(out, task);
    cpu.padded(value_tile, each_head);
    cpu.of_queries(query_tile, each_tile);
    cpu.of_products(score, dot, each_tile);
    cpu.over_keys(best_of_row, each_tile);
    cpu.of_queries(weight, each_tile);
    cpu.over_keys(sum, each_tile);
    cpu.of_queries(logarithm, each_tile);
    mean.compute_at(each_tile).bound(i, 0, AttentionOnCpu::kQueries).bound_extent(u, 1).align_bounds(c, cpu.width());
    mean.split(i, block, line, cpu.rows()).split(c, panel, c, cpu.width()).reorder(c, line, block, panel);
    mean.vectorize(c, cpu.lanes()).unroll(c).unroll(line);
    cpu.micro_tile(part, c, i, LoopLevel(mean, block));
  }
  void schedule(auto target) {
    attention(target,
              {.tile = tile,
               .at = at,
               .products = {{dot, term.x, term.y, query_tile, key_tile, at.j, true}},
               .own = {score, own_weight},
               .near = {best.of_thread, total.of_thread},
               .reduced = {best.of_threads, best.of_all, total.of_threads, total.of_all},
               .weights = {weight},
               .result = {part, member.x, member.y, weight, value_tile, at.c, false},
               .tiles = {tiles_of_keys.x},
               .total = running.state,
               .beside = {logsumexp.func()}},
              y.func());
  }

 private:
  void declare_plans() {
    if (!on_gpu()) return plans.declare({{.name = "tiles"}});
    tile = {.rows = 64, .columns = 64};
    // Of OpenCL's local memory 32 KB are certain.
    if (Descriptor::target.has_feature(Halide::Target::OpenCL)) return plans.declare({{.name = "any_width"}});
    const Expr widest = Halide::max(width.extent(), value_width.extent());
    plans.declare({{.name = "narrow", .applies = widest <= 64}, {.name = "any_width"}});
    tile.registers = 128;
    if (plans.chosen() == "narrow") tile.depth = tile.places = tile.width = 64;
  }

  // As generators/attention.h does it: a row of scores is kept, and a stage for each step goes over it.
  void define_on_cpu() {
    const auto& [c, i, k, u, h, b] = cpu;
    constexpr int kQueries = AttentionOnCpu::kQueries;
    const RDom all(0, width.extent(), "term");
    RDom seen(0, keys.extent(), "seen");
    seen.where(seen.x < loop_end(other_count(u), seen.x));
    const Expr in_batch = certain(b, batch.extent()),
               key_head = certain(h / (heads.extent() / key_heads.extent()), key_heads.extent());
    query_tile(i, c, u, h, b) = own(query, b, h, u, i, c);
    value_tile(c, k, h, b) = padded(value, b, key_head, k, c);
    dot(i, k, u, h, b) = 0.0f;
    dot(i, k, u, h, b) +=
        key(in_batch, key_head, inside(other_row(u, k), keys.extent()), certain(all, width.extent())) *
        query_tile(i, all, u, h, b);
    score(i, k, u, h, b) = Halide::select(sees(u, i, k), dot(i, k, u, h, b) * Value(scale).expr(), kMinusInfinity);
    best_of_row(i, u, h, b) = kLowest;  // finite, so that no score is -∞ - -∞
    best_of_row(i, u, h, b) = Halide::max(best_of_row(i, u, h, b), score(i, seen, u, h, b));
    Descriptor::current->maxima_of_numbers.insert(best_of_row.name());  // a NaN among them is in the sum
    weight(i, k, u, h, b) = exp_below_zero(Value(score(i, k, u, h, b) - best_of_row(i, u, h, b)));
    sum(i, u, h, b) = 0.0f;
    sum(i, u, h, b) += weight(i, seen, u, h, b);
    logarithm(i, u, h, b) = log(Value(Expr(sum(i, u, h, b)))) + Value(Expr(best_of_row(i, u, h, b)));
    part(c, i, u, h, b) = 0.0f;
    part(c, i, u, h, b) += weight(i, seen, u, h, b) * value_tile(c, certain(other_row(u, seen), keys.extent()), h, b);
    const Value of_all = Value(Expr(sum(i, u, h, b)));
    mean(c, i, u, h, b) = select(of_all == 0, 0, Value(Expr(part(c, i, u, h, b))) / of_all);
    y(b, h, q, c) = Value(Expr(mean(c, q % kQueries, q / kQueries, h, b)));
    logsumexp(b, h, q) = Value(Expr(logarithm(q % kQueries, q / kQueries, h, b)));
  }

  Plans plans;
  AttentionIndex at;
  AttentionOnCpu cpu;
  Var q{"q"};
  AttentionTile tile;
  RDom term, member, tiles_of_keys;
  OfRow best{"best", "top"}, total{"sum", "total"};
  RunningSoftmax running{"state"};
  Func query_tile{"query_tile"}, key_tile{"key_tile"}, value_tile{"value_tile"}, dot{"dot"}, score{"score"},
      own_weight{"own_weight"}, weight{"weight"}, part{"part"}, best_of_row{"best_of_row"}, sum{"sum_of_row"},
      logarithm{"logarithm"}, mean{"mean"};
};

}  // namespace ashlar::dsl
