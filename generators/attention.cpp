// Scaled dot-product attention (Vaswani et al. 2017) without a matrix of scores in memory: an online softmax over tiles
// of keys (Milakov and Gimelshein 2018; Dao et al. 2022), and its gradients, which work the weights out again.
#include <limits>

#include "runtime/forms/attention.h"
#include "schedules/attention.h"

namespace ashlar::dsl {
namespace {

using Halide::Func;
using Halide::RDom;

constexpr float kLowest = -std::numeric_limits<float>::max(), kMinusInfinity = -std::numeric_limits<float>::infinity();

Expr inside(const Expr& index, const Expr& extent) { return Halide::max(Halide::min(index, extent - 1), 0); }
Expr certain(const Expr& index, const Expr& extent) { return Halide::unsafe_promise_clamped(index, 0, extent - 1); }
Expr tiles_of(const Expr& all, const Expr& tile) { return (all + tile - 1) / tile; }

// x - 1, in a form that Halide 21 doesn't solve a condition for: it would cut the regions of the stages behind it.
Expr before(const Expr& x) { return ~(-x); }

// x[b, h, row, c], 0 beyond the last row and place
template <ElementType T>
Expr padded(const In<T, 4>& x, const Expr& b, const Expr& h, const Expr& row, const Expr& c) {
  const Expr at = x(certain(b, x.extent(0)), certain(h, x.extent(1)), inside(row, x.extent(2)), inside(c, x.extent(3)));
  return Halide::select(row < x.extent(2) && c < x.extent(3), at, 0.0f);
}

// What a query and a key come to: scale dot + mask, or -∞ where the one doesn't see the other. is_boolean: the mask is
// 0 or 1, and 0 hides.
struct Masking {
  Value scale, is_boolean, diagonal;
  Expr score(const Expr& dot, const Expr& mask, const Expr& query, const Expr& key, const Expr& keys) const {
    const Expr scaled = dot * scale.expr();
    const Expr shown = Halide::select(is_boolean.expr() == 0, scaled + mask, mask != 0.0f, scaled, kMinusInfinity);
    return Halide::select(key < keys && key <= query + diagonal.expr(), shown, kMinusInfinity);
  }
};

}  // namespace

// y[q] = Σ_k e^(s[q,k] - lse[q]) value[k],  s[q,k] = scale query[q] · key[k] + mask[q,k],  lse[q] = ln Σ_k e^s[q,k]
template <ElementType T>
class Attention : public Kernel<Attention<T>> {
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

  Attention() {
    this->formula("y = softmax(scale query keyᵀ + attn_mask) value, scale 0: 1/√width; a query that sees no key: 0");
    this->form(forms::Attention::signature);
    this->gradient(kAllInputs,
                   "attention_grad(dy, query, key, value, attn_mask, y, logsumexp, is_causal, scale, needs)",
                   "autograd/recipes/attention.h");
    this->flops("2.0 * shapes[0].numel() * shapes[1][2] * (1.0 + double(shapes[2][3]) / double(shapes[1][3]))");
  }

