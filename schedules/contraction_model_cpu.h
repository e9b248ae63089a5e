// What a contraction's plans take on a CPU, to choose between them: cycles of one thread, since all share their work
// out alike, as microseconds at 3.5 GHz. The numbers are fitted to products drawn at random
// (benchmarks/plan_choice.cpp) and stand for caches and threads, too: with AVX-512 to 2500, with AVX2 to 1500, on two
// cores of an AMD EPYC that has both; by which the chosen plan takes 1.04 times what the best one does (geometric
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
  constexpr int kLine = 16, kFollowed = 256;
  return select(elements > kCached && p.inner > kFollowed, elements / static_cast<float>(kLine), 0.0f);
}

/// What such a line costs of an operand whose elements are read one by one, some of each line at a time.
inline constexpr float kFarLineOfElements = 40;

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
    return by_rows ? TileCost{416, 331, 0.318f, 0, 0.55f, 3.76f, 0.487f, 0.03f, 7}
                   : TileCost{633, 336, 0.189f, 20, 0, 4.07f, 1.01f, 0.12f, 6.9f};
  }
  if (by_rows) return {523, 402, 0.303f, 0, 0.85f, 5.77f, 1.13f, 0.3f, 2.8f};
  return tile.wide > tile.lanes ? TileCost{295, 341, 0.247f, 31, 0, 6.27f, 0.844f, 0.19f, 2.2f}
                                : TileCost{295, 341, 0.255f, 18, 0, 6.6f, 0.87f, 0.1f, 2.2f};
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
  const Expr lines =
      cost.far * select(wide_is_contiguous, far_lines(p, as_real(wide) * k), 0.0f) +
      kFarLineOfElements * wide_tiles * select(narrow_lies_along_k, 0.0f, far_lines(p, as_real(narrow) * k));
  const Expr results = as_real(narrow) * as_real(rounded_up(wide, tile.lanes)) * (by_rows ? lanes : 1.0f);
  return microseconds_of(p, cost.start,
                         cost.product + packed + lines + wide_tiles * narrow_tiles * of_tile + cost.result * results);
}

// start + products · (product + tiles · (k · vectors + tile) + results + vectors of the wide operand that come from
// beyond the second cache)
inline Expr modelled_unpacked(const ContractionProblem& p, const Expr& wide, const Expr& narrow,
                              const Expr& narrow_lies_along_k, const CpuTile& tile, bool by_rows) {
  struct Cost {
    float start, product, vector, tile, result, strided, far;
  };
  const bool has_long = has_long_vectors(tile.lanes), is_row = tile.narrow == 1, is_narrow = tile.wide == tile.lanes;
  const Cost cost = has_long    ? by_rows     ? Cost{391, 42, 0.371f, 36, 0.07f, 0.26f, 4.7f}
                                  : is_row    ? Cost{438, 49, 0.641f, 9.3f, 0, 0, 3}
                                  : is_narrow ? Cost{392, 66, 0.373f, 3.1f, 1.2f, 0.01f, 11.5f}
                                              : Cost{388, 56, 0.297f, 24, 0, 0.3f, 10.2f}
                       : by_rows ? Cost{461, 61, 0.335f, 13.7f, 0.2f, 0.04f, 1.1f}
                    : is_row    ? Cost{363, 52, 0.515f, 7.2f, 0, 0.11f, 2.2f}
                    : is_narrow ? Cost{346, 60, 0.315f, 2.7f, 0.78f, 0, 1.2f}
                                : Cost{360, 38, 0.282f, 9.2f, 0, 0.04f, 2.6f};
  const auto vectors = static_cast<float>(tile.wide / tile.lanes), lanes = static_cast<float>(tile.lanes);
  const float cached = has_long ? 1 << 18 : 1 << 17;  // elements
  const Expr k = as_real(p.inner), wide_tiles = as_real(rounded_up(wide, tile.wide)),
             narrow_tiles = as_real(rounded_up(narrow, tile.narrow));
  const Expr of_tile =
      k * (vectors * static_cast<float>(tile.narrow) * cost.vector + select(narrow_lies_along_k, 0.0f, cost.strided)) +
      cost.tile;
  const Expr results = as_real(narrow) * as_real(rounded_up(wide, tile.lanes)) * (by_rows ? lanes : 1.0f);
  constexpr float kFarLine = 8;
  const Expr lines =
      kFarLine * far_lines(p, as_real(wide) * k) +
      kFarLineOfElements * wide_tiles * select(narrow_lies_along_k, 0.0f, far_lines(p, as_real(narrow) * k));
  const Expr far = select(as_real(wide) * k > cached, wide_tiles * vectors * k, 0.0f);
  return microseconds_of(
      p, cost.start,
      cost.product + wide_tiles * narrow_tiles * of_tile + cost.result * results + cost.far * far + lines);
}

/// Where the short side of dot products lies: along k, or to be packed so.
enum class ShortSide : uint8_t { along_k, packed };

// start + products · (product + the packed operand + tiles · (results · (vectors of k + the sum of their lanes) +
// tile)). An operand of more than 16 MB is packed into memory that the system gives page by page.
inline Expr modelled_dots(const ContractionProblem& p, const Expr& wide, const Expr& few, ShortSide lies,
                          const CpuTile& tile) {
  struct Cost {
    float start, product, vector, sum_of_lanes, tile, transposed;
  };
  const bool has_long = has_long_vectors(tile.lanes), is_one = tile.narrow == 1, is_packed = lies == ShortSide::packed;
  const Cost cost = has_long    ? is_one      ? Cost{197, 43, 1.85f, 3.5f, 1.3f, 0}
                                  : is_packed ? Cost{300, 974, 0.491f, 0.92f, 9.6f, 1.77f}
                                              : Cost{989, 218, 0.464f, 0.81f, 11.2f, 0}
                       : is_one ? Cost{231, 8, 0.983f, 3.5f, 0, 0}
                    : is_packed ? Cost{136, 902, 0.325f, 0.79f, 1.4f, 0.82f}
                                : Cost{421, 175, 0.322f, 0.47f, 16.4f, 0};
  const Expr few_tiles = as_real(rounded_up(few, tile.narrow)), vectors = as_real(rounded_up(p.inner, tile.lanes));
  Expr packed = 0.0f;
  if (is_packed) {
    constexpr float kCached = 1 << 22, kFar = 120;
    const Expr k = as_real(p.inner);
    packed = few_tiles * static_cast<float>(tile.narrow) *
             (cost.transposed * k + select(as_real(few) * k > kCached, kFar * vectors, 0.0f));
  }
  const auto results = static_cast<float>(tile.wide * tile.narrow);
  return microseconds_of(p, cost.start,
                         cost.product + packed +
                             as_real(rounded_up(wide, tile.wide)) * few_tiles *
                                 (results * (vectors * cost.vector + cost.sum_of_lanes) + cost.tile));
}

// start + products · (product + vectors of the right operand · (loading one + its products) + sums of the shares of k)
inline Expr modelled_stream(const ContractionProblem& p, const Expr& shares, int lanes) {
  struct Cost {
    float start, product, vector, load, share;
  };
  const Cost cost = has_long_vectors(lanes) ? Cost{485, 2310, 0.392f, 3.3f, 7.1f} : Cost{2420, 2270, 0.279f, 1, 1.8f};
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
  const Cost cost = has_long_vectors(tile.lanes) ? Cost{1480, 855, 0.206f, 128, 18.3f, 2.33f, 0.41f, 0.72f}
                                                 : Cost{1160, 985, 0.201f, 33, 6.8f, 1.3f, 0.39f, 0.83f};
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
