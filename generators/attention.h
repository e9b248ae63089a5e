// Scaled dot-product attention (Vaswani et al. 2017) without a matrix of scores in memory: an online softmax over tiles
// of keys (Milakov and Gimelshein 2018; Dao et al. 2022), and its gradients, which work the weights out again. With
// dropout of the weights, both work out what is kept again as well.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "dsl/functions/philox.h"
#include "dsl/plans.h"
#include "runtime/forms/attention.h"
#include "schedules/attention.h"
#include "schedules/attention_cpu.h"
#include "schedules/lowering/still_used.h"

namespace ashlar::dsl {

using Halide::Func;
using Halide::RDom;

inline constexpr float kLowest = -std::numeric_limits<float>::max(),
                       kMinusInfinity = -std::numeric_limits<float>::infinity();

inline Expr inside(const Expr& index, const Expr& extent) { return Halide::max(Halide::min(index, extent - 1), 0); }
inline Expr certain(const Expr& index, const Expr& extent) {
  return Halide::unsafe_promise_clamped(index, 0, extent - 1);
}
inline Expr tiles_of(const Expr& all, const Expr& tile) { return (all + tile - 1) / tile; }

// x - 1, in a form that Halide 21 doesn't solve a condition for: it would cut the regions of the stages behind it.
inline Expr before(const Expr& x) { return ~(-x); }

// x[b, h, row, c], 0 beyond the last row and place
template <ElementType T>
Expr padded(const In<T, 4>& x, const Expr& b, const Expr& h, const Expr& row, const Expr& c) {
  const Expr at = x(certain(b, x.extent(0)), certain(h, x.extent(1)), inside(row, x.extent(2)), inside(c, x.extent(3)));
  return Halide::select(row < x.extent(2) && c < x.extent(3), at, 0.0f);
}

/// The sizes of a call of attention.
struct AttentionSizes {
  Dim batch{"batch"}, heads{"heads"}, key_heads{"key_heads"}, queries{"queries"}, keys{"keys"}, width{"width"},
      value_width{"value_width"};
};

// What calls are made of, as bases of the kernels, in the order of their arguments.
struct AttentionOperands : AttentionSizes {
  In<f32, 4> query{"query", {batch, heads, queries, width}};
  In<f32, 4> key{"key", {batch, key_heads, keys, width}};
  In<f32, 4> value{"value", {batch, key_heads, keys, value_width}};
};
struct AttentionGradientOperands : AttentionSizes {
  In<f32, 4> dy{"dy", {batch, heads, queries, value_width}};
  In<f32, 4> query{"query", {batch, heads, queries, width}};
  In<f32, 4> key{"key", {batch, key_heads, keys, width}};
  In<f32, 4> value{"value", {batch, key_heads, keys, value_width}};
  In<f32, 3> logsumexp{"logsumexp", {batch, heads, queries}}, delta{"delta", {batch, heads, queries}};
};

// What a query and a key come to: scale dot + mask, or -∞ where the one doesn't see the other. is_boolean: the mask is
// 0 or 1, and 0 hides.
struct AttentionMask {
  explicit AttentionMask(const AttentionSizes& of)
      : attn_mask("attn_mask", {of.batch, of.heads, of.queries, of.keys}, absent_is(0)) {}
  In<f32, 4> attn_mask;
  Scalar<int32_t> diagonal{"diagonal", 0}, is_boolean{"is_boolean", 0};
  Scalar<float> scale{"scale", 0.0F};

  Expr masked(const Expr& dot, const Expr& mask, const Expr& query, const Expr& key, const Expr& keys) const {
    const Expr scaled = dot * Value(scale).expr();
    const Expr shown =
        Halide::select(Value(is_boolean).expr() == 0, scaled + mask, mask != 0.0f, scaled, kMinusInfinity);
    return Halide::select(key < keys && key <= query + Value(diagonal).expr(), shown, kMinusInfinity);
  }
};

/// The index variables of what is worked out for two columns by two rows at once.
struct PairIndex {
  Var column{"column_in_pair"}, row{"row_in_pair"}, column_pair{"column_pair"}, row_pair{"row_pair"};
};

// Where a weight stands: the pairs of queries and of keys that it is in, and its place in these.
struct PlaceInPairs {
  Expr query_pair, query, key_pair, key;
};

/// All weights take part.
struct NoDropout {
  static constexpr bool kDrops = false;
};

/// A weight takes part with probability 1 - p: where 24 bits of its word are at least `threshold`, word 2 (q % 2) +
/// k % 2 of block ((head ⌈queries/2⌉ + q / 2) ⌈keys/2⌉ + k / 2) of the stream, which stays where it is.
class Dropout {
 public:
  static constexpr bool kDrops = true;
  In<i64, 1> state{"state", {constant(2)}};
  Scalar<int64_t> first_head{"first_head", 0};  // of those that were cut into launches
  Scalar<int32_t> threshold{"threshold", 0};
  Scalar<float> p{"p", 0.5F};

