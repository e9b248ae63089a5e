// Attention on GPUs whose scores, or of gradients whose weights and slopes, lie in memory: they are worked out once, in
// products of matrices that fill a GPU even where heads are few. Whoever calls such a kernel sees to it that its pairs
// of a query and a key aren't too many (runtime/forms/attention_pieces.h). Operands
// are laid out for the products before: padded by zeros to whole tiles, the queries of a batch's heads behind each
// other.
#pragma once

#include "generators/attention_rows.h"
#include "runtime/forms/attention.h"
#include "schedules/attention_products.h"
#include "schedules/generic.h"

namespace ashlar::dsl {

/// How such a kernel cuts its sizes, and what all of them have in common.
struct AttentionPairs {
  // What rows, columns and places are padded to, and terms of a turn over a width.
  static constexpr int kRows = 64, kColumns = 128, kPlaces = 64, kTerms = 16;
  static constexpr int kRegisters = 128;  // four blocks of 128 threads on a multiprocessor

  static Size padded_to(const Dim& size, int tile) {
    return (Size(size) + constant(tile - 1)) / constant(tile) * constant(tile);
  }
  static Expr whole(const Dim& size, int tile) { return tiles_of(size.extent(), tile) * tile; }
  static bool on_opencl() { return Descriptor::target.has_feature(Halide::Target::OpenCL); }

  /// Few pairs fill a GPU by small tiles. Sums over pairs have few blocks, so that four warps share the terms of each;
  /// narrow tiles of them suit an odd number of 32 places, and few blocks again. `lead` is a matter of registers.
  void declare_plans(const AttentionSizes& of, const Expr& tiles, const Expr& keys, int lead) {
    constexpr int kFewPairs = 600, kFewSums = 150;  // tiles of 64 × 128 and 64 × 64, by 132 multiprocessors
    constexpr int kNarrow = kPlaces / 2;
    if (on_gpu() && !on_opencl()) {
      const Expr rows = of.batch.extent() * of.heads.extent() * tiles;
      const Expr widest = Halide::max(of.width.extent(), of.value_width.extent());
      plans.declare({{.name = "small_tiles", .preferred = rows * tiles_of(keys, kColumns) < kFewPairs},
                     {.name = "small_sums",
                      .preferred = tiles_of(widest, kNarrow) % 2 == 1 || rows * tiles_of(widest, kPlaces) < kFewSums},
                     {.name = "large_tiles"}});
    } else {
      plans.declare({{.name = "large_tiles"}});
    }
    pairs = {.lane_rows = 8,
             .lane_columns = 8,
             .lanes_n = 8,
             .warps_m = 2,
             .warps_n = 2,
             .depth = kTerms,
             .stages = on_opencl() ? 2 : 3,
             .order = PipelinedOrder::quads,
             .lead = 20,
             .registers = on_opencl() ? 0 : kRegisters};
    // On OpenCL, whose local memory is small, a thread has fewer sums instead.
    sums = pairs;
    sums.lead = lead;
    if (on_opencl()) {
      sums.lane_columns = 4;
      return;
    }
    sums.warps_m = sums.warps_n = 1;
    sums.warps_k = 4;
    sums.depth = kTerms / 2;
    sums.stages = 3;
    sums.registers = 0;
    const std::string& plan = plans.chosen();
    if (plan == "large_tiles") return;
    sums.lane_columns = 4;
    sums.stages = 4;
    if (plan == "small_sums") return;
    pairs.lane_rows = pairs.lane_columns = 4;
    pairs.registers = 0;
  }
  /// The row of pairs, of all heads, that is row i of a tile of sums over them.
  Expr pair_row(const Expr& head, const Expr& tile, const Expr& i, const Expr& tiles) const {
    return head * tiles * kRows + tile * sums.rows() + i;
  }
  /// Turns over the keys that a tile of sums over them sees.
  Expr turns_before(const Expr& tile, const Expr& past) const {
    return ((tile + 1) * sums.rows() + past + (sums.stage_depth() - 1)) / sums.stage_depth();
  }
  /// The first key of a tile of pairs, and its rows' tile of queries. Large tiles are written whole: whoever sums over
  /// pairs reads them so.
  Expr first_column(const Expr& column) const { return column * pairs.columns() / kColumns * kColumns; }
  Expr tile_of_queries(const Expr& row, const Expr& tiles) const { return row * pairs.rows() / kRows % tiles; }
  /// Whether a tile of pairs has any that is seen.
  Expr sees(const Expr& column, const Expr& row, const Expr& tiles, const Expr& past) const {
    return first_column(column) < (tile_of_queries(row, tiles) + 1) * kRows + past;
  }
  /// Known of every buffer of such sizes, and what Halide proves the alignment of vectors from.
  static Expr in_quads(auto& x) {
    Expr all = Halide::Internal::const_true();
    for (int i = 1; i < Halide::Func(x).dimensions(); i++) all = all && x.dim(i).stride() % 4 == 0;
    return all;
  }

