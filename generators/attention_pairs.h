// Attention on GPUs whose scores, or of gradients whose weights and slopes, lie in memory: they are worked out once, in
// products of matrices that fill a GPU even where heads are few. Whoever calls such a kernel sees to it that its pairs
// of a query and a key aren't too many (runtime/forms/attention.cpp, autograd/recipes/attention_pairs.cpp). Operands
// are laid out for the products before: padded by zeros to whole tiles, the queries of a batch's heads behind each
// other.
#pragma once

#include "generators/attention.h"
#include "schedules/attention_products.h"
#include "schedules/generic.h"

namespace ashlar::dsl {

/// How such a kernel cuts its sizes, and what all of them have in common.
struct AttentionPairs {
  static constexpr int kRows = 64, kColumns = 128, kPlaces = 64, kTerms = 16;  // of tiles, and terms of a turn
  static constexpr int kRegisters = 128;  // four blocks of 128 threads on a multiprocessor

  static Size padded_to(const Dim& size, int tile) {
    return (Size(size) + constant(tile - 1)) / constant(tile) * constant(tile);
  }
  static Expr whole(const Dim& size, int tile) { return tiles_of(size.extent(), tile) * tile; }
  static bool on_opencl() { return Descriptor::target.has_feature(Halide::Target::OpenCL); }
  static PipelinedTile tile_of_pairs() {
    return {.lane_rows = 8,
            .lane_columns = 8,
            .lanes_n = 8,
            .warps_m = 2,
            .warps_n = 2,
            .depth = kTerms,
            .stages = on_opencl() ? 2 : 3,
            .order = PipelinedOrder::quads,
            .lead = 20,
            .registers = on_opencl() ? 0 : kRegisters};
  }
  /// Results have few blocks: two warps share the terms of each sum. On OpenCL, whose local memory is small, a thread
  /// has fewer sums instead. `lead` is a matter of registers.
  static PipelinedTile tile_of_sums(int lead = 2) {
    if (on_opencl()) {
      return {.lane_rows = 8,
              .lane_columns = 4,
              .lanes_n = 8,
              .warps_m = 2,
              .warps_n = 2,
              .depth = kTerms,
              .stages = 2,
              .order = PipelinedOrder::quads,
              .lead = 2};
    }
    return {.lane_rows = 8,
            .lane_columns = 8,
            .lanes_n = 8,
            .warps_m = 2,
            .warps_n = 1,
            .warps_k = 2,
            .depth = kTerms / 2,
            .stages = 4,
            .order = PipelinedOrder::quads,
            .lead = lead,
            .registers = kRegisters};
  }
  /// Known of every buffer of such sizes, and what Halide proves the alignment of vectors from.
  static Expr in_quads(auto& x) {
    Expr all = Halide::Internal::const_true();
    for (int i = 1; i < Halide::Func(x).dimensions(); i++) all = all && x.dim(i).stride() % 4 == 0;
    return all;
  }

  /// Rows of a tensor become columns: 64 of them and 8 of their terms to a block, so that whole sectors are read.
  static void turn_round(Func f) {
    constexpr int kEach = 8;
    const std::vector<Var> index = f.args();
    Var block("block"), thread("thread"), step("step"), term("term"), outer = index.back();
    f.split(index[0], block, thread, kRows, Halide::TailStrategy::RoundUp);
    f.split(index[1], step, term, kEach, Halide::TailStrategy::RoundUp);
    if (index.size() > 3) f.fuse(index[2], index[3], outer);
    f.reorder(term, thread, block, step, outer).unroll(term).gpu_threads(thread).gpu_blocks(block, step, outer);
  }

  Var n{"n"}, m{"m"}, t{"t"}, u{"u"}, h{"h"}, b{"b"}, block_x{"block_x"}, block_y{"block_y"}, of_all{"of_all"};
};

// y[q] = Σ_k e^(s[q,k] - lse[q]) value[k],  s[q,k] = scale query[q] · key[k] + mask[q,k],  lse[q] = ln Σ_k e^s[q,k]
template <ElementType T>
class AttentionByPairs : public Kernel<AttentionByPairs<T>>, AttentionPairs {
 public:
  Dim batch{"batch"}, heads{"heads"}, key_heads{"key_heads"}, queries{"queries"}, keys{"keys"}, width{"width"},
      value_width{"value_width"};
  In<T, 4> query{"query", {batch, heads, queries, width}};
  In<T, 4> key{"key", {batch, key_heads, keys, width}};
  In<T, 4> value{"value", {batch, key_heads, keys, value_width}};
  In<T, 4> attn_mask{"attn_mask", {batch, heads, queries, keys}, absent_is(0)};
  Scalar<int32_t> diagonal{"diagonal", 0}, is_boolean{"is_boolean", 0};
  Scalar<float> scale{"scale", 0.0F};
  Out<T, 4> y{"y", {batch, heads, queries, value_width}};
  Out<f32, 3> logsumexp{"logsumexp", {batch, heads, queries}};
  Scratch<f32, 3> query_terms{"query_terms",
                              {batch, padded_to(width, kTerms), Size(heads) * padded_to(queries, kRows)}};
  Scratch<f32, 4> key_terms{"key_terms", {batch, key_heads, padded_to(width, kTerms), padded_to(keys, kColumns)}};
  Scratch<f32, 4> value_rows{"value_rows",
                             {batch, key_heads, padded_to(keys, kColumns), padded_to(value_width, kPlaces)}};
  Scratch<f32, 3> scores{"scores", {batch, Size(heads) * padded_to(queries, kRows), padded_to(keys, kColumns)}};
  Scratch<f32, 3> weights{"weights", {batch, Size(heads) * padded_to(queries, kRows), padded_to(keys, kColumns)}};

