// A reduction over contiguous elements in vector lanes, for the CPU.
#pragma once

#include "dsl/kernel.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {

//   main[v]  = value(v) + value(v + L) + …     L lanes: four vectors, so that latencies overlap; of a sum, blocks of
//                                             1024 steps are summed each by itself first. Of states with a merge, a
//                                             step takes a tree of four elements a lane, on two vectors: what the
//                                             merge of single elements divides by is a constant
//   rest[w]  = Σ main, a vector, and the last elements, fewer than a step's, masked so that nothing is read outside
//   total    = Σ rest, by halves of the vector
class VectorReduction {
 public:
  /// `value`: how the stage's value at k is come by where it isn't worked out again, a function of k.
  VectorReduction(const ReductionStage& stage, const std::vector<Var>& index, const Rewrite& rewrite,
                  const std::function<Expr(const Expr&)>& value = {});
  Halide::Func total() const { return total_; }
  /// The stage that reads nearly all of a row.
  Halide::Func main() const { return block_.defined() ? block_ : main_; }
  void compute_at(const Halide::LoopLevel& level);

 private:
  static constexpr int kSteps = 1024;
  Halide::Func main_, block_, rest_, total_;
  std::vector<Halide::Func> halves_;  ///< of a vector joined
  Halide::RDom each_block_, within_, elements_;
  Var lane_{"lane"}, block_number_{"block"};
  int vector_, width_, together_;  ///< lanes of a vector and of main; elements of each in a step
};

}  // namespace ashlar::dsl
