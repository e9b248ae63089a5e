// Windows that slide over the two axes of an image, as convolution, pooling, unfold and fold share them: where output
// p's tap i reads, and which outputs read at h. Positions and sizes are below 2²¹ (operators/window.h checks).
#pragma once

#include "dsl/kernel.h"
#include "schedules/lowering/certain_checks.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

inline Expr scalar_of(const Scalar<int32_t>& scalar) { return Value(scalar).expr(); }

/// floor(a / n) for |a| < 2²¹ and n ≥ 1, by a product with 1/n: (a + ½) / n is at least ½/n from every integer, and
/// the error of the product is less. Vectors of integers have no division on any target.
inline Expr small_quotient(const Expr& a, const Expr& n) {
  return Halide::cast<int32_t>(
      Halide::floor((Halide::cast<float>(a) + 0.5f) * (1.0f / Halide::cast<float>(Halide::max(n, 1)))));
}

/// How the windows of an output lie: at equal steps, or as many as there are outputs, which together cover all
/// (PyTorch's adaptive pooling).
enum class Windows : uint8_t { sliding, adaptive };

/// One of the axes: outputs p in [0, outputs) read h in [0, size), by taps i in [0, taps).
struct WindowAxis {
  Windows windows;
  Expr size, outputs, taps, stride, padding, dilation;

  Expr start(const Expr& p) const {
    return windows == Windows::sliding ? p * stride - padding
                                       : unless_one(0, small_quotient_of_product(p, size, outputs));
  }
  /// One after the last element of an adaptive window.
  Expr end(const Expr& p) const {
    return unless_one(size, size - small_quotient_of_product(outputs - 1 - p, size, outputs));
  }
  /// Where tap i of output p reads.
  Expr place(const Expr& p, const Expr& i) const {
    return windows == Windows::sliding ? start(p) + i * dilation : start(p) + i;
  }
  Expr is_inside(const Expr& p, const Expr& i) const {
    const Expr h = place(p, i);
    if (windows == Windows::adaptive) return h < end(p);
    if (on_gpu()) return Halide::cast<uint32_t>(h) < Halide::cast<uint32_t>(size);
    return h >= 0 && h < size;
  }
  Expr inside(const Expr& h) const {
    // On the CPU loops have parts of their own where nothing needs to be clamped, and vectors are loaded whole.
    const Expr at = on_gpu() ? h : Halide::likely(h);
    return Halide::unsafe_promise_clamped(Halide::clamp(at, 0, size - 1), 0, size - 1);
  }

  /// Of an h whose element counts only if it is inside.
  Expr certain(const Expr& h) const {
    return Halide::unsafe_promise_clamped(Halide::clamp(h, 0, size - 1), 0, size - 1);
  }

  // The other way round: the c-th output that may read h, c in [0, candidates), and by which tap.
  Expr reader(const Expr& h, const Expr& c) const {
    return windows == Windows::sliding ? small_quotient(h + padding, stride) - c
                                       : unless_one(0, small_quotient_of_product(h, outputs, size)) + c;
  }
  /// Of adaptive windows, which read h from reader(h, 0) on: how many they are.
  Expr readers(const Expr& h) const {
    return outputs - small_quotient_of_product(size - 1 - h, outputs, size) - reader(h, 0);
  }
  Expr tap(const Expr& h, const Expr& p) const {
    const bool is_dense = windows == Windows::adaptive || Halide::Internal::is_const_one(dilation);
    return is_dense ? h - start(p) : small_quotient(h - start(p), dilation);
  }
  Expr reads(const Expr& h, const Expr& p) const {
    if (windows == Windows::adaptive) return p < outputs && start(p) <= h && h < end(p);
    const Expr t = tap(h, p);
    return p >= 0 && p < outputs && t >= 0 && t < taps && start(p) + t * dilation == h;
  }
  Expr inside_outputs(const Expr& p) const {
    return Halide::unsafe_promise_clamped(Halide::clamp(p, 0, outputs - 1), 0, outputs - 1);
  }