  /// Rows of a tensor, a stage of its own, become columns: 64 of them and 16 of their terms to a block, by way of
  /// shared memory.
  static void turn_round(Func f, Func rows) {
    constexpr int kEach = 4;
    const std::vector<Var> index = f.args();
    Var block("block"), thread("thread"), step("step"), line("line"), term("term"), outer = index.back();
    f.split(index[0], block, thread, kRows, Halide::TailStrategy::RoundUp);
    f.split(index[1], step, term, kTerms, Halide::TailStrategy::RoundUp).split(term, line, term, kEach);
    if (index.size() > 3) f.fuse(index[2], index[3], outer);
    f.reorder(term, thread, line, block, step, outer).unroll(term);
    f.gpu_threads(thread, line).gpu_blocks(block, step, outer);

    const std::vector<Var> at = rows.args();
    std::vector<Var> storage = at;
    std::swap(storage[0], storage[1]);
    rows.compute_at(f, block).store_in(Halide::MemoryType::GPUShared).reorder_storage(storage);
    rows.align_storage(at[1], kTerms + 1).bound_extent(at[0], kRows).bound_extent(at[1], kTerms);
    for (size_t other = 2; other < at.size(); other++) rows.bound_extent(at[other], 1);
    constexpr int kLines = kRows / kTerms;  // a thread has as many rows
    rows.split(at[0], term, thread, kRows / kTerms).fuse(at[1], thread, thread).split(term, term, line, kLines);
    rows.reorder(term, thread, line).unroll(term).gpu_threads(thread, line);
  }
  /// Rows stay rows: 64 places of 64 of them to a block. (Halide 21 fails on the selections of OpenCL's.)
  static void copy_rows(auto target, const auto& x) {
    if (on_opencl()) return generic(target, x);
    Func f = x.func();
    constexpr int kEach = 16;
    const std::vector<Var> index = f.args();
    Var block("block"), thread("thread"), step("step"), line("line"), row("row"), outer = index.back();
    f.split(index[0], block, thread, kPlaces, Halide::TailStrategy::RoundUp);
    f.split(index[1], step, row, kRows, Halide::TailStrategy::RoundUp).split(row, row, line, kRows / kEach);
    if (index.size() > 3) f.fuse(index[2], index[3], outer);
    f.reorder(row, thread, line, block, step, outer).unroll(row);
    f.gpu_threads(thread, line).gpu_blocks(block, step, outer);
  }

  Plans plans;
  Func query_lines{"query_lines"}, key_lines{"key_lines"};
  PipelinedTile pairs{}, sums{};
  Var n{"n"}, m{"m"}, t{"t"}, u{"u"}, h{"h"}, b{"b"}, block_x{"block_x"}, block_y{"block_y"}, of_all{"of_all"};
};

// y[q] = Σ_k e^(s[q,k] - lse[q]) value[k],  s[q,k] = scale query[q] · key[k] + mask[q,k],  lse[q] = ln Σ_k e^s[q,k]
template <ElementType T>
class AttentionByPairs : public Kernel<AttentionByPairs<T>>, AttentionPairs, AttentionOperands, AttentionMask {
 public:
  Out<T, 4> y{"y", {batch, heads, queries, value_width}};
  Out<f32, 3> logsumexp{"logsumexp", {batch, heads, queries}};
  Scratch<f32, 3> query_terms{"query_terms",
                              {batch, padded_to(width, kTerms), Size(heads) * padded_to(queries, kRows)}};
  Scratch<f32, 4> key_terms{"key_terms", {batch, key_heads, padded_to(width, kTerms), padded_to(keys, kColumns)}};
  Scratch<f32, 4> value_rows{"value_rows",
                             {batch, key_heads, padded_to(keys, kColumns), padded_to(value_width, kPlaces)}};
  Scratch<f32, 3> scores{"scores", {batch, Size(heads) * padded_to(queries, kRows), padded_to(keys, kColumns)}};

