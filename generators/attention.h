// Scaled dot-product attention (Vaswani et al. 2017) without a matrix of scores in memory: an online softmax over tiles
// of keys (Milakov and Gimelshein 2018; Dao et al. 2022).
#pragma once

#include <string>
#include <vector>

#include "dsl/plans.h"
#include "generators/attention_rows.h"
#include "generators/online_softmax.h"
#include "runtime/forms/attention.h"
#include "schedules/attention_cpu.h"

namespace ashlar::dsl {

// y[q] = Σ_k e^(s[q,k] - lse[q]) value[k],  s[q,k] = scale query[q] · key[k] + mask[q,k],  lse[q] = ln Σ_k e^s[q,k]
// with dropout Σ_k over the keys that are kept, times 1 / (1 - p); of packed sequences over k of q's own
template <class Derived, ElementType T, class Drop, class Rows>
class AttentionOf : public Kernel<Derived>, AttentionOperands, Drop, Rows {
 public:
  Out<T, 4> y{"y", {batch, heads, Rows::results(queries), value_width}};
  Out<f32, 3> logsumexp{"logsumexp", {batch, heads, Rows::results(queries)}};

  AttentionOf() : Rows(static_cast<AttentionSizes&>(*this)) {}

  // Row i of the queries' tile u meets column j of the keys' tile t.
  void algorithm() {
    declare_plans();
    if (!on_gpu()) return define_on_cpu();
    const auto& [c, i, j, t, g, u, h, b, x] = at;
    term = RDom(0, tile.depth, 0, tiles_of(width.extent(), tile.depth), "term");
    member = RDom(0, tile.depth, 0, tile.columns / tile.depth, "member");
    tiles_of_keys = RDom(0, tiles_of(keys.extent(), tile.columns), "tiles");
    const Expr place = term.y * tile.depth + term.x, m = member.y * tile.depth + member.x;
    const Expr column = t * tile.columns + j, key_head = h / (heads.extent() / key_heads.extent());
    query_tile(c, i, u, h, b) = Rows::own(query, b, h, u, i, c);
    key_tile(c, j, t, u, h, b) = Rows::met(key, b, key_head, u, column, c);
    value_tile(c, j, t, u, h, b) = Rows::met(value, b, key_head, u, column, c);

    dot(j, i, t, u, h, b) = 0.0f;
    dot(j, i, t, u, h, b) += query_tile(place, i, u, h, b) * key_tile(place, j, t, u, h, b);
    const Expr is_met = Rows::leave_out(tiles_of_keys, tiles_of_keys.x, t, u, tile.columns, /*are_keys=*/false);
    score(j, i, t, u, h, b) = Rows::score(*this, dot(j, i, t, u, h, b), b, h, u, i, column, /*are_keys=*/false, is_met);
    best.maximum(at, tile, [&](const Expr& k) -> Expr { return score(k, i, t, u, h, b); });  // a NaN is in the sum
    const Expr exponential = exp_below_zero(Value(score(j, i, t, u, h, b) - best.of_all(i, t, u, h, b)));
    own_weight(j, i, t, u, h, b) = signed_on_gpu(exponential);
    weight(j, i, t, u, h, b) = Drop::taking_part(own_weight(j, i, t, u, h, b));
    total.sum(at, tile, [&](const Expr& k) -> Expr { return Drop::counted(own_weight(k, i, t, u, h, b)); });
    part(c, i, t, u, h, b) = 0.0f;
    part(c, i, t, u, h, b) += weight(m, i, t, u, h, b) * value_tile(c, m, t, u, h, b);

    running.define(at, tile, tiles_of_keys, {best.of_all, total.of_all, part}, query_tile(0, i, u, h, b));
    const Value all = Value(running.total(tile, {q, h, b}, c));
    y(b, h, q, c) = select(all == 0, 0, Drop::scaled(Value(running.weighted(tile, {q, h, b}, c)) / all));
    const Value largest = running.largest(tile, {q, h, b}, 0);
    logsumexp(b, h, q) = log(Value(running.total(tile, {q, h, b}, 0))) + largest;
  }
  void schedule(Cpu) {
    using Halide::LoopLevel;
    const auto& [c, i, k, u, h, b] = cpu;
    Func out = y.func();
    const std::vector<Var> index = out.args();
    Var task("task"), row("row"), keys_of_pair("keys_of_pair"), block("block"), line("line"), panel("panel");
    compute_rows_beside(out, {logsumexp.func()});
    out.split(index[1], task, row, AttentionOnCpu::kQueries, Halide::TailStrategy::GuardWithIf)
        .reorder(index[0], row, task, index[2], index[3])
        .vectorize(index[0], cpu.lanes(), Halide::TailStrategy::GuardWithIf);
    out.parallel(task).parallel(index[2]).parallel(index[3]);
    store_beside({logsumexp.func()});

    const LoopLevel each_head(out, index[2]), each_tile(out, task);
    cpu.padded(value_tile, each_head);
    cpu.of_queries(query_tile, each_tile);
    cpu.of_products(score, dot, each_tile);
    if (const Expr usual = Rows::usual(*this); usual.defined()) score.specialize(usual);
    cpu.over_keys(best_of_row, each_tile);
    cpu.of_queries(weight, each_tile);
    cpu.over_keys(sum, each_tile);
    cpu.of_queries(logarithm, each_tile);
    if constexpr (Drop::kDrops) {
      const auto& [in_k, in_i, kk, ii] = in_pair;
      weight.align_bounds(k, 2).split(k, keys_of_pair, k, 2).unroll(k);
      weight.reorder(k, i, keys_of_pair);
      kept.compute_at(weight, keys_of_pair).store_in(Halide::MemoryType::Stack).bound_extent(u, 1);
      kept.bound(in_i, 0, 2).bound(in_k, 0, 2).bound(ii, 0, AttentionOnCpu::kQueries / 2).bound_extent(kk, 1);
      kept.reorder(in_i, in_k, ii).unroll(in_i).unroll(in_k).vectorize(ii, cpu.lanes());
    }
    mean.compute_at(each_tile).bound(i, 0, AttentionOnCpu::kQueries).bound_extent(u, 1).align_bounds(c, cpu.width());
    mean.split(i, block, line, cpu.rows()).split(c, panel, c, cpu.width()).reorder(c, line, block, panel);
    mean.vectorize(c, cpu.lanes()).unroll(c).unroll(line);
    cpu.micro_tile(part, c, i, LoopLevel(mean, block));
  }
  void schedule(auto target) {
    AttentionStages stages{.tile = tile,
                           .at = at,
                           .products = {{dot, term.x, term.y, query_tile, key_tile, at.j, true}},
                           .own = {score, own_weight},
                           .near = {best.of_thread, total.of_thread},
                           .reduced = {best.of_threads, best.of_all, total.of_threads, total.of_all},
                           .weights = {weight},
                           .result = {part, member.x, member.y, weight, value_tile, at.c, false},
                           .tiles = {tiles_of_keys.x},
                           .total = running.state,
                           .beside = {logsumexp.func()},
                           .usual = Rows::usual(*this)};
    if constexpr (Drop::kDrops) stages.in_pairs = kept;
    attention(target, stages, y.func());
  }

