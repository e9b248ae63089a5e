// Which samples a batch is made of: those whose losses are forecast to be large are drawn more often, by their rank
// among all. Put together in operators/forecast.cpp:
//   bins       a forecast's bin is the place of its logarithm among 32 octaves; those of one bin share their rank
//   counts     samples of each bin, kept up to date by what changed; their running sum says each bin's rank
//   ends       weights of the samples in groups of 64, summed so far; a search in them finds a sample for a number
// No sort, nothing atomic: each place has one writer, and all sums are of integers, so the order of threads doesn't
// matter.
#include <limits>

#include "dsl/functions.h"
#include "dsl/kernel.h"
#include "generators/forecast.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {
namespace {

Expr inside(const Expr& index, const Expr& extent) { return Halide::unsafe_promise_clamped(index, 0, extent - 1); }

// ⌊bins (log₂ x + 20) / 32⌋ where that is a bin, else the nearest one; the last for NaN. Between powers of two the
// logarithm is the line that a float's bits are.
Expr bin_of(const Expr& x, const Expr& bins) {
  constexpr int32_t kLeast = (127 - 20) << 23, kOctaves = 32 << 23;
  const Expr bits = Halide::reinterpret<int32_t>(x);
  const Expr above = Halide::min(Halide::max(bits, kLeast) - kLeast, kOctaves - 1);  // as integers: below 0 is least
  const Expr place = Halide::cast<uint32_t>(Halide::select(detail::is_nan_bits(x), kOctaves - 1, above) >> 12);
  return inside(Halide::cast<int32_t>((place * Halide::cast<uint32_t>(bins)) >> 16), bins);
}

// How often sample i is drawn: by its bin, but at most `most` where it was hard at `patience` visits in a row.
Expr weight_of(const In<f32, 1>& forecasts, const In<i32, 1>& streaks, const In<i32, 1>& weights, const Expr& i,
               const Value& patience, const Value& most) {
  const Expr at = inside(i, forecasts.extent(0));
  const Expr weight = weights(bin_of(forecasts(at).expr(), weights.extent(0))).expr();
  return Halide::select(streaks(at).expr() >= patience.expr(), Halide::min(weight, most.expr()), weight);
}

// Of the samples of a group, by one thread of a GPU.
constexpr int kLoadsUnderWay = 16;

// The samples g, g + groups, g + 2 groups, … are group g: neighbouring threads read neighbouring samples.
Expr groups_of(const In<f32, 1>& forecasts) { return (forecasts.extent(0) + kForecastGroup - 1) / kForecastGroup; }

}  // namespace

// weights[q] = table[⌊K r⌋], r the mean rank of bin q's samples in [0, 1)
template <ElementType T>
class ForecastBinWeights : public Kernel<ForecastBinWeights<T>> {
 public:
  In<T, 1> counts{"counts"};
  In<T, 1> ends{"ends", shape_of(counts)};
  In<T, 1> table{"table"};
  Out<T, 1> weights{"weights", shape_of(counts)};

  ForecastBinWeights() {
    this->formula("weights[q] = table[K r], r = (ends[q] - counts[q] / 2) / n").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const auto wide = [](const Value& x) { return Halide::cast<int64_t>(x.expr()); };
    const Expr size = table.extent(0), samples = Halide::max(wide(ends(counts.extent(0) - 1)), 1);
    const Expr twice = Halide::max(2 * wide(ends(q)) - wide(counts(q)), 0);
    const Expr rank = Halide::min(twice * Halide::cast<int64_t>(size) / (2 * samples), Halide::cast<int64_t>(size - 1));
    weights(q) = table(inside(Halide::cast<int32_t>(rank), size));
  }
  void schedule(Cpu) { weights.func().split(q, outer, inner, 8192, Halide::TailStrategy::GuardWithIf).parallel(outer); }
  void schedule(auto) { weights.func().gpu_tile(q, outer, inner, 128, Halide::TailStrategy::GuardWithIf); }

 private:
  Var q{"q"}, outer{"outer"}, inner{"inner"};
};

// sums[g] = Σ_k weight of sample g + k groups
template <ElementType T>
class ForecastGroupWeights : public Kernel<ForecastGroupWeights<T>> {
 public:
  In<T, 1> forecasts{"forecasts"};
  In<i32, 1> streaks{"streaks", shape_of(forecasts)};
  In<i32, 1> weights{"weights"};
  Scalar<int32_t> patience{"patience"}, most{"most"};
  Out<i64, 1> sums{"sums", {(forecasts.size(0) + constant(kForecastGroup - 1)) / constant(kForecastGroup)}};

