// Sums, means and maxima of the rows of a table that the indices of a bag name, each row read where it lies, and their
// gradients. Every element has one writer, which takes its terms in the order of the indices: the same bits every time.
// How calls reach these: operators/embedding_bag.cpp.
#include "dsl/kernel.h"
#include "dsl/merge.h"
#include "schedules/generic.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

using Halide::TailStrategy;

namespace {

Expr inside(const Expr& at, const Expr& extent) { return Halide::unsafe_promise_clamped(at, 0, extent - 1); }

Expr is_index(const Expr& number, const Expr& extent) {
  return Halide::cast<uint64_t>(number) < Halide::cast<uint64_t>(Halide::cast<int64_t>(extent));
}

/// NaN, or 0, where the condition holds, else `value`: of any type of floats, and by its bits as nan_unless() does it,
/// so that what `value` reads is worked out in any case.
Expr nan_where(const Expr& condition, const Expr& value) {
  const Halide::Type bits = value.type().with_code(halide_type_uint);
  const int64_t nan = bits.bits() == 64 ? int64_t{0x7ff8000000000000} : int64_t{0x7fc00000};
  const Expr mask =
      Halide::select(condition, Halide::Internal::make_const(bits, nan), Halide::Internal::make_zero(bits));
  return Halide::reinterpret(value.type(), Halide::reinterpret(bits, value) | mask);
}
Expr zero_where(const Expr& condition, const Expr& value) {
  const Halide::Type bits = value.type().with_code(halide_type_uint);
  const Expr none = Halide::Internal::make_zero(bits);
  return Halide::reinterpret(value.type(), Halide::reinterpret(bits, value) & Halide::select(condition, none, ~none));
}

/// Terms whose loads a thread has under way together.
int terms_together() { return on_gpu() ? 8 : 1; }

}  // namespace

/// Lines of elements, each a fold of terms, such as a sum, that its line has in common with others. How many terms a
/// line has only the data tell, by the condition of q. Halide ends the loop there if nothing is computed in it but a
/// stage that one value reads (docs/halide-21.md).
struct FoldedLines {
  Halide::Func out, fold;  ///< of (column, line)
  Halide::Func term;       ///< of (t, turn, column, line): undefined where the fold has several values
  std::vector<Halide::Func> of_line;
  Halide::RDom q;  ///< terms of a turn, turns
  Var c, line, t;
  Expr terms;  ///< of all lines
  int lanes;   ///< of a CPU's vector

  void schedule(Cpu, const Expr& = {}) {
    constexpr int kRun = 256, kTask = 8192;  // columns of a run, elements of terms in a task
    Var run("run"), runs("runs"), task("task"), each("each"), vector("vector"), lane("lane");
    const Expr columns = extent(0), lines = extent(1);
    const Expr work = Halide::max(1, Halide::min(columns, kRun) * Halide::max(1, terms / Halide::max(1, lines)));
    out.split(c, run, c, kRun, TailStrategy::GuardWithIf)
        .vectorize(c, lanes, TailStrategy::GuardWithIf)
        .fuse(run, line, runs)
        .split(runs, task, each, Halide::max(1, kTask / work), TailStrategy::GuardWithIf)
        .parallel(task);
    for (Halide::Func stage : of_line) {
      stage.compute_at(out, each).store_in(Halide::MemoryType::Stack);
      if (stage.has_update_definition()) stage.update().unscheduled();
    }
    fold.compute_at(out, each).store_in(Halide::MemoryType::Stack).bound_storage(c, kRun);
    fold.vectorize(c, lanes, TailStrategy::GuardWithIf);
    fold.update()
        .split(c, vector, lane, lanes, TailStrategy::GuardWithIf)
        .reorder(lane, vector, q.x, q.y)
        .vectorize(lane);
  }
  /// Where lines are sparse, most of them without a term, a thread has several.
  void schedule(auto, const Expr& are_sparse = {}) {
    index_arithmetic();
    Var columns("columns"), column("column"), lines("lines"), thread("thread"), step("step");
    const auto by_threads = [&](Halide::Stage stage, int wide, int high, int each) {
      stage.split(c, columns, column, wide, TailStrategy::GuardWithIf)
          .split(line, lines, thread, high * each, TailStrategy::GuardWithIf)
          .split(thread, step, thread, high)
          .reorder(step, column, thread, lines, columns)
          .gpu_blocks(lines, columns)
          .gpu_threads(column, thread);
    };
    if (are_sparse.defined()) by_threads(out.specialize(extent(0) >= 16 && are_sparse), 32, 4, 8);
    by_threads(out.specialize(extent(0) >= 16), 32, 4, 1);
    by_threads(out.specialize(extent(0) >= 4), 8, 16, 1);
    by_threads(out, 1, 128, 1);
    for (Halide::Func stage : of_line) stage.compute_at(out, step);
    fold.compute_at(out, step);
    fold.update().reorder(q.x, q.y).unroll(q.x);
    if (term.defined()) term.compute_at(fold, q.y).unroll(t);
  }

