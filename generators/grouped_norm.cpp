// Normalisation by groups on the CPU, in one pass over memory: what a group has is read again out of a cache. For
// batch_norm a group is a channel of all images, for group_norm some channels of one (operators/norm_passes.cpp).
#include <vector>

#include "dsl/kernel.h"
#include "schedules/lowering/beside.h"
#include "schedules/lowering/tasks.h"

namespace ashlar::dsl {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::LoopLevel;
using Halide::RDom;

/// Group r of o has the lines j, each of `places` elements that lie side by side.
struct GroupIndex {
  Var s{"s"}, r{"r"}, j{"j"}, o{"o"};
  std::vector<Expr> line() const { return {j, r, o}; }
  std::vector<Expr> group() const { return {r, o}; }
};

// sums(v, at) = Σ_q value(q W + v, at) of vectors of W, the last of which overlaps the one before: what came there
// already is left out. Then, halving vectors, total(at) = Σ_v sums(v, at). A line has W places at least.
class LineSum {
 public:
  static constexpr int kWide = 32;  // several vectors, whose latencies overlap
  using Value = std::function<Expr(const Expr& place)>;

  LineSum(const std::string& name, const Expr& places, const std::vector<Expr>& at, const Value& value)
      : vectors_(name), whole_(0, places / kWide, name + "_whole"), rest_(0, Halide::min(places % kWide, 1), "rest") {
    std::vector<Expr> index = at;
    index.insert(index.begin(), lane_);
    const auto inside = [&](const Expr& place) { return value(Halide::unsafe_promise_clamped(place, 0, places - 1)); };
    vectors_(index) = 0.0f;
    vectors_(index) += inside(whole_ * kWide + lane_);
    vectors_(index) += Halide::select(lane_ < kWide - places % kWide, 0.0f, inside(places - kWide + rest_ + lane_));
  }
  const Func& vectors() const { return vectors_; }
  const Var& lane() const { return lane_; }
  void compute_at(const LoopLevel& level) {
    vectors_.compute_at(level).store_in(Halide::MemoryType::Stack).bound(lane_, 0, kWide).vectorize(lane_, lanes());
    vectors_.unroll(lane_);
    for (int i = 0; i < 2; i++) {
      vectors_.update(i).reorder(lane_, i == 0 ? whole_.x : rest_.x).vectorize(lane_, lanes()).unroll(lane_);
    }
  }
  static int lanes() { return std::min(kWide, Descriptor::target.natural_vector_size<float>()); }

 private:
  Func vectors_;
  Var lane_{"lane"};
  RDom whole_, rest_;
};

// total(at) = Σ_v vectors(v, at), halves of it joined
class AcrossLanes {
 public:
  AcrossLanes(const std::string& name, const Func& vectors, const std::vector<Expr>& at) {
    Func last = vectors;
    const auto of = [&](const Func& f, const Expr& lane) {
      std::vector<Expr> index = at;
      index.insert(index.begin(), lane);
      return Expr(f(index));
    };
    for (int lanes = LineSum::kWide / 2; lanes > 1; lanes /= 2) {
      Func half(name + "_" + std::to_string(lanes));
      std::vector<Expr> index = at;
      index.insert(index.begin(), lane_);
      half(index) = of(last, lane_) + of(last, lane_ + lanes);
      halves_.push_back(half);
      last = half;
    }
    sum = of(last, 0) + of(last, 1);
    pair = last;
  }
  void compute_at(const LoopLevel& level) {
    for (size_t i = 0; i < halves_.size(); i++) {
      halves_[i].compute_at(level).store_in(Halide::MemoryType::Stack);
      halves_[i].bound(lane_, 0, LineSum::kWide >> (i + 1)).vectorize(lane_);
    }
  }
  Expr sum;
  Func pair;  ///< the last two numbers

 private:
  Var lane_{"lane"};
  std::vector<Func> halves_;
};

// The loops of `out`[o,j,r,s]: a task has some groups of an o. Returns the loop over groups.
Var over_groups(Func out, const GroupIndex& at) {
  const std::vector<Var> index = out.args();  // s, r, j, o
  const Halide::OutputImageParam buffer = out.output_buffer();
  Var task("task"), group("group");
  const Expr of_group = Halide::max(1, buffer.dim(0).extent() * buffer.dim(2).extent());
  const Expr all = of_group * buffer.dim(1).extent() * buffer.dim(3).extent();
  out.split(at.r, task, group, Halide::max(1, elements_per_task(all) / of_group), Halide::TailStrategy::GuardWithIf)
      .reorder(at.s, at.j, group, task, at.o)
      .vectorize(at.s, Descriptor::target.natural_vector_size<float>(), Halide::TailStrategy::GuardWithIf)
      .parallel(task)
      .parallel(at.o);
  return group;
}

}  // namespace

