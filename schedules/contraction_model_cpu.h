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
// products aren't for `direct_along`, went by 320 draws on an AMD EPYC of Zen 4.
// Zen 4 takes 512 bits in two halves, and has numbers of its own: fitted to 3600 draws, half of them with ReLU, on two
// of its cores. Of 400 that weren't fitted the chosen plan takes 1.04 times what the best one does, the tenth
// percentile 1.10 (with the numbers of before 1.08 and 1.26).
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

/// What computes with vectors. Code of 512 bits runs on two kinds of processors.
enum class VectorUnit : uint8_t { bits_256, bits_512, bits_512_in_halves };

/// model(unit) of the processor that the call is for.
template <class Model>
Expr by_vector_unit(int lanes, const Model& model) {
  constexpr float kWhole = 64;  // bytes
  if (!has_long_vectors(lanes)) return model(VectorUnit::bits_256);
  return select(device_vector_bytes() < kWhole, model(VectorUnit::bits_512_in_halves), model(VectorUnit::bits_512));
}

template <class Cost>
Cost cost_on(VectorUnit unit, const Cost& bits_256, const Cost& bits_512, const Cost& in_halves) {
  return unit == VectorUnit::bits_256 ? bits_256 : unit == VectorUnit::bits_512 ? bits_512 : in_halves;
}

/// How sharing its work out changes the cycles of a product, which are those of two threads.
struct SharingCost {
  float alone = 1, alone_of_many = 1;  ///< how many times them a product takes that is one task; of many terms
  float several = 0;                   ///< what several tasks take besides
};

/// `is_shared`: whether there are several tasks.
inline Expr microseconds_of(const ContractionProblem& p, float start, const Expr& cycles, const SharingCost& cost,
                            const Expr& is_shared) {
  constexpr int kManyTerms = 512;
  const Expr of_products = as_real(p.batches) * cycles;
  const Expr alone = select(p.inner > kManyTerms, cost.alone_of_many, cost.alone) * of_products;
  return (start + select(is_shared && device_multiprocessors() > 1.0f, of_products + cost.several, alone)) / 3500.0f;
}
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
  SharingCost sharing{1, 2, 0};
  float wasted = 1;  ///< how many times all of it a product costs of which half of a tile is beyond the results
  float packed_alone = 1, moved = 0;  ///< of panels packed before, by one of several threads; a vector for the others
};

/// Where panels of the wide operand are packed: by the task that reads them, or by all threads before.
enum class PanelsPacked : uint8_t { by_task, before };

inline TileCost tile_cost(VectorUnit unit, const CpuTile& tile, bool by_rows, PanelsPacked packed) {
  if (packed == PanelsPacked::before) {
    TileCost whole{512, 265, 0.2f, 7.9f, 1.15f, 12, 0.84f, 0.3f, 2.7f, 1.04f, 66, 0.92f},
        of_256{1130, 388, 0.219f, 8.1f, 0.23f, 8.5f, 0.9f, 0.114f, 0.5f, 0.32f, 0, 0.38f},
        in_halves{813, 134, 0.513f, 61.4f, 0.24f, 7.49f, 0.523f, 0.498f, 8.71f, 0.291f, 14.4f, 0.03f};
    whole.wasted = of_256.wasted = 2;
    in_halves.sharing = {1.2f, 1.2f, 6270};
    in_halves.packed_alone = 2.93f;
    in_halves.moved = 1.5f;
    return cost_on(unit, of_256, whole, in_halves);
  }
  if (by_rows) {
    return cost_on<TileCost>(
        unit, {661, 0, 0.262f, 0, 2, 1.25f, 0.394f, 0, 4.7f, 0, 283, 1.5f},
        {404, 97, 0.255f, 0, 2.3f, 4.1f, 0.49f, 0.135f, 3.9f, 1.7f, 354, 7.1f},
        {473, 58.7f, 0.513f, 20.1f, 1.04f, 5.8f, 0.533f, 0, 3.36f, 0.562f, 144, 0, {1.5f, 1.5f, 1510}});
  }
  if (tile.wide == tile.lanes) {
    return cost_on<TileCost>(
        unit, {},  // no plan of AVX2's
        {531, 21, 0.263f, 15.2f, 0.1f, 5.5f, 0.4f, 0.28f, 0.9f, 0.62f, 235, 5},
        {492, 9.66f, 0.49f, 52.5f, 0.816f, 6.86f, 0.463f, 0, 3.17f, 0.548f, 164, 0, {1.5f, 1.5f, 422}});
  }
  return cost_on<TileCost>(
      unit, {637, 71, 0.21f, 19.8f, 0.475f, 2.23f, 0.495f, 0.13f, 6.5f, 0.76f, 229, 1.5f},
      {424, 93, 0.222f, 33.7f, 0, 4.6f, 0.44f, 0.23f, 2.6f, 0.85f, 264, 2},
      {479, 4.79f, 0.506f, 48.1f, 3.91f, 5.27f, 0.402f, 0, 3.84f, 1.05f, 208, 0, {1.49f, 1.49f, 1420}});
}

