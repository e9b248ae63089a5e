// Sums at places that a tensor holds, the terms of each place one after the other in the order of the source: the same
// bits on every target and every time. A place has one writer:
//   on the CPU    the task that owns the line through it, which walks along the source; so on a GPU, of few terms
//   on a GPU      a thread, which adds up a segment of the source sorted by place (operators/scatter_add.cpp)
#include "dsl/kernel.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {
namespace {

Expr inside(const Expr& index, const Expr& extent) { return Halide::unsafe_promise_clamped(index, 0, extent - 1); }

}  // namespace

// y[o,p,i] = x[o,p,i] + Σ_j [index[o,j,i] = p ≠ skip] src[o,j,i], in the order of j
template <ElementType T>
class ScatterAddLines : public Kernel<ScatterAddLines<T>> {
 public:
  In<T, 3> x{"x", strided};
  In<i64, 3> index{"index", {x.size(0), any_size, x.size(2)}, strided};
  In<T, 3> src{"src", {x.size(0), index.size(1), x.size(2)}, strided};
  Scalar<int64_t> skip{"skip"};
  Out<T, 3> y{"y", shape_of(x)};

  ScatterAddLines() {
    this->formula("y[o,p,i] = x[o,p,i] + Σ_j [index[o,j,i] = p] src[o,j,i], a line (o, i) at a time").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    // A CPU's caller has put x there already, by what copies quickest.
    if (on_gpu()) {
      y(o, p, i) = x(o, p, i);
    } else {
      y.func()(i, p, o) = Halide::undef<typename Element<T>::Storage>();
    }
    j = Halide::RDom(0, index.extent(1), "j");
    const Expr n = x.extent(1), at = index(o, j.x, i);
    const Expr counts =
        Halide::cast<uint64_t>(at) < Halide::cast<uint64_t>(Halide::cast<int64_t>(n)) && at != Value(skip).expr();
    const Expr place = inside(Halide::cast<int32_t>(Halide::select(counts, at, 0)), n);
    Halide::Func out = y.func();
    // o and i are indices of the update as they stand: no two tasks, lanes or threads of those write one place.
    out(i, place, o) = Halide::select(counts, out(i, place, o) + src(o, j.x, i).expr(), out(i, place, o));
  }
  void schedule(Cpu) {
    const int lanes = Descriptor::target.natural_vector_size<typename Element<T>::Storage>();
    Var chunk("chunk"), task("task"), piece("piece"), vector("vector"), lane("lane");
    constexpr int kTask = 16384, kColumns = 256;  // terms of a task, columns of a chunk
    const Expr width = x.extent(2), count = Halide::max(1, index.extent(1));
    Halide::Stage(y.func()).unscheduled();  // nothing is stored there
    // Lines beside each other in memory: some of them in each task.
    Halide::Stage single = y.func().update().specialize(width == 1);
    single.reorder(i, j.x, o).split(o, task, o, Halide::max(1, kTask / count), Halide::TailStrategy::GuardWithIf);
    single.parallel(task);
    // Else a chunk of columns at a time, so that a row of the source is read as it lies.
    const auto by_columns = [&](Halide::Stage stage, int lanes_of_vector) {
      stage.split(i, vector, lane, lanes_of_vector, Halide::TailStrategy::GuardWithIf)
          .split(vector, chunk, vector, kColumns / lanes_of_vector, Halide::TailStrategy::GuardWithIf)
          .reorder(lane, vector, j.x, chunk, o)
          .fuse(chunk, o, piece);
    };
    Halide::Stage rows = y.func().update().specialize(src.axis(2).stride() == 1 && index.axis(2).stride() == 0);
    by_columns(rows, lanes);
    rows.vectorize(lane).parallel(piece);
    Halide::Stage others = y.func().update();
    by_columns(others, 1);
    const Expr of_piece = count * Halide::min(width, kColumns);
    others.split(piece, task, piece, Halide::max(1, kTask / of_piece), Halide::TailStrategy::GuardWithIf);
    others.parallel(task);
  }
  void schedule(auto) {
    index_arithmetic();
    Var line("line"), all("all"), thread("thread");
    y.func().fuse(i, p, line).fuse(line, o, all).gpu_tile(all, thread, 256, Halide::TailStrategy::GuardWithIf);
    y.func().update().reorder(j.x, i, o).fuse(i, o, all).gpu_tile(all, thread, 64, Halide::TailStrategy::GuardWithIf);
  }

 private:
  Halide::RDom j;
  Var o{"o"}, p{"p"}, i{"i"};
};

