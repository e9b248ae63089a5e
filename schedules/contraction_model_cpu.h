// What a contraction's plans take on a CPU, to choose between them: cycles of one thread, since all share their work
// out alike, as microseconds at 3.5 GHz. The numbers are fitted to products drawn at random
// (benchmarks/plan_choice.cpp) and stand for caches and threads, too: with AVX-512 to 2000, with AVX2 to 1600, on two
// cores of an AMD EPYC that has both; by which the chosen plan takes 1.07 times what the best one does (geometric
// mean).
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
/// Vectors of a row of the widest tiles of sums.
inline int widest_vectors(int lanes) { return has_long_vectors(lanes) ? 4 : 2; }

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
  float far;                     ///< a line that comes from memory by itself
};

inline TileCost tile_cost(const CpuTile& tile, bool by_rows) {
  if (!has_long_vectors(tile.lanes)) {
    return by_rows ? TileCost{294, 401, 0.321f, 7, 0.83f, 4.03f, 0.454f, 0.14f, 76}
                   : TileCost{321, 423, 0.28f, 56, 0, 5.2f, 0.946f, 0.09f, 140};
  }
  if (by_rows) return {584, 65, 0.553f, 0, 0.96f, 8.8f, 0.8f, 0.055f, 41};
  return tile.wide > tile.lanes ? TileCost{525, 118, 0.506f, 78, 0, 8.4f, 0.89f, 0.155f, 85}
                                : TileCost{324, 359, 0.498f, 39, 0, 9, 0.936f, 0.084f, 55};
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

// start + products · (product + tiles · (k · vectors + tile) + results + vectors of the wide operand that come from
// beyond the second cache)
inline Expr modelled_unpacked(const ContractionProblem& p, const Expr& wide, const Expr& narrow,
                              const Expr& narrow_lies_along_k, const CpuTile& tile, bool by_rows) {
  struct Cost {
    float start, product, vector, tile, result, strided, far;
  };
  const bool has_long = has_long_vectors(tile.lanes), is_row = tile.narrow == 1, is_narrow = tile.wide == tile.lanes;
  const Cost cost = has_long    ? by_rows     ? Cost{333, 86, 0.623f, 9, 0.5f, 0.42f, 0}
                                  : is_row    ? Cost{339, 98, 0.875f, 13.3f, 0.78f, 0, 3.4f}
                                  : is_narrow ? Cost{346, 90, 0.566f, 4.1f, 2.4f, 0.24f, 3.5f}
                                              : Cost{352, 90, 0.55f, 13.8f, 1.72f, 0.09f, 3.6f}
                       : by_rows ? Cost{315, 45, 0.438f, 40, 0.27f, 0.57f, 0.33f}
                    : is_row    ? Cost{221, 296, 0.622f, 14.5f, 0, 0.39f, 1.8f}
                    : is_narrow ? Cost{300, 137, 0.446f, 9.8f, 0.75f, 0.18f, 2.7f}
                                : Cost{315, 144, 0.405f, 12.8f, 0.24f, 0.12f, 2.7f};
  const auto vectors = static_cast<float>(tile.wide / tile.lanes), lanes = static_cast<float>(tile.lanes);
  const float cached = has_long ? 1 << 18 : 1 << 17;  // elements
  const Expr k = as_real(p.inner), wide_tiles = as_real(rounded_up(wide, tile.wide)),
             narrow_tiles = as_real(rounded_up(narrow, tile.narrow));
  const Expr of_tile =
      k * (vectors * static_cast<float>(tile.narrow) * cost.vector + select(narrow_lies_along_k, 0.0f, cost.strided)) +
      cost.tile;
  const Expr results = as_real(narrow) * as_real(rounded_up(wide, tile.lanes)) * (by_rows ? lanes : 1.0f);
  const Expr far = select(as_real(wide) * k > cached, wide_tiles * vectors * k, 0.0f);
  return microseconds_of(p, cost.start,
                         cost.product + wide_tiles * narrow_tiles * of_tile + cost.result * results + cost.far * far);
}

// start + products · (product + the packed operand + tiles · (vectors of k · products of vectors + sums over the
// lanes)). An operand of more than 16 MB is packed into memory that the system gives page by page.
inline Expr modelled_dots(const ContractionProblem& p, const Expr& wide, const Expr& few, bool is_packed,
                          const CpuTile& tile) {
  struct Cost {
    float start, product, vector, sum_of_lanes, transposed;
  };
  const Cost cost =
      has_long_vectors(tile.lanes) ? Cost{449, 122, 0.674f, 5, 1.38f} : Cost{241, 146, 0.442f, 5.3f, 1.5f};
  const Expr few_tiles = as_real(rounded_up(few, tile.narrow)), k = as_real(p.inner),
             vectors = as_real(rounded_up(p.inner, tile.lanes));
  Expr packed = 0.0f;
  if (is_packed) {
    constexpr float kCached = 1 << 22, kFar = 120;
    packed = few_tiles * static_cast<float>(tile.narrow) *
             (cost.transposed * k + select(as_real(few) * k > kCached, kFar * vectors, 0.0f));
  }
  const auto results = static_cast<float>(tile.wide * tile.narrow);
  return microseconds_of(
      p, cost.start,
      cost.product + packed +
          as_real(rounded_up(wide, tile.wide)) * few_tiles * results * (vectors * cost.vector + cost.sum_of_lanes));
}

// start + products · (product + vectors of the right operand · (loading one + its products) + sums of the shares of k)
inline Expr modelled_stream(const ContractionProblem& p, const Expr& shares, int lanes) {
  struct Cost {
    float start, product, vector, load, share;
  };
  const Cost cost = has_long_vectors(lanes) ? Cost{754, 3010, 0.91f, 3.4f, 9.6f} : Cost{17600, 11300, 0.49f, 2, 0};
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
  const Cost cost = has_long_vectors(tile.lanes) ? Cost{794, 668, 0.47f, 107, 19, 2.1f, 0.55f, 1.1f}
                                                 : Cost{997, 672, 0.252f, 57, 10.5f, 1.7f, 0.51f, 1.05f};
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
