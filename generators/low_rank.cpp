// A matrix moved by a product of few terms, such as a correction of low rank.
#include "schedules/contraction_plans.h"

namespace ashlar::dsl {

// y[b,m,n] = x[b,m,n] + share Σ_k a[b,m,k] b[b,k,n]
template <ElementType T>
class LowRankUpdate : public Kernel<LowRankUpdate<T>> {
 public:
  In<T, 3> x{"x"};
  In<T, 3> a{"a", strided}, b{"b", strided};
  In<T, 0> share{"share"};
  Out<T, 3> y{"y", shape_of(x)};

  LowRankUpdate() { this->formula("y[b,m,n] = x[b,m,n] + share Σ_k a[b,m,k] b[b,k,n]").internal(); }
  void algorithm() {
    Halide::Func moved("moved"), factor("factor");
    moved(n, m, batch) = x(batch, m, n).expr();
    factor(n, m, batch) = share().expr();
    product.define(plans(contraction_problem(a, b, y, batch, m, n), {moved, factor}));
    product.write(y, batch, m, n, [&](const Value& sum, const Value& at, const Value& row, const Value& column) {
      const std::vector<Expr> place{column.expr(), row.expr(), at.expr()};
      return Value(moved(place)) + Value(factor(place)) * sum;
    });
  }
  void schedule(auto) { product.schedule(y.func()); }

 private:
  // Sums of few terms: on CUDA all that a block needs, `beside` its sums too, is on its way before the first turn.
  static std::vector<ContractionPlan> plans(const ContractionProblem& problem,
                                            const std::vector<Halide::Func>& beside) {
    const WorkgroupTile workgroup{
        .columns = 64, .rows = 64, .thread_columns = 4, .thread_rows = 8, .depth = 32, .unroll = 16};
    if (Descriptor::target.has_feature(Halide::Target::OpenCL)) {
      return contraction_plans(OpenCL{}, problem, workgroup);
    }
    if (!Descriptor::target.has_feature(Halide::Target::CUDA)) {
      std::vector<ContractionPlan> all =
          contraction_plans(Cpu{}, problem, {.micro_rows = 6, .depth = 512}, EpilogueLength::short_one,
                            /*is_f32=*/true);
      std::erase_if(all, [](const ContractionPlan& plan) { return plan.name == "one_row"; });  // corrections have many
      return all;
    }
    const PipelinedTile tile{.lane_rows = 4,
                             .lane_columns = 4,
                             .lanes_n = 8,
                             .warps_m = 2,
                             .warps_n = 1,
                             .depth = 16,
                             .stages = 3,
                             .order = PipelinedOrder::quads,
                             .lead = 2};
    const QuadLoads can = quad_loads(problem);
    const Expr along_k = can.left_along_k && problem.right.column_stride != 1 && can.right_along_k;
    // Without a guard around each element of x they are all on their way before the first is needed.
    const Expr is_whole =
        problem.rows >= tile.rows() && problem.columns >= tile.columns() && problem.inner % tile.stage_depth() == 0;
    const PipelinedAccess whole{
        .whole_stages = true, .whole_tiles = true, .left_along_k = true, .right_along_k = true, .loaded_ahead = beside};
    return {pipelined_plan(problem, tile, whole, "whole", {along_k && is_whole}),
            pipelined_plan(problem, tile, {.left_along_k = true, .right_along_k = true}, "along_k", {along_k}),
            pipelined_plan(problem, tile, {}, "any", {})};
  }
  Contraction product;
  Var batch{"batch"}, m{"m"}, n{"n"};
};

namespace {
const bool registered = register_kernel<LowRankUpdate, f32>("low_rank_update");
}  // namespace

}  // namespace ashlar::dsl