  Scratch<f32, 2> logs{"logs", {batch, Size(heads) * padded_to(queries, kRows)}};

  AttentionByPairs() {
    this->formula("y = softmax(scale query keyᵀ + attn_mask) value, whose weights lie in memory");
    this->form(forms::Attention::signature).internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }

  void algorithm() {
    const Expr group = heads.extent() / key_heads.extent(), tiles = tiles_of(queries.extent(), kRows),
               all_rows = heads.extent() * tiles * kRows, all_keys = whole(keys, kColumns);
    const Expr head = n / kRows / tiles, q = n / kRows % tiles * kRows + n % kRows;
    query_terms(b, m, n) = Value(padded(query, b, head, q, m));
    key_terms(b, h, m, n) = Value(padded(key, b, h, n, m));
    value_rows(b, h, n, m) = Value(padded(value, b, h, n, m));

    const Expr term = certain(dot.k, whole(width, kTerms));
    dot.left(dot.k, dot.i, u, b) = query_terms.func()(certain(u * kRows + dot.i, all_rows), term, b);
    dot.right(dot.x, dot.k, t, u, b) = key_terms.func()(certain(t * kColumns + dot.x, all_keys), term,
                                                        certain(u / tiles / group, key_heads.extent()), b);
    dot.define(tile_of_pairs(), {t, u, b}, {u, b}, {t, u, b}, tiles_of(width.extent(), kTerms));
    const Expr mask =
        attn_mask(b, certain(head, heads.extent()), inside(q, queries.extent()), inside(m, keys.extent()));
    scores(b, n, m) = Value(Masking{scale, is_boolean, diagonal}.score(
        dot.at(m % kColumns, n % kRows, {m / kColumns, n / kRows, b}), mask, q, m, keys.extent()));

    // What a row doesn't see isn't looked at: it may never have been written.
    k = Axis(all_keys, "k");
    j = Axis(all_keys, "j");
    const auto seen = [&](const Expr& at) {
      return Value(Halide::select(at <= q + Value(diagonal).expr(), Expr(scores.func()(at, certain(n, all_rows), b)),
                                  kMinusInfinity));
    };
    const auto largest_number = [&] { return select(Value(largest(b, n)) < kLowest, kLowest, Value(largest(b, n))); };
    const auto exponential = [&](const Expr& at) { return exp_below_zero(seen(at) - largest_number()); };
    largest(b, n) = max_of_numbers(k, seen(Expr(k)));
    total(b, n) = sum(j, exponential(Expr(j)));
    const Value all = total(b, n);
    weights(b, n, m) = select(all == 0.0, 0.0, exponential(Expr(m)) / all);
    logs(b, n) = log(all) + largest_number();
    logsumexp(b, h, n) = logs(b, Value(h * tiles * kRows + n));

    of_value.left(of_value.k, of_value.i, u, h, b) =
        weights.func()(certain(of_value.k, all_keys), certain((h * tiles + u) * kRows + of_value.i, all_rows), b);
    of_value.right(of_value.x, of_value.k, t, h, b) =
        value_rows.func()(certain(t * kPlaces + of_value.x, whole(value_width, kPlaces)), certain(of_value.k, all_keys),
                          certain(h / group, key_heads.extent()), b);
    of_value.define(tile_of_sums(), {t, u, h, b}, {u, h, b}, {t, h, b}, tiles_of(keys.extent(), kTerms));
    y(b, h, n, m) = Value(of_value.at(m % kPlaces, n % kRows, {m / kPlaces, n / kRows, h, b}));
  }

  void schedule(Cpu target) { generic(target, y, logsumexp); }
  void schedule(auto target) {
    const Expr tiles = tiles_of(queries.extent(), kRows), past = Value(diagonal).expr();
    const Expr sees = block_x * kColumns < (block_y % tiles + 1) * kRows + past;
    dot.schedule(scores.func(), block_x, block_y, b, true, LeftLies::along_rows,
                 in_quads(query_terms) && in_quads(key_terms) && in_quads(scores),
                 {sees, tiles_of(width.extent(), kTerms)});
    y.func().fuse(h, b, of_all);
    of_value.schedule(y.func(), block_x, block_y, of_all, false, LeftLies::along_k, in_quads(value_rows),
                      {{}, ((block_y + 1) * kRows + past + (kTerms - 1)) / kTerms});
    compute_rows_beside(weights.func(), {logs.func()});
    turn_round(query_terms.func());
    turn_round(key_terms.func());
    generic(target, value_rows, weights, logsumexp);
    store_beside({logs.func()});
  }

 private:
  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  TiledProduct dot{"dot"}, of_value{"of_value"};
};

}  // namespace ashlar::dsl
