// The gradients of attention by query, key and value in one kernel, for GPUs: weights and their slopes are worked out
// once and lie in memory.
#pragma once

#include "generators/attention_pairs.h"

namespace ashlar::dsl {

/// How rows of queries and keys are laid out, and which pairs of them are kept: all of a batch.
struct PairsOfBatches : RowsOfBatches {
  using By = AttentionPairs;
  explicit PairsOfBatches(const AttentionSizes& sizes) : RowsOfBatches(sizes), of(sizes) { rows_of_tile = By::kRows; }

  Size query_rows() const { return Size(of.heads) * By::padded_to(of.queries, By::kRows); }
  Size key_rows() const { return By::padded_to(of.keys, By::kColumns); }
  Size pair_columns() const { return key_rows(); }
  Size queries_of_head() const { return of.queries; }
  Size keys_of_head() const { return of.keys; }
  /// Rows of keys, and the keys that a row of pairs has at most.
  Expr all_keys() const { return By::whole(of.keys, By::kColumns); }
  Expr most_keys() const { return all_keys(); }
  Expr usual_keys() const { return of.keys.extent(); }
  /// x[b, h, key of that row, c]; 0 where there is none.
  Expr own_key(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& row, const Expr& c) const {
    return padded(x, b, h, row, c);
  }
  /// The row of key k of those that a tile of queries meets, and a row's place among the keys of its pairs.
  static Expr key_row(const Expr&, const Expr& k) { return k; }
  static Expr key_place(const Expr& row) { return row; }
  Expr is_beyond(const Expr& tile, const Expr& i) const { return row(tile, i) >= of.queries.extent(); }
  /// What blocks leave out: tiles of pairs, turns over keys, and over queries.
  Expr sees(const By& by, const Expr& column, const Expr& row) const {
    return by.sees(column, row, count_of_tiles(of.queries.extent()), past());
  }
  Expr turns_of_keys(const By& by, const Expr& tile) const { return by.turns_before(tile, past()); }
  Expr turns_of_queries(const By& by, const Expr& tile) const {
    return (of.heads.extent() / of.key_heads.extent() * count_of_tiles(of.queries.extent()) * By::kRows -
            first_row(by, tile)) /
           by.sums.stage_depth();
  }
  /// From which on rows of a head see a tile of keys; all of them where heads share it, and on the CPU, which cuts no
  /// sums.
  Expr first_row(const By& by, const Expr& tile) const {
    if (!on_gpu()) return 0;
    const Expr first = Halide::max(tile * by.sums.rows() - past(), 0) / By::kRows * By::kRows;
    return Halide::select(of.heads.extent() == of.key_heads.extent(), first, 0);
  }

  const AttentionSizes& of;

 private:
  Expr past() const { return Value(diagonal).expr(); }
};

/// Of packed sequences whose queries don't share keys: rows by tiles, of a query's pairs those with its own sequence.
struct PairsOfSequences : RowsOfSequences {
  using By = AttentionPairs;
  explicit PairsOfSequences(const AttentionSizes& sizes) : RowsOfSequences(sizes), of(sizes) {
    rows_of_tile = By::kRows;
  }
  SequenceTable key_tiles{"key_tiles"};
  /// As many elements as the longest sequence has keys, in whole tiles: its size is what counts.
  In<i32, 1> columns{"columns"};

