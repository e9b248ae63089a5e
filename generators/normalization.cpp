// batch_norm, group_norm and instance_norm: compositions (operators/normalization.cpp) of two reductions and a fused
// element-wise kernel each way. The three differ only in which elements share a mean, so what they have in common are
// passes over memory: one for mean and variance and one for the result; backward likewise.
#include "dsl/operator.h"
#include "runtime/launch/access.h"
#include "schedules/broadcast.h"
#include "schedules/elementwise.h"
#include "schedules/reduction_kernel.h"

namespace ashlar::dsl {

// Two states {n, mean, Σ (x - mean)²} together: Chan, Golub & LeVeque (1983).
Values merged_moments(const Values& a, const Values& b) {
  const Value n = a[0] + b[0], distance = b[1] - a[1];
  const Value share = b[0] / select(n > 0, n, 1);
  return {n, a[1] + distance * share, a[2] + b[2] + distance * distance * (a[0] * share)};
}

// {count, mean, squares}[o,p,i] of x[o,k,i] over part p
template <ElementType T>
class MomentsOfParts : public ReductionKernel<MomentsOfParts<T>, T> {
 public:
  OutTuple<3, f32, f32, f32> y{"y", {{{"count"}, {"mean"}, {"squares"}}}, {this->x.size(0), any_size, this->x.size(2)}};

  MomentsOfParts() {
    this->formula("count, mean and Σ (x - mean)² of x[o,k,i], k in part p").form(Form::movement).internal();
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    const auto [o, p, i] = std::tie(this->outer, this->part, this->inner);
    const auto step = [](const Values& state, const Values& x) { return merged_moments(state, {1.0, x[0], 0.0}); };
    this->total(o, p, i) =
        reduce(k, {this->element(k)}, {.init = {0.0f, 0.0f, 0.0f}, .step = step, .merge = merged_moments});
    const Values state = this->total(o, p, i);
    y.define({o, p, i}, {state[0], state[1], state[2]});
  }
};

// What all parts come to: mean, rstd = 1 / √(variance + eps), and the variance with `correction` taken off the count
template <ElementType T>
class MomentsOfAll : public Kernel<MomentsOfAll<T>> {
 public:
  In<T, 3> count{"count", strided}, means{"means", strided}, squares{"squares", strided};
  Scalar<int32_t> chunk{"chunk"};
  Scalar<float> eps{"eps"}, correction{"correction"};
  ReductionTunables tunables;
  OutTuple<3, f32, f32, f32> y{"y", {{{"mean"}, {"rstd"}, {"variance"}}}, {count.size(0), any_size, count.size(2)}};

  MomentsOfAll() {
    this->formula("mean, 1 / √(variance + eps) and variance of all parts").form(Form::movement).internal();
  }
  void algorithm() {
    axis.emplace(Expr(Value(chunk)), "k");
    axis->where(Value(part) * chunk + *axis < Value(count.extent(1)));
    const Expr k = Halide::unsafe_promise_clamped(Expr(Value(part) * chunk + *axis), 0, count.extent(1) - 1);
    total(outer, part, inner) =
        reduce(*axis, {count(outer, k, inner), means(outer, k, inner), squares(outer, k, inner)},
               {.init = {0.0f, 0.0f, 0.0f}, .step = merged_moments, .merge = merged_moments});
    const Values state = total(outer, part, inner);
    // An infinity leaves an infinite or no mean, and the variance is none: mean - mean is NaN then, else 0.
    const Value none = sum_as_written(state[1], -state[1]);
    const Value biased = state[2] / state[0] + none;
    y.define({outer, part, inner},
             {state[1], rsqrt(biased + eps), state[2] / max(state[0] - Value(correction), 0.0f) + none});
  }
  void schedule(auto target) { reduction(target, {total, axis->rvar(), y.func(), outer, part, inner, tunables}); }