// keys[r,j] = index[r,j], or n where that is skip or no place; order[r,j] = j
template <ElementType T>
class ScatterKeys : public Kernel<ScatterKeys<T>> {
 public:
  In<T, 2> index{"index", strided};
  Scalar<int64_t> places{"places"}, skip{"skip"};
  OutTuple<2, u32, i32> made{"made", {{{"keys"}, {"order"}}}, shape_of(index)};

  ScatterKeys() {
    this->formula("keys[r,j] = index[r,j], or n where that is no place; order[r,j] = j").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const Value at = index(r, j), n = places;
    made.define({r, j}, {cast<u32>(select(at >= 0 && at < n && at != skip, at, n)), Value(j)});
  }
  void schedule(Cpu) {
    Var task("task"), inner("inner");
    made.func().fuse(j, r, task).split(task, task, inner, 16384, Halide::TailStrategy::GuardWithIf).parallel(task);
  }
  void schedule(auto) {
    index_arithmetic();
    Var task("task"), thread("thread");
    made.func().fuse(j, r, task).gpu_tile(task, thread, 256, Halide::TailStrategy::GuardWithIf);
  }

 private:
  Var r{"r"}, j{"j"};
};

// starts[r,p] = |{q : keys[r,q] < p}|, keys sorted: by bisection
template <ElementType T>
class SegmentStarts : public Kernel<SegmentStarts<T>> {
 public:
  In<T, 2> keys{"keys"};
  Out<i32, 2> starts{"starts", {keys.size(0), any_size}};

  SegmentStarts() {
    this->formula("starts[r,p] = how many of the sorted keys[r,:] are less than p").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const Expr m = keys.extent(1);
    const Expr steps = 32 - Halide::cast<int32_t>(Halide::count_leading_zeros(Halide::max(m, 1)));
    const Halide::RDom step(0, steps, "step");  // the largest power of two first
    found(p, r) = Expr(0);
    const Expr before = found(p, r), left = m - before, size = Expr(1) << (steps - 1 - step);
    const Expr next = before + Halide::min(size, left);
    const Expr key = keys(r, inside(Halide::max(next - 1, 0), m));
    found(p, r) = Halide::select(size <= left && key < Halide::cast<uint32_t>(p), next, before);
    starts(r, p) = Value(found(p, r));
  }
  void schedule(Cpu) {
    Var task("task"), inner("inner");
    starts.func().fuse(p, r, task).split(task, task, inner, 1024, Halide::TailStrategy::GuardWithIf).parallel(task);
    found.compute_at(starts.func(), inner);
    found.update().unscheduled();
  }
  void schedule(auto) {
    index_arithmetic();
    Var task("task"), thread("thread");
    starts.func().fuse(p, r, task).gpu_tile(task, thread, 128, Halide::TailStrategy::GuardWithIf);
    found.compute_at(starts.func(), thread);
  }

 private:
  Halide::Func found{"found"};
  Var r{"r"}, p{"p"};
};

// y[o,p,i] = x[o,p,i] + Σ_q src[o, order[o,q,i], i], starts[o,p,i] ≤ q < starts[o,p+1,i]
template <ElementType T>
class SegmentSums : public Kernel<SegmentSums<T>> {
 public:
  In<T, 3> x{"x", strided};
  In<T, 3> src{"src", {x.size(0), any_size, x.size(2)}, strided};
  In<i32, 3> order{"order", shape_of(src), strided};
  In<i32, 3> starts{"starts", {x.size(0), x.size(1) + constant(1), x.size(2)}, strided};
  Out<T, 3> y{"y", shape_of(x)};

