// The gradients of layer_norm and rms_norm by x, weight and bias in one kernel: each row is read once.
#include "generators/channels_of_rows.h"
#include "schedules/lowering/beside.h"
#include "schedules/lowering/vector_rows.h"
#include "schedules/row_reduction.h"
#include "schedules/row_sums.h"

namespace ashlar::dsl {

enum class Upstream { of_norm, of_norm_and_sum };

namespace {

constexpr int kRowsOfPart = 16;
const std::vector<std::pair<std::string, Upstream>> kUpstreams{{"of_norm", Upstream::of_norm},
                                                               {"of_norm_and_sum", Upstream::of_norm_and_sum}};

}  // namespace

// With z = (x - mean) rstd and g = dy weight:
//   dx[r,c] = rstd[r] (g[r,c] - Σ_k g[r,k] / n - z[r,c] Σ_k g[r,k] z[r,k] / n), without the first sum where no mean was
//   taken off (is_centred 0);  dweight[p,c] = Σ_r dy[r,c] z[r,c],  dbias[p,c] = Σ_r dy[r,c],  r in part p of 16 rows
template <ElementType T>
class RowNormGradients : public Kernel<RowNormGradients<T>> {
 public:
  static constexpr bool on_cpu_alone = true;
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> dy{"dy", {rows, columns}}, x{"x", {rows, columns}};
  In<f32, 1> rstd{"rstd", {rows}}, mean{"mean", {rows}, absent_is(0)};
  In<T, 1> weight{"weight", {columns}, absent_is(1)};
  Scalar<int32_t> is_centred{"is_centred", 1};
  Out<T, 2> dx{"dx", {rows, columns}};
  OutTuple<2, f32, f32> sums{
      "sums", {{{"dweight"}, {"dbias"}}}, {(rows + constant(kRowsOfPart - 1)) / constant(kRowsOfPart), columns}};

  RowNormGradients() {
    this->formula("dx = rstd (g - Σ_k g / n - z Σ_k g z / n), g = dy weight; Σ_r dy z and Σ_r dy of parts of 16 rows");
    this->form(Form::rows).internal();
  }
  void algorithm() {
    const Axis k = columns.reduce();
    const auto z_at = [&](const auto& at) { return (x(r, at) - mean(r)) * rstd(r); };
    slope(r) = dsl::mean(k, dy(r, k) * weight(k));
    dot(r) = dsl::mean(k, dy(r, k) * weight(k) * z_at(k));
    z(c, r) = z_at(c).expr();
    sums.define({p, c}, {0.0f, 0.0f});
    row = Halide::RDom(0, kRowsOfPart, "row");
    row.where(p * kRowsOfPart + row < rows.extent());
    const Expr at = Halide::min(p * kRowsOfPart + row, rows.extent() - 1);
    Halide::Func all = sums.func();
    const Expr given = dy(Value(at), c).expr();
    all(c, p) = Halide::Tuple(all(c, p)[0] + given * z(c, at), all(c, p)[1] + given);
    const Value centred = select(Value(is_centred) != 0, Value(slope(r)), 0.0);
    dx(r, c) = rstd(r) * (dy(r, c) * weight(c) - centred - Value(Expr(z(c, r))) * Value(dot(r)));
  }
  void schedule(Cpu) {
    const int lanes = Descriptor::target.natural_vector_size<float>();
    Halide::Func all = sums.func();
    const Halide::LoopLevel each_row(all, row.x);
    Rewrite rewrite;
    rewrite.kept = {z.name()};
    std::vector<VectorReduction> reductions;
    for (Stage* one : {&slope, &dot}) {
      const ReductionStage stage(one->func());
      reductions.emplace_back(stage, stage.index(), Rewrite{});
      rewrite.calls[stage.name()] = [total = reductions.back().total()](const std::vector<Expr>& at) {
        return total(at);
      };
    }
    Halide::Expr& value = values_of(dx.func()).at(0);
    value = rewrite(value);
    compute_beside(z, {dx.func()}, r, c);
    store_beside({dx.func()});
    z.compute_at(each_row).bound_extent(r, 1).vectorize(c, lanes, Halide::TailStrategy::GuardWithIf);
    for (VectorReduction& reduction : reductions) reduction.compute_at(each_row);
    all.parallel(p).vectorize(c, lanes, Halide::TailStrategy::GuardWithIf);
    all.update().reorder(c, row.x, p).parallel(p).vectorize(c, lanes, Halide::TailStrategy::GuardWithIf);
  }