// y[o,j,r,s] = (x - mean[o,r]) rstd[o,r] weight[o,j,r] + bias[o,j,r], of the mean and variance over j and s of
// x[o,j,r,s]; rstd = 1 / √(variance + eps). `variance` has `correction` taken off the count. Each j has a group's
// numbers.
template <ElementType T>
class NormOfGroups : public Kernel<NormOfGroups<T>> {
 public:
  static constexpr bool on_cpu_alone = true;
  In<T, 4> x{"x"};
  In<f32, 3> weight{"weight", {x.size(0), x.size(1), x.size(2)}, strided};
  In<f32, 3> bias{"bias", {x.size(0), x.size(1), x.size(2)}, strided};
  Scalar<float> eps{"eps"}, correction{"correction"};
  Scalar<int32_t> has_weight{"has_weight"}, has_bias{"has_bias"};
  Out<T, 4> y{"y", shape_of(x)};
  Out<f32, 3> mean{"mean", {x.size(0), x.size(1), x.size(2)}}, rstd{"rstd", {x.size(0), x.size(1), x.size(2)}},
      variance{"variance", {x.size(0), x.size(1), x.size(2)}};

  NormOfGroups() {
    this->formula("y[o,j,r,s] = (x - mean[o,r]) rstd[o,r] weight[o,j,r] + bias[o,j,r], rstd = 1 / √(variance + eps)")
        .internal();
  }
  void algorithm() {
    const auto& [s, r, j, o] = at;
    const Expr places = x.extent(3), lines = x.extent(1), n = Halide::cast<float>(lines * places);
    const auto mean_of = [&](const std::string& name, Func result, std::optional<LineSum>& of_line, RDom& line,
                             Func sums, const std::function<Expr(const Expr&)>& value) {
      of_line.emplace(name + "_line", places, at.line(),
                      [&](const Expr& place) { return value(x(Value(o), Value(j), Value(r), Value(place)).expr()); });
      line = RDom(0, lines, name + "_j");
      sums(lane, r, o) = 0.0f;
      sums(lane, r, o) += of_line->vectors()(lane, line, r, o);
      joined.emplace_back(name, sums, at.group());
      result(r, o) = joined.back().sum / n;
    };
    joined.reserve(2);
    mean_of("average", average, average_line, average_lines, average_sums, [](const Expr& value) { return value; });
    mean_of("spread", spread, spread_line, spread_lines, spread_sums, [&](const Expr& value) {
      const Expr distance = value - average(r, o);
      return distance * distance;
    });
    scale(r, o) = rsqrt(Value(Expr(spread(r, o))) + eps).expr();
    const Value z = (x(o, j, r, s) - Value(Expr(average(r, o)))) * Value(Expr(scale(r, o)));
    y(o, j, r, s) =
        z * select(Value(has_weight) != 0, weight(o, j, r), 1.0f) + select(Value(has_bias) != 0, bias(o, j, r), 0.0f);
    // An infinity leaves no mean, as in the kernels that merge moments of parts: the squares are NaN.
    const Value squares = Value(Expr(spread(r, o)));
    mean(o, j, r) = select(squares >= 0, Value(Expr(average(r, o))), squares);
    rstd(o, j, r) = Value(Expr(scale(r, o)));
    variance(o, j, r) = Value(Expr(spread(r, o)) * n) / max(Value(n) - Value(correction), 0.0f);
  }
  void schedule(Cpu) {
    const std::vector<Func> beside{mean.func(), rstd.func(), variance.func()};
    compute_rows_beside(y.func(), beside);
    const LoopLevel each_group(y.func(), over_groups(y.func(), at));
    store_beside(beside);
    for (Func f : {average, spread, scale}) f.compute_at(each_group).store_in(Halide::MemoryType::Stack);
    for (AcrossLanes& one : joined) one.compute_at(each_group);
    const auto add_lines = [&](Func sums, LineSum& line, const RDom& lines) {
      sums.compute_at(each_group).store_in(Halide::MemoryType::Stack).bound(lane, 0, LineSum::kWide);
      sums.vectorize(lane, LineSum::lanes()).unroll(lane);
      sums.update().reorder(lane, lines.x).vectorize(lane, LineSum::lanes()).unroll(lane);
      line.compute_at({sums, lines.x});
    };
    add_lines(average_sums, *average_line, average_lines);
    add_lines(spread_sums, *spread_line, spread_lines);
  }

 private:
  GroupIndex at;
  Var lane{"lane"};
  std::optional<LineSum> average_line, spread_line;
  RDom average_lines, spread_lines;
  Func average_sums{"average_sums"}, spread_sums{"spread_sums"}, average{"average"}, spread{"spread"}, scale{"scale"};
  std::vector<AcrossLanes> joined;
};