  // Row i of the queries' tile u meets column j of the keys' tile t.
  void algorithm() {
    const auto& [c, i, j, t, g, u, h, b] = at;
    tile = AttentionTile::for_columns(keys.extent());
    const RDom term(0, tile.depth, 0, tiles_of(width.extent(), tile.depth), "term");
    const RDom member(0, tile.depth, 0, tile.columns / tile.depth, "member"), of_tile(0, 32, 0, tile.columns / 32, "j");
    RDom tiles(0, tiles_of(keys.extent(), tile.columns), "tiles");
    const Expr row = u * tile.rows + i, column = t * tile.columns + j,
               key_head = h / (heads.extent() / key_heads.extent());
    query_tile(c, i, u, h, b) = padded(query, b, h, row, c);
    key_tile(c, j, t, h, b) = padded(key, b, key_head, column, c);
    value_tile(c, j, t, h, b) = padded(value, b, key_head, column, c);

    const Expr place = term.y * tile.depth + term.x, m = member.y * tile.depth + member.x,
               k = of_tile.y * 32 + of_tile.x;
    dot(j, i, t, u, h, b) = 0.0f;
    dot(j, i, t, u, h, b) += query_tile(place, i, u, h, b) * key_tile(place, j, t, h, b);
    const Expr mask = attn_mask(b, h, inside(row, queries.extent()), inside(column, keys.extent()));
    score(j, i, t, u, h, b) =
        Masking{scale, is_boolean, diagonal}.score(dot(j, i, t, u, h, b), mask, row, column, keys.extent());
    best(i, t, u, h, b) = kLowest;  // finite, so that no score is -∞ - -∞
    best(i, t, u, h, b) = Halide::max(best(i, t, u, h, b), score(k, i, t, u, h, b));
    Descriptor::current->maxima_of_numbers.insert(best.name());  // a NaN among them is in the sum
    top(i, t, u, h, b) = best(i, t, u, h, b);
    weight(j, i, t, u, h, b) = exp_below_zero(Value(score(j, i, t, u, h, b) - top(i, t, u, h, b)));
    sum(i, t, u, h, b) = 0.0f;
    sum(i, t, u, h, b) += weight(k, i, t, u, h, b);
    total(i, t, u, h, b) = sum(i, t, u, h, b);
    part(c, i, t, u, h, b) = 0.0f;
    part(c, i, t, u, h, b) += weight(m, i, t, u, h, b) * value_tile(c, m, t, h, b);

    // {m, Σ e^(s - m), Σ e^(s - m) value} over the tiles in which any key is seen.
    state(c, i, u, h, b) = Halide::Tuple(kLowest, 0.0f, 0.0f);
    tiles.where(tiles * tile.columns <= before((u + 1) * tile.rows + Value(diagonal).expr()));
    const Halide::FuncRef old = state(c, i, u, h, b);
    const Expr new_top = top(i, tiles, u, h, b), larger = Halide::select(old[0] < new_top, new_top, old[0]);
    const Expr keep = exp_below_zero(Value(old[0] - larger)), take = exp_below_zero(Value(new_top - larger));
    update_at_once(
        state, {c, i, u, h, b},
        {larger, old[1] * keep + total(i, tiles, u, h, b) * take, old[2] * keep + part(c, i, tiles, u, h, b) * take});
    const auto result = [&](const Expr& column_of_y, const Var& q, int of) -> Expr {
      return state(column_of_y, q % tile.rows, q / tile.rows, h, b)[of];
    };
    y(b, h, q, c) = select(Value(result(c, q, 1)) == 0, 0, Value(result(c, q, 2)) / Value(result(c, q, 1)));
    logsumexp(b, h, q) = log(Value(result(0, q, 1))) + Value(result(0, q, 0));
    stages = {.tile = tile,
              .at = at,
              .products = {{dot, term.x, term.y, query_tile, key_tile, j, true}},
              .reduced = {best, top, sum, total},
              .weights = {score, weight},
              .result = {part, member.x, member.y, weight, value_tile, c, false},
              .tiles = {tiles.x},
              .total = state,
              .beside = {logsumexp.func()}};
  }
  void schedule(auto target) { attention(target, stages, y.func()); }

