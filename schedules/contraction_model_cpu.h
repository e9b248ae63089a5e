// What a contraction's plans take on a CPU, to choose between them: cycles of one thread, since all share their work
// out alike, as microseconds at 3.5 GHz. The numbers are fitted to 920 products drawn at random, on two cores of an
// Intel Xeon (Emerald Rapids) with AVX-512 (benchmarks/plan_choice.cpp): they stand for caches and threads, too.
#pragma once

#include "schedules/contraction.h"

namespace ashlar::dsl {

/// What a plan computes in registers at a time: `wide` elements along the side of its vectors, `narrow` along the
/// other.
struct CpuTile {
  int wide, narrow, lanes;
};

namespace detail {

inline Expr rounded_up(const Expr& count, int unit) { return Halide::max(1, (count + unit - 1) / unit); }
inline Expr as_real(const Expr& e) { return Halide::cast<float>(e); }

/// Of a call: its start and its products.
inline Expr microseconds_of(const ContractionProblem& p, float start, const Expr& cycles) {
  return (start + as_real(p.batches) * cycles) / 3500.0f;
}

/// What a plan of tiles takes, in cycles.
struct TileCost {
  float start, product, vector;  ///< of a call, of a product, of a multiplication of vectors
  float tile, result;            ///< what a tile costs besides, and a vector of results (by rows: an element)
  float packed, transposed;      ///< packing a vector that lies so, an element that doesn't
  float strided;                 ///< a step along k where the narrow operand doesn't lie so
};

// start + products · (product + packed elements + tiles · k · vectors + …)
inline Expr modelled_direct(const ContractionProblem& p, const Expr& wide, const Expr& narrow, const Expr& runs,
                            const Expr& wide_is_contiguous, const Expr& narrow_lies_along_k, const CpuTile& tile,
                            bool by_rows) {
  constexpr TileCost kOneVector{1140, 720, 0.92f, 147, 0, 17, 2.1f, 1.9f},
      kColumns{440, 1020, 0.67f, 219, 0, 15, 2.2f, 3.2f}, kRows{290, 1200, 0.82f, 0, 2.3f, 11, 1.7f, 2.4f};
  const TileCost& cost = by_rows ? kRows : tile.wide > tile.lanes ? kColumns : kOneVector;
  const Expr wide_tiles = as_real(rounded_up(wide, tile.wide)), narrow_tiles = as_real(rounded_up(narrow, tile.narrow)),
             k = as_real(p.inner);
  const auto vectors = static_cast<float>(tile.wide / tile.lanes), lanes = static_cast<float>(tile.lanes);
  const Expr of_tile =
      k * (vectors * static_cast<float>(tile.narrow) * cost.vector + select(narrow_lies_along_k, 0.0f, cost.strided)) +
      cost.tile;
  const Expr packed =
      wide_tiles * as_real(runs) * k * vectors * select(wide_is_contiguous, cost.packed, cost.transposed * lanes);
  const Expr results = as_real(narrow) * as_real(rounded_up(wide, tile.lanes)) * (by_rows ? lanes : 1.0f);
  return microseconds_of(p, cost.start,
                         cost.product + packed + wide_tiles * narrow_tiles * of_tile + cost.result * results);
}

// start + products · (the packed operand + tiles · (vectors of k · products of vectors + sums over the lanes))
inline Expr modelled_dots(const ContractionProblem& p, const Expr& wide, const Expr& few, const Expr& few_lies_along_k,
                          const CpuTile& tile) {
  constexpr float kStart = 1430, kVector = 1.1f, kSumOfLanes = 10.5f, kPacked = 14, kTransposed = 4;
  const Expr few_tiles = as_real(rounded_up(few, tile.narrow)), k = as_real(p.inner),
             vectors = as_real(rounded_up(p.inner, tile.lanes));
  const auto results = static_cast<float>(tile.wide * tile.narrow);
  return microseconds_of(
      p, kStart,
      few_tiles * static_cast<float>(tile.narrow) * select(few_lies_along_k, kPacked * vectors, kTransposed * k) +
          as_real(rounded_up(wide, tile.wide)) * few_tiles * results * (vectors * kVector + kSumOfLanes));
}

// start + products · (vectors of the right operand · (loading one + its products) + sums of the shares of k)
inline Expr modelled_stream(const ContractionProblem& p, const Expr& shares, int lanes) {
  constexpr float kStart = 1370, kProduct = 1480, kVector = 0.6f, kLoad = 22, kShare = 12;
  const Expr rows = as_real(p.rows), vectors = as_real(rounded_up(p.columns, lanes));
  return microseconds_of(
      p, kStart, kProduct + vectors * (as_real(p.inner) * (kLoad + kVector * rows) + kShare * rows * as_real(shares)));
}

// start + products · (both operands packed + tiles · (k · vectors + what a chunk of k costs besides))
inline Expr modelled_packed(const ContractionProblem& p, const CpuTile& tile, int depth) {
  constexpr float kStart = 1780, kProduct = 2490, kVector = 0.45f, kChunk = 296, kRightVector = 43, kRight = 3.9f,
                  kLeft = 1.6f, kLeftStrided = 3.5f;
  const auto vectors = static_cast<float>(tile.wide / tile.lanes * tile.narrow);
  const Expr tiles = as_real(rounded_up(p.columns, tile.wide)) * as_real(rounded_up(p.rows, tile.narrow)),
             k = as_real(p.inner);
  const Expr right = select(p.right.column_stride == 1, kRightVector * as_real(rounded_up(p.columns, tile.lanes)),
                            kRight * as_real(p.columns));
  return microseconds_of(p, kStart,
                         kProduct + tiles * (k * vectors * kVector + kChunk * as_real(rounded_up(p.inner, depth))) +
                             k * right + k * as_real(p.rows) * select(p.left.column_stride == 1, kLeft, kLeftStrided));
}

}  // namespace detail

}  // namespace ashlar::dsl