  ForecastGroupWeights() {
    this->formula("sums[g] = Σ_k weight of sample g + k groups").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    k = Axis(kForecastGroup, "k");
    const Expr groups = groups_of(forecasts), n = forecasts.extent(0), sample = Expr(Value(k).expr()) * groups + g;
    // Not a condition on k: loads of samples that follow each other are then under way together.
    const Expr weight = weight_of(forecasts, streaks, weights, Halide::min(sample, n - 1), patience, most);
    total(g) = sum(k, Halide::select(sample < n, weight, 0));
    sums(g) = cast<i64>(Value(total(g)));
  }
  void schedule(Cpu) {
    sums.func().split(g, outer, inner, 256, Halide::TailStrategy::GuardWithIf).parallel(outer);
    total.func().compute_at(sums.func(), outer);
    total.func().update().reorder(g, k.rvar());
  }
  void schedule(auto) {
    sums.func().gpu_tile(g, outer, inner, 32, Halide::TailStrategy::GuardWithIf);
    total.func().compute_at(sums.func(), inner).update().unroll(k.rvar(), kLoadsUnderWay);
  }

 private:
  Axis k;
  Stage total{"total"};
  Var g{"g"}, outer{"outer"}, inner{"inner"};
};

// rows[j] = the sample in whose part of [0, S) the number lies that is drawn from the j-th of b equal parts of it by
// chances[j], of 32 random bits; S = Σ weights = the last of ends, in the order of the groups
template <ElementType T>
class ForecastLocate : public Kernel<ForecastLocate<T>> {
 public:
  In<T, 1> forecasts{"forecasts"};
  In<i32, 1> streaks{"streaks", shape_of(forecasts)};
  In<i32, 1> weights{"weights"};
  In<i64, 1> ends{"ends", {(forecasts.size(0) + constant(kForecastGroup - 1)) / constant(kForecastGroup)}};
  In<i64, 1> chances{"chances"};
  Scalar<int32_t> patience{"patience"}, most{"most"};
  Out<i64, 1> rows{"rows", shape_of(chances)};

  ForecastLocate() {
    this->formula("rows[j] = the sample at low + (high - low) chances[j] / 2^32 of the weights, from part j of b");
    this->internal().widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    k = Halide::RDom(0, kForecastGroup, "k");
    const Expr groups = groups_of(forecasts), n = forecasts.extent(0);
    const Expr search_steps = 32 - Halide::cast<int32_t>(Halide::count_leading_zeros(groups));  // 2^steps > groups
    const Halide::RDom step(0, search_steps, "step");
    const auto end_of = [&](const Expr& group) { return ends(inside(group, groups)).expr(); };

    // Where part j begins: ⌊j S / b⌋, without a product that is too large.
    const Expr size = Halide::cast<int64_t>(chances.extent(0)), sum = end_of(groups - 1);
    const auto begin = [&](const Expr& part) { return part * (sum / size) + part * (sum % size) / size; };
    const Expr part = Halide::cast<int64_t>(j), low = begin(part), width = begin(part + 1) - low;
    const Expr chance = chances(j).expr() & Expr(int64_t{0xffffffff});
    target(j) = low + (width >> 32) * chance + (((width & Expr(int64_t{0xffffffff})) * chance) >> 32);

    // Its group is how many groups end at or before it: the largest power of two first.
    group(j) = Expr(0);
    const Expr before = group(j), next = before + (Expr(1) << (search_steps - 1 - step));
    group(j) = Halide::select(next <= groups && end_of(Halide::min(next, groups) - 1) <= target(j), next, before);
    own(j) = Halide::min(group(j), groups - 1);

    // (what is left to pass) · 128 + samples passed; nothing is left behind the one where it lies.
    const Expr first = Halide::select(own(j) > 0, end_of(Halide::max(own(j), 1) - 1), Expr(int64_t{0}));
    passed(j) = (target(j) - first) * 128;
    const Expr sample = k * groups + own(j);
    const Expr weight =
        Halide::cast<int64_t>(weight_of(forecasts, streaks, weights, Halide::min(sample, n - 1), patience, most));
    const Expr state = passed(j), left = state >> 7;
    passed(j) = Halide::select(left < 0, state,
                               Halide::select(left >= weight && sample + groups < n, state - weight * 128 + 1,
                                              Expr(int64_t{-128}) + (state & 127)));
    rows(j) = Value((passed(j) & 127) * Halide::cast<int64_t>(groups) + Halide::cast<int64_t>(own(j)));
  }
  void schedule(Cpu) {
    rows.func().split(j, outer, inner, 64, Halide::TailStrategy::GuardWithIf).parallel(outer);
    for (Halide::Func* stage : {&target, &group, &own, &passed}) stage->compute_at(rows.func(), inner);
  }
  void schedule(auto) {
    rows.func().gpu_tile(j, outer, inner, 32, Halide::TailStrategy::GuardWithIf);
    for (Halide::Func* stage : {&target, &group, &own, &passed}) stage->compute_at(rows.func(), inner);
    passed.update().unroll(k.x, kLoadsUnderWay);
  }

