// What a contraction's plans take on a CPU, to choose between them: cycles of one thread, since all share their work
// out alike, as microseconds at 3.5 GHz. The numbers are fitted to products drawn at random
// (benchmarks/plan_choice.cpp) and stand for caches and threads, too: with AVX-512 to 3200, half of them with a bias
// and an activation, with AVX2 to 1200, on two cores of an AMD EPYC that has both; by which the chosen plan took 1.04
// times what the best one did, with AVX2 1.07 (geometric means of draws that weren't fitted). Pages, far results,
// stream and two numbers of AVX-512's went by 600 draws on an Intel Xeon, what an element costs that is transposed, and
// one task, by 600 draws with an activation there. Panels packed before came last: fitted to 2400 draws with AVX-512
// and 2200 with AVX2 on an Intel Xeon, half of them with an activation, operands and results in no cache, and all
// others with them, held near to what they were. Of the draws that weren't fitted the chosen plan takes 1.05 times what
// the best one does, with AVX2 1.06 (1.13 and 1.12 with the numbers of before). Of AVX2's, those of `packed`,
// `batched`, `stream`, `few_rows`, `unpacked_row` and `unpacked_rows`, and what `direct_along` packs, went by 1030
// draws on an AMD EPYC (Zen 3). `unpacked_terms`, far results of `unpacked` and `unpacked_narrow`, and that narrow
// products aren't for `direct_along`, went by 320 draws on an AMD EPYC of Zen 4, which takes 512 bits in two halves: to
// it the other numbers weren't fitted.
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

/// The lines of 64 bytes of so many elements where a condition holds, else 0.
inline Expr lines_where(const Expr& condition, const Expr& elements) {
  constexpr float kElements = 16;
  return select(condition, elements / kElements, 0.0f);
}

/// Those that come from memory one by one: of a matrix of `elements`, too large for caches, that is read across its
/// rows, a line of each of so many that no prefetcher follows.
inline Expr far_lines(const ContractionProblem& p, const Expr& elements) {
  constexpr float kCached = 1 << 21;
  constexpr int kFollowed = 256;
  return lines_where(elements > kCached && p.inner > kFollowed, elements);
}

/// What such a line costs plans that pack nothing, of an operand whose elements are read one by one, some of each line
/// at a time.
inline constexpr float kFarLineOfElements = 40;

/// The lines of a matrix of so many elements that is read across its rows and lies in no cache at all, and what each
/// costs besides.
inline Expr lines_beyond_caches(const Expr& elements) {
  constexpr float kCached = 1 << 23;
  return lines_where(elements > kCached, elements);
}
inline constexpr float kLineBeyondCaches = 15;

/// The lines of the narrow operand, of so many elements, that are read anew for each tile of the wide one: none where
/// the second cache keeps the elements of a run.
inline Expr lines_again(const Expr& elements, const Expr& of_run) {
  constexpr float kCached = 1 << 18;
  return lines_where(of_run > kCached, elements);
}

/// A step along k of an operand whose elements of one k lie side by side: `strided`, and what it costs that a tile's
/// steps go over more pages than the processor has the addresses of at hand.
inline Expr cost_of_step(const ContractionProblem& p, const Expr& k_stride, float strided) {
  constexpr int kPage = 1024, kPages = 64;  // elements
  constexpr float kMiss = 6;
  const Expr pages = min(as_real(k_stride) / kPage, 1.0f);
  return select(k_stride == 1, 0.0f, strided + select(pages * as_real(p.inner) > kPages, kMiss * pages, 0.0f));
}

/// Vectors of results, or elements where they aren't stored as vectors.
inline Expr results_of(const Expr& wide, const Expr& narrow, const CpuTile& tile, bool by_rows) {
  return as_real(narrow) * as_real(by_rows ? wide : rounded_up(wide, tile.lanes));
}

