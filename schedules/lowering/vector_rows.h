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
  VectorReduction(const ReductionStage& stage, const std::vector<Var>& index, const Rewrite& rewrite);
  Halide::Func total() const { return total_; }
  void compute_at(const Halide::LoopLevel& level);

 private:
  Halide::Func main_, rest_, lanes_, total_;
  Var lane_{"lane"};
  int vector_, width_;
};

}  // namespace ashlar::dsl