  Size query_rows() const { return Size(of.heads) * queries_of_head(); }
  Size key_rows() const { return key_tiles.size(0) * constant(By::kColumns); }
  Size pair_columns() const { return columns.size(0); }
  Size queries_of_head() const { return tiles.size(0) * constant(By::kRows); }
  Size keys_of_head() const { return key_rows(); }
  Expr all_keys() const { return key_tiles.extent(0) * By::kColumns; }
  Expr most_keys() const { return columns.extent(0) / By::kColumns * By::kColumns; }
  Expr usual_keys() const { return columns.extent(0); }
  Expr own_key(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& row, const Expr& c) const {
    return own_of(key_tiles, x, b, h, row / By::kColumns, row % By::kColumns, c);
  }
  Expr key_row(const Expr& tile, const Expr& k) const {
    const Expr first =
        forms::SequenceTiles::first(number(tile, Of::other_row), number(tile, Of::sequence), By::kColumns);
    return first * By::kColumns + k;
  }
  // As multiples of a tile, from which alignment is proven.
  Expr key_place(const Expr& row) const {
    return of_keys(row, Of::place) / By::kColumns * By::kColumns + row % By::kColumns;
  }
  Expr is_beyond(const Expr& tile, const Expr& i) const { return i >= number(tile, Of::count); }
  // A sequence may have more keys than the caller says: those beyond are left out.
  Expr sees(const By& by, const Expr& column, const Expr& row) const {
    return by.first_column(column) < kept_count(by.tile_of_queries(row, count_of_tiles(of.queries.extent())));
  }
  Expr turns_of_keys(const By& by, const Expr& tile) const {
    return tiles_of(kept_count(tile * by.sums.rows() / By::kRows), by.sums.stage_depth());
  }
  Expr turns_of_queries(const By& by, const Expr& tile) const {
    const Expr row = tile * by.sums.rows(), skipped = of_keys(row, Of::other_place) / By::kRows * By::kRows;
    const Expr count = of_keys(row, Of::other_count), end = of_keys(row, Of::other_place) + count;
    return Halide::select(count > 0 && of_keys(row, Of::place) < most_keys(),
                          tiles_of(end - skipped, by.sums.stage_depth()), 0);
  }
  Expr first_row(const By& by, const Expr& tile) const {
    const Expr row = tile * by.sums.rows(), place = of_keys(row, Of::other_place);
    const Expr first =
        forms::SequenceTiles::first(of_keys(row, Of::other_row) - place, of_keys(row, Of::sequence), By::kRows);
    return (first + place / By::kRows) * By::kRows;
  }

  const AttentionSizes& of;

 private:
  Expr kept_count(const Expr& tile) const { return Halide::min(met_count(tile), most_keys()); }
  Expr of_keys(const Expr& row, Of which) const { return key_tiles.number(row / By::kColumns, which); }
};

// With weight[q,k] = e^(s[q,k] - lse[q]) and ds[q,k] = scale weight[q,k] (dy[q] · value[k] - delta[q]):
//   dquery[q] = Σ_k ds[q,k] key[k],  dkey[k] = Σ_q ds[q,k] query[q],  dvalue[k] = Σ_q weight[q,k] dy[q]
// Five products. Of their operands query lies beside dy, and key beside value.
template <class Derived, ElementType T, class Rows>
class AttentionPairGradients : public Kernel<Derived>, AttentionPairs, AttentionGradientOperands, Rows {
 public:
  static constexpr bool on_gpus_alone = Rows::kArePacked;
  Out<T, 4> dquery{"dquery", {batch, heads, Rows::queries_of_head(), width}};
  Out<T, 4> dkey{"dkey", {batch, key_heads, Rows::keys_of_head(), width}};
  Out<T, 4> dvalue{"dvalue", {batch, key_heads, Rows::keys_of_head(), value_width}};
  // Terms beside each other for products with one of each pair, rows for sums over pairs.
  Scratch<f32, 3> query_terms{"query_terms",
                              {batch, padded_to(width, kTerms) + padded_to(value_width, kTerms), Rows::query_rows()}};
  Scratch<f32, 4> key_terms{
      "key_terms", {batch, key_heads, padded_to(width, kTerms) + padded_to(value_width, kTerms), Rows::key_rows()}};
  Scratch<f32, 3> query_rows{"query_rows",
                             {batch, Rows::query_rows(), padded_to(width, kPlaces) + padded_to(value_width, kPlaces)}};
  Scratch<f32, 4> key_rows{"key_rows", {batch, key_heads, Rows::key_rows(), padded_to(width, kPlaces)}};
  Scratch<f32, 3> weights{"weights", {batch, Rows::query_rows(), Rows::pair_columns()}};
  Scratch<f32, 3> slopes{"slopes", {batch, Rows::query_rows(), Rows::pair_columns()}};