/// How the panels of a plan are packed.
struct PanelWork {
  Expr runs;  ///< how many times each is
  PanelsPacked packed;
  Expr by_one;  ///< before, and by one thread
};

// start + products · (product + packed elements + tiles · k · vectors + …)
inline Expr modelled_direct(const ContractionProblem& p, const Expr& wide, const Expr& narrow, const PanelWork& panels,
                            const Expr& wide_is_contiguous, const Expr& narrow_k_stride, const CpuTile& tile,
                            bool by_rows, EpilogueLength epilogue, const Expr& is_shared) {
  return by_vector_unit(tile.lanes, [&](VectorUnit unit) {
    TileCost cost = tile_cost(unit, tile, by_rows, panels.packed);
    if (epilogue == EpilogueLength::long_one && unit == VectorUnit::bits_256) {
      // Its constants take some of the 16 registers that the sums are in. By 63 products with GELU.
      constexpr float kVector = 0.04f, kResult = 4.5f;
      cost.vector += kVector;
      cost.result += kResult;
    }
    const Expr wide_tiles = as_real(rounded_up(wide, tile.wide)),
               narrow_tiles = as_real(rounded_up(narrow, tile.narrow)), k = as_real(p.inner);
    const auto vectors = static_cast<float>(tile.wide / tile.lanes), lanes = static_cast<float>(tile.lanes);
    const Expr of_tile =
        k * (vectors * static_cast<float>(tile.narrow) * cost.vector + cost_of_step(p, narrow_k_stride, cost.strided)) +
        cost.tile;
    Expr packed = wide_tiles * as_real(panels.runs) *
                  (k * vectors * select(wide_is_contiguous, cost.packed, cost.transposed * lanes) + cost.panel);
    if (panels.by_one.defined()) {
      packed = packed * select(is_shared && panels.by_one, cost.packed_alone, 1.0f) +
               select(is_shared, cost.moved * wide_tiles * k * vectors, 0.0f);
    }
    const Expr of_narrow = as_real(narrow) * k;
    const Expr far_narrow =
        cost.far_narrow * far_lines(p, of_narrow) + kLineBeyondCaches * lines_beyond_caches(of_narrow);
    const Expr lines = cost.far * select(wide_is_contiguous, far_lines(p, as_real(wide) * k), 0.0f) +
                       wide_tiles * (select(narrow_k_stride == 1, 0.0f, far_narrow) +
                                     cost.again * lines_again(of_narrow, as_real(narrow / panels.runs) * k));
    const Expr results = results_of(wide, narrow, tile, by_rows);
    const Expr far = by_rows ? Expr(0.0f) : far_results(p, results, tile.lanes, /*hidden_by_term=*/0.15f);
    return select(wide * 2 <= tile.wide, cost.wasted, 1.0f) *
           microseconds_of(
               p, cost.start,
               cost.product + packed + lines + wide_tiles * narrow_tiles * of_tile + cost.result * results + far,
               cost.sharing, is_shared);
  });
}