// dx = rstd (dy weight - Σ dy weight / n - z Σ dy weight z / n), z = (x - mean) rstd, sums over j and s, left out where
// the mean is a constant; and of each line, for the weight's gradient, dot = Σ_s dy z and slope = Σ_s dy.
template <ElementType T>
class NormOfGroupsGradient : public Kernel<NormOfGroupsGradient<T>> {
 public:
  static constexpr bool on_cpu_alone = true;
  In<T, 4> dy{"dy"}, x{"x", shape_of(dy)};
  In<f32, 2> mean{"mean", {dy.size(0), dy.size(2)}}, rstd{"rstd", {dy.size(0), dy.size(2)}};
  In<f32, 3> weight{"weight", {dy.size(0), dy.size(1), dy.size(2)}, strided};
  Scalar<int32_t> has_weight{"has_weight"}, is_constant{"is_constant"};
  Out<T, 4> dx{"dx", shape_of(dy)};
  Out<f32, 3> dot{"dot", {dy.size(0), dy.size(1), dy.size(2)}}, slope{"slope", {dy.size(0), dy.size(1), dy.size(2)}};

  NormOfGroupsGradient() {
    this->formula("dx = rstd (dy weight - Σ dy weight / n - z Σ dy weight z / n), Σ_s dy z, Σ_s dy").internal();
  }
  void algorithm() {
    const auto& [s, r, j, o] = at;
    const Expr places = dy.extent(3), lines = dy.extent(1), n = Halide::cast<float>(lines * places);
    const auto dy_at = [&](const Expr& place) { return dy(Value(o), Value(j), Value(r), Value(place)).expr(); };
    const auto z_at = [&](const Expr& place) {
      return (x(Value(o), Value(j), Value(r), Value(place)).expr() - mean(o, r).expr()) * rstd(o, r).expr();
    };
    slope_line.emplace("slope_line", places, at.line(), dy_at);
    dot_line.emplace("dot_line", places, at.line(), [&](const Expr& place) { return dy_at(place) * z_at(place); });
    joined.reserve(2);
    joined.emplace_back("slope_lanes", slope_line->vectors(), at.line());
    joined.emplace_back("dot_lanes", dot_line->vectors(), at.line());
    // An update, which other outputs read: they would write out a plain formula.
    const RDom half(0, 2, "half");
    of_line(j, r, o) = Halide::Tuple(0.0f, 0.0f);
    of_line(j, r, o) = Halide::Tuple(of_line(j, r, o)[0] + joined[0].pair(half, j, r, o),
                                     of_line(j, r, o)[1] + joined[1].pair(half, j, r, o));
    const auto weight_at = [&](const Expr& line) {
      return Halide::select(Value(has_weight).expr() != 0, weight(Value(o), Value(line), Value(r)).expr(), 1.0f);
    };
    line = RDom(0, lines, "line");
    totals(r, o) = Halide::Tuple(0.0f, 0.0f);
    totals(r, o) = Halide::Tuple(totals(r, o)[0] + weight_at(line) * of_line(line, r, o)[0],
                                 totals(r, o)[1] + weight_at(line) * of_line(line, r, o)[1]);
    const Expr share = Halide::select(Value(is_constant).expr() != 0, 0.0f, 1.0f / n);
    const Expr of_slope = totals(r, o)[0] * share, of_dot = totals(r, o)[1] * share;
    dx(o, j, r, s) = rstd(o, r) * Value(dy_at(s) * weight_at(j) - of_slope - z_at(s) * of_dot);
    slope(o, j, r) = Value(Expr(of_line(j, r, o)[0]));
    dot(o, j, r) = Value(Expr(of_line(j, r, o)[1]));
  }
  void schedule(Cpu) {
    const std::vector<Func> beside{dot.func(), slope.func()};
    compute_rows_beside(dx.func(), beside);
    const LoopLevel each_group(dx.func(), over_groups(dx.func(), at));
    store_beside(beside);
    totals.compute_at(each_group).store_in(Halide::MemoryType::Stack);
    of_line.compute_at(each_group).update().reorder(of_line.rvars()[0], at.j).unroll(of_line.rvars()[0]);
    const LoopLevel each_line(of_line, at.j);
    for (AcrossLanes& one : joined) one.compute_at(each_line);
    slope_line->compute_at(each_line);
    dot_line->compute_at(each_line);
  }

 private:
  GroupIndex at;
  std::optional<LineSum> slope_line, dot_line;
  std::vector<AcrossLanes> joined;
  Func of_line{"of_line"}, totals{"totals"};
  RDom line;
};

const bool registered = register_kernel<NormOfGroups, f32>("norm_of_groups") &&
                        register_kernel<NormOfGroupsGradient, f32>("norm_of_groups_grad");

}  // namespace ashlar::dsl
