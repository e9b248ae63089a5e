// A reduction over contiguous elements in vector lanes, for the CPU.
#pragma once

#include "dsl/kernel.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {

//   main[v]  = value(v) + value(v + L) + …     L lanes: four vectors, so that latencies overlap
//   rest[w]  = the last extent mod L elements, a vector at a time, clamped and masked so that nothing is read outside
//   total    = Σ main + Σ rest
class VectorReduction {
 public:
  /// `value`: how the stage's value at k is come by where it isn't worked out again, a function of k.
  VectorReduction(const ReductionStage& stage, const std::vector<Var>& index, const Rewrite& rewrite,
                  const std::function<Expr(const Expr&)>& value = {});
  Halide::Func total() const { return total_; }
  /// The stage that reads nearly all of a row.
  Halide::Func main() const { return main_; }
  void compute_at(const Halide::LoopLevel& level);

 private:
  Halide::Func main_, rest_, lanes_, total_;
  Var lane_{"lane"};
  int vector_, width_;
};

}  // namespace ashlar::dsl
