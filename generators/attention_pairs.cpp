// The gradients of attention by query, key and value in one kernel, for GPUs: weights and their slopes are worked out
// once and lie in memory.
#include "generators/attention_pairs.h"

namespace ashlar::dsl {

// With weight[q,k] = e^(s[q,k] - lse[q]) and ds[q,k] = scale weight[q,k] (dy[q] · value[k] - delta[q]):
//   dquery[q] = Σ_k ds[q,k] key[k],  dkey[k] = Σ_q ds[q,k] query[q],  dvalue[k] = Σ_q weight[q,k] dy[q]
// Five products. Of their operands query lies beside dy, and key beside value.
template <ElementType T>
class AttentionPairGradients : public Kernel<AttentionPairGradients<T>>,
                               AttentionPairs,
                               AttentionGradientOperands,
                               AttentionMask {
 public:
  Out<T, 4> dquery{"dquery", {batch, heads, queries, width}};
  Out<T, 4> dkey{"dkey", {batch, key_heads, keys, width}};
  Out<T, 4> dvalue{"dvalue", {batch, key_heads, keys, value_width}};
  // Terms beside each other for products with one of each pair, rows for sums over pairs.
  Scratch<f32, 3> query_terms{
      "query_terms",
      {batch, padded_to(width, kTerms) + padded_to(value_width, kTerms), Size(heads) * padded_to(queries, kRows)}};
  Scratch<f32, 4> key_terms{
      "key_terms",
      {batch, key_heads, padded_to(width, kTerms) + padded_to(value_width, kTerms), padded_to(keys, kColumns)}};
  Scratch<f32, 3> query_rows{
      "query_rows",
      {batch, Size(heads) * padded_to(queries, kRows), padded_to(width, kPlaces) + padded_to(value_width, kPlaces)}};
  Scratch<f32, 4> key_rows{"key_rows", {batch, key_heads, padded_to(keys, kColumns), padded_to(width, kPlaces)}};
  Scratch<f32, 3> weights{"weights", {batch, Size(heads) * padded_to(queries, kRows), padded_to(keys, kColumns)}};
  Scratch<f32, 3> slopes{"slopes", {batch, Size(heads) * padded_to(queries, kRows), padded_to(keys, kColumns)}};

  AttentionPairGradients() : AttentionMask(static_cast<AttentionSizes&>(*this)) {
    this->formula(
        "dquery[q] = Σ_k ds[q,k] key[k], dkey[k] = Σ_q ds[q,k] query[q], dvalue[k] = Σ_q weight[q,k] dy[q], "
        "ds = scale weight (dy valueᵀ - delta), weight = e^(score - logsumexp)");
    this->form(forms::Attention::signature).internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }

  void algorithm() {
    declare_plans(*this, 2);
    const Expr group = heads.extent() / key_heads.extent(), tiles = tiles_of(queries.extent(), kRows);
    const Expr all_rows = heads.extent() * tiles * kRows, value_terms = whole(width, kTerms),
               dy_places = whole(width, kPlaces), all_terms = value_terms + whole(value_width, kTerms);

    // Row n is query q of a head.
    const Expr head = n / kRows / tiles, q = n / kRows % tiles * kRows + n % kRows;
    const auto either = [&](const Expr& place, const Expr& of_second, const auto& first, const auto& second) {
      return Halide::select(place < of_second, first(place), second(place - of_second));
    };
    const auto row_of = [&](const In<T, 4>& x, const Expr& of_head, const Expr& row) {
      return [&x, this, of_head, row](const Expr& place) { return padded(x, b, of_head, row, Halide::max(place, 0)); };
    };
    query_lines(n, m, b) = either(m, value_terms, row_of(query, head, q), row_of(dy, head, q));
    query_terms(b, m, n) = Value(Expr(query_lines(n, m, b)));
    query_rows(b, n, m) = Value(either(m, dy_places, row_of(query, head, q), row_of(dy, head, q)));
    key_lines(n, m, h, b) = either(m, value_terms, row_of(key, h, n), row_of(value, h, n));
    key_terms(b, h, m, n) = Value(Expr(key_lines(n, m, h, b)));
    key_rows(b, h, n, m) = Value(padded(key, b, h, n, m));

    // Row n and key m of each pair.
    const auto product = [&](TiledProduct& p, const Expr& first, const Dim& all) {
      const Expr term = certain(first + p.k, all_terms), row = certain(u * pairs.rows() + p.i, all_rows),
                 k = certain(t * pairs.columns() + p.x, whole(keys, kColumns));
      p.left(p.k, p.i, u, b) = query_terms.func()(row, term, b);
      p.right(p.x, p.k, t, u, b) =
          key_terms.func()(k, term, certain(u * pairs.rows() / kRows / tiles / group, key_heads.extent()), b);
      p.define(pairs, {t, u, b}, {u, b}, {t, u, b}, tiles_of(all.extent(), kTerms));
      return Value(p.at(m, n, {b}));
    };
    const Expr in_heads = certain(head, heads.extent()), in_queries = inside(q, queries.extent());
    const Expr mask = attn_mask(b, in_heads, in_queries, inside(m, keys.extent()));
    const Value score = Value(masked(product(dot, 0, width).expr(), mask, q, m, keys.extent()));
    // Where nothing is seen the logarithm is -∞ as well. Queries beyond the last are none.
    weights(b, n, m) = Value(Halide::select((score < Value(kLowest)).expr() || q >= queries.extent(), 0.0f,
                                            exp_below_zero(score - logsumexp(b, in_heads, in_queries)).expr()));
    slopes(b, n, m) = Value(Expr(weights.func()(m, n, b))) *
                      (product(slope, value_terms, value_width) - delta(b, in_heads, in_queries)) * Value(scale);

    // Sums over the keys that a tile of queries sees, and over the queries, of all heads that share it, that see one of
    // keys.
    const auto pair_of = [&](const Scratch<f32, 3>& x, const Expr& row, const Expr& k) -> Expr {
      return x.func()(certain(k, whole(keys, kColumns)), certain(row, all_rows), b);
    };
    const auto result = [&](Out<T, 4>& out, TiledProduct& p) { out(b, h, n, m) = Value(p.at(m, n, {h, b})); };
    of_query.left(of_query.k, of_query.i, u, h, b) = pair_of(slopes, pair_row(h, u, of_query.i, tiles), of_query.k);
    of_query.right(of_query.x, of_query.k, t, h, b) =
        key_rows.func()(certain(t * sums.columns() + of_query.x, whole(width, kPlaces)),
                        certain(of_query.k, whole(keys, kColumns)), certain(h / group, key_heads.extent()), b);
    of_query.define(sums, {t, u, h, b}, {u, h, b}, {t, h, b}, tiles_of(keys.extent(), sums.stage_depth()));
    result(dquery, of_query);
    const auto over_queries = [&](TiledProduct& p, const Scratch<f32, 3>& x, const Expr& first) {
      const Expr row = h * group * tiles * kRows + first_row(u) + p.k;
      p.left(p.k, p.i, u, h, b) = pair_of(x, row, u * sums.rows() + p.i);
      p.right(p.x, p.k, t, u, h, b) =
          query_rows.func()(certain(first + t * sums.columns() + p.x, dy_places + whole(value_width, kPlaces)),
                            certain(row, all_rows), b);
      p.define(sums, {t, u, h, b}, {u, h, b}, {t, u, h, b}, group * tiles * (kRows / sums.stage_depth()));
    };
    over_queries(of_key, slopes, 0);
    over_queries(of_value, weights, dy_places);
    result(dkey, of_key);
    result(dvalue, of_value);
  }

  void schedule(Cpu target) { generic(target, dquery, dkey, dvalue); }
  void schedule(auto target) {
    const Expr group = heads.extent() / key_heads.extent(), tiles = tiles_of(queries.extent(), kRows),
               past = Value(diagonal).expr();
    const Var &x = block_x, &y = block_y;
    // Tiles in which nothing is seen aren't read, but where heads share keys.
    const Expr seen = sees(x, y, tiles, past);
    const auto of_pairs = [&](TiledProduct& p, const Scratch<f32, 3>& out, const Dim& terms) {
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
    of_sums(of_query, dquery, LeftLies::along_k, in_quads(key_rows), turns_before(y, past));
    const Expr turns = (group * tiles * kRows - first_row(y)) / sums.stage_depth();
    of_sums(of_key, dkey, LeftLies::along_rows, in_quads(slopes) && in_quads(query_rows), turns);
    of_sums(of_value, dvalue, LeftLies::along_rows, in_quads(weights) && in_quads(query_rows), turns);
    turn_round(query_terms.func(), query_lines);
    turn_round(key_terms.func(), key_lines);
    copy_rows(target, query_rows);
    copy_rows(target, key_rows);
  }

 private:
  // From which on rows of a head see a tile of keys; all of them where heads share it, and on the CPU, which cuts no
  // sums.
  Expr first_row(const Expr& tile_of_keys) const {
    if (!on_gpu()) return 0;
    const Expr first = Halide::max(tile_of_keys * sums.rows() - Value(diagonal).expr(), 0) / kRows * kRows;
    return Halide::select(heads.extent() == key_heads.extent(), first, 0);
  }
  TiledProduct dot{"dot"}, slope{"slope"}, of_query{"of_query"}, of_key{"of_key"}, of_value{"of_value"};
};

const bool registered = register_kernel<AttentionPairGradients, f32>("attention_pair_grads");

}  // namespace ashlar::dsl
