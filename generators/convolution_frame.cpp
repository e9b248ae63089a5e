// What a convolution reads: its input in a frame whose border is there, where with a stride each class of rows and
// columns that are read together lies by itself; and where in it each tap reads.
#include "generators/window.h"

namespace ashlar::dsl {

// frame[f,a,b,r,c] = x[a,b, r·stride + f / stride_w - top, c·stride_w + f % stride_w - left], 0 outside
template <ElementType T>
class ConvolutionFrame : public Kernel<ConvolutionFrame<T>> {
 public:
  In<T, 4> x{"x", strided};
  Scalar<int32_t> stride_h{"stride_h"}, stride_w{"stride_w"}, top{"top"}, left{"left"};
  Out<T, 5> frame{"frame", {any_size, x.size(0), x.size(1), any_size, any_size}};

  ConvolutionFrame() {
    this->formula("frame[f,a,b,r,c] = x[a,b, r stride_h + f / stride_w - top, c stride_w + f % stride_w - left]")
        .internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr down = scalar_of(stride_h), right = scalar_of(stride_w);
    if (!on_gpu()) return copy_runs(down, right);
    const Expr h = r * down + f / right - scalar_of(top), w = c * right + f % right - scalar_of(left);
    const Expr rows = x.extent(2), columns = x.extent(3);
    const Expr read =
        x(Value(a), Value(b), Value(Halide::clamp(h, 0, rows - 1)), Value(Halide::clamp(w, 0, columns - 1))).expr();
    frame(f, a, b, r, c) = Value(
        Halide::select(h < 0 || h >= rows || w < 0 || w >= columns, Halide::Internal::make_zero(read.type()), read));
  }
  void schedule(Cpu) {
    constexpr int kElementsOfTask = 8192;
    const int lanes = Descriptor::target.natural_vector_size<float>();
    using Halide::TailStrategy;
    Var plane("plane"), task("task");
    const auto by_planes = [&](Halide::Stage stage, const auto& row, const auto& column) {
      const Expr elements = Halide::max(1, extent(0) * extent(1));
      stage.reorder(column, row, b, a, f).fuse(b, a, plane).fuse(plane, f, plane);
      stage.split(plane, task, plane, Halide::max(1, kElementsOfTask / elements), TailStrategy::GuardWithIf);
      stage.parallel(task).vectorize(column, lanes, TailStrategy::GuardWithIf);
    };
    by_planes(frame.func(), r, c);
    Halide::Stage copied = frame.func().update().allow_race_conditions();  // there are none: lanes are columns
    const Expr is_dense = x.axis(3).stride() == 1;
    for (const int step : {1, 2}) {
      by_planes(copied.specialize(is_dense && scalar_of(stride_h) == step && scalar_of(stride_w) == step), inside.y,
                inside.x);
    }
    by_planes(copied, inside.y, inside.x);
  }
  void schedule(auto) {
    index_arithmetic();
    constexpr int kEach = 4;  // of a thread: what one place is, is worked out once for them
    Var all("all"), each("each"), block("block"), thread("thread");
    frame.func()
        .split(b, b, each, kEach, Halide::TailStrategy::GuardWithIf)
        .reorder(each, c, r, b, a, f)
        .fuse(c, r, all)
        .fuse(all, b, all)
        .fuse(all, a, all)
        .fuse(all, f, all)
        .split(all, block, thread, 256, Halide::TailStrategy::GuardWithIf)
        .gpu_blocks(block)
        .gpu_threads(thread)
        .unroll(each);
  }

 private:
  Expr extent(int d) { return frame.func().output_buffer().dim(d).extent(); }

  /// Zeros, and on them what each phase has of x, which lies side by side: no element asks whether it is in the border.
  void copy_runs(const Expr& down, const Expr& right) {
    struct Run {
      Expr first, count, most;  // places in the frame that x has elements for; `most`: of any phase
    };
    // Place p of a phase is x's p step + phase - before.
    const auto run = [](const Expr& size, const Expr& places, const Expr& step, const Expr& phase, const Expr& before) {
      const Expr first = Halide::max(0, (before - phase + step - 1) / step);
      const Expr count = Halide::min(places, (size - 1 + before - phase) / step + 1) - first;
      const Expr of_one = Halide::min(places, size + before) - Halide::max(0, before);  // of stride 1
      return Run{first, count, Halide::select(step == 1, of_one, (size + step - 1) / Halide::max(step, 1))};
    };
    const Expr i = f / Halide::max(right, 1), j = f % Halide::max(right, 1);
    const Run rows = run(x.extent(2), extent(1), down, i, scalar_of(top)),
              columns = run(x.extent(3), extent(0), right, j, scalar_of(left));
    inside = Halide::RDom(0, Halide::max(0, columns.most), 0, Halide::max(0, rows.most), "inside");
    inside.where((right == 1 || inside.x < columns.count) && (down == 1 || inside.y < rows.count));
    const auto promised = [](const Expr& at, const Expr& size) {
      return Halide::unsafe_promise_clamped(at, 0, size - 1);
    };
    const Expr row = rows.first + inside.y, column = columns.first + inside.x;
    frame(f, a, b, r, c) = Value(0.0f);
    Halide::Func out = frame.func();
    out(promised(column, extent(0)), promised(row, extent(1)), b, a, f) =
        x(Value(a), Value(b), Value(promised(row * down + i - scalar_of(top), x.extent(2))),
          Value(promised(column * right + j - scalar_of(left), x.extent(3))))
            .expr();
  }

  Halide::RDom inside;
  Var f{"f"}, a{"a"}, b{"b"}, r{"r"}, c{"c"};
};

// offsets[t] of tap t = (c, i, j): where in the frame it reads for the first output
template <ElementType T>
class ConvolutionOffsets : public Kernel<ConvolutionOffsets<T>> {
 public:
  Scalar<int32_t> taps_h{"taps_h"}, taps_w{"taps_w"}, stride_h{"stride_h"}, stride_w{"stride_w"};
  Scalar<int32_t> dilation_h{"dilation_h"}, dilation_w{"dilation_w"}, flipped{"flipped"};
  Scalar<int32_t> phase_step{"phase_step"}, channel_step{"channel_step"}, row_step{"row_step"};
  Out<T, 1> offsets{"offsets", {any_size}};

  ConvolutionOffsets() {
    this->formula("offsets[c,i,j] = where tap (i, j) of channel c reads in the frame for the first output").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const Expr high = scalar_of(taps_h), wide = scalar_of(taps_w), down = scalar_of(stride_h),
               right = scalar_of(stride_w), is_flipped = scalar_of(flipped) != 0;
    const Expr j = t % wide, i = t / wide % high, channel = t / (wide * high);
    const Expr h = Halide::select(is_flipped, high - 1 - i, i) * scalar_of(dilation_h);
    const Expr w = Halide::select(is_flipped, wide - 1 - j, j) * scalar_of(dilation_w);
    offsets(t) = Value((h % down * right + w % right) * scalar_of(phase_step) + channel * scalar_of(channel_step) +
                       h / down * scalar_of(row_step) + w / right);
  }
  void schedule(Cpu) { Halide::Stage(offsets.func()).unscheduled(); }
  void schedule(auto) {
    index_arithmetic();
    Var thread("thread");
    offsets.func().gpu_tile(t, thread, 128, Halide::TailStrategy::GuardWithIf);
  }

 private:
  Var t{"t"};
};

const bool registered = register_kernel<ConvolutionFrame, f32>("convolution_frame") &&
                        register_kernel<ConvolutionOffsets, i32>("convolution_offsets");

}  // namespace ashlar::dsl