 private:
  void declare_plans() {
    if (!on_gpu()) return plans.declare({{.name = "tiles"}});
    tile = {.rows = 64, .columns = 64};
    Rows::rows_of_tile = tile.rows;
    // Of OpenCL's local memory 32 KB are certain.
    if (Descriptor::target.has_feature(Halide::Target::OpenCL)) return plans.declare({{.name = "any_width"}});
    // The fewer blocks there are, the more threads each of them needs.
    constexpr int kMany = 264;  // two for each of an H100's multiprocessors
    const Expr widest = Halide::max(width.extent(), value_width.extent());
    const Expr blocks = batch.extent() * heads.extent() * Rows::count_of_tiles(queries.extent());
    plans.declare({{.name = "narrow_few", .applies = widest <= 64 && blocks < kMany},
                   {.name = "narrow", .applies = widest <= 64},
                   {.name = "wide", .applies = widest <= 128},
                   {.name = "any_width"}});
    const std::string& plan = plans.chosen();
    tile.registers = plan == "narrow" ? 168 : 128;
    if (plan == "narrow") tile.thread_rows = 8;
    if (plan == "any_width") return;
    tile.depth = 64;
    tile.places = plan == "wide" ? 128 : 64;
    tile.width = tile.places;
  }

  // The words of a random number serve two queries by two keys.
  Expr signed_on_gpu(const Expr& weight) {
    if constexpr (!Drop::kDrops) return weight;
    const auto& [c, i, j, t, g, u, h, b, x] = at;
    const auto& [in_j, in_i, jj, ii] = in_pair;
    const PlaceInPairs pairs{u * (tile.rows / 2) + ii, in_i, t * (tile.columns / 2) + jj, in_j};
    kept(in_j, in_i, jj, ii, t, u, h, b) = sign(pairs);
    return weight * kept(j % 2, i % 2, j / 2, i / 2, t, u, h, b);
  }
  Expr signed_on_cpu(const Expr& weight) {
    if constexpr (!Drop::kDrops) return weight;
    const auto& [c, i, k, u, h, b] = cpu;
    const auto& [in_k, in_i, kk, ii] = in_pair;
    kept(in_i, ii, in_k, kk, u, h, b) = sign({u * (AttentionOnCpu::kQueries / 2) + ii, in_i, kk, in_k});
    return weight * kept(i % 2, i / 2, k % 2, k / 2, u, h, b);
  }
  Expr sign(const PlaceInPairs& pairs) const {
    if constexpr (!Drop::kDrops)
      return {};
    else
      return Drop::sign(at.b * heads.extent() + at.h, queries.extent(), keys.extent(), pairs);
  }

