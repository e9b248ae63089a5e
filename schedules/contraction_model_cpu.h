// What a contraction's plans take on a CPU, to choose between them: cycles of one thread, since all share their work
// out alike, as microseconds at 3.5 GHz. The numbers are fitted to products drawn at random
// (benchmarks/plan_choice.cpp) and stand for caches and threads, too: with AVX-512 to 920, on two cores of an Intel
// Xeon (Emerald Rapids); with AVX2 to 750, on two of an AMD EPYC.
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

inline bool has_long_vectors(int lanes) { return lanes > 8; }

/// How many lines of 64 bytes come from memory one by one: of a matrix of `elements`, too large for caches, that is
/// read across its rows, a line of each of so many that no prefetcher follows. Else 0.
inline Expr far_lines(const ContractionProblem& p, const Expr& elements) {
  constexpr float kCached = 1 << 21;
  constexpr int kLine = 16, kFollowed = 1024;
  return select(elements > kCached && p.inner > kFollowed, elements / static_cast<float>(kLine), 0.0f);
}

/// What a plan of tiles takes, in cycles.
struct TileCost {
  float start, product, vector;  ///< of a call, of a product, of a multiplication of vectors
  float tile, result;            ///< what a tile costs besides, and a vector of results (by rows: an element)
  float packed, transposed;      ///< packing a vector that lies so, an element that doesn't
  float strided;                 ///< a step along k where the narrow operand doesn't lie so
  float far = 0;                 ///< a line that comes from memory by itself
};

inline TileCost tile_cost(const CpuTile& tile, bool by_rows) {
  constexpr float kFar = 80;
  if (!has_long_vectors(tile.lanes)) {
    return by_rows ? TileCost{763, 262, 0.42f, 0, 1.54f, 5.2f, 0.83f, 0.78f, kFar}
                   : TileCost{383, 734, 0.36f, 133, 0, 6.8f, 0.9f, 0.92f, kFar};
  }
  if (by_rows) return {290, 1200, 0.82f, 0, 2.3f, 11, 1.7f, 2.4f};
  return tile.wide > tile.lanes ? TileCost{440, 1020, 0.67f, 219, 0, 15, 2.2f, 3.2f}
                                : TileCost{1140, 720, 0.92f, 147, 0, 17, 2.1f, 1.9f};
}

// start + products · (product + packed elements + tiles · k · vectors + …)
inline Expr modelled_direct(const ContractionProblem& p, const Expr& wide, const Expr& narrow, const Expr& runs,
                            const Expr& wide_is_contiguous, const Expr& narrow_lies_along_k, const CpuTile& tile,
                            bool by_rows) {
  const TileCost cost = tile_cost(tile, by_rows);
  const Expr wide_tiles = as_real(rounded_up(wide, tile.wide)), narrow_tiles = as_real(rounded_up(narrow, tile.narrow)),
             k = as_real(p.inner);
  const auto vectors = static_cast<float>(tile.wide / tile.lanes), lanes = static_cast<float>(tile.lanes);
  const Expr of_tile =
      k * (vectors * static_cast<float>(tile.narrow) * cost.vector + select(narrow_lies_along_k, 0.0f, cost.strided)) +
      cost.tile;
  const Expr packed =
      wide_tiles * as_real(runs) * k * vectors * select(wide_is_contiguous, cost.packed, cost.transposed * lanes);
  const Expr lines = select(wide_is_contiguous, far_lines(p, as_real(wide) * k), 0.0f) +
                     wide_tiles * select(narrow_lies_along_k, 0.0f, far_lines(p, as_real(narrow) * k));
  const Expr results = as_real(narrow) * as_real(rounded_up(wide, tile.lanes)) * (by_rows ? lanes : 1.0f);
  return microseconds_of(
      p, cost.start,
      cost.product + packed + cost.far * lines + wide_tiles * narrow_tiles * of_tile + cost.result * results);
}

// start + products · (product + the packed operand + tiles · (vectors of k · products of vectors + sums over the
// lanes))
inline Expr modelled_dots(const ContractionProblem& p, const Expr& wide, const Expr& few, const Expr& few_lies_along_k,
                          const CpuTile& tile) {
  struct Cost {
    float start, product, vector, sum_of_lanes, packed, transposed;
  };
  const Cost cost =
      has_long_vectors(tile.lanes) ? Cost{1430, 0, 1.1f, 10.5f, 14, 4} : Cost{840, 95, 0.55f, 7.8f, 5.6f, 2};
  const Expr few_tiles = as_real(rounded_up(few, tile.narrow)), k = as_real(p.inner),
             vectors = as_real(rounded_up(p.inner, tile.lanes));
  const auto results = static_cast<float>(tile.wide * tile.narrow);
  return microseconds_of(
      p, cost.start,
      cost.product +
          few_tiles * static_cast<float>(tile.narrow) *
              select(few_lies_along_k, cost.packed * vectors, cost.transposed * k) +
          as_real(rounded_up(wide, tile.wide)) * few_tiles * results * (vectors * cost.vector + cost.sum_of_lanes));
}

// start + products · (product + vectors of the right operand · (loading one + its products) + sums of the shares of k)
inline Expr modelled_stream(const ContractionProblem& p, const Expr& shares, int lanes) {
  struct Cost {
    float start, product, vector, load, share;
  };
  const Cost cost = has_long_vectors(lanes) ? Cost{1370, 1480, 0.6f, 22, 12} : Cost{13100, 15300, 0.74f, 2.8f, 3.2f};
  const Expr rows = as_real(p.rows), vectors = as_real(rounded_up(p.columns, lanes));
  return microseconds_of(p, cost.start,
                         cost.product + vectors * (as_real(p.inner) * (cost.load + cost.vector * rows) +
                                                   cost.share * rows * as_real(shares)));
}

// start + products · (both operands packed + tiles · (k · vectors + what a chunk of k costs besides))
inline Expr modelled_packed(const ContractionProblem& p, const CpuTile& tile, int depth) {
  struct Cost {
    float start, product, vector, chunk, right_vector, right, left, left_strided;
  };
  const Cost cost = has_long_vectors(tile.lanes) ? Cost{1780, 2490, 0.45f, 296, 43, 3.9f, 1.6f, 3.5f}
                                                 : Cost{2290, 565, 0.27f, 119, 12.7f, 2.25f, 1.2f, 1.9f};
  const auto vectors = static_cast<float>(tile.wide / tile.lanes * tile.narrow);
  const Expr tiles = as_real(rounded_up(p.columns, tile.wide)) * as_real(rounded_up(p.rows, tile.narrow)),
             k = as_real(p.inner), columns = as_real(p.columns);
  const Expr right = select(p.right.column_stride == 1, cost.right_vector * as_real(rounded_up(p.columns, tile.lanes)),
                            cost.right * columns);
  return microseconds_of(
      p, cost.start,
      cost.product + tiles * (k * vectors * cost.vector + cost.chunk * as_real(rounded_up(p.inner, depth))) +
          k * right + k * as_real(p.rows) * select(p.left.column_stride == 1, cost.left, cost.left_strided));
}

}  // namespace detail

}  // namespace ashlar::dsl