  /// 1 where it takes part, else -1.
  Expr sign(const Expr& head, const Expr& queries, const Expr& keys, const PlaceInPairs& at) const {
    const auto wide = [](const Expr& x) { return Halide::cast<int64_t>(x); };
    const auto pairs = [&](const Expr& size) { return wide((size + 1) / 2); };
    const Expr row = (Value(first_head).expr() + wide(head)) * pairs(queries) + wide(at.query_pair);
    const Expr block = row * pairs(keys) + wide(at.key_pair);
    const Words4 words = words_of_block(state(0), state(1) + Value(block));
    const auto chosen = [&](const Value& first, const Value& second) {
      return Halide::select(at.key == 0, first.expr(), second.expr());
    };
    const Expr word = Halide::select(at.query == 0, chosen(words[0], words[1]), chosen(words[2], words[3]));
    return Halide::select(Halide::reinterpret<int32_t>(word >> 8) >= Value(threshold).expr(), 1.0f, -1.0f);
  }
  /// What those that take part are multiplied by.
  Expr scale_of_kept() const {
    const Expr rest = 1.0f - Value(p).expr();
    return Halide::select(rest > 0.0f, 1.0f / rest, 0.0f);
  }
};

// y[q] = Σ_k e^(s[q,k] - lse[q]) value[k],  s[q,k] = scale query[q] · key[k] + mask[q,k],  lse[q] = ln Σ_k e^s[q,k]
// with dropout Σ_k over the keys that are kept, times 1 / (1 - p)
template <class Derived, ElementType T, class Drop>
class AttentionOf : public Kernel<Derived>, AttentionOperands, Drop, AttentionMask {
 public:
  Out<T, 4> y{"y", {batch, heads, queries, value_width}};
  Out<f32, 3> logsumexp{"logsumexp", {batch, heads, queries}};