// start + products · (product + tiles · (k · vectors + tile) + results + vectors of the wide operand that come from
// beyond the second cache)
inline Expr modelled_unpacked(const ContractionProblem& p, const Expr& wide, const Expr& narrow,
                              const Expr& narrow_k_stride, const CpuTile& tile, bool by_rows, const Expr& is_shared) {
  struct Cost {
    float start, product, vector, tile, result, strided, far;
    SharingCost sharing = {};
  };
  const bool is_row = tile.narrow == 1, is_narrow = tile.wide == tile.lanes;
  const auto cost_of = [&](VectorUnit unit) {
    if (by_rows) {
      return cost_on<Cost>(unit, {320, 36, 0.335f, 22, 1.06f, 0, 0.9f}, {571, 23, 0.352f, 28.4f, 1.39f, 0.21f, 10.7f},
                           {409, 43.8f, 0.554f, 16.1f, 0.674f, 0.249f, 5.65f, {1.57f, 1.57f, 1770}});
    }
    if (is_row) {
      return cost_on<Cost>(unit, {450, 54, 0.36f, 6, 0, 0, 1.4f}, {447, 28, 0.545f, 15.9f, 0, 0.26f, 3},
                           {398, 36.2f, 0.89f, 14.2f, 1.57f, 0, 5.26f, {1.85f, 1.85f, 1710}});
    }
    if (is_narrow) {
      return cost_on<Cost>(unit, {396, 86, 0.279f, 2.6f, 0.94f, 0.02f, 2.8f},
                           {380, 114, 0.338f, 7.5f, 0.71f, 0.155f, 4.5f},
                           {423, 42.4f, 0.525f, 4.95f, 3.48f, 0, 5.68f, {1.6f, 1.6f, 3000}});
    }
    return cost_on<Cost>(unit, {429, 51, 0.268f, 7.6f, 0, 0, 1.25f}, {460, 16, 0.252f, 27.6f, 0, 0.234f, 11.7f},
                         {394, 20.9f, 0.459f, 29.8f, 1.81f, 0.0954f, 8.44f, {1.94f, 1.94f, 5610}});
  };
  const auto vectors = static_cast<float>(tile.wide / tile.lanes);
  const float cached = has_long_vectors(tile.lanes) ? 1 << 18 : 1 << 17;  // elements
  const Expr k = as_real(p.inner), wide_tiles = as_real(rounded_up(wide, tile.wide)),
             narrow_tiles = as_real(rounded_up(narrow, tile.narrow));
  const Expr results = results_of(wide, narrow, tile, by_rows);
  constexpr float kFarLine = 8;
  const Expr lines =
      kFarLine * far_lines(p, as_real(wide) * k) +
      kFarLineOfElements * wide_tiles * select(narrow_k_stride == 1, 0.0f, far_lines(p, as_real(narrow) * k));
  const Expr far = select(as_real(wide) * k > cached, wide_tiles * vectors * k, 0.0f);
  // A matrix of more than 4 MB that all tiles of rows read again keeps Zen 4 waiting: 2048 × 2048 by 2048 × 2048 took
  // 1.9 times the best plan's time.
  constexpr float kKept = 1 << 20, kAgainInHalves = 1;
  const Expr again = select(as_real(wide) * k > kKept, wide_tiles * vectors * k * (narrow_tiles - 1.0f), 0.0f);
  const Expr far_rows = by_rows || is_row ? Expr(0.0f) : far_results(p, results, tile.lanes, /*hidden_by_term=*/1.5f);
  return by_vector_unit(tile.lanes, [&](VectorUnit unit) {
    const Cost cost = cost_of(unit);
    const Expr of_tile =
        k * (vectors * static_cast<float>(tile.narrow) * cost.vector + cost_of_step(p, narrow_k_stride, cost.strided)) +
        cost.tile;
    return microseconds_of(p, cost.start,
                           cost.product + wide_tiles * narrow_tiles * of_tile + cost.result * results + far_rows +
                               cost.far * far + lines +
                               (unit == VectorUnit::bits_512_in_halves ? kAgainInHalves * again : Expr(0.0f)),
                           cost.sharing, is_shared);
  });
}