  AttentionByPairs() : AttentionMask(static_cast<AttentionSizes&>(*this)) {
    this->formula("y = softmax(scale query keyᵀ + attn_mask) value, whose scores lie in memory");
    this->form(forms::Attention::signature).internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }

  void algorithm() {
    declare_plans(*this, tiles_of(queries.extent(), kRows), keys.extent(), 0);
    const Expr group = heads.extent() / key_heads.extent(), tiles = tiles_of(queries.extent(), kRows),
               all_rows = heads.extent() * tiles * kRows, all_keys = whole(keys, kColumns);
    const Expr head = n / kRows / tiles, q = n / kRows % tiles * kRows + n % kRows;
    query_lines(n, m, b) = padded(query, b, head, q, m);
    query_terms(b, m, n) = Value(Expr(query_lines(n, m, b)));
    key_lines(n, m, h, b) = padded(key, b, h, n, m);
    key_terms(b, h, m, n) = Value(Expr(key_lines(n, m, h, b)));
    value_rows(b, h, n, m) = Value(padded(value, b, h, n, m));

    const Expr term = certain(dot.k, whole(width, kTerms));
    dot.left(dot.k, dot.i, u, b) = query_terms.func()(certain(u * pairs.rows() + dot.i, all_rows), term, b);
    dot.right(dot.x, dot.k, t, u, b) =
        key_terms.func()(certain(t * pairs.columns() + dot.x, all_keys), term,
                         certain(u * pairs.rows() / kRows / tiles / group, key_heads.extent()), b);
    dot.define(pairs, {t, u, b}, {u, b}, {t, u, b}, tiles_of(width.extent(), kTerms));
    const Expr mask =
        attn_mask(b, certain(head, heads.extent()), inside(q, queries.extent()), inside(m, keys.extent()));
    scores(b, n, m) = Value(masked(dot.at(m, n, {b}), mask, q, m, keys.extent()));

    const Expr row = certain(h * tiles * kRows + n, all_rows);
    on_gpu() ? define_logsumexp(row, all_keys / kLanes) : define_logsumexp_alone(row, all_keys);

    const Expr query_of_value = inside(u * sums.rows() + of_value.i, queries.extent());
    const Expr score =
        scores.func()(certain(of_value.k, all_keys), certain(pair_row(h, u, of_value.i, tiles), all_rows), b);
    // Of a row that sees nothing the logarithm is -∞, too.
    const Value logarithm = Value(Expr(logsumexp.func()(query_of_value, h, b)));
    of_value.left(of_value.k, of_value.i, u, h, b) =
        exp_below_zero(Value(score) - select(logarithm < kLowest, kLowest, logarithm)).expr();
    of_value.right(of_value.x, of_value.k, t, h, b) =
        value_rows.func()(certain(t * sums.columns() + of_value.x, whole(value_width, kPlaces)),
                          certain(of_value.k, all_keys), certain(h / group, key_heads.extent()), b);
    of_value.define(sums, {t, u, h, b}, {u, h, b}, {t, h, b}, tiles_of(keys.extent(), sums.stage_depth()));
    y(b, h, n, m) = Value(of_value.at(m, n, {h, b}));
  }