  AttentionPairGradients() : Rows(static_cast<AttentionSizes&>(*this)) {
    this->formula(
        "dquery[q] = Σ_k ds[q,k] key[k], dkey[k] = Σ_q ds[q,k] query[q], dvalue[k] = Σ_q weight[q,k] dy[q], "
        "ds = scale weight (dy valueᵀ - delta), weight = e^(score - logsumexp)");
    if constexpr (!Rows::kArePacked) {
      this->form(forms::Attention::signature);
      this->widest_on_cpu(CodeTarget::cpu);
    }
    this->internal();
  }

  void algorithm() {
    declare_plans(*this, Rows::count_of_tiles(queries.extent()), Rows::usual_keys(), 2);
    const Expr group = heads.extent() / key_heads.extent(), tiles = Rows::count_of_tiles(queries.extent());
    const Expr all_rows = heads.extent() * tiles * kRows, value_terms = whole(width, kTerms),
               dy_places = whole(width, kPlaces), all_terms = value_terms + whole(value_width, kTerms);
    const Expr all_keys = Rows::all_keys(), most_keys = Rows::most_keys();

    // Row n is query q of a head.
    const Expr head = n / kRows / tiles, tile = n / kRows % tiles, q = Rows::row(tile, n % kRows);
    const auto either = [&](const Expr& place, const Expr& of_second, const auto& first, const auto& second) {
      return Halide::select(place < of_second, first(place), second(place - of_second));
    };
    const auto of_query = [&](const In<T, 4>& x) {
      return [&, this](const Expr& place) { return Rows::own(x, b, head, tile, n % kRows, Halide::max(place, 0)); };
    };
    const auto of_key = [&](const In<T, 4>& x) {
      return [&, this](const Expr& place) { return Rows::own_key(x, b, h, n, Halide::max(place, 0)); };
    };
    query_lines(n, m, b) = either(m, value_terms, of_query(query), of_query(dy));
    query_terms(b, m, n) = Value(Expr(query_lines(n, m, b)));
    query_rows(b, n, m) = Value(either(m, dy_places, of_query(query), of_query(dy)));
    key_lines(n, m, h, b) = either(m, value_terms, of_key(key), of_key(value));
    key_terms(b, h, m, n) = Value(Expr(key_lines(n, m, h, b)));
    key_rows(b, h, n, m) = Value(Rows::own_key(key, b, h, n, m));

    // Row n and key m of each pair.
    const auto product = [&](TiledProduct& p, const Expr& first, const Dim& all) {
      const Expr term = certain(first + p.k, all_terms), row = certain(u * pairs.rows() + p.i, all_rows),
                 k = certain(Rows::key_row(tile_of_queries(u, tiles), t * pairs.columns() + p.x), all_keys);
      p.left(p.k, p.i, u, b) = query_terms.func()(row, term, b);
      p.right(p.x, p.k, t, u, b) =
          key_terms.func()(k, term, certain(u * pairs.rows() / kRows / tiles / group, key_heads.extent()), b);
      p.define(pairs, {t, u, b}, {u, b}, {t, u, b}, tiles_of(all.extent(), kTerms));
      return Value(p.at(m, n, {b}));
    };
    const Expr in_heads = certain(head, heads.extent()), in_queries = inside(q, queries.extent());
    const Value score =
        Value(Rows::score(*this, product(dot, 0, width).expr(), b, in_heads, tile, n % kRows, m, false));
    // Where nothing is seen the logarithm is -∞ as well. Queries beyond the last are none.
    weights(b, n, m) = Value(Halide::select((score < Value(kLowest)).expr() || Rows::is_beyond(tile, n % kRows), 0.0f,
                                            exp_below_zero(score - logsumexp(b, in_heads, in_queries)).expr()));
    const Value ds = Value(Expr(weights.func()(m, n, b))) *
                     (product(slope, value_terms, value_width) - delta(b, in_heads, in_queries)) * Value(Rows::scale);
    slopes(b, n, m) = Value(Rows::of_pair(ds.expr(), tile, n % kRows, m, false));

    // Sums over the keys that a tile of queries sees, and over the queries, of all heads that share it, that see one of
    // keys.
    const auto pair_of = [&](const auto& x, const Expr& row, const Expr& k) -> Expr {
      return x.func()(certain(k, most_keys), certain(row, all_rows), b);
    };
    const auto result = [&](Out<T, 4>& out, TiledProduct& p) { out(b, h, n, m) = Value(p.at(m, n, {h, b})); };
    to_query.left(to_query.k, to_query.i, u, h, b) = pair_of(slopes, pair_row(h, u, to_query.i, tiles), to_query.k);
    const auto key_of = [&](const TiledProduct& p) {
      return certain(Rows::key_row(u * sums.rows() / kRows, p.k), all_keys);
    };
    const auto row_of_key = [&](const TiledProduct& p) -> Expr {
      return key_rows.func()(certain(t * sums.columns() + p.x, whole(width, kPlaces)), key_of(p),
                             certain(h / group, key_heads.extent()), b);
    };
    // In batches all tiles of a head meet the same keys.
    if constexpr (Rows::kArePacked) {
      to_query.right(to_query.x, to_query.k, t, u, h, b) = row_of_key(to_query);
      to_query.define(sums, {t, u, h, b}, {u, h, b}, {t, u, h, b}, tiles_of(most_keys, sums.stage_depth()));
    } else {
      to_query.right(to_query.x, to_query.k, t, h, b) = row_of_key(to_query);
      to_query.define(sums, {t, u, h, b}, {u, h, b}, {t, h, b}, tiles_of(keys.extent(), sums.stage_depth()));
    }
    result(dquery, to_query);
    const auto over_queries = [&](TiledProduct& p, const auto& x, const Expr& first) {
      const Expr row = h * group * tiles * kRows + Rows::first_row(*this, u) + p.k;
      p.left(p.k, p.i, u, h, b) = pair_of(x, row, Rows::key_place(u * sums.rows() + p.i));
      p.right(p.x, p.k, t, u, h, b) =
          query_rows.func()(certain(first + t * sums.columns() + p.x, dy_places + whole(value_width, kPlaces)),
                            certain(row, all_rows), b);
      p.define(sums, {t, u, h, b}, {u, h, b}, {t, u, h, b}, group * tiles * (kRows / sums.stage_depth()));
    };
    over_queries(to_key, slopes, 0);
    over_queries(to_value, weights, dy_places);
    result(dkey, to_key);
    result(dvalue, to_value);
  }