  SegmentSums() {
    this->formula("y[o,p,i] = x[o,p,i] + Σ_q src[o, order[o,q,i], i], starts[o,p,i] <= q < starts[o,p+1,i]").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const auto start = [&](const Expr& place) { return starts(o, inside(place, x.extent(1) + 1), i).expr(); };
    first(i, p, o) = start(p);
    last(i, p, o) = start(p + 1);
    // Some terms are under way together, added one after the other. What stands in for those beyond the last changes no
    // sum: -0, so that -0 stays.
    constexpr int kTogether = 8;
    const Expr m = src.extent(1), begin = first(i, p, o), end = last(i, p, o);
    const Halide::Type type = Halide::type_of<typename Element<T>::Storage>();
    const Expr nothing = type.is_float() ? Halide::Internal::make_const(type, -0.0) : Halide::Internal::make_zero(type);
    const Expr at = begin + turn * kTogether + t;
    term(t, turn, i, p, o) = Halide::select(
        at < end, src(o, inside(order(o, inside(Halide::min(at, end - 1), m), i), m), i).expr(), nothing);
    q = Halide::RDom(0, kTogether, 0, (m + kTogether - 1) / kTogether, "q");
    q.where(begin + q.y * kTogether < end);
    total(i, p, o) = x(o, p, i).expr();
    total(i, p, o) += term(q.x, q.y, i, p, o);
    y(o, p, i) = Value(total(i, p, o));
  }
  void schedule(Cpu) {
    Var row("row"), task("task");
    y.func().split(p, row, p, 256, Halide::TailStrategy::GuardWithIf).fuse(row, o, task).parallel(task);
    for (Halide::Func* stage : {&first, &last, &total}) stage->compute_at(y.func(), i);
    total.update().unscheduled();
  }
  void schedule(auto) {
    index_arithmetic();
    Var columns("columns"), column("column"), places("places"), place("place"), step("step"), block("block"),
        all("all");
    // A thread has `each` places, one after the other: many, where most get nothing.
    const auto by_threads = [&](Halide::Stage stage, int wide, int high, int each) {
      stage.split(i, columns, column, wide, Halide::TailStrategy::GuardWithIf)
          .split(p, places, place, high * each, Halide::TailStrategy::GuardWithIf)
          .split(place, step, place, high)
          .reorder(step, column, place, places, o, columns)
          .fuse(places, o, block)
          .fuse(block, columns, all)
          .gpu_blocks(all)
          .gpu_threads(column, place);
    };
    const Expr is_wide = x.extent(2) >= 16, are_sparse = x.extent(1) / 2 >= src.extent(1);
    by_threads(y.func().specialize(is_wide && are_sparse), 32, 4, 8);
    by_threads(y.func().specialize(is_wide), 32, 4, 1);
    by_threads(y.func(), 1, 128, 1);
    for (Halide::Func* stage : {&first, &last, &total}) stage->compute_at(y.func(), step);
    total.update().reorder(q.x, q.y).unroll(q.x);
    term.compute_at(total, q.y).unroll(t);
  }

 private:
  Halide::Func first{"first"}, last{"last"}, term{"term"}, total{"total"};
  Halide::RDom q;
  Var o{"o"}, p{"p"}, i{"i"}, t{"t"}, turn{"turn"};
};

const std::vector<DType> kSummable{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64};
const std::vector<std::string> kScattering{"scatter_add_lines", "scatter_keys", "segment_starts",  "segment_sums",
                                           "radix_count",       "radix_move",   "sort_short_rows", "cumsum"};

const bool registered =
    register_kernel<ScatterAddLines, f32, f64, i32, i64>("scatter_add_lines") &&
    register_kernel<ScatterKeys, i64>("scatter_keys") && register_kernel<SegmentStarts, u32>("segment_starts") &&
    register_kernel<SegmentSums, f32, f64, i32, i64>("segment_sums") &&
    register_operator(
        {.name = "scatter_add",
         .formula =
             "scatter_add(x, index, src)[o,p,i] = x[o,p,i] + Σ_j [index[o,j,i] = p] src[o,j,i], in the order of j. "
             "An index outside of x is an IndexError on the CPU; on a GPU, and in a graph's replay, it adds nothing",
         .dtypes = kSummable,
         .inputs = {{"x"}, {"index", DType::i64}, {"src"}},
         .options = {{"axis", FormOption::Kind::integer, -1}},
         .outputs = {{"y"}},
         .calls = kScattering,
         .gradients = {{"x", "dy", {}}, {"src", "scatter_add_source_grad(dy, index, src.shape(), axis)", {}}},
         .plans = {"segments", "lines"},
         .plan_sizes = {"terms"}}) &&
    register_operator(
        {.name = "index_add",
         .formula = "index_add(x, index, src)[o,p,i] = x[o,p,i] + Σ_j [index[j] = p] src[o,j,i], in the order of j",
         .dtypes = kSummable,
         .inputs = {{"x"}, {"index", DType::i64}, {"src"}},
         .options = {{"axis", FormOption::Kind::integer, 0}},
         .outputs = {{"y"}},
         .calls = kScattering,
         .gradients = {{"x", "dy", {}}, {"src", "index_select(dy, index, axis)", {}}}}) &&
    register_operator(
        {.name = "embedding_grad",
         .formula =
             "embedding_grad(dy, index, n)[p,c] = Σ_j [index[j] = p ≠ padding_idx] dy[j,c], p < n, in the order of j",
         .dtypes = kSummable,
         .inputs = {{"dy"}, {"index", DType::i64}},
         .scalars = {{"n", DType::i64}},
         .options = {{"padding_idx", FormOption::Kind::integer, -1}},
         .outputs = {{"dweight"}},
         .calls = kScattering,
         .gradients = {{"dy", "embedding(index, without_row(ddweight, padding_idx), padding_idx)", {}}}});

}  // namespace ashlar::dsl
