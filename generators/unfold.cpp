// Windows of an image as the columns of a matrix, and back.
#include "generators/window.h"

namespace ashlar::dsl {

// columns[a,i,j,p,q] = x[a, p·stride - padding + i·dilation, …], 0 outside
template <ElementType T>
class UnfoldPlanes : public Kernel<UnfoldPlanes<T>> {
 public:
  In<T, 3> x{"x", strided};
  WindowScalars window;
  Out<T, 5> columns{"columns", {x.size(0), any_size, any_size, any_size, any_size}};

  UnfoldPlanes() {
    this->formula("columns[a,i,j,p,q] = x[a, p stride - padding + i dilation, q stride - padding + j dilation]")
        .internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr outputs_h = columns.func().output_buffer().dim(1).extent(), outputs_w = width();
    const WindowAxis rows = window.rows(Windows::sliding, x.extent(1), outputs_h);
    const WindowAxis across = window.columns(Windows::sliding, x.extent(2), outputs_w);
    const Value read = x(Value(a), Value(rows.inside(rows.place(p, i))), Value(across.inside(across.place(q, j))));
    columns(a, i, j, p, q) = select(Value(rows.is_inside(p, i) && across.is_inside(q, j)), read, 0.0f);
  }
  void schedule(Cpu) {
    Var row("row"), task("task");
    columns.func()
        .fuse(p, j, row)
        .fuse(row, i, row)
        .fuse(row, a, row)
        .split(row, task, row, Halide::max(1, 8192 / Halide::max(1, width())), Halide::TailStrategy::GuardWithIf)
        .parallel(task)
        .vectorize(q, Descriptor::target.natural_vector_size<float>(), Halide::TailStrategy::GuardWithIf);
  }
  // A thread has all taps of one window, whose place it works out once.
  void schedule(auto) {
    index_arithmetic();
    Var all("all"), block("block"), thread("thread");
    columns.func()
        .fuse(q, p, all)
        .fuse(all, a, all)
        .split(all, block, thread, 128, Halide::TailStrategy::GuardWithIf)
        .reorder(j, i, thread, block)
        .gpu_blocks(block)
        .gpu_threads(thread);
  }

 private:
  Expr width() const { return columns.func().output_buffer().dim(0).extent(); }
  Var a{"a"}, i{"i"}, j{"j"}, p{"p"}, q{"q"};
};

// x[a,h,w] = Σ columns[a,i,j,p,q] of all that lie at h = p·stride - padding + i·dilation and so for w
template <ElementType T>
class FoldPlanes : public Kernel<FoldPlanes<T>> {
 public:
  In<T, 5> columns{"columns", strided};
  WindowScalars window;
  Scalar<int32_t> candidates_h{"candidates_h"}, candidates_w{"candidates_w"};
  Out<T, 3> x{"x", {columns.size(0), any_size, any_size}};

  FoldPlanes() {
    this->formula("x[a,h,w] = Σ columns[a,i,j,p,q], h = p stride - padding + i dilation and so for w").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const WindowAxis rows = window.rows(Windows::sliding, x.func().output_buffer().dim(1).extent(), columns.extent(3));
    const WindowAxis across = window.columns(Windows::sliding, width(), columns.extent(4));
    r = Halide::RDom(0, WindowScalars::of(candidates_w), 0, WindowScalars::of(candidates_h), "r");
    const Expr p = rows.reader(h, r.y), q = across.reader(w, r.x);
    const auto tap = [](const WindowAxis& axis, const Expr& at, const Expr& out) {
      return Halide::unsafe_promise_clamped(Halide::clamp(axis.tap(at, out), 0, axis.taps - 1), 0, axis.taps - 1);
    };
    const Expr read = columns(Value(a), Value(tap(rows, h, p)), Value(tap(across, w, q)), Value(rows.inside_outputs(p)),
                              Value(across.inside_outputs(q)))
                          .expr();
    total(w, h, a) = 0.0f;
    total(w, h, a) += Halide::select(rows.reads(h, p) && across.reads(w, q), read, 0.0f);
    x(a, h, w) = Value(total(w, h, a));
  }
  void schedule(auto target) {
    by_element(target, x.func(), w, h, a, width(), WindowScalars::of(candidates_w) * WindowScalars::of(candidates_h),
               {total});
  }

 private:
  Expr width() const { return x.func().output_buffer().dim(0).extent(); }
  Halide::Func total{"total"};
  Halide::RDom r;
  Var a{"a"}, h{"h"}, w{"w"};
};

const std::vector<DType> kUnfolded{DType::f32, DType::f16, DType::bf16};
using Kind = FormOption::Kind;

const bool registered =
    register_kernel<UnfoldPlanes, f32>("unfold_planes") && register_kernel<FoldPlanes, f32>("fold_planes") &&
    register_operator(
        {.name = "unfold",
         .formula = "unfold(x)[n, (c,i,j), (p,q)] = x[n, c, p stride - padding + i dilation, q stride - padding + "
                    "j dilation], 0 outside",
         .dtypes = kUnfolded,
         .inputs = {{"x"}},
         .options = {{"kernel_size", Kind::integers},
                     {"dilation", Kind::integers},
                     {"padding", Kind::integers},
                     {"stride", Kind::integers}},
         .outputs = {{"y"}},
         .calls = {"unfold_planes"},
         .gradients = {{"x", "fold(dy, image_size(x.shape()), kernel_size, dilation, padding, stride)"}}}) &&
    register_operator(
        {.name = "fold",
         .formula = "fold(x)[n,c,h,w] = Σ x[n, (c,i,j), (p,q)], h = p stride - padding + i dilation, w likewise",
         .dtypes = kUnfolded,
         .inputs = {{"x"}},
         .options = {{"output_size", Kind::integers},
                     {"kernel_size", Kind::integers},
                     {"dilation", Kind::integers},
                     {"padding", Kind::integers},
                     {"stride", Kind::integers}},
         .outputs = {{"y"}},
         .calls = {"fold_planes"},
         .gradients = {{"x", "unfold(dy, kernel_size, dilation, padding, stride)"}}});

}  // namespace ashlar::dsl