 private:
  // A GPU has kernels for the one adaptive window of a whole axis.
  Expr unless_one(const Expr& of_one, const Expr& of_several) const {
    return on_gpu() ? Halide::select(outputs == 1, of_one, of_several) : of_several;
  }
  // floor(a b / n): the host's check holds for the product, too
  static Expr small_quotient_of_product(const Expr& a, const Expr& b, const Expr& n) {
    return small_quotient(a * b, n);
  }
};

/// The scalars of a kernel that say how windows lie; as a member, declared between inputs and outputs.
struct WindowScalars {
  Scalar<int32_t> taps_h{"taps_h"}, taps_w{"taps_w"}, stride_h{"stride_h"}, stride_w{"stride_w"};
  Scalar<int32_t> padding_h{"padding_h"}, padding_w{"padding_w"}, dilation_h{"dilation_h"}, dilation_w{"dilation_w"};

  WindowAxis rows(Windows windows, const Expr& size, const Expr& outputs) const {
    return {windows, size, outputs, of(taps_h), of(stride_h), of(padding_h), of(dilation_h)};
  }
  WindowAxis columns(Windows windows, const Expr& size, const Expr& outputs) const {
    return {windows, size, outputs, of(taps_w), of(stride_w), of(padding_w), of(dilation_w)};
  }
  /// Of what lies side by side in memory, vectors of outputs then read every element, or every second. Adaptive windows
  /// have no such steps.
  std::vector<Expr> usual_steps(Windows windows, const Expr& memory_stride) const {
    if (windows == Windows::adaptive) return {};
    return {memory_stride == 1 && of(stride_w) == 1, memory_stride == 1 && of(stride_w) == 2};
  }
  /// Windows of n × n taps, for each n.
  std::vector<Expr> taps_of(const std::vector<int>& numbers) const {
    std::vector<Expr> conditions;
    for (const int n : numbers) conditions.push_back(of(taps_h) == n && of(taps_w) == n);
    return conditions;
  }
  /// Those of pooling, whose loops a GPU has written out.
  std::vector<Expr> usual_taps(Windows windows) const {
    return windows == Windows::sliding ? taps_of({2, 3}) : std::vector<Expr>();
  }
  static Expr of(const Scalar<int32_t>& scalar) { return Value(scalar).expr(); }
};

/// What tap (i, j) of output (p, q) reads; outside of the image, and unless it `counts`, `otherwise`.
template <class Input>
Expr in_image(const Input& x, const WindowAxis& rows, const Expr& p, const Expr& i, const WindowAxis& columns,
              const Expr& q, const Expr& j, const Expr& plane, const Expr& otherwise,
              const Expr& counts = Halide::Internal::const_true()) {
  const Expr h = rows.inside(rows.place(p, i)), w = columns.inside(columns.place(q, j));
  const Expr read = x(Value(plane), Value(h), Value(w));
  return Halide::select(rows.is_inside(p, i) && counts && columns.is_inside(q, j), read, otherwise);
}

/// The loop of by_element(Cpu, …) over rows, and that over strips of them, where what rows share is computed.
inline Var row_of_outputs() { return Var("row"); }
inline Var strip_of_outputs() { return Var("strip"); }