 private:
  Expr extent(int dimension) const { return out.output_buffers()[0].dim(dimension).extent(); }
};

/// The bags of a row of indices: by where each begins, or all of one size. The last ends where an offset behind it
/// says, or with the indices.
struct Bags {
  In<i64, 1> index{"index"}, offsets{"offsets"};
  Scalar<int32_t> size{"size"};        // of each bag; -1: by the offsets
  Scalar<int64_t> padding{"padding"};  // what isn't counted; -1: nothing
  Halide::Func first{"first"}, last{"last"}, looked_at{"looked_at"}, padded{"padded"};
  Var b{"b"};

  Expr count() const { return index.extent(0); }
  void define() {
    first(b) = begin(b);
    last(b) = begin(b + 1);
  }
  /// How many indices of bag b count, 1 of none. Looks at each where one may not, if it `is_asked`.
  Expr counted(const Expr& is_asked) {
    looked_at(b) = Halide::select(is_asked && Value(padding).expr() >= 0, last(b) - first(b), 0);
    Halide::RDom k(0, count(), "k");
    k.where(k < looked_at(b));
    const Expr number = index(Value(inside(first(b) + k, count()))).expr();
    padded(b) = Expr(0);
    padded(b) += Halide::select(number == Value(padding).expr(), 1, 0);
    return Halide::max(last(b) - first(b) - padded(b), 1);
  }

 private:
  Expr begin(const Expr& bag) const {
    const Expr end = offsets.extent(0) - 1, each = Value(size).expr();
    const Expr given = offsets(Value(inside(Halide::min(bag, end), end + 1))).expr();
    // Whatever the offsets are, only indices that are there are read.
    const Expr held =
        Halide::cast<int32_t>(Halide::clamp(given, Halide::cast<int64_t>(0), Halide::cast<int64_t>(count())));
    return Halide::select(each >= 0, bag * each, bag <= end, held, count());
  }
};

/// The rows that they name, as terms of their bags.
struct BagRows {
  static constexpr int kNone = -1, kOutside = -2;
  Halide::Func row{"row"};  // a number, or one of these
  Halide::RDom q;
  Var t{"t"}, turn{"turn"}, c{"c"};

  void define(Bags& bags, const Expr& rows) {
    const Var& b = bags.b;
    bags.define();
    const Expr number = bags.index(Value(entry(bags))).expr(), is_inside = is_index(number, rows);
    const Expr is_none = place(bags) >= bags.last(b) || (is_inside && number == Value(bags.padding).expr());
    row(t, turn, b) = Halide::select(is_none, Expr(kNone), is_inside, Halide::cast<int32_t>(number), Expr(kOutside));
    q = Halide::RDom(0, terms_together(), 0, (bags.count() + terms_together() - 1) / terms_together(), "q");
    q.where(bags.first(b) + q.y * terms_together() < bags.last(b));
  }
  /// Which index term t of a turn is; one of the bag's in any case.
  Expr entry(const Bags& bags) const { return inside(Halide::min(place(bags), bags.last(bags.b) - 1), bags.count()); }
  /// The term's element; where there is none, the first row's.
  template <ElementType T>
  Expr element(const Bags& bags, const In<T, 2>& weight) const {
    const Expr number = row(t, turn, bags.b);
    const Value read = weight(Value(inside(Halide::max(number, 0), weight.extent(0))), c);
    return nan_where(number == kOutside, read.expr());
  }

 private:
  Expr place(const Bags& bags) const { return bags.first(bags.b) + turn * terms_together() + t; }
};