  // Query i of tile u meets the k-th key of its own: a row of scores is kept, and a stage for each step goes over it.
  void define_on_cpu() {
    const auto& [c, i, k, u, h, b] = cpu;
    constexpr int kQueries = AttentionOnCpu::kQueries;
    Rows::rows_of_tile = kQueries;
    const RDom all(0, width.extent(), "term");
    RDom seen(0, keys.extent(), "seen");
    seen.where(seen <= Rows::last_met(u, 1, seen.x));
    const Expr key_head = h / (heads.extent() / key_heads.extent());
    const Expr in_batch = certain(b, batch.extent()), in_heads = certain(h, heads.extent()),
               in_key_heads = certain(key_head, key_heads.extent());
    const Expr in_queries = inside(Rows::row(u, i), queries.extent()),
               in_keys = inside(Rows::met_row(u, k), keys.extent());
    query_tile(i, c, u, h, b) = query(in_batch, in_heads, in_queries, c);
    value_tile(c, k, h, b) = padded(value, b, key_head, k, c);
    dot(i, k, u, h, b) = 0.0f;
    dot(i, k, u, h, b) +=
        key(in_batch, in_key_heads, in_keys, certain(all, width.extent())) * query_tile(i, all, u, h, b);
    score(i, k, u, h, b) = Rows::score(*this, dot(i, k, u, h, b), in_batch, in_heads, u, i, k, /*are_keys=*/false);
    best_of_row(i, u, h, b) = kLowest;  // finite, so that no score is -∞ - -∞
    best_of_row(i, u, h, b) = Halide::max(best_of_row(i, u, h, b), score(i, seen, u, h, b));
    Descriptor::current->maxima_of_numbers.insert(best_of_row.name());  // a NaN among them is in the sum
    weight(i, k, u, h, b) = signed_on_cpu(exp_below_zero(Value(score(i, k, u, h, b) - best_of_row(i, u, h, b))));
    const Expr one = weight(i, seen, u, h, b);
    sum(i, u, h, b) = 0.0f;
    sum(i, u, h, b) += Drop::counted(one);
    logarithm(i, u, h, b) = log(Value(Expr(sum(i, u, h, b)))) + Value(Expr(best_of_row(i, u, h, b)));
    part(c, i, u, h, b) = 0.0f;
    part(c, i, u, h, b) += Drop::taking_part(one) * value_tile(c, certain(Rows::met_row(u, seen), keys.extent()), h, b);
    const Value of_all = Value(Expr(sum(i, u, h, b)));
    mean(c, i, u, h, b) = select(of_all == 0, 0, Drop::scaled(Value(Expr(part(c, i, u, h, b))) / of_all));
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
  RunningSoftmax running{Drop::kDrops ? "running" : "state"};
  Func query_tile{"query_tile"}, key_tile{"key_tile"}, value_tile{"value_tile"}, dot{"dot"}, score{"score"},
      own_weight{"own_weight"}, weight{"weight"}, part{"part"}, best_of_row{"best_of_row"}, sum{"sum_of_row"},
      logarithm{"logarithm"}, mean{"mean"};
  PairIndex in_pair;
  Func kept{"kept"};
};

/// Of batches: what callers know as scaled_dot_product_attention.
template <class Derived, ElementType T, class Drop>
class AttentionOfBatches : public AttentionOf<Derived, T, Drop, RowsOfBatches> {
 public:
  AttentionOfBatches() {
    this->formula(Drop::kDrops
                      ? "y = dropout(softmax(scale query keyᵀ + attn_mask), p) value, by the stream of state, which "
                        "stays where it is; scale 0: 1/√width; a query that sees no key: 0"
                      : "y = softmax(scale query keyᵀ + attn_mask) value, scale 0: 1/√width; a query that sees no key: "
                        "0");
    this->form(forms::Attention::signature);
    this->gradient(kAllInputs,
                   Drop::kDrops ? "attention_dropout_grad(dy, query, key, value, state, attn_mask, y, logsumexp, "
                                  "is_causal, p, scale, needs)"
                                : "attention_grad(dy, query, key, value, attn_mask, y, logsumexp, is_causal, scale, "
                                  "needs)",
                   "autograd/recipes/attention.h");
    this->flops("2.0 * shapes[0].numel() * shapes[1][2] * (1.0 + double(shapes[2][3]) / double(shapes[1][3]))");
  }
};

}  // namespace ashlar::dsl
