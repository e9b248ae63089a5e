// Attention on the CPU, where a tile of 32 queries keeps what it makes of all keys that it sees: scores lie in memory,
// 128 bytes for each key, with queries along vectors. So maxima, sums and exponentials are of whole vectors, keys are
// read as they lie, and nothing is worked out twice.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// How stages of such kernels are scheduled. Products are worked out in micro-tiles of two vectors by so many rows,
/// which registers hold.
struct AttentionOnCpu {
  static constexpr int kQueries = 32;  ///< of a tile
  /// Place along a row, query i of tile u, key, head, batch.
  Var c{"c"}, i{"i"}, k{"k"}, u{"u"}, h{"h"}, b{"b"};

  static int lanes() { return Descriptor::target.natural_vector_size<float>(); }
  static int width() { return 2 * lanes(); }  ///< of a micro-tile
  static int rows() { return Descriptor::target.has_feature(Halide::Target::AVX512_Skylake) ? 8 : 4; }

  /// Rows of a tensor, padded to whole micro-tiles.
  void padded(Halide::Func f, const Halide::LoopLevel& level) const {
    f.compute_at(level).align_bounds(c, width()).vectorize(c, lanes());
  }
  /// Something of each query of a tile.
  void of_queries(Halide::Func f, const Halide::LoopLevel& level) const {
    f.compute_at(level).bound(i, 0, kQueries).bound_extent(u, 1).vectorize(i, lanes());
  }
  /// A reduction over keys.
  void over_keys(Halide::Func f, const Halide::LoopLevel& level) const {
    of_queries(f, level);
    f.store_in(Halide::MemoryType::Stack).update().reorder(i, f.rvars()[0]).vectorize(i, lanes()).unroll(i);
  }
  /// What is made of the products `sums`, a value for each query and key.
  void of_products(Halide::Func f, const Halide::Func& sums, const Halide::LoopLevel& level) const {
    Var keys("keys"), one("one"), pair("pair");
    f.compute_at(level).bound(i, 0, kQueries).bound_extent(u, 1).align_bounds(k, rows());
    f.split(k, keys, one, rows()).split(i, pair, i, width()).reorder(i, one, pair, keys);
    f.vectorize(i, lanes()).unroll(i).unroll(one);
    micro_tile(sums, i, k, Halide::LoopLevel(f, pair));
  }
  /// The same as an update over keys in blocks of a micro-tile's rows: key y rows() + x.
  void of_products(Halide::Func f, const Halide::RDom& block, const Halide::Func& sums,
                   const Halide::LoopLevel& level) const {
    Var pair("pair");
    f.compute_at(level).bound(i, 0, kQueries).bound_extent(u, 1);
    f.update().split(i, pair, i, width()).reorder(i, block.x, pair, block.y);
    f.update().vectorize(i, lanes()).unroll(i).unroll(block.x);
    micro_tile(sums, i, k, Halide::LoopLevel(f, pair));
  }
  /// sums(along, across, …) += …, a micro-tile of them.
  void micro_tile(Halide::Func sums, const Var& along, const Var& across, const Halide::LoopLevel& level) const {
    sums.compute_at(level).store_in(Halide::MemoryType::Stack).bound_extent(u, 1);
    sums.bound_extent(along, width()).bound_extent(across, rows());
    sums.vectorize(along, lanes()).unroll(along).unroll(across);
    sums.update().reorder(along, across, sums.rvars()[0]).vectorize(along, lanes()).unroll(along).unroll(across);
  }
};

}  // namespace ashlar::dsl