  void schedule(Cpu target) { generic(target, dquery, dkey, dvalue); }
  void schedule(auto target) {
    const Expr group = heads.extent() / key_heads.extent();
    const Var &x = block_x, &y = block_y;
    // Tiles in which nothing is seen aren't read, but where heads share keys.
    const Expr seen = Rows::sees(*this, x, y);
    const auto of_pairs = [&](TiledProduct& p, const auto& out, const Dim& terms) {
      p.schedule(out.func(), x, y, b, true, LeftLies::along_rows,
                 in_quads(query_terms) && in_quads(key_terms) && in_quads(out),
                 {seen || group > 1, Halide::select(seen, tiles_of(terms.extent(), kTerms), 0)});
    };
    of_pairs(dot, weights, width);
    of_pairs(slope, slopes, value_width);
    const auto of_sums = [&](TiledProduct& p, Out<T, 4>& out, LeftLies left, const Expr& aligned, const Expr& turns) {
      out.func().fuse(h, b, of_all);
      p.schedule(out.func(), x, y, of_all, false, left, aligned, {{}, turns});
    };
    of_sums(to_query, dquery, LeftLies::along_k, in_quads(key_rows), Rows::turns_of_keys(*this, y));
    const Expr turns = Rows::turns_of_queries(*this, y);
    of_sums(to_key, dkey, LeftLies::along_rows, in_quads(slopes) && in_quads(query_rows), turns);
    of_sums(to_value, dvalue, LeftLies::along_rows, in_quads(weights) && in_quads(query_rows), turns);
    turn_round(query_terms.func(), query_lines);
    turn_round(key_terms.func(), key_lines);
    copy_rows(target, query_rows);
    copy_rows(target, key_rows);
  }

 private:
  TiledProduct dot{"dot"}, slope{"slope"}, to_query{"of_query"}, to_key{"of_key"}, to_value{"of_value"};
};

}  // namespace ashlar::dsl