enum class BagWeights : uint8_t { none, given };

// y[b,c] = Σ_i weights[i] weight[index[i],c], i in bag b, index[i] ≠ padding, weights 1 but where they are given; the
// mean with is_mean
template <ElementType T>
class BagSums : public Kernel<BagSums<T>> {
 public:
  Bags bags;
  Scalar<int32_t> is_mean{"is_mean"};
  In<T, 2> weight{"weight"};
  In<T, 1> weights{"weights"};  // where they are given one for each index
  Comptime<BagWeights> weighted{"weighted", {{"none", BagWeights::none}, {"given", BagWeights::given}}};
  Out<T, 2> y{"y", {any_size, weight.size(1)}};

  BagSums() {
    this->formula("y[b,c] = Σ_i weights[i] weight[index[i],c], i in bag b, or their mean").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    rows.define(bags, weight.extent(0));
    const Expr zero = Halide::Internal::make_zero(Halide::type_of<Arithmetic>());
    Expr element = rows.element(bags, weight);
    if (weighted.value() == BagWeights::given) element = element * weights(Value(rows.entry(bags))).expr();
    term(rows.t, rows.turn, c, b) = Halide::select(rows.row(rows.t, rows.turn, b) == BagRows::kNone, zero, element);
    total(c, b) = zero;
    total(c, b) += term(rows.q.x, rows.q.y, c, b);
    const Expr divides = Value(is_mean).expr() != 0, count = bags.counted(divides);
    y(b, c) = Value(Expr(total(c, b))) / Value(Halide::cast<Arithmetic>(Halide::select(divides, count, 1)));
  }
  void schedule(auto target) {
    FoldedLines lines{.out = y.func(),
                      .fold = total,
                      .term = term,
                      .of_line = {bags.first, bags.last, bags.looked_at, bags.padded},
                      .q = rows.q,
                      .c = c,
                      .line = b,
                      .t = rows.t,
                      .terms = bags.count(),
                      .lanes = Descriptor::target.natural_vector_size<Arithmetic>()};
    lines.schedule(target);
  }

 private:
  using Arithmetic = typename Element<T>::Arithmetic;
  BagRows rows;
  Halide::Func term{"term"}, total{"total"};
  const Var b = bags.b, c = rows.c;
};

// y[b,c] = max_i weight[index[i],c], i in bag b, index[i] ≠ padding, 0 of none; winners[b,c] = index[i] of the first
// such i, or of the first NaN, -1 of none
template <ElementType T>
class BagMaxima : public Kernel<BagMaxima<T>> {
 public:
  Bags bags;
  In<T, 2> weight{"weight"};
  OutTuple<2, T, i64> results{"results", {{{"y"}, {"winners"}}}, {any_size, weight.size(1)}};

  BagMaxima() {
    this->formula("y[b,c] = max_i weight[index[i],c], i in bag b, winners[b,c] = index[i] of it").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    rows.define(bags, weight.extent(0));
    term(rows.t, rows.turn, c, b) = rows.element(bags, weight);
    // The place first: Halide may store it before it works the value out, which doesn't read it.
    const Halide::Type type = Halide::type_of<Arithmetic>();
    const std::vector<Expr> at{c, b};
    define(best, {c, b}, {Expr(-1), type.min()});
    const Expr place = value_at(best, at, 0);
    const Value old = value_at(best, at, 1), value = Expr(term(rows.q.x, rows.q.y, c, b));
    const Expr counts = rows.row(rows.q.x, rows.q.y, b) != BagRows::kNone;
    const Expr is_larger = (old < value).expr() || (is_nan(value).expr() && !is_nan(old).expr());
    const Expr own = bags.first(b) + rows.q.y * terms_together() + rows.q.x;
    update_at_once(best, at,
                   {Halide::select(counts && (place < 0 || is_larger), own, place),
                    Halide::select(counts && is_larger, value.expr(), old.expr())});
    const Expr winner = bags.index(Value(inside(Halide::max(place, 0), bags.count()))).expr();
    results.define({b, c}, {Value(Halide::select(place < 0, Halide::Internal::make_zero(type), old.expr())),
                            Value(Halide::select(place < 0, Halide::cast<int64_t>(-1), winner))});
  }
  void schedule(auto target) {
    FoldedLines lines{.out = results.func(),
                      .fold = best,
                      .term = {},
                      .of_line = {bags.first, bags.last},
                      .q = rows.q,
                      .c = c,
                      .line = b,
                      .t = rows.t,
                      .terms = bags.count(),
                      .lanes = Descriptor::target.natural_vector_size<Arithmetic>()};
    lines.schedule(target);
  }