 private:
  std::optional<Axis> axis;
  Stage total{"total"};
  Var outer{"outer"}, part{"part"}, inner{"inner"};
};

// {slope, dot}[o,p,i] = Σ_k {dy, dy (x - mean) rstd}[o,k,i] over part p, mean and rstd of [o mod their number,·,i]
template <ElementType T>
class NormSums : public Kernel<NormSums<T>> {
 public:
  In<T, 3> dy{"dy", strided}, x{"x", {dy.size(0), dy.size(1), dy.size(2)}, strided};
  In<f32, 3> mean{"mean", {any_size, constant(1), dy.size(2)}};
  In<f32, 3> rstd{"rstd", {mean.size(0), constant(1), dy.size(2)}};
  Scalar<int32_t> chunk{"chunk"};
  ReductionTunables tunables;
  OutTuple<3, f32, f32> y{"y", {{{"slope"}, {"dot"}}}, {dy.size(0), any_size, dy.size(2)}};

  NormSums() {
    this->formula("Σ_k dy[o,k,i] and Σ_k dy[o,k,i] (x[o,k,i] - mean) rstd").form(Form::movement).internal();
  }
  void algorithm() {
    axis.emplace(Expr(Value(chunk)), "k");
    axis->where(Value(part) * chunk + *axis < Value(dy.extent(1)));
    const Expr k = Halide::unsafe_promise_clamped(Expr(Value(part) * chunk + *axis), 0, dy.extent(1) - 1);
    const Expr row = Halide::unsafe_promise_clamped(outer % mean.extent(0), 0, mean.extent(0) - 1);
    const Value g = dy(outer, k, inner), z = (x(outer, k, inner) - mean(row, 0, inner)) * rstd(row, 0, inner);
    const auto plus = [](const Values& a, const Values& b) { return Values{a[0] + b[0], a[1] + b[1]}; };
    total(outer, part, inner) = reduce(*axis, {g, g * z}, {.init = {0.0f, 0.0f}, .step = plus, .merge = plus});
    const Values state = total(outer, part, inner);
    y.define({outer, part, inner}, {state[0], state[1]});
  }
  void schedule(auto target) { reduction(target, {total, axis->rvar(), y.func(), outer, part, inner, tunables}); }