 private:
  AttentionIndex at;
  Var q{"q"};
  AttentionTile tile;
  AttentionStages stages;
  Func query_tile{"query_tile"}, key_tile{"key_tile"}, value_tile{"value_tile"}, dot{"dot"}, score{"score"},
      best{"best"}, top{"top"}, weight{"weight"}, sum{"sum"}, total{"total"}, part{"part"}, state{"state"};
};

enum class Wanted { query, key, value };

// With weight[q,k] = e^(s[q,k] - lse[q]) and ds[q,k] = weight[q,k] (dy[q] · value[k] - delta[q]):
//   dquery[q] = scale Σ_k ds[q,k] key[k],  dkey[k] = scale Σ_q ds[q,k] query[q],  dvalue[k] = Σ_q weight[q,k] dy[q]
// where q runs over all heads that share k's. delta[q] = dy[q] · y[q].
template <class Derived, ElementType T, Wanted wanted>
class AttentionGradient : public Kernel<Derived> {
 public:
  static constexpr bool kOfQuery = wanted == Wanted::query, kOfValue = wanted == Wanted::value;
  Dim batch{"batch"}, heads{"heads"}, key_heads{"key_heads"}, queries{"queries"}, keys{"keys"}, width{"width"},
      value_width{"value_width"};
  In<T, 4> dy{"dy", {batch, heads, queries, value_width}};
  In<T, 4> query{"query", {batch, heads, queries, width}};
  In<T, 4> key{"key", {batch, key_heads, keys, width}};
  In<T, 4> value{"value", {batch, key_heads, keys, value_width}};
  In<f32, 3> logsumexp{"logsumexp", {batch, heads, queries}}, delta{"delta", {batch, heads, queries}};
  In<T, 4> attn_mask{"attn_mask", {batch, heads, queries, keys}, absent_is(0)};
  Scalar<int32_t> diagonal{"diagonal", 0}, is_boolean{"is_boolean", 0};
  Scalar<float> scale{"scale", 0.0F};
  Out<T, 4> dx{"dx", kOfQuery   ? Sizes{batch, heads, queries, width}
                     : kOfValue ? Sizes{batch, key_heads, keys, value_width}
                                : Sizes{batch, key_heads, keys, width}};

  AttentionGradient() {
    this->formula(kOfQuery   ? "dquery[q] = scale Σ_k ds[q,k] key[k], ds = weight (dy valueᵀ - delta)"
                  : kOfValue ? "dvalue[k] = Σ_q weight[q,k] dy[q], weight = e^(score - logsumexp)"
                             : "dkey[k] = scale Σ_q ds[q,k] query[q], ds = weight (dy valueᵀ - delta)");
    this->form(forms::Attention::signature);
  }

  // Row i of a tile u of the result meets column j of the other side's tile t, in the g-th head that shares it.
  void algorithm() {
    const auto& [c, i, j, t, g, u, h, b] = at;
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
    const Expr score = Masking{scale, is_boolean, diagonal}.score(
        dot(j, i, t, g, u, h, b), attn_mask(at_b, at_h, at_q, at_k), q, k, keys.extent());
    // Where nothing is seen the logarithm is -∞ as well. Queries beyond the last are none.
    const Expr weight = Halide::select((Value(score) < Value(kLowest)).expr() || q >= queries.extent(), 0.0f,
                                       exp(Value(score - logsumexp(at_b, at_h, at_q).expr())));
    const Expr ds = weight * (slope(j, i, t, g, u, h, b) - delta(at_b, at_h, at_q).expr()) * Value(scale).expr();
    coefficient(j, i, t, g, u, h, b) = kOfValue ? weight : ds;

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

template <ElementType T>
class AttentionQueryGradient : public AttentionGradient<AttentionQueryGradient<T>, T, Wanted::query> {};
template <ElementType T>
class AttentionKeyGradient : public AttentionGradient<AttentionKeyGradient<T>, T, Wanted::key> {};
template <ElementType T>
class AttentionValueGradient : public AttentionGradient<AttentionValueGradient<T>, T, Wanted::value> {};

const bool registered = register_kernel<Attention, f32>("scaled_dot_product_attention") &&
                        register_kernel<AttentionQueryGradient, f32>("attention_query_grad") &&
                        register_kernel<AttentionKeyGradient, f32>("attention_key_grad") &&
                        register_kernel<AttentionValueGradient, f32>("attention_value_grad");

}  // namespace ashlar::dsl