 private:
  using Arithmetic = typename Element<T>::Arithmetic;
  BagRows rows;
  Halide::Func term{"term"}, best{"best"};
  const Var b = bags.b, c = rows.c;
};

// sizes[b] = how many indices of bag b count, 1 of none
template <ElementType T>
class BagSizes : public Kernel<BagSizes<T>> {
 public:
  Bags bags;
  Out<T, 1> sizes{"sizes", {any_size}};

  BagSizes() {
    this->formula("sizes[b] = max(1, |{i in bag b : index[i] ≠ padding}|)").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    bags.define();
    const Halide::Type type = Halide::type_of<typename Element<T>::Arithmetic>();
    sizes(bags.b) = Value(Halide::cast(type, bags.counted(Halide::Internal::const_true())));
  }
  void schedule(Cpu) {
    Var task("task"), each("each");
    sizes.func().split(bags.b, task, each, 64, TailStrategy::GuardWithIf).parallel(task);
    compute_at(each);
    bags.padded.update().unscheduled();
  }
  void schedule(auto) {
    index_arithmetic();
    Var task("task"), thread("thread");
    sizes.func().gpu_tile(bags.b, task, thread, 128, TailStrategy::GuardWithIf);
    compute_at(thread);
  }

 private:
  void compute_at(const Var& loop) {
    for (Halide::Func* stage : {&bags.first, &bags.last, &bags.looked_at, &bags.padded}) {
      stage->compute_at(sizes.func(), loop);
    }
  }
};

// bag[i] = the bag that index i belongs to: the last that begins at or before it; -1 of none
template <ElementType T>
class BagOfEntries : public Kernel<BagOfEntries<T>> {
 public:
  In<i64, 1> offsets{"offsets"};
  Scalar<int32_t> size{"size"}, bags{"bags"};  // as Bags::size, and how many there are
  Out<T, 1> bag{"bag", {any_size}};

  BagOfEntries() {
    this->formula("bag[i] = the last of the bags that begin at or before i").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const Expr given = offsets.extent(0), each = Value(size).expr();
    const Expr all = 32 - Halide::cast<int32_t>(Halide::count_leading_zeros(Halide::max(given, 1)));
    const Expr steps = Halide::select(each >= 0, 0, all);
    const Halide::RDom step(0, steps, "step");  // the largest power of two first
    found(i) = Expr(0);
    const Expr before = found(i), next = before + (Expr(1) << (steps - 1 - step));
    const Expr begins = offsets(Value(inside(Halide::clamp(next - 1, 0, given - 1), given))).expr();
    found(i) = Halide::select(next <= given && begins <= Halide::cast<int64_t>(i), next, before);
    const Expr own = Halide::select(each >= 0, i / Halide::max(each, 1), Expr(found(i)) - 1);
    bag(i) = Value(Halide::select(own < Value(bags).expr(), own, -1));
  }
  void schedule(Cpu) {
    Var task("task"), inner("inner");
    bag.func().split(i, task, inner, 1024, TailStrategy::GuardWithIf).parallel(task);
    found.compute_at(bag.func(), inner);
    found.update().unscheduled();
  }
  void schedule(auto) {
    index_arithmetic();
    Var task("task"), thread("thread");
    bag.func().gpu_tile(i, task, thread, 128, TailStrategy::GuardWithIf);
    found.compute_at(bag.func(), thread);
  }

 private:
  Halide::Func found{"found"};
  Var i{"i"};
};

// dweight[p,c] = Σ_q weights[j] dy[bag[j],c], j = order[q], starts[p] ≤ q < starts[p+1]; 0 for what is in no bag
template <ElementType T>
class BagGradient : public Kernel<BagGradient<T>> {
 public:
  In<T, 2> dy{"dy"};
  In<T, 1> weights{"weights"};
  In<i32, 1> bag{"bag", shape_of(weights)}, order{"order", shape_of(weights)}, starts{"starts"};
  Out<T, 2> dweight{"dweight", {any_size, dy.size(1)}};