// start + products · (product + tiles · (k + tile)), a tile being a vector of one row; a line of each k of a matrix
// that no second cache holds comes by itself
inline Expr modelled_terms(const ContractionProblem& p, const Expr& wide, const Expr& narrow,
                           const Expr& narrow_k_stride, int lanes, const Expr& is_shared) {
  struct Cost {
    float start, product, vector, tile, strided, far;
    SharingCost sharing = {};
  };
  constexpr float kCached = 1 << 18;  // elements
  const Expr k = as_real(p.inner), tiles = as_real(rounded_up(wide, lanes)) * as_real(narrow);
  const Expr is_far = as_real(p.batches) * as_real(wide) * k > kCached;
  return by_vector_unit(lanes, [&](VectorUnit unit) {
    const Cost cost = cost_on<Cost>(unit, {450, 54, 0.8f, 8, 0, 5}, {447, 28, 0.8f, 8, 0.26f, 10},
                                    {420, 26.1f, 1.18f, 3.93f, 0.0523f, 2.58f, {1.92f, 1.92f, 1240}});
    const Expr of_tile = k * (cost.vector + cost_of_step(p, narrow_k_stride, cost.strided)) +
                         select(is_far, cost.far * k, 0.0f) + cost.tile;
    return microseconds_of(p, cost.start, cost.product + tiles * of_tile, cost.sharing, is_shared);
  });
}

/// Where the short side of dot products lies: along k, or to be packed so.
enum class ShortSide : uint8_t { along_k, packed };

// start + products · (product + the packed operand + tiles · (results · (vectors of k + the sum of their lanes) +
// tile)). An operand of more than 16 MB is packed into memory that the system gives page by page.
inline Expr modelled_dots(const ContractionProblem& p, const Expr& wide, const Expr& few, ShortSide lies,
                          const CpuTile& tile, const Expr& is_shared) {
  struct Cost {
    float start, product, vector, sum_of_lanes, tile, transposed;
    SharingCost sharing = {};
  };
  const auto cost_of = [&](VectorUnit unit) {
    if (tile.narrow == 1) {
      return cost_on<Cost>(unit, {235, 22, 1.13f, 1.7f, 0, 0}, {254, 0, 1.61f, 5, 24.6f, 0},
                           {296, 0, 1.56f, 6.68f, 44.4f, 0, {1.56f, 1.56f, 2550}});
    }
    if (lies == ShortSide::packed) {
      return cost_on<Cost>(unit, {201, 427, 0.343f, 1.44f, 10.8f, 0.63f}, {447, 292, 0.457f, 1.77f, 5.8f, 0.78f},
                           {377, 171, 0.734f, 2.62f, 18.9f, 0.418f, {1.59f, 1.59f, 5820}});
    }
    return cost_on<Cost>(unit, {355, 96, 0.331f, 0.9f, 18, 0}, {655, 24, 0.401f, 1.65f, 0, 0},
                         {480, 44.1f, 0.601f, 1.98f, 5.19f, 0, {1.58f, 1.58f, 1060}});
  };
  const Expr few_tiles = as_real(rounded_up(few, tile.narrow)), vectors = as_real(rounded_up(p.inner, tile.lanes)),
             k = as_real(p.inner);
  const auto results = static_cast<float>(tile.wide * tile.narrow);
  return by_vector_unit(tile.lanes, [&](VectorUnit unit) {
    const Cost cost = cost_of(unit);
    Expr packed = 0.0f;
    if (lies == ShortSide::packed) {
      constexpr float kCached = 1 << 22, kFar = 120;
      packed = few_tiles * static_cast<float>(tile.narrow) *
               (cost.transposed * k + select(as_real(few) * k > kCached, kFar * vectors, 0.0f));
    }
    return microseconds_of(p, cost.start,
                           cost.product + packed +
                               as_real(rounded_up(wide, tile.wide)) * few_tiles *
                                   (results * (vectors * cost.vector + cost.sum_of_lanes) + cost.tile),
                           cost.sharing, is_shared);
  });
}

