// The gradients of attention, each in a kernel of its own: weights are worked out again, tile by tile.
#pragma once

#include "generators/attention_rows.h"
#include "runtime/forms/attention.h"
#include "schedules/attention.h"

namespace ashlar::dsl {

enum class Wanted { query, key, value };

// With weight[q,k] = e^(s[q,k] - lse[q]) and ds[q,k] = weight[q,k] (dy[q] · value[k] - delta[q]):
//   dquery[q] = scale Σ_k ds[q,k] key[k],  dkey[k] = scale Σ_q ds[q,k] query[q],  dvalue[k] = Σ_q weight[q,k] dy[q]
// where q runs over all heads that share k's, of packed sequences over those of k's own. delta[q] = dy[q] · y[q].
// with dropout ds = weight (kept dy · value - delta) and dvalue = Σ kept weight dy, kept 1 / (1 - p) or 0.
template <class Derived, ElementType T, Wanted wanted, class Rows, class Drop = NoDropout>
class AttentionGradient : public Kernel<Derived>, AttentionGradientOperands, Drop, Rows {
 public:
  static constexpr bool on_gpus_alone = Rows::kArePacked;
  static constexpr bool kOfQuery = wanted == Wanted::query, kOfValue = wanted == Wanted::value;
  Out<T, 4> dx{"dx", kOfQuery   ? Sizes{batch, heads, Rows::results(queries), width}
                     : kOfValue ? Sizes{batch, key_heads, Rows::results(keys), value_width}
                                : Sizes{batch, key_heads, Rows::results(keys), width}};

  AttentionGradient() : Rows(static_cast<AttentionSizes&>(*this)) {
    this->formula(kOfQuery   ? "dquery[q] = scale Σ_k ds[q,k] key[k], ds = weight (dy valueᵀ - delta)"
                  : kOfValue ? "dvalue[k] = Σ_q weight[q,k] dy[q], weight = e^(score - logsumexp)"
                             : "dkey[k] = scale Σ_q ds[q,k] query[q], ds = weight (dy valueᵀ - delta)");
    if constexpr (Rows::kArePacked)
      this->internal();
    else
      this->form(forms::Attention::signature);
  }

  // Row i of a tile u of the result meets column j of the other side's tile t, in the g-th head that shares it.
  void algorithm() {
    const auto& [c, i, j, t, g, u, h, b, x] = at;
    const Expr group = heads.extent() / key_heads.extent(), columns = kOfQuery ? keys.extent() : queries.extent();
    tile = AttentionTile::for_columns(columns);
    Rows::rows_of_tile = tile.rows;
    const RDom term(0, tile.depth, 0, tiles_of(width.extent(), tile.depth), "term");
    const RDom value_term(0, tile.depth, 0, tiles_of(value_width.extent(), tile.depth), "value_term");
    const RDom member(0, tile.depth, 0, tile.columns / tile.depth, 0, tiles_of(columns, tile.columns), 0,
                      kOfQuery ? Expr(1) : group, "member");
    const Expr column = t * tile.columns + j, q = kOfQuery ? Rows::row(u, i) : Rows::met_row(u, column);
    const Expr head = kOfQuery ? Expr(h) : h * group + g, key_head = kOfQuery ? h / group : Expr(h);
    const auto of_rows = [&](Func f, const In<T, 4>& x) { f(c, i, u, h, b) = Rows::own(x, b, h, u, i, c); };
    // In batches all tiles of a head meet the same.
    const auto met = [&](const Expr& at_c, const Expr& at_j, const Expr& at_t, const Expr& at_g) -> std::vector<Expr> {
      if constexpr (Rows::kArePacked) return {at_c, at_j, at_t, at_g, u, h, b};
      return {at_c, at_j, at_t, at_g, h, b};
    };
    const auto of_columns = [&](Func f, const In<T, 4>& x) {
      f(met(c, j, t, g)) = Rows::met(x, b, kOfQuery ? key_head : head, u, column, c);
    };
    of_rows(left, kOfQuery ? query : key);
    of_columns(right, kOfQuery ? key : query);
    of_rows(left_value, kOfQuery ? dy : value);
    of_columns(right_value, kOfQuery ? value : dy);
    of_columns(summand, kOfQuery ? key : kOfValue ? dy : query);

    const Expr place = term.y * tile.depth + term.x, value_place = value_term.y * tile.depth + value_term.x;
    dot(j, i, t, g, u, h, b) = 0.0f;
    dot(j, i, t, g, u, h, b) += left(place, i, u, h, b) * right(met(place, j, t, g));
    slope(j, i, t, g, u, h, b) = 0.0f;
    slope(j, i, t, g, u, h, b) += left_value(value_place, i, u, h, b) * right_value(met(value_place, j, t, g));
    const Expr at_b = certain(b, batch.extent()), at_h = certain(head, heads.extent()),
               at_q = inside(q, queries.extent());
    const Expr is_met = Rows::leave_out(member, member.z, t, u, tile.columns, !kOfQuery);
    const Expr score = Rows::score(*this, dot(j, i, t, g, u, h, b), at_b, at_h, u, i, column, !kOfQuery, is_met);
    // Where nothing is seen the logarithm is -∞ as well. Queries beyond the last are none.
    const Expr weight = Halide::select((Value(score) < Value(kLowest)).expr() || q >= queries.extent(), 0.0f,
                                       exp(Value(score - logsumexp(at_b, at_h, at_q).expr())));
    const Expr shift = delta(at_b, at_h, at_q), factor = Value(Rows::scale);
    const auto of_weight = [&](const Expr& slope_here) {
      return kOfValue ? weight : Rows::of_pair(weight * (slope_here - shift) * factor, u, i, column, !kOfQuery);
    };
    const Expr slope_here = slope(j, i, t, g, u, h, b);
    if constexpr (Drop::kDrops) {
      const auto& [in_j, in_i, jj, ii] = in_pair;
      const Expr row_pair = u * (tile.rows / 2) + ii, column_pair = t * (tile.columns / 2) + jj;
      kept(in_j, in_i, jj, ii, t, g, u, h, b) = Drop::sign(
          b * heads.extent() + head, queries.extent(), keys.extent(),
          kOfQuery ? PlaceInPairs{row_pair, in_i, column_pair, in_j} : PlaceInPairs{column_pair, in_j, row_pair, in_i});
      const Expr is_kept = kept(j % 2, i % 2, j / 2, i / 2, t, g, u, h, b) > 0.0f;
      const Expr of_kept = Halide::select(is_kept, (kOfValue ? weight : slope_here) * Drop::scale_of_kept(), 0.0f);
      coefficient(j, i, t, g, u, h, b) = kOfValue ? of_kept : of_weight(of_kept);
    } else {
      coefficient(j, i, t, g, u, h, b) = of_weight(slope_here);
    }

    const Expr m = member.y * tile.depth + member.x;
    sums(c, i, u, h, b) = 0.0f;
    sums(c, i, u, h, b) += coefficient(m, i, member.z, member.w, u, h, b) * summand(met(c, m, member.z, member.w));
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