/// Elements of planes [a, h, w], each with reductions of its own (`stages`, over the same indices): vectors along w and
/// rows in parallel on the CPU, strips of them by strip_of_outputs(), a thread each on a GPU. `terms`: of each
/// reduction, for the size of a task. `usual`: conditions that get a branch; `unrolled`: those where a reduction's
/// loops are written out.
inline void by_element(Cpu, Halide::Func out, const Var& w, const Var& h, const Var& a, const Expr& width,
                       const Expr& terms, const std::vector<Halide::Func>& stages, const std::vector<Expr>& usual = {},
                       const std::vector<Expr>& unrolled = {}) {
  const int lanes = Descriptor::target.natural_vector_size<float>();
  Var vector("vector"), lane("lane"), row = row_of_outputs(), strip = strip_of_outputs(), task("task");
  constexpr int kTermsOfTask = 1 << 15, kStrip = 1 << 13;
  const Expr high = Halide::max(1, out.output_buffers()[0].dim(1).extent());
  const Expr rows = (high - 1) / ((width * high - 1) / kStrip + 1) + 1;  // of a strip; all strips about as many
  const Expr strips = Halide::max(1, kTermsOfTask / Halide::max(1, width * rows * Halide::max(terms, 1)));
  const auto by_rows = [&](Halide::Stage stage) {
    stage.split(w, vector, lane, lanes, Halide::TailStrategy::GuardWithIf)
        .split(h, strip, row, rows, Halide::TailStrategy::GuardWithIf)
        .fuse(strip, a, strip)
        .split(strip, task, strip, strips, Halide::TailStrategy::GuardWithIf)
        .parallel(task)
        .vectorize(lane);
  };
  for (const Expr& condition : usual) by_rows(out.specialize(condition));
  by_rows(out);
  for (Halide::Func stage : stages) {
    stage.compute_at(out, vector).store_in(Halide::MemoryType::Stack).bound_extent(w, lanes);
    stage.bound_extent(h, 1).bound_extent(a, 1).vectorize(w);
    for (int u = 0; u < stage.num_update_definitions(); u++) {
      std::vector<Halide::VarOrRVar> order{w};
      for (const Halide::RVar& r : stage.rvars(u)) order.emplace_back(r);
      for (const Expr& condition : unrolled) {
        Halide::Stage branch = stage.update(u).specialize(condition).reorder(order).vectorize(w);
        for (const Halide::RVar& r : stage.rvars(u)) branch.unroll(r);
      }
      stage.update(u).reorder(order).vectorize(w);
    }
  }
}
/// On a GPU a thread has kRows elements of a column, whose loads are under way together, and which share what is worked
/// out along the row. Each condition gets a kernel: of `usual` a reduction's innermost loop is written out.
inline void by_element(auto, Halide::Func out, const Var& w, const Var& h, const Var& a, const Expr&, const Expr&,
                       const std::vector<Halide::Func>& stages, const std::vector<Expr>& usual = {},
                       const std::vector<Expr>& unrolled = {}) {
  leave_out_certain_checks();
  index_arithmetic();
  constexpr int kThreads = 128, kRows = 4;
  Var group("group"), row("row"), block("block"), thread("thread"), all("all");
  const auto by_threads = [&](Halide::Stage stage) {
    stage.split(h, group, row, kRows, Halide::TailStrategy::GuardWithIf)
        .reorder(row, w, group, a)
        .fuse(w, group, all)
        .fuse(all, a, all)
        .split(all, block, thread, kThreads, Halide::TailStrategy::GuardWithIf)
        .unroll(row)
        .gpu_blocks(block)
        .gpu_threads(thread);
    for (const Var& loop : {row, thread, block}) stage.partition(loop, Halide::Partition::Never);
  };
  for (const auto& conditions : {unrolled, usual}) {
    for (const Expr& condition : conditions) by_threads(out.specialize(condition));
  }
  by_threads(out);
  for (Halide::Func stage : stages) {
    stage.compute_at(out, thread).store_in(Halide::MemoryType::Register);
    stage.bound_extent(w, 1).bound_extent(h, kRows).bound_extent(a, 1).unroll(h);
    for (int u = 0; u < stage.num_update_definitions(); u++) {
      std::vector<Halide::VarOrRVar> order{h};
      for (const Halide::RVar& r : stage.rvars(u)) order.emplace_back(r);
      for (const Expr& condition : unrolled) {
        Halide::Stage branch = stage.update(u).specialize(condition).reorder(order).unroll(h);
        for (const Halide::RVar& r : stage.rvars(u)) branch.unroll(r);
      }
      for (const Expr& condition : usual) {
        stage.update(u).specialize(condition).reorder(order).unroll(h).unroll(stage.rvars(u)[0]);
      }
      stage.update(u).reorder(order).unroll(h);
    }
  }
}

}  // namespace ashlar::dsl
