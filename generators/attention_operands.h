// What calls of attention and of its gradients are made of: operands, mask, dropout of the weights, which both work
// out.
#pragma once

#include <limits>

#include "dsl/functions/philox.h"
#include "dsl/kernel.h"

namespace ashlar::dsl {

using Halide::Func;
using Halide::RDom;
using Halide::RVar;

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

/// Whether a tensor that may be absent is: from what In makes of an element.
inline Expr is_absent(const Expr& element) {
  const auto* given = element.as<Halide::Internal::Select>();
  if (given == nullptr) mistake("reads a tensor as if it might be absent, which it can't be");
  return !given->condition;
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
  static Expr taking_part(const Expr& weight) { return weight; }
  static Expr counted(const Expr& weight) { return weight; }
  static Value scaled(const Value& mean) { return mean; }
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
  /// Of a weight times its sign: itself where it takes part, else 0.
  static Expr taking_part(const Expr& weight) { return Halide::select(weight > 0.0f, weight, 0.0f); }
  /// What the sum of all weights has of it: dropped ones, too, and a NaN.
  static Expr counted(const Expr& weight) { return Halide::abs(weight); }
  Value scaled(const Value& mean) const { return mean * Value(scale_of_kept()); }
  /// What those that take part are multiplied by.
  Expr scale_of_kept() const {
    const Expr rest = 1.0f - Value(p).expr();
    return Halide::select(rest > 0.0f, 1.0f / rest, 0.0f);
  }
};

}  // namespace ashlar::dsl