 private:
  Var p{"p"}, r{"r"}, c{"c"};
  Stage slope{"slope"}, dot{"dot"};
  Halide::Func z{"z"};
  Halide::RDom row;
};

// The same on GPUs, of rows or of groups of channels: with classes of rows and parts as RowSumStages says,
// sums[p,0,c] = Σ_r dy z and sums[p,1,c] = Σ_r dy. Where x was a sum, a residual stream's next value, to which a
// gradient dh comes back as well, dx is dh more.
template <ElementType T>
class RowNormGradientsInParts : public Kernel<RowNormGradientsInParts<T>> {
 public:
  static constexpr bool on_gpus_alone = true;
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> dy{"dy", {rows, columns}}, x{"x", {rows, columns}};
  In<f32, 1> rstd{"rstd", {rows}}, mean{"mean", {rows}};
  In<T, 1> weight{"weight", {any_size}};
  In<T, 2> dh{"dh", {rows, columns}};  // read only where it is upstream, too
  Comptime<Upstream> upstream{"upstream", kUpstreams};
  Scalar<int32_t> is_centred{"is_centred"}, has_weight{"has_weight"};
  ChannelsOfRows channels;
  Scalar<int32_t> classes{"classes"}, rows_of_part{"rows_of_part"};
  Out<T, 2> dx{"dx", {rows, columns}};
  Out<f32, 3> sums{"sums", {any_size, constant(2), any_size}};

  RowNormGradientsInParts() {
    this->formula(
        "dx = rstd (g - Σ_k g / n - z Σ_k g z / n), g = dy weight, or dh + that; Σ_r dy z and Σ_r dy of parts");
    this->form(Form::movement).internal();
  }
  void algorithm() {
    plans.declare(columns.extent(), is_aligned());
    const Axis k = columns.reduce();
    const auto centred = [&](const Value& of_row) { return select(Value(is_centred) != 0, of_row, 0.0); };
    const auto z = [&](const auto& row, const auto& at) { return (x(row, at) - centred(mean(row))) * rstd(row); };
    scale(c, r) = channels.of_row(weight, has_weight, 1.0, c, r).expr();
    const Expr of_class = r % Value(classes).expr();
    const auto g = [&](const auto& at) { return dy(r, at) * Value(Expr(scale(Value(at).expr(), of_class))); };
    slope(r) = dsl::mean(k, g(k));
    dot(r) = dsl::mean(k, g(k) * z(r, k));
    const Value of_norm = rstd(r) * (g(c) - centred(slope(r)) - z(r, c) * Value(dot(r)));
    dx(r, c) = of_sum() ? dh(r, c) + of_norm : of_norm;
    const auto along_z = [&](const auto& row) { return dy(row, c) * z(row, c); };
    const auto plain = [&](const auto& row) { return dy(row, c); };
    terms = {along_z(r).expr(), plain(r).expr()};
    sums(p, q, c) = 0.0;
  }
  void schedule(auto) {
    plans.schedule({.reductions = {slope, dot},
                    .inputs = {Halide::Func(dy), Halide::Func(x)},
                    .beside = of_sum() ? std::vector{Halide::Func(dh)} : std::vector<Halide::Func>(),
                    .of_columns = {scale},
                    .out = dx.func(),
                    .terms = terms,
                    .sums = sums.func(),
                    .row = r,
                    .column = c,
                    .which = q,
                    .part = p,
                    .rows = rows.extent(),
                    .columns = columns.extent(),
                    .classes = Value(classes).expr(),
                    .rows_of_part = Expr(Value(rows_of_part))});
  }

 private:
  bool of_sum() const { return upstream.value() == Upstream::of_norm_and_sum; }
  Expr is_aligned() const {
    const auto begins = [](const auto& input) { return begins_aligned(Halide::Func(input), 4); };
    return of_sum() ? begins(dy) && begins(x) && begins(dh) : begins(dy) && begins(x);
  }

  RowSumPlans plans;
  Var p{"p"}, q{"q"}, r{"r"}, c{"c"};
  Stage slope{"slope"}, dot{"dot"};
  Halide::Func scale{"scale"};
  std::vector<Expr> terms;
};

const bool registered = register_kernel<RowNormGradients, f32>("row_norm_grads") &&
                        register_kernel<RowNormGradientsInParts, f32>("row_norm_grads_in_parts");

}  // namespace ashlar::dsl