 private:
  Halide::Func target{"target"}, group{"group"}, own{"own"}, passed{"passed"};
  Halide::RDom k;
  Var j{"j"}, outer{"outer"}, inner{"inner"};
};

// Of the j-th sample of a batch, what its visit changes. The last visit of several to one sample counts; to[j] = -1
// says that this isn't it, or that there's no such sample.
//   s = losses[j] / level^age
//   fresh[j] = max(0, s + trend (s - forecasts[rows[j]]))       where there was a visit before, else s
//   streak[j] = streaks[rows[j]] + 1 where twice the mean rank of its bin is at least hard, else 0
//   from[j], to[j] = the bins of the forecast before and of the new one
template <ElementType T>
class ForecastVisit : public Kernel<ForecastVisit<T>> {
 public:
  In<T, 1> forecasts{"forecasts"};
  In<i32, 1> streaks{"streaks", shape_of(forecasts)};
  In<i32, 1> counts{"counts"};
  In<i32, 1> ends{"ends", shape_of(counts)};
  In<i64, 1> rows{"rows"};
  In<f32, 1> losses{"losses", shape_of(rows)};
  In<f32, 0> level{"level"};
  Scalar<float> age{"age"}, trend{"trend"};
  Scalar<int64_t> hard{"hard"};
  OutTuple<1, f32, i32, i32, i32> visit{"visit", {{{"fresh"}, {"streak"}, {"from"}, {"to"}}}, shape_of(rows)};

  ForecastVisit() {
    this->formula("fresh[j] = s + trend (s - forecasts[rows[j]]), s = losses[j] / level^age, of a sample's last visit");
    this->internal().widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    k = rows.reduce(0);
    const Expr n = forecasts.extent(0), bins = counts.extent(0), row = rows(j).expr();
    const Value later = Value(k) > Value(j) && rows(k) == rows(j);
    again(j) = sum(k, Halide::cast<int32_t>(later.expr()));
    const Expr is_there = Halide::cast<uint64_t>(row) < Halide::cast<uint64_t>(Halide::cast<int64_t>(n));
    const Expr counts_now = is_there && Value(again(j)).expr() == 0;
    const Expr at = inside(Halide::cast<int32_t>(Halide::select(is_there, row, 0)), n);

    const Value known = forecasts(at);
    const Value before = Halide::select(is_there, known.expr(), Halide::Internal::make_const(known.type(), kNever));
    const Value scaled = losses(j) * exp(log(max(level(), 1e-30)) * (0.0 - Value(age)));
    const Value moved = max(scaled + Value(trend) * (scaled - before), 0.0);
    // The largest finite number: what was never visited has an infinite forecast.
    fresh(j) = select(Value(trend) == 0.0 || !(before <= 3.4028235e38), scaled, moved);
    const Expr to = bin_of(Value(fresh(j)).expr(), bins), from = bin_of(before.expr(), bins);
    const Expr twice = 2 * Halide::cast<int64_t>(ends(to).expr()) - Halide::cast<int64_t>(counts(to).expr());
    const Expr longer = Halide::min(streaks(at).expr(), 1 << 30) + 1;
    visit.define({j}, {Value(fresh(j)), Value(Halide::select(twice >= Value(hard).expr(), longer, 0)),
                       Value(Halide::select(counts_now, from, -1)), Value(Halide::select(counts_now, to, -1))});
  }
  void schedule(Cpu) {
    visit.func().split(j, outer, inner, 64, Halide::TailStrategy::GuardWithIf).parallel(outer);
    again.func().compute_at(visit.func(), inner);
    fresh.func().compute_at(visit.func(), inner);
  }
  void schedule(auto) {
    visit.func().gpu_tile(j, outer, inner, 32, Halide::TailStrategy::GuardWithIf);
    again.func().compute_at(visit.func(), inner);
    fresh.func().compute_at(visit.func(), inner);
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  Axis k;
  Stage again{"again"}, fresh{"fresh_stage"};
  Var j{"j"}, outer{"outer"}, inner{"inner"};
};

// counts[q] += |{j : to[j] = q}| - |{j : from[j] = q}|, in place
template <ElementType T>
class ForecastRecount : public Kernel<ForecastRecount<T>> {
 public:
  In<T, 1> counts{"counts"};
  In<i32, 1> from{"from"};
  In<i32, 1> to{"to", shape_of(from)};
  OutTuple<1, T> recounted{"recounted", {{{"new_counts", "counts"}}}, shape_of(counts)};