/// What results of short sums cost more in columns of tiles, of a matrix that no second cache holds: their lines come
/// one by one, and tiles of longer sums wait for none of them.
inline Expr far_results(const ContractionProblem& p, const Expr& results, int lanes, float hidden_by_term) {
  constexpr int kCached = 1 << 18;  // elements
  constexpr float kLine = 4.5f;
  return select(results * lanes > kCached, results * max(0.0f, kLine - hidden_by_term * as_real(p.inner)), 0.0f);
}

/// What a plan of tiles takes, in cycles.
struct TileCost {
  float start, product, vector;  ///< of a call, of a product, of a multiplication of vectors
  float tile, result;            ///< what a tile costs besides, and a vector of results (by rows: an element)
  float packed, transposed;      ///< packing a vector that lies so, an element that doesn't
  float strided;                 ///< a step along k where the narrow operand doesn't lie so
  float far;                     ///< a line that comes from memory by itself
  float again;                   ///< a line that no cache keeps from one tile to the next
  float panel;                   ///< what a packed tile costs besides
  float far_narrow;              ///< a far line of the narrow operand, for each tile of the wide one
};

/// Where panels of the wide operand are packed: by the task that reads them, or by all threads before.
enum class PanelsPacked : uint8_t { by_task, before };

inline TileCost tile_cost(const CpuTile& tile, bool by_rows, PanelsPacked packed) {
  if (packed == PanelsPacked::before) {
    return has_long_vectors(tile.lanes)
               ? TileCost{512, 265, 0.2f, 7.9f, 1.15f, 12, 0.84f, 0.3f, 2.7f, 1.04f, 66, 0.92f}
               : TileCost{1130, 388, 0.219f, 8.1f, 0.23f, 8.5f, 0.9f, 0.114f, 0.5f, 0.32f, 0, 0.38f};
  }
  if (!has_long_vectors(tile.lanes)) {
    return by_rows ? TileCost{661, 0, 0.262f, 0, 2, 1.25f, 0.394f, 0, 4.7f, 0, 283, 1.5f}
                   : TileCost{637, 71, 0.21f, 19.8f, 0.475f, 2.23f, 0.495f, 0.13f, 6.5f, 0.76f, 229, 1.5f};
  }
  if (by_rows) return {404, 97, 0.255f, 0, 2.3f, 4.1f, 0.49f, 0.135f, 3.9f, 1.7f, 354, 7.1f};
  return tile.wide > tile.lanes ? TileCost{424, 93, 0.222f, 33.7f, 0, 4.6f, 0.44f, 0.23f, 2.6f, 0.85f, 264, 2}
                                : TileCost{531, 21, 0.263f, 15.2f, 0.1f, 5.5f, 0.4f, 0.28f, 0.9f, 0.62f, 235, 5};
}

// start + products · (product + packed elements + tiles · k · vectors + …)
inline Expr modelled_direct(const ContractionProblem& p, const Expr& wide, const Expr& narrow, const Expr& runs,
                            const Expr& wide_is_contiguous, const Expr& narrow_k_stride, const CpuTile& tile,
                            bool by_rows, PanelsPacked panels, EpilogueLength epilogue) {
  TileCost cost = tile_cost(tile, by_rows, panels);
  if (epilogue == EpilogueLength::long_one && !has_long_vectors(tile.lanes)) {
    // Its constants take some of the 16 registers that the sums are in. By 63 products with GELU.
    constexpr float kVector = 0.04f, kResult = 4.5f;
    cost.vector += kVector;
    cost.result += kResult;
  }
  const Expr wide_tiles = as_real(rounded_up(wide, tile.wide)), narrow_tiles = as_real(rounded_up(narrow, tile.narrow)),
             k = as_real(p.inner);
  const auto vectors = static_cast<float>(tile.wide / tile.lanes), lanes = static_cast<float>(tile.lanes);
  const Expr of_tile =
      k * (vectors * static_cast<float>(tile.narrow) * cost.vector + cost_of_step(p, narrow_k_stride, cost.strided)) +
      cost.tile;
  const Expr packed = wide_tiles * as_real(runs) *
                      (k * vectors * select(wide_is_contiguous, cost.packed, cost.transposed * lanes) + cost.panel);
  const Expr of_narrow = as_real(narrow) * k;
  const Expr far_narrow =
      cost.far_narrow * far_lines(p, of_narrow) + kLineBeyondCaches * lines_beyond_caches(of_narrow);
  const Expr lines = cost.far * select(wide_is_contiguous, far_lines(p, as_real(wide) * k), 0.0f) +
                     wide_tiles * (select(narrow_k_stride == 1, 0.0f, far_narrow) +
                                   cost.again * lines_again(of_narrow, as_real(narrow / runs) * k));
  const Expr results = results_of(wide, narrow, tile, by_rows);
  return microseconds_of(p, cost.start,
                         cost.product + packed + lines + wide_tiles * narrow_tiles * of_tile + cost.result * results +
                             (by_rows ? Expr(0.0f) : far_results(p, results, tile.lanes, /*hidden_by_term=*/0.15f)));
}