 private:
  std::optional<Axis> axis;
  Stage total{"total"};
  Var outer{"outer"}, part{"part"}, inner{"inner"};
};

// What a normalised element is made of.
struct NormTerms {
  Value x, mean, rstd, weight, bias;
};

// y = (x - mean) rstd weight + bias; an absent weight is 1 and an absent bias 0
Value normalised(const NormTerms& of, const Value& has_weight, const Value& has_bias) {
  const Value z = (of.x - of.mean) * of.rstd;
  return z * select(has_weight != 0, of.weight, 1.0f) + select(has_bias != 0, of.bias, 0.0f);
}

// The same, broadcasting
template <ElementType T>
class NormOfElements : public Kernel<NormOfElements<T>> {
 public:
  In<T, 4> x{"x", strided};
  In<f32, 4> mean{"mean", strided}, rstd{"rstd", strided}, weight{"weight", strided}, bias{"bias", strided};
  Scalar<int32_t> has_weight{"has_weight"}, has_bias{"has_bias"};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  NormOfElements() {
    this->formula("y = (x - mean) rstd weight + bias, broadcasting").form(Form::broadcast).internal();
  }
  void algorithm() {
    y(p, q, r, s) =
        normalised({x(p, q, r, s), mean(p, q, r, s), rstd(p, q, r, s), weight(p, q, r, s), bias(p, q, r, s)},
                   has_weight, has_bias);
  }
  void schedule(auto target) { broadcast(target, y.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

// Where a tensor of rows, one after the other, is taken by vectors that go from one row into the next (none over two
// ends): the row's number is divided out once for a vector, and its elements choose between two rows' numbers.
class RowOfElement {
 public:
  // The i-th element, in vectors as long as f32's, which statistics are; a row is a channel of an image, and has the
  // statistics of its channel (`channels_of_group` 0) or of its group of channels of the image.
  RowOfElement(const Var& i, const Expr& space, const Expr& channels, const Expr& channels_of_group) {
    constexpr int vector = elements_of_access(sizeof(float));
    // Unsigned, since nothing is negative: signed quotients take twice the instructions.
    const auto number = [](const Expr& of) { return Halide::cast<uint32_t>(of); };
    const auto index = [](const Expr& of) { return Halide::cast<int32_t>(of); };
    const Expr begin = number(i / vector * vector), row = begin / number(space), channel = row % number(channels);
    const Expr next = Halide::select(channel + 1 == number(channels), number(0), channel + 1);
    const Expr in_group = number(Halide::max(channels_of_group, 1)), group = row / in_group;
    const Expr next_group = group + number(row + 1 == (group + 1) * in_group);
    const Expr by_channel = channels_of_group == 0;
    channel_ = {index(channel), index(next)};
    statistic_ = {index(Halide::select(by_channel, channel, group)),
                  index(Halide::select(by_channel, next, next_group))};
    is_of_first_ = i % vector < space - index(begin - row * number(space));
  }
  template <class Input>
  Value of_channel(const Input& values) const {
    return chosen(values, channel_);
  }
  template <class Input>
  Value statistic(const Input& values) const {
    return chosen(values, statistic_);
  }

 private:
  // Behind the last row there is none, and nothing that is used.
  template <class Input>
  Value chosen(const Input& values, const std::array<Expr, 2>& index) const {
    const auto at = [&](const Expr& place) {
      return values(Value(Halide::min(Halide::max(place, 0), values.extent(0) - 1)));
    };
    return select(Value(is_of_first_), at(index[0]), at(index[1]));
  }
  std::array<Expr, 2> channel_, statistic_;
  Expr is_of_first_;
};

// NormOfElements of rows of `space` elements, which no vector divides
template <ElementType T>
class NormOfRuns : public Kernel<NormOfRuns<T>> {
 public:
  static constexpr bool on_gpus_alone = true;
  In<T, 1> x{"x"};
  In<f32, 1> mean{"mean"}, rstd{"rstd", shape_of(mean)}, weight{"weight"}, bias{"bias"};
  Scalar<int32_t> space{"space"}, channels{"channels"}, channels_of_group{"channels_of_group"};
  Scalar<int32_t> has_weight{"has_weight"}, has_bias{"has_bias"};
  Out<T, 1> y{"y", shape_of(x)};

  NormOfRuns() {
    this->formula("y = (x - mean) rstd weight + bias, of rows one after the other").form(Form::movement).internal();
  }
  void algorithm() {
    const RowOfElement at(i, Value(space), Value(channels), Value(channels_of_group));
    y(i) = normalised({x(i), at.statistic(mean), at.statistic(rstd), at.of_channel(weight), at.of_channel(bias)},
                      has_weight, has_bias);
  }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

// running += momentum (the batch's - running), of mean and variance, in place
template <ElementType T>
class RunningMoments : public Kernel<RunningMoments<T>> {
 public:
  In<T, 1> mean{"mean"}, variance{"variance", shape_of(mean)};
  In<T, 1> to_mean{"to_mean", shape_of(mean)}, to_variance{"to_variance", shape_of(mean)};
  Scalar<float> momentum{"momentum"};
  OutTuple<1, T, T> moved{"moved", {{{"new_mean", "mean"}, {"new_variance", "variance"}}}, shape_of(mean)};

  RunningMoments() { this->formula("running += momentum (batch's - running), of mean and variance").internal(); }
  void algorithm() {
    const auto step = [&](const Value& running, const Value& to) { return running + momentum * (to - running); };
    moved.define({i}, {step(mean(i), to_mean(i)), step(variance(i), to_variance(i))});
  }
  void schedule(auto target) { elementwise(target, moved.func(), i); }

 private:
  Var i{"i"};
};

// What the gradient of an element is made of.
struct NormGradientTerms {
  Value dy, x, mean, rstd, weight, slope, dot;
};

// dx = rstd (dy weight - share (slope + z dot)), z = (x - mean) rstd; an absent weight is 1. Where slope and dot are
// sums of dy alone they are taken weight times: all that they add up has one.
Value norm_gradient(const NormGradientTerms& of, const Value& has_weight, const Value& of_dy, const Value& share) {
  const Value z = (of.x - of.mean) * of.rstd;
  const Value factor = select(has_weight != 0, of.weight, 1.0f);
  const Value sums = (of.slope + z * of.dot) * share;
  return of.rstd * (of.dy * factor - sums * select(of_dy != 0, factor, 1.0f));
}

// The same, broadcasting
template <ElementType T>
class NormGradientOfElements : public Kernel<NormGradientOfElements<T>> {
 public:
  In<T, 4> dy{"dy", strided}, x{"x", strided};
  In<f32, 4> mean{"mean", strided}, rstd{"rstd", strided}, weight{"weight", strided}, slope{"slope", strided},
      dot{"dot", strided};
  Scalar<int32_t> has_weight{"has_weight"}, of_dy{"of_dy"};
  Scalar<float> share{"share"};
  Out<T, 4> dx{"dx", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  NormGradientOfElements() {
    this->formula("dx = rstd (dy weight - share (slope + (x - mean) rstd dot)), broadcasting")
        .form(Form::broadcast)
        .internal();
  }
  void algorithm() {
    dx(p, q, r, s) = norm_gradient({dy(p, q, r, s), x(p, q, r, s), mean(p, q, r, s), rstd(p, q, r, s),
                                    weight(p, q, r, s), slope(p, q, r, s), dot(p, q, r, s)},
                                   has_weight, of_dy, share);
  }
  void schedule(auto target) { broadcast(target, dx.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

// NormGradientOfElements of rows of `space` elements, as NormOfRuns has them; slope and dot are as mean is
template <ElementType T>
class NormGradientOfRuns : public Kernel<NormGradientOfRuns<T>> {
 public:
  static constexpr bool on_gpus_alone = true;
  In<T, 1> dy{"dy"}, x{"x", shape_of(dy)};
  In<f32, 1> mean{"mean"}, rstd{"rstd", shape_of(mean)}, weight{"weight"}, slope{"slope", shape_of(mean)},
      dot{"dot", shape_of(mean)};
  Scalar<int32_t> space{"space"}, channels{"channels"}, channels_of_group{"channels_of_group"};
  Scalar<int32_t> has_weight{"has_weight"}, of_dy{"of_dy"};
  Scalar<float> share{"share"};
  Out<T, 1> dx{"dx", shape_of(dy)};

  NormGradientOfRuns() {
    this->formula("dx = rstd (dy weight - share (slope + (x - mean) rstd dot)), of rows one after the other")
        .form(Form::movement)
        .internal();
  }
  void algorithm() {
    const RowOfElement at(i, Value(space), Value(channels), Value(channels_of_group));
    dx(i) = norm_gradient({dy(i), x(i), at.statistic(mean), at.statistic(rstd), at.of_channel(weight),
                           at.statistic(slope), at.statistic(dot)},
                          has_weight, of_dy, share);
  }
  void schedule(auto target) { elementwise(target, dx.func(), i); }

 private:
  Var i{"i"};
};

const std::vector<DType> kFloats{DType::f32, DType::f16, DType::bf16};
const std::vector<std::string> kCalls{
    "moments_of_parts",       "moments_of_all", "norm_of_elements",          "lerp",
    "running_moments",        "norm_sums",      "norm_gradient_of_elements", "norm_of_groups",
    "norm_of_groups_grad",    "norm_of_runs",   "norm_gradient_of_runs",     "norm_of_group_rows",
    "row_norm_grads_in_parts"};
const std::vector<OperatorTensor> kSaved{{"y"}, {"mean", DType::f32}, {"rstd", DType::f32}};

const OperatorTensor kWeight{.name = "weight", .is_optional = true}, kBias{.name = "bias", .is_optional = true};
const std::vector<OperatorTensor> kWithRunning{
    {"x"}, {"running_mean", DType::f32, true}, {"running_var", DType::f32, true}, kWeight, kBias};
const OperatorScalar kMomentum{.name = "momentum", .default_value = "0.1"},
    kEpsilon{.name = "eps", .default_value = "1e-5"};

const bool registered = register_kernel<NormOfRuns, f32, f16, bf16>("norm_of_runs") &&
                        register_kernel<NormGradientOfRuns, f32>("norm_gradient_of_runs") &&
                        register_kernel<MomentsOfParts, f32>("moments_of_parts") &&
                        register_kernel<MomentsOfAll, f32>("moments_of_all") &&
                        register_kernel<NormSums, f32>("norm_sums") &&
                        register_kernel<NormOfElements, f32, f16, bf16>("norm_of_elements") &&
                        register_kernel<RunningMoments, f32>("running_moments") &&
                        register_kernel<NormGradientOfElements, f32>("norm_gradient_of_elements");

const OperatorOption kTraining{"training", FormOption::Kind::boolean, 0};
const OperatorOption kInputStatistics{"use_input_stats", FormOption::Kind::boolean, 1};
const OperatorOption kGroups{"num_groups", FormOption::Kind::integer, 1};

const bool operators_registered =
    register_operator({.name = "var_mean",
                       .formula = "var_mean(x, axes) = var(x, axes, keepdim, correction), mean(x, axes, keepdim), "
                                  "in one pass over x",
                       .dtypes = kFloats,
                       .inputs = {{"x"}},
                       .scalars = {{.name = "correction", .default_value = "1.0"}},
                       .options = {{"axes", FormOption::Kind::integers}, {"keepdim", FormOption::Kind::boolean}},
                       .scalars_last = true,
                       .outputs = {{"var"}, {"mean"}},
                       .calls = {"moments_of_parts", "moments_of_all"},
                       .gradients = {{"x", "var_mean_grad(dvar, dmean, x, axes, keepdim, correction)", {}}}}) &&

    register_operator(
        {.name = "batch_norm",
         .formula = "batch_norm(x)[n,c,s] = (x[n,c,s] - mean[c]) rstd[c] weight[c] + bias[c], of the batch's mean and "
                    "rstd = 1 / √(variance + eps) in training, else of the running ones; in training running_mean and "
                    "running_var move by momentum to the batch's mean and unbiased variance",
         .dtypes = kFloats,
         .inputs = kWithRunning,
         .scalars = {kMomentum, kEpsilon},
         .options = {kTraining},
         .scalars_last = true,
         .outputs = kSaved,
         .calls = kCalls,
         .gradients = {{kAllInputs, "batch_norm_grad(dy, x, mean, rstd, weight, training, eps)", {}}}}) &&
    register_operator(
        {.name = "group_norm",
         .formula = "group_norm(x)[n,c,s] = (x[n,c,s] - mean[n,g]) rstd[n,g] weight[c] + bias[c], c in group g of "
                    "num_groups, rstd = 1 / √(variance + eps)",
         .dtypes = kFloats,
         .inputs = {{"x"}, kWeight, kBias},
         .scalars = {kEpsilon},
         .options = {kGroups},
         .scalars_last = true,
         .outputs = kSaved,
         .calls = kCalls,
         .gradients = {{kAllInputs, "group_norm_grad(dy, x, mean, rstd, weight, num_groups, eps)", {}}}}) &&
    register_operator(
        {.name = "instance_norm",
         .formula =
             "instance_norm(x)[n,c,s] = (x[n,c,s] - mean[n,c]) rstd[n,c] weight[c] + bias[c], or with the running "
             "statistics of c where use_input_stats is false",
         .dtypes = kFloats,
         .inputs = kWithRunning,
         .scalars = {kMomentum, kEpsilon},
         .options = {kInputStatistics},
         .scalars_last = true,
         .outputs = kSaved,
         .calls = kCalls,
         .gradients = {{kAllInputs, "instance_norm_grad(dy, x, mean, rstd, weight, use_input_stats, eps)", {}}}}) &&
    register_operator({.name = "local_response_norm",
                       .formula =
                           "local_response_norm(x, size)[n,c,s] = x[n,c,s] / (k + alpha / size Σ x[n,c',s]²)^beta "
                           "over the size channels c' around c (Krizhevsky et al. 2012)",
                       .dtypes = kFloats,
                       .inputs = {{"x"}},
                       .scalars = {{"size", DType::i64},
                                   {"alpha", DType::f64, "1e-4"},
                                   {"beta", DType::f64, "0.75"},
                                   {"k", DType::f64, "1.0"}},
                       .outputs = {{"y"}},
                       .calls = {"square", "copy", "fill", "avg_pool_planes", "affine", "pow", "div"},
                       .composed = "operators/composed/norms.h"});

}  // namespace ashlar::dsl