  ForecastRecount() {
    this->formula("counts[q] += |{j : to[j] = q}| - |{j : from[j] = q}|").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    k = from.reduce(0);
    const Value bin = q;
    const auto is_bin = [&](const Value& x) { return Halide::cast<int32_t>((x == bin).expr()); };
    change(q) = sum(k, is_bin(to(k)) - is_bin(from(k)));
    recounted.define({q}, {counts(q) + Value(change(q))});
  }
  void schedule(Cpu) {
    const int lanes = Descriptor::target.natural_vector_size<int32_t>();
    Var vector("vector"), lane("lane");
    recounted.func()
        .split(q, vector, lane, lanes, Halide::TailStrategy::GuardWithIf)
        .split(vector, outer, inner, 32, Halide::TailStrategy::GuardWithIf)
        .parallel(outer)
        .vectorize(lane);
    change.func()
        .compute_at(recounted.func(), inner)
        .vectorize(q, lanes)
        .update()
        .reorder(q, k.rvar())
        .vectorize(q, lanes);
  }
  void schedule(auto) {
    recounted.func().gpu_tile(q, outer, inner, 64, Halide::TailStrategy::GuardWithIf);
    change.func().compute_at(recounted.func(), inner);
  }

 private:
  Axis k;
  Stage change{"change"};
  Var q{"q"}, outer{"outer"}, inner{"inner"};
};

// forecasts[rows[j]] = fresh[j], streaks[rows[j]] = streak[j] where to[j] >= 0, in place
template <ElementType T>
class ForecastStore : public Kernel<ForecastStore<T>> {
 public:
  In<T, 1> forecasts{"forecasts"};
  In<i32, 1> streaks{"streaks", shape_of(forecasts)};
  In<i64, 1> rows{"rows"};
  In<f32, 1> fresh{"fresh", shape_of(rows)};
  In<i32, 1> streak{"streak", shape_of(rows)}, to{"to", shape_of(rows)};
  OutTuple<1, T, i32> stored{
      "stored", {{{"new_forecasts", "forecasts"}, {"new_streaks", "streaks"}}}, shape_of(forecasts)};

  ForecastStore() {
    this->formula("forecasts[rows[j]] = fresh[j], streaks[rows[j]] = streak[j] where to[j] >= 0").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    j = Halide::RDom(0, rows.extent(0), "j");
    // The condition may be read before the one that ends a block's last threads.
    const Expr one = Halide::min(j.x, rows.extent(0) - 1);
    j.where(to(one).expr() >= 0);
    const Expr n = forecasts.extent(0);
    const Expr at = inside(Halide::cast<int32_t>(rows(one).expr()), n);
    Halide::Func out = stored.func();
    out(i) = Halide::Tuple(Halide::undef<float>(), Halide::undef<int32_t>());
    // No sample has two last visits.
    out(at) = Halide::Tuple(fresh(one).expr(), streak(one).expr());
  }
  void schedule(Cpu) {
    Halide::Stage(stored.func()).unscheduled();  // nothing is stored there
    stored.func().update().unscheduled();
  }
  void schedule(auto) {
    Var thread("thread");
    Halide::RVar group("group"), member("member");
    stored.func().gpu_tile(i, thread, 32, Halide::TailStrategy::GuardWithIf);
    stored.func()
        .update()
        .allow_race_conditions()
        .split(j, group, member, 32, Halide::TailStrategy::GuardWithIf)
        .gpu_blocks(group)
        .gpu_threads(member);
  }