  BagGradient() {
    this->formula("dweight[p,c] = Σ_q weights[j] dy[bag[j],c], j = order[q], starts[p] <= q < starts[p+1]").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr all = starts.extent(0), count = order.extent(0);
    const auto start = [&](const Expr& row) { return starts(Value(inside(Halide::min(row, all - 1), all))).expr(); };
    first(p) = start(p);
    last(p) = start(p + 1);
    const Expr at = first(p) + turn * terms_together() + t;
    const Expr entry = order(Value(inside(Halide::min(at, last(p) - 1), count))).expr();
    from(t, turn, p) = Halide::select(at < last(p), bag(Value(inside(entry, count))).expr(), -1);
    factor(t, turn, p) = weights(Value(inside(entry, count))).expr();
    const Expr own = from(t, turn, p), zero = Halide::Internal::make_zero(Halide::type_of<Arithmetic>());
    const Expr given = dy(Value(inside(Halide::max(own, 0), dy.extent(0))), c).expr();
    term(t, turn, c, p) = Halide::select(own < 0, zero, given * factor(t, turn, p));
    q = Halide::RDom(0, terms_together(), 0, (count + terms_together() - 1) / terms_together(), "q");
    q.where(first(p) + q.y * terms_together() < last(p));
    total(c, p) = zero;
    total(c, p) += term(q.x, q.y, c, p);
    dweight(p, c) = Value(Expr(total(c, p)));
  }
  void schedule(auto target) {
    FoldedLines lines{.out = dweight.func(),
                      .fold = total,
                      .term = term,
                      .of_line = {first, last},
                      .q = q,
                      .c = c,
                      .line = p,
                      .t = t,
                      .terms = order.extent(0),
                      .lanes = Descriptor::target.natural_vector_size<Arithmetic>()};
    lines.schedule(target, starts.extent(0) / 2 >= order.extent(0));
  }

 private:
  using Arithmetic = typename Element<T>::Arithmetic;
  Halide::Func first{"first"}, last{"last"}, from{"from"}, factor{"factor"}, term{"term"}, total{"total"};
  Halide::RDom q;
  Var p{"p"}, c{"c"}, t{"t"}, turn{"turn"};
};

// y[i] = Σ_c weight[index[i],c] dy[bag[i],c]; 0 where index[i] is padding or in no bag
template <ElementType T>
class BagDots : public Kernel<BagDots<T>> {
 public:
  In<i64, 1> index{"index"};
  In<i32, 1> bag{"bag", shape_of(index)};
  In<T, 2> weight{"weight"}, dy{"dy", {any_size, weight.size(1)}};
  Scalar<int64_t> padding{"padding"};
  Out<T, 1> y{"y", shape_of(index)};