// start + products · (product + vectors of the right operand · (loading one + its products) + sums of the shares of k +
// steps of the left operand's rows)
inline Expr modelled_stream(const ContractionProblem& p, const Expr& shares, int lanes) {
  struct Cost {
    float start, product, vector, load, share, strided;
  };
  const Expr rows = as_real(p.rows), vectors = as_real(rounded_up(p.columns, lanes));
  return by_vector_unit(lanes, [&](VectorUnit unit) {
    const Cost cost = cost_on<Cost>(unit, {4570, 1170, 0.3f, 1.4f, 5.9f, 0.41f},
                                    {584, 3530, 0.472f, 2.13f, 5.6f, 1.44f}, {1200, 5270, 0.656f, 2.79f, 17.4f, 3.43f});
    return microseconds_of(
        p, cost.start,
        cost.product +
            vectors * (as_real(p.inner) * (cost.load + cost.vector * rows) + cost.share * rows * as_real(shares)) +
            select(p.left.column_stride == 1, 0.0f, cost.strided * as_real(p.inner) * rows));
  });
}

// start + products · (elements loaded + elements stored)
inline Expr modelled_batched(const ContractionProblem& p, int lanes) {
  struct Cost {
    float start, load, result;
  };
  const Expr results = as_real(p.rows) * as_real(p.columns);
  return by_vector_unit(lanes, [&](VectorUnit unit) {
    const Cost cost = cost_on<Cost>(unit, {500, 0.23f, 1.7f}, {500, 0.72f, 1.7f}, {3830, 0.324f, 0.414f});
    return microseconds_of(p, cost.start, results * (2 * cost.load * as_real(p.inner) + cost.result));
  });
}

// start + products · (both operands packed + tiles · (k · vectors + what a chunk of k costs besides))
inline Expr modelled_packed(const ContractionProblem& p, const CpuTile& tile, int depth) {
  struct Cost {
    float start, product, vector, chunk, right_vector, right, left, left_strided;
  };
  const auto vectors = static_cast<float>(tile.wide / tile.lanes * tile.narrow);
  const Expr tiles = as_real(rounded_up(p.columns, tile.wide)) * as_real(rounded_up(p.rows, tile.narrow)),
             k = as_real(p.inner), columns = as_real(p.columns);
  return by_vector_unit(tile.lanes, [&](VectorUnit unit) {
    const Cost cost = cost_on<Cost>(unit, {2140, 468, 0.224f, 58, 7, 0.94f, 0.436f, 0.436f},
                                    {1130, 398, 0.263f, 116, 10.2f, 1.06f, 0.33f, 0.33f},
                                    {1040, 470, 0.568f, 213, 18.6f, 1.08f, 0.542f, 1.31f});
    const Expr right = select(p.right.column_stride == 1,
                              cost.right_vector * as_real(rounded_up(p.columns, tile.lanes)), cost.right * columns);
    const Expr left = k * as_real(p.rows) * select(p.left.column_stride == 1, cost.left, cost.left_strided);
    return microseconds_of(p, cost.start,
                           cost.product +
                               tiles * (k * vectors * cost.vector + cost.chunk * as_real(rounded_up(p.inner, depth))) +
                               k * right + left);
  });
}

}  // namespace detail

}  // namespace ashlar::dsl
