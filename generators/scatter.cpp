// Writes at places that a tensor holds; of several for one place the last one counts, on every target and every time. A
// place has one writer, as in scatter_add.cpp, whose sorted segments these are.
#include "dsl/kernel.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {
namespace {

Expr inside(const Expr& index, const Expr& extent) { return Halide::unsafe_promise_clamped(index, 0, extent - 1); }

}  // namespace

// y[o,p,i] = src[o,j,i] of the last j with index[o,j,i] = p, else x[o,p,i]
template <ElementType T>
class ScatterLines : public Kernel<ScatterLines<T>> {
 public:
  In<T, 3> x{"x", strided};
  In<i64, 3> index{"index", {x.size(0), any_size, x.size(2)}, strided};
  In<T, 3> src{"src", {x.size(0), index.size(1), x.size(2)}, strided};
  Out<T, 3> y{"y", shape_of(x)};

  ScatterLines() {
    this->formula("y[o,p,i] = src[o,j,i] of the last j with index[o,j,i] = p, else x[o,p,i], a line (o, i) at a time");
    this->internal().widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    y(o, p, i) = x(o, p, i);
    j = Halide::RDom(0, index.extent(1), "j");
    const Expr n = x.extent(1), at = index(o, j.x, i);
    const Expr counts = Halide::cast<uint64_t>(at) < Halide::cast<uint64_t>(Halide::cast<int64_t>(n));
    const Expr place = inside(Halide::cast<int32_t>(Halide::select(counts, at, 0)), n);
    Halide::Func out = y.func();
    // o and i are indices of the update as they stand: no two tasks, lanes or threads of those write one place.
    out(i, place, o) = Halide::select(counts, src(o, j.x, i).expr(), out(i, place, o));
  }
  void schedule(Cpu) {
    Var chunk("chunk"), task("task"), row("row");
    y.func().split(p, row, p, 4096, Halide::TailStrategy::GuardWithIf).fuse(row, o, task).parallel(task);
    const auto by_lines = [&](Halide::Stage stage) {
      stage.split(i, chunk, i, 256, Halide::TailStrategy::GuardWithIf)
          .reorder(i, j.x, chunk, o)
          .fuse(chunk, o, task)
          .parallel(task);
    };
    by_lines(y.func().update());
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

// y[o,p,i] = src[o, order[o,q,i], i], q = starts[o,p+1,i] - 1, where that is at least starts[o,p,i], else x[o,p,i]
template <ElementType T>
class SegmentLast : public Kernel<SegmentLast<T>> {
 public:
  In<T, 3> x{"x", strided};
  In<T, 3> src{"src", {x.size(0), any_size, x.size(2)}, strided};
  In<i32, 3> order{"order", shape_of(src), strided};
  In<i32, 3> starts{"starts", {x.size(0), x.size(1) + constant(1), x.size(2)}, strided};
  Out<T, 3> y{"y", shape_of(x)};

  SegmentLast() {
    this->formula("y[o,p,i] = the last of the src[o, order[o,q,i], i], starts[o,p,i] <= q < starts[o,p+1,i], or x");
    this->internal().widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const Expr m = src.extent(1);
    const auto start = [&](const Expr& place) { return Expr(starts(o, inside(place, x.extent(1) + 1), i)); };
    const Expr first = start(p), next = start(p + 1);
    const Expr last = inside(order(o, inside(Halide::max(next - 1, 0), m), i), m);
    y(o, p, i) = Value(Halide::select(next > first, src(o, last, i).expr(), x(o, p, i).expr()));
  }
  void schedule(Cpu) {
    Var row("row"), task("task");
    y.func().split(p, row, p, 256, Halide::TailStrategy::GuardWithIf).fuse(row, o, task).parallel(task);
  }
  void schedule(auto) {
    index_arithmetic();
    Var line("line"), all("all"), thread("thread");
    y.func().fuse(i, p, line).fuse(line, o, all).gpu_tile(all, thread, 256, Halide::TailStrategy::GuardWithIf);
  }

 private:
  Var o{"o"}, p{"p"}, i{"i"};
};

const std::string kRecipes = "autograd/recipes/movement.h";

const bool registered = register_kernel<ScatterLines, raw<1>, raw<2>, raw<4>, raw<8>>("scatter_lines") &&
                        register_kernel<SegmentLast, raw<1>, raw<2>, raw<4>, raw<8>>("segment_last");
const bool operator_registered = register_operator(
    {.name = "scatter",
     .formula = "scatter(x, index, src)[o,p,i] = src[o,j,i] of the last j with index[o,j,i] = p, else x[o,p,i]. An "
                "index outside of x is an IndexError on the CPU; on a GPU, and in a graph's replay, it writes "
                "nothing",
     .dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::i16, DType::i8,
                DType::u8, DType::u16, DType::u32, DType::boolean},
     .inputs = {{"x"}, {"index", DType::i64}, {"src"}},
     .options = {{"axis", FormOption::Kind::integer, -1}},
     .outputs = {{"y"}},
     .calls = {"scatter_lines", "segment_last", "scatter_keys", "segment_starts", "radix_count", "radix_move",
               "sort_short_rows", "cumsum"},
     .gradients = {{"x", "scatter_rest_grad(dy, index, axis)", kRecipes},
                   {"src", "scatter_source_grad(dy, index, src.shape(), axis)", kRecipes}},
     .plans = {"segments", "lines"},
     .plan_sizes = {"terms"}});

}  // namespace ashlar::dsl