 private:
  Halide::RDom j;
  Var i{"i"};
};

// table[places[j]] = values[j], in place; places that are equal have equal values.
template <ElementType T>
class ForecastWrite : public Kernel<ForecastWrite<T>> {
 public:
  In<T, 1> table{"table"};
  In<i64, 1> places{"places"};
  In<T, 1> values{"values", shape_of(places)};
  OutTuple<1, T> written{"written", {{{"new_table", "table"}}}, shape_of(table)};

  ForecastWrite() {
    this->formula("table[places[j]] = values[j]").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    j = Halide::RDom(0, places.extent(0), "j");
    // It may be read for a block's last threads, too.
    const Expr one = Halide::min(j.x, places.extent(0) - 1);
    Halide::Func out = written.func();
    out(i) = Halide::undef<float>();
    out(inside(Halide::cast<int32_t>(places(one).expr()), table.extent(0))) = values(one).expr();
  }
  void schedule(Cpu) {
    Halide::Stage(written.func()).unscheduled();  // nothing is stored there
    written.func().update().unscheduled();
  }
  void schedule(auto) {
    Var thread("thread");
    Halide::RVar group("group"), member("member");
    written.func().gpu_tile(i, thread, 32, Halide::TailStrategy::GuardWithIf);
    written.func()
        .update()
        .allow_race_conditions()
        .split(j, group, member, 32, Halide::TailStrategy::GuardWithIf)
        .gpu_blocks(group)
        .gpu_threads(member);
  }

 private:
  Halide::RDom j;
  Var i{"i"};
};

const bool registered =
    register_kernel<ForecastBinWeights, i32>("forecast_bin_weights") &&
    register_kernel<ForecastGroupWeights, f32>("forecast_group_weights") &&
    register_kernel<ForecastLocate, f32>("forecast_locate") && register_kernel<ForecastVisit, f32>("forecast_visit") &&
    register_kernel<ForecastRecount, i32>("forecast_recount") &&
    register_kernel<ForecastStore, f32>("forecast_store") && register_kernel<ForecastWrite, f32>("forecast_write");

const std::vector<OperatorTensor> kState{{"forecasts"}, {"streaks", DType::i32}, {"counts", DType::i32}};
const auto with = [](std::vector<OperatorTensor> tensors, const std::vector<OperatorTensor>& more) {
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
};

const bool operators_registered =
    register_operator(
        {.name = "draw_by_forecast",
         .formula =
             "draw_by_forecast(forecasts, streaks, bin_weights, ends, chances)[j] = a sample, one from each of as "
             "many equal parts of the samples' weights, of forecast_weights, by 32 random bits chances[j]",
         .dtypes = {DType::f32},
         .inputs = {{"forecasts"},
                    {"streaks", DType::i32},
                    {"bin_weights", DType::i32},
                    {"ends", DType::i64},
                    {"chances", DType::i64}},
         .scalars = {{"patience", DType::i64}, {"most", DType::i64}},
         .outputs = {{"rows", DType::i64}},
         .calls = {"forecast_locate"}}) &&
    register_operator(
        {.name = "forecast_weights",
         .formula =
             "forecast_weights(forecasts, streaks, counts, weights).bin_weights[q] = weights[K r] at the mean rank r "
             "of bin q's samples, of which it has counts[q]; ends = a running sum over groups of samples of "
             "their bins' weights, at most most where streaks is patience or more; bins are parts of 32 octaves "
             "from 2^-20",
         .dtypes = {DType::f32},
         .inputs = with(kState, {{"weights", DType::i32}}),
         .scalars = {{"patience", DType::i64}, {"most", DType::i64}},
         .outputs = {{"bin_weights", DType::i32}, {"ends", DType::i64}},
         .calls = {"cumsum", "forecast_bin_weights", "forecast_group_weights"}}) &&
    register_operator(
        {.name = "update_forecasts",
         .formula = "fresh[j] = max(0, s + trend (s - forecasts[rows[j]])), s = losses[j] / level^age; in place, by a "
                    "sample's last place in rows: forecasts[rows[j]] = fresh[j], streaks[rows[j]] += 1 where at least "
                    "the part hard of all ranks is below, else 0, and counts follow",
         .dtypes = {DType::f32},
         .inputs = with(kState, {{"rows", DType::i64}, {"losses"}, {"level"}}),
         .scalars = {{"age"}, {"trend"}, {"hard"}},
         .outputs = {{"fresh"}},
         .calls = {"cumsum", "forecast_visit", "forecast_recount", "forecast_store"}});

}  // namespace ashlar::dsl