  void schedule(Cpu target) { generic(target, y, logsumexp); }
  void schedule(auto target) {
    const Expr tiles = tiles_of(queries.extent(), kRows), past = Value(diagonal).expr();
    dot.schedule(scores.func(), block_x, block_y, b, true, LeftLies::along_rows,
                 in_quads(query_terms) && in_quads(key_terms) && in_quads(scores),
                 {sees(block_x, block_y, tiles, past), tiles_of(width.extent(), kTerms)});
    schedule_logsumexp(past);
    y.func().fuse(h, b, of_all);
    of_value.schedule(y.func(), block_x, block_y, of_all, false, LeftLies::along_k_computed,
                      in_quads(scores) && in_quads(value_rows), {{}, turns_before(block_y, past)});
    turn_round(query_terms.func(), query_lines);
    turn_round(key_terms.func(), key_lines);
    copy_rows(target, value_rows);
  }

 private:
  static constexpr int kLanes = 128, kThreads = 32, kRowsOfBlock = 8;  // of a block that adds up exponentials

  // {m, Σ e^(s - m)} of every 32nd score by a thread, and these of a row by one.
  void define_logsumexp(const Expr& row, const Expr& steps) {
    const auto join = [](Func f, const std::vector<Expr>& at, const Expr& top, const Expr& sum) {
      const Halide::FuncRef old = f(at);
      const Expr larger = Halide::select(Expr(old[0]) < top, top, Expr(old[0]));
      const auto below = [&](const Expr& x) { return exp_below_zero(Value(x - larger)).expr(); };
      update_at_once(f, at, {larger, Expr(old[1]) * below(old[0]) + sum * below(top)});
    };
    step = RDom(0, kLanes / kThreads, 0, steps, "step");
    of_thread(lane, n, h, b) = Halide::Tuple(kLowest, 0.0f);
    join(of_thread, {lane, n, h, b}, scores.func()(step.y * kLanes + step.x * kThreads + lane, row, b), 1.0f);
    part(lane, n, h, b) = Halide::Tuple(of_thread(lane, n, h, b)[0], of_thread(lane, n, h, b)[1]);
    const RDom thread(0, kThreads, "thread");
    of_row(n, h, b) = Halide::Tuple(kLowest, 0.0f);
    join(of_row, {n, h, b}, part(thread, n, h, b)[0], part(thread, n, h, b)[1]);
    logsumexp(b, h, n) = log(Value(Expr(of_row(n, h, b)[1]))) + Value(Expr(of_row(n, h, b)[0]));
  }
  void schedule_logsumexp(const Expr& past) {
    Var block("block_of_rows"), in_block("row_of_block");
    Func out = logsumexp.func();
    out.split(n, block, in_block, kRowsOfBlock, Halide::TailStrategy::GuardWithIf);
    out.reorder(in_block, block, h, b).gpu_threads(in_block).gpu_blocks(block, h, b);
    of_row.compute_at(out, in_block).store_in(Halide::MemoryType::Register);
    part.compute_at(out, block).store_in(Halide::MemoryType::GPUShared).bound(lane, 0, kThreads);
    part.bound_extent(n, kRowsOfBlock).bound_extent(h, 1).bound_extent(b, 1).gpu_threads(lane, n);
    of_thread.compute_at(part, lane).store_in(Halide::MemoryType::Register);
    of_thread.update().unroll(step.x);
    const Expr seen = (block / (kRows / kRowsOfBlock) + 1) * kRows + past;
    cut_by_block(out, step.y, {{}, (seen + (kLanes - 1)) / kLanes});
  }
  void define_logsumexp_alone(const Expr& row, const Expr& all_keys) {
    k = Axis(all_keys, "k");
    j = Axis(all_keys, "j");
    const auto at = [&](const Axis& key) { return Value(Expr(scores.func()(key, row, b))); };
    largest(b, h, n) = max_of_numbers(k, at(k));
    const Value top = select(Value(largest(b, h, n)) < kLowest, kLowest, Value(largest(b, h, n)));
    total(b, h, n) = sum(j, exp_below_zero(at(j) - top));
    logsumexp(b, h, n) = log(Value(total(b, h, n))) + top;
  }

  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  RDom step;
  Var lane{"lane"};
  Func of_thread{"of_thread"}, part{"part"}, of_row{"of_row"};
  TiledProduct dot{"dot"}, of_value{"of_value"};
};

}  // namespace ashlar::dsl