  AttentionOf() : AttentionMask(static_cast<AttentionSizes&>(*this)) {
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

  // Row i of the queries' tile u meets column j of the keys' tile t.
  void algorithm() {
    declare_plans();
    if (!on_gpu()) return define_on_cpu();
    const auto& [c, i, j, t, g, u, h, b, x] = at;
    const int columns = static_cast<int>(*Halide::Internal::as_const_int(tile.columns));
    const RDom term(0, tile.depth, 0, tiles_of(width.extent(), tile.depth), "term");
    const RDom member(0, tile.depth, 0, tile.columns / tile.depth, "member"),
        thread(0, AttentionTile::kThreads, "thread");
    RDom tiles(0, tiles_of(keys.extent(), tile.columns), "tiles");
    const Expr row = u * tile.rows + i, column = t * tile.columns + j,
               key_head = h / (heads.extent() / key_heads.extent());
    query_tile(c, i, u, h, b) = padded(query, b, h, row, c);
    key_tile(c, j, t, h, b) = padded(key, b, key_head, column, c);
    value_tile(c, j, t, h, b) = padded(value, b, key_head, column, c);

    const Expr place = term.y * tile.depth + term.x, m = member.y * tile.depth + member.x;
    dot(j, i, t, u, h, b) = 0.0f;
    dot(j, i, t, u, h, b) += query_tile(place, i, u, h, b) * key_tile(place, j, t, h, b);
    const Expr mask = attn_mask(b, h, inside(row, queries.extent()), inside(column, keys.extent()));
    has_no_mask = is_absent(mask) && Value(is_boolean).expr() == 0;
    score(j, i, t, u, h, b) = masked(dot(j, i, t, u, h, b), mask, row, column, keys.extent());
    near_best(x, i, t, u, h, b) = AttentionTile::of_columns(
        x, columns, [&](const Expr& k) -> Expr { return score(k, i, t, u, h, b); },
        [](const Expr& one, const Expr& other) { return Halide::max(one, other); });
    best(i, t, u, h, b) = kLowest;  // finite, so that no score is -∞ - -∞
    best(i, t, u, h, b) = Halide::max(best(i, t, u, h, b), near_best(thread, i, t, u, h, b));
    // A NaN among them is in the sum.
    Descriptor::current->maxima_of_numbers.insert({near_best.name(), best.name()});
    top(i, t, u, h, b) = best(i, t, u, h, b);
    Expr exponential = exp_below_zero(Value(score(j, i, t, u, h, b) - top(i, t, u, h, b)));
    if constexpr (Drop::kDrops) {
      const auto& [in_j, in_i, jj, ii] = in_pair;
      const PlaceInPairs pairs{u * (tile.rows / 2) + ii, in_i, t * (tile.columns / 2) + jj, in_j};
      kept(in_j, in_i, jj, ii, t, u, h, b) = Drop::sign(b * heads.extent() + h, queries.extent(), keys.extent(), pairs);
      exponential = exponential * kept(j % 2, i % 2, j / 2, i / 2, t, u, h, b);
    }
    // A weight that is dropped is negative: it counts in the sum all the same, as does a NaN.
    own_weight(j, i, t, u, h, b) = exponential;
    const Expr own = own_weight(j, i, t, u, h, b);
    weight(j, i, t, u, h, b) = Drop::kDrops ? Halide::select(own > 0.0f, own, 0.0f) : own;
    const auto counted = [&](const Expr& k) -> Expr {
      const Expr one = own_weight(k, i, t, u, h, b);
      return Drop::kDrops ? Halide::abs(one) : one;
    };
    near_sum(x, i, t, u, h, b) =
        AttentionTile::of_columns(x, columns, counted, [](const Expr& one, const Expr& other) { return one + other; });
    sum(i, t, u, h, b) = 0.0f;
    sum(i, t, u, h, b) += near_sum(thread, i, t, u, h, b);
    total(i, t, u, h, b) = sum(i, t, u, h, b);
    part(c, i, t, u, h, b) = 0.0f;
    part(c, i, t, u, h, b) += weight(m, i, t, u, h, b) * value_tile(c, m, t, h, b);

    // {m, Σ e^(s - m), Σ e^(s - m) value[c] of a thread's columns c} over the tiles in which any key is seen.
    const int values = AttentionTile::of_thread(tile.width);
    std::vector<Expr> none{kLowest, 0.0f}, next;
    none.resize(2 + values, 0.0f);
    state(x, i, u, h, b) = Halide::Tuple(none);
    tiles.where(tiles * tile.columns <= before((u + 1) * tile.rows + Value(diagonal).expr()));
    const Halide::FuncRef old = state(x, i, u, h, b);
    const Expr new_top = top(i, tiles, u, h, b), larger = Halide::select(old[0] < new_top, new_top, old[0]);
    const Expr keep = exp_below_zero(Value(old[0] - larger)), take = exp_below_zero(Value(new_top - larger));
    const Expr queries_used = query_tile(0, i, u, h, b);
    next = {tile.places > 0 ? still_used(larger, queries_used) : larger,
            old[1] * keep + total(i, tiles, u, h, b) * take};
    for (int k = 0; k < values; k++) {
      next.push_back(old[2 + k] * keep + part(AttentionTile::column_of(x, k, tile.width), i, tiles, u, h, b) * take);
    }
    update_at_once(state, {x, i, u, h, b}, next);
    const auto row_of = [&](const Expr& column, int of) -> Expr {
      return state(AttentionTile::thread_of(column, tile.width), q % tile.rows, q / tile.rows, h, b)[of];
    };
    const Expr weighted = tile.of_column(c, [&](int value) { return row_of(c, 2 + value); });
    Value mean = Value(weighted) / Value(row_of(c, 1));
    if constexpr (Drop::kDrops) mean = mean * Value(Drop::scale_of_kept());
    y(b, h, q, c) = select(Value(row_of(c, 1)) == 0, 0, mean);
    logsumexp(b, h, q) = log(Value(row_of(0, 1))) + Value(row_of(0, 0));
    stages = {.tile = tile,
              .at = at,
              .products = {{dot, term.x, term.y, query_tile, key_tile, j, true}},
              .own = {score, own_weight},
              .near = {near_best, near_sum},
              .reduced = {best, top, sum, total},
              .weights = {weight},
              .result = {part, member.x, member.y, weight, value_tile, c, false},
              .tiles = {tiles.x},
              .total = state,
              .beside = {logsumexp.func()},
              .usual = has_no_mask};
    if constexpr (Drop::kDrops) stages.in_pairs = kept;
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
    score.specialize(has_no_mask);
    cpu.over_keys(best, each_tile);
    cpu.of_queries(weight, each_tile);
    cpu.over_keys(sum, each_tile);
    cpu.of_queries(total, each_tile);
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
  void schedule(auto target) { attention(target, stages, y.func()); }

 private:
  void declare_plans() {
    if (!on_gpu()) return plans.declare({{.name = "tiles"}});
    tile = {.rows = 64, .columns = 64};
    // Of OpenCL's local memory 32 KB are certain.
    if (Descriptor::target.has_feature(Halide::Target::OpenCL)) return plans.declare({{.name = "any_width"}});
    // The fewer blocks there are, the more threads each of them needs.
    constexpr int kMany = 264;  // two for each of an H100's multiprocessors
    const Expr widest = Halide::max(width.extent(), value_width.extent());
    const Expr blocks = batch.extent() * heads.extent() * tiles_of(queries.extent(), tile.rows);
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

  // Query i of tile u meets key k: a row of scores is kept, and a stage for each step goes over it.
  void define_on_cpu() {
    const auto& [c, i, k, u, h, b] = cpu;
    constexpr int kQueries = AttentionOnCpu::kQueries;
    const RDom term(0, width.extent(), "term");
    RDom seen(0, keys.extent(), "seen");
    seen.where(seen <= before((u + 1) * kQueries + Value(diagonal).expr()));
    const Expr row = u * kQueries + i, key_head = h / (heads.extent() / key_heads.extent());
    const Expr in_queries = inside(row, queries.extent()), in_keys = inside(k, keys.extent());
    const Expr in_batch = certain(b, batch.extent()), in_heads = certain(h, heads.extent()),
               in_key_heads = certain(key_head, key_heads.extent());
    query_tile(i, c, u, h, b) = query(in_batch, in_heads, in_queries, c);
    value_tile(c, k, h, b) = padded(value, b, key_head, k, c);
    dot(i, k, u, h, b) = 0.0f;
    dot(i, k, u, h, b) +=
        key(in_batch, in_key_heads, in_keys, certain(term, width.extent())) * query_tile(i, term, u, h, b);
    const Expr mask = attn_mask(in_batch, in_heads, in_queries, in_keys);
    has_no_mask = is_absent(mask) && Value(is_boolean).expr() == 0;
    score(i, k, u, h, b) = masked(dot(i, k, u, h, b), mask, row, k, keys.extent());
    best(i, u, h, b) = kLowest;  // finite, so that no score is -∞ - -∞
    best(i, u, h, b) = Halide::max(best(i, u, h, b), score(i, seen, u, h, b));
    Descriptor::current->maxima_of_numbers.insert(best.name());  // a NaN among them is in the sum
    Expr exponential = exp_below_zero(Value(score(i, k, u, h, b) - best(i, u, h, b)));
    if constexpr (Drop::kDrops) {
      const auto& [in_k, in_i, kk, ii] = in_pair;
      kept(in_i, ii, in_k, kk, u, h, b) = Drop::sign(b * heads.extent() + h, queries.extent(), keys.extent(),
                                                     {u * (kQueries / 2) + ii, in_i, kk, in_k});
      exponential = exponential * kept(i % 2, i / 2, k % 2, k / 2, u, h, b);
    }
    weight(i, k, u, h, b) = exponential;
    // A weight that is dropped is negative: it counts in the sum all the same, as does a NaN.
    const Expr one = weight(i, seen, u, h, b);
    sum(i, u, h, b) = 0.0f;
    sum(i, u, h, b) += Drop::kDrops ? Halide::abs(one) : one;
    total(i, u, h, b) = log(Value(Expr(sum(i, u, h, b)))) + Value(Expr(best(i, u, h, b)));
    part(c, i, u, h, b) = 0.0f;
    part(c, i, u, h, b) += (Drop::kDrops ? Halide::select(one > 0.0f, one, 0.0f) : one) * value_tile(c, seen, h, b);
    Value quotient = Value(Expr(part(c, i, u, h, b))) / Value(Expr(sum(i, u, h, b)));
    if constexpr (Drop::kDrops) quotient = quotient * Value(Drop::scale_of_kept());
    mean(c, i, u, h, b) = select(Value(Expr(sum(i, u, h, b))) == 0, 0, quotient);
    y(b, h, q, c) = Value(Expr(mean(c, q % kQueries, q / kQueries, h, b)));
    logsumexp(b, h, q) = Value(Expr(total(q % kQueries, q / kQueries, h, b)));
  }

  Plans plans;
  AttentionIndex at;
  AttentionOnCpu cpu;
  Expr has_no_mask;
  Var q{"q"};
  AttentionTile tile;
  AttentionStages stages;
  Func query_tile{"query_tile"}, key_tile{"key_tile"}, value_tile{"value_tile"}, dot{"dot"}, score{"score"},
      near_best{"near_best"}, best{"best"}, top{"top"}, own_weight{"own_weight"}, weight{"weight"},
      near_sum{"near_sum"}, sum{"sum"}, total{"total"}, part{"part"}, mean{"mean"},
      state{Drop::kDrops ? "running" : "state"};
  PairIndex in_pair;
  Func kept{"kept"};
};

enum class Wanted { query, key, value };

// With weight[q,k] = e^(s[q,k] - lse[q]) and ds[q,k] = weight[q,k] (dy[q] · value[k] - delta[q]):
//   dquery[q] = scale Σ_k ds[q,k] key[k],  dkey[k] = scale Σ_q ds[q,k] query[q],  dvalue[k] = Σ_q weight[q,k] dy[q]
// where q runs over all heads that share k's. delta[q] = dy[q] · y[q].
// with dropout ds = weight (kept dy · value - delta) and dvalue = Σ kept weight dy, kept 1 / (1 - p) or 0.
template <class Derived, ElementType T, Wanted wanted, class Drop = NoDropout>
class AttentionGradient : public Kernel<Derived>, AttentionGradientOperands, Drop, AttentionMask {
 public:
  static constexpr bool kOfQuery = wanted == Wanted::query, kOfValue = wanted == Wanted::value;
  Out<T, 4> dx{"dx", kOfQuery   ? Sizes{batch, heads, queries, width}
                     : kOfValue ? Sizes{batch, key_heads, keys, value_width}
                                : Sizes{batch, key_heads, keys, width}};

  AttentionGradient() : AttentionMask(static_cast<AttentionSizes&>(*this)) {
    this->formula(kOfQuery   ? "dquery[q] = scale Σ_k ds[q,k] key[k], ds = weight (dy valueᵀ - delta)"
                  : kOfValue ? "dvalue[k] = Σ_q weight[q,k] dy[q], weight = e^(score - logsumexp)"
                             : "dkey[k] = scale Σ_q ds[q,k] query[q], ds = weight (dy valueᵀ - delta)");
    this->form(forms::Attention::signature);
  }

  // Row i of a tile u of the result meets column j of the other side's tile t, in the g-th head that shares it.
  void algorithm() {
    const auto& [c, i, j, t, g, u, h, b, x] = at;
    const Expr group = heads.extent() / key_heads.extent(), columns = kOfQuery ? keys.extent() : queries.extent();
    tile = AttentionTile::for_columns(columns);
    const RDom term(0, tile.depth, 0, tiles_of(width.extent(), tile.depth), "term");
    const RDom value_term(0, tile.depth, 0, tiles_of(value_width.extent(), tile.depth), "value_term");
    RDom member(0, tile.depth, 0, tile.columns / tile.depth, 0, tiles_of(columns, tile.columns), 0,
                kOfQuery ? Expr(1) : group, "member");
    const Expr row = u * tile.rows + i, column = t * tile.columns + j;
    const Expr q = kOfQuery ? row : column, k = kOfQuery ? column : row;
    const Expr head = kOfQuery ? Expr(h) : h * group + g, key_head = kOfQuery ? h / group : Expr(h);
    const auto of_rows = [&](Func f, const In<T, 4>& x) { f(c, i, u, h, b) = padded(x, b, h, row, c); };
    const auto of_columns = [&](Func f, const In<T, 4>& x) {
      f(c, j, t, g, h, b) = padded(x, b, kOfQuery ? key_head : head, column, c);
    };
    of_rows(left, kOfQuery ? query : key);
    of_columns(right, kOfQuery ? key : query);
    of_rows(left_value, kOfQuery ? dy : value);
    of_columns(right_value, kOfQuery ? value : dy);
    of_columns(summand, kOfQuery ? key : kOfValue ? dy : query);

    const Expr place = term.y * tile.depth + term.x, value_place = value_term.y * tile.depth + value_term.x;
    dot(j, i, t, g, u, h, b) = 0.0f;
    dot(j, i, t, g, u, h, b) += left(place, i, u, h, b) * right(place, j, t, g, h, b);
    slope(j, i, t, g, u, h, b) = 0.0f;
    slope(j, i, t, g, u, h, b) += left_value(value_place, i, u, h, b) * right_value(value_place, j, t, g, h, b);
    const Expr at_b = certain(b, batch.extent()), at_h = certain(head, heads.extent());
    const Expr at_q = inside(q, queries.extent()), at_k = inside(k, keys.extent());
    const Expr score = masked(dot(j, i, t, g, u, h, b), attn_mask(at_b, at_h, at_q, at_k), q, k, keys.extent());
    // Where nothing is seen the logarithm is -∞ as well. Queries beyond the last are none.
    const Expr weight = Halide::select((Value(score) < Value(kLowest)).expr() || q >= queries.extent(), 0.0f,
                                       exp(Value(score - logsumexp(at_b, at_h, at_q).expr())));
    const Expr shift = delta(at_b, at_h, at_q), factor = Value(scale);
    const Expr slope_here = slope(j, i, t, g, u, h, b);
    if constexpr (Drop::kDrops) {
      const auto& [in_j, in_i, jj, ii] = in_pair;
      const Expr row_pair = u * (tile.rows / 2) + ii, column_pair = t * (tile.columns / 2) + jj;
      kept(in_j, in_i, jj, ii, t, g, u, h, b) = Drop::sign(
          b * heads.extent() + head, queries.extent(), keys.extent(),
          kOfQuery ? PlaceInPairs{row_pair, in_i, column_pair, in_j} : PlaceInPairs{column_pair, in_j, row_pair, in_i});
      const Expr is_kept = kept(j % 2, i % 2, j / 2, i / 2, t, g, u, h, b) > 0.0f;
      const Expr of_kept = Halide::select(is_kept, (kOfValue ? weight : slope_here) * Drop::scale_of_kept(), 0.0f);
      coefficient(j, i, t, g, u, h, b) = kOfValue ? of_kept : weight * (of_kept - shift) * factor;
    } else {
      coefficient(j, i, t, g, u, h, b) = kOfValue ? weight : weight * (slope_here - shift) * factor;
    }

    const Expr m = member.y * tile.depth + member.x, diagonal_of = Value(diagonal);
    member.where(kOfQuery ? member.z * tile.columns <= before((u + 1) * tile.rows + diagonal_of)
                          : before(u * tile.rows - diagonal_of) <= (member.z + 1) * tile.columns - 2);
    sums(c, i, u, h, b) = 0.0f;
    sums(c, i, u, h, b) += coefficient(m, i, member.z, member.w, u, h, b) * summand(c, m, member.z, member.w, h, b);
    dx(b, h, n, c) = Value(sums(c, n % tile.rows, n / tile.rows, h, b));
    stages = {.tile = tile,
              .at = at,
              .products = {{dot, term.x, term.y, left, right, j, true}},
              .weights = {coefficient},
              .result = {sums, member.x, member.y, coefficient, summand, c, false},
              .tiles = {member.z, member.w}};
    if constexpr (Drop::kDrops) stages.in_pairs = kept;
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
  PairIndex in_pair;
  Func kept{"kept"};
};

}  // namespace ashlar::dsl