// start + products · (product + tiles · (k · vectors + tile) + results + vectors of the wide operand that come from
// beyond the second cache)
inline Expr modelled_unpacked(const ContractionProblem& p, const Expr& wide, const Expr& narrow,
                              const Expr& narrow_k_stride, const CpuTile& tile, bool by_rows) {
  struct Cost {
    float start, product, vector, tile, result, strided, far;
  };
  const bool has_long = has_long_vectors(tile.lanes), is_row = tile.narrow == 1, is_narrow = tile.wide == tile.lanes;
  const Cost cost = has_long    ? by_rows     ? Cost{571, 23, 0.352f, 28.4f, 1.39f, 0.21f, 10.7f}
                                  : is_row    ? Cost{447, 28, 0.545f, 15.9f, 0, 0.26f, 3}
                                  : is_narrow ? Cost{380, 114, 0.338f, 7.5f, 0.71f, 0.155f, 4.5f}
                                              : Cost{460, 16, 0.252f, 27.6f, 0, 0.234f, 11.7f}
                       : by_rows ? Cost{320, 36, 0.335f, 22, 1.06f, 0, 0.9f}
                    : is_row    ? Cost{450, 54, 0.36f, 6, 0, 0, 1.4f}
                    : is_narrow ? Cost{396, 86, 0.279f, 2.6f, 0.94f, 0.02f, 2.8f}
                                : Cost{429, 51, 0.268f, 7.6f, 0, 0, 1.25f};
  const auto vectors = static_cast<float>(tile.wide / tile.lanes);
  const float cached = has_long ? 1 << 18 : 1 << 17;  // elements
  const Expr k = as_real(p.inner), wide_tiles = as_real(rounded_up(wide, tile.wide)),
             narrow_tiles = as_real(rounded_up(narrow, tile.narrow));
  const Expr of_tile =
      k * (vectors * static_cast<float>(tile.narrow) * cost.vector + cost_of_step(p, narrow_k_stride, cost.strided)) +
      cost.tile;
  const Expr results = results_of(wide, narrow, tile, by_rows);
  constexpr float kFarLine = 8;
  const Expr lines =
      kFarLine * far_lines(p, as_real(wide) * k) +
      kFarLineOfElements * wide_tiles * select(narrow_k_stride == 1, 0.0f, far_lines(p, as_real(narrow) * k));
  const Expr far = select(as_real(wide) * k > cached, wide_tiles * vectors * k, 0.0f);
  const Expr far_rows = by_rows || is_row ? Expr(0.0f) : far_results(p, results, tile.lanes, /*hidden_by_term=*/1.5f);
  return microseconds_of(
      p, cost.start,
      cost.product + wide_tiles * narrow_tiles * of_tile + cost.result * results + far_rows + cost.far * far + lines);
}