  BagDots() {
    this->formula("y[i] = Σ_c weight[index[i],c] dy[bag[i],c]").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Axis k = weight.reduce(1);
    const Expr number = index(i).expr(), own = bag(i).expr(), is_inside = is_index(number, weight.extent(0));
    const Value row = inside(Halide::cast<int32_t>(Halide::select(is_inside, number, 0)), weight.extent(0));
    const Value of_bag = inside(Halide::max(own, 0), dy.extent(0));
    total(i) = sum(k, weight(row, k) * dy(of_bag, k));
    const Expr is_none = own < 0 || (is_inside && number == Value(padding).expr());
    y(i) = Value(zero_where(is_none, nan_where(!is_inside, Value(total(i)).expr())));
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Stage total{"total"};
  Var i{"i"};
};

const std::vector<DType> kFloats{DType::f32, DType::f16, DType::bf16, DType::f64};
const OperatorTensor kOffsets{.name = "offsets", .dtype = DType::i64, .is_optional = true};
const OperatorTensor kSampleWeights{.name = "per_sample_weights", .is_optional = true};
const OperatorOption kPadding{"padding_idx", FormOption::Kind::integer, -1};
const OperatorOption kLastOffset{.name = "include_last_offset", .kind = FormOption::Kind::boolean};
const std::string kHeader = "autograd/recipes/embedding_bag.h";

const bool registered =
    register_kernel<BagSums, f32, f16, bf16, f64>("bag_sums") &&
    register_kernel<BagMaxima, f32, f16, bf16, f64>("bag_maxima") && register_kernel<BagSizes, f32, f64>("bag_sizes") &&
    register_kernel<BagOfEntries, i32>("bag_of_entries") && register_kernel<BagGradient, f32, f64>("bag_gradient") &&
    register_kernel<BagDots, f32, f16, bf16, f64>("bag_dots") &&
    register_operator(
        {.name = "embedding_bag",
         .formula =
             "embedding_bag(index, weight, offsets).y[b,c] = Σ weight[index[i],c], offsets[b] <= i < offsets[b + "
             "1] (the last bag ends with the index, or with include_last_offset at the last offset), each "
             "times per_sample_weights[i], or their mean or max; of an index of rank 2 each row is a bag. "
             "padding_idx (-1: none) isn't counted; of none 0. winners are the rows of the maxima, the first of "
             "equals or NaN, -1 of none, and empty without. An index outside is an IndexError on the CPU; on a "
             "GPU, and in a graph's replay, it reads NaN",
         .dtypes = kFloats,
         .inputs = {{"index", DType::i64}, {"weight"}, kOffsets, kSampleWeights},
         .options = {{"mode", FormOption::Kind::choice, 1, {"sum", "mean", "max"}}, kPadding, kLastOffset},
         .outputs = {{"y"}, {"winners", DType::i64}},
         .calls = {"bag_sums", "bag_maxima"},
         .gradients = {{"weight",
                        "embedding_bag_weight_grad(dy, index, offsets, per_sample_weights, winners, weight.shape()[0], "
                        "static_cast<int>(mode), padding_idx, include_last_offset)",
                        kHeader},
                       {"per_sample_weights",
                        "embedding_bag_samples_grad(dy, index, weight, offsets, padding_idx, include_last_offset)",
                        {}}},
         .saved_when = {{"weight", "per_sample_weights.defined()"}}}) &&
    register_operator(
        {.name = "embedding_bag_grad",
         .formula = "embedding_bag_grad(dy, index, offsets, per_sample_weights, rows)[p,c] = Σ_i [index[i] = p ≠ "
                    "padding_idx] per_sample_weights[i] dy[b,c], p < rows, b the bag of i, in the order of i; with "
                    "is_mean dy[b,c] / the indices of bag b that count",
         .dtypes = kFloats,
         .inputs = {{"dy"}, {"index", DType::i64}, kOffsets, kSampleWeights},
         .scalars = {{.name = "rows", .dtype = DType::i64, .default_value = "0"}},
         .options = {{.name = "is_mean", .kind = FormOption::Kind::boolean}, kPadding, kLastOffset},
         .outputs = {{"dweight"}},
         .calls = {"scatter_keys", "segment_starts", "radix_count", "radix_move", "sort_short_rows", "cumsum",
                   "bag_sizes", "bag_of_entries", "bag_gradient", "div", "cast"},
         .gradients = {{"dy",
                        "embedding_bag_rows(ddweight, index, offsets, per_sample_weights, is_mean, padding_idx, "
                        "include_last_offset)",
                        kHeader},
                       {"per_sample_weights",
                        "embedding_bag_samples_grad(dy, index, ddweight, offsets, padding_idx, include_last_offset)",
                        {}}}}) &&
    register_operator(
        {.name = "embedding_bag_samples_grad",
         .formula = "embedding_bag_samples_grad(dy, index, weight, offsets)[i] = Σ_c weight[index[i],c] dy[b,c], b the "
                    "bag of i; 0 where index[i] = padding_idx",
         .dtypes = kFloats,
         .inputs = {{"dy"}, {"index", DType::i64}, {"weight"}, kOffsets},
         .options = {kPadding, kLastOffset},
         .outputs = {{"dsamples"}},
         .calls = {"bag_of_entries", "bag_dots"},
         .gradients = {{"dy",
                        "embedding_bag_rows(weight, index, offsets, ddsamples, false, padding_idx, "
                        "include_last_offset)",
                        kHeader},
                       {"weight",
                        "embedding_bag_grad(dy, index, offsets, ddsamples, weight.shape()[0], false, padding_idx, "
                        "include_last_offset)",
                        {}}}});

}  // namespace ashlar::dsl