// start + products · (product + tiles · (k + tile)), a tile being a vector of one row; a line of each k of a matrix
// that no second cache holds comes by itself
inline Expr modelled_terms(const ContractionProblem& p, const Expr& wide, const Expr& narrow,
                           const Expr& narrow_k_stride, int lanes) {
  struct Cost {
    float start, product, vector, tile, strided, far;
  };
  const Cost cost = has_long_vectors(lanes) ? Cost{447, 28, 0.8f, 8, 0.26f, 10} : Cost{450, 54, 0.8f, 8, 0, 5};
  constexpr float kCached = 1 << 18;  // elements
  const Expr k = as_real(p.inner), tiles = as_real(rounded_up(wide, lanes)) * as_real(narrow);
  const Expr far = select(as_real(p.batches) * as_real(wide) * k > kCached, cost.far * k, 0.0f);
  const Expr of_tile = k * (cost.vector + cost_of_step(p, narrow_k_stride, cost.strided)) + far + cost.tile;
  return microseconds_of(p, cost.start, cost.product + tiles * of_tile);
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
  const Cost cost = has_long    ? is_one      ? Cost{254, 0, 1.61f, 5, 24.6f, 0}
                                  : is_packed ? Cost{447, 292, 0.457f, 1.77f, 5.8f, 0.78f}
                                              : Cost{655, 24, 0.401f, 1.65f, 0, 0}
                       : is_one ? Cost{235, 22, 1.13f, 1.7f, 0, 0}
                    : is_packed ? Cost{201, 427, 0.343f, 1.44f, 10.8f, 0.63f}
                                : Cost{355, 96, 0.331f, 0.9f, 18, 0};
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

// start + products · (product + vectors of the right operand · (loading one + its products) + sums of the shares of k +
// steps of the left operand's rows)
inline Expr modelled_stream(const ContractionProblem& p, const Expr& shares, int lanes) {
  struct Cost {
    float start, product, vector, load, share, strided;
  };
  const Cost cost =
      has_long_vectors(lanes) ? Cost{584, 3530, 0.472f, 2.13f, 5.6f, 1.44f} : Cost{4570, 1170, 0.3f, 1.4f, 5.9f, 0.41f};
  const Expr rows = as_real(p.rows), vectors = as_real(rounded_up(p.columns, lanes));
  return microseconds_of(
      p, cost.start,
      cost.product +
          vectors * (as_real(p.inner) * (cost.load + cost.vector * rows) + cost.share * rows * as_real(shares)) +
          select(p.left.column_stride == 1, 0.0f, cost.strided * as_real(p.inner) * rows));
}

// start + products · (elements loaded + elements stored)
inline Expr modelled_batched(const ContractionProblem& p, int lanes) {
  constexpr float kStart = 500, kResult = 1.7f;
  const float load = has_long_vectors(lanes) ? 0.72f : 0.23f;
  const Expr results = as_real(p.rows) * as_real(p.columns);
  return microseconds_of(p, kStart, results * (2 * load * as_real(p.inner) + kResult));
}

// start + products · (both operands packed + tiles · (k · vectors + what a chunk of k costs besides))
inline Expr modelled_packed(const ContractionProblem& p, const CpuTile& tile, int depth) {
  struct Cost {
    float start, product, vector, chunk, right_vector, right, left, left_strided;
  };
  const Cost cost = has_long_vectors(tile.lanes) ? Cost{1130, 398, 0.263f, 116, 10.2f, 1.06f, 0.33f, 0.33f}
                                                 : Cost{2140, 468, 0.224f, 58, 7, 0.94f, 0.436f, 0.436f};
  const auto vectors = static_cast<float>(tile.wide / tile.lanes * tile.narrow);
  const Expr tiles = as_real(rounded_up(p.columns, tile.wide)) * as_real(rounded_up(p.rows, tile.narrow)),
             k = as_real(p.inner), columns = as_real(p.columns);
  const Expr right = select(p.right.column_stride == 1, cost.right_vector * as_real(rounded_up(p.columns, tile.lanes)),
                            cost.right * columns);
  const Expr left = k * as_real(p.rows) * select(p.left.column_stride == 1, cost.left, cost.left_strided);
  return microseconds_of(p, cost.start,
                         cost.product +
                             tiles * (k * vectors * cost.vector + cost.chunk * as_real(rounded_up(p.inner, depth))) +
                             k * right + left);
}

}  // namespace detail

}  // namespace ashlar::dsl
