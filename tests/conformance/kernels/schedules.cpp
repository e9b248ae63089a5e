// One kernel that no family fits, from generic() to a schedule of its own: what docs/how-to/schedule-a-kernel.md walks
// through, and what generic() is measured against.
#include "schedules/generic.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

// generic()'s 81 gathers of 16 take the compiler minutes.
constexpr CodeTarget kWidestOnCpu = CodeTarget::cpu_avx2;

// Σ_{|i| <= 4} weight[|i|] at(i)
template <class At>
Value weighted(At at) {
  constexpr double kWeights[] = {0.2, 0.16, 0.12, 0.08, 0.04};
  Value sum = kWeights[0] * at(0);
  for (int i = 1; i <= 4; i++) sum = sum + kWeights[i] * (at(-i) + at(i));
  return sum;
}

// y[r,c] = Σ_{|i| <= 4} weight[|i|] across[r+i,c],  across[r,c] = Σ_{|j| <= 4} weight[|j|] x[r,c+j]
template <ElementType T>
class Smooth : public Kernel<Smooth<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};

  Smooth() {
    this->formula("y[r,c] = Σ_{|i|,|j| <= 4} weight[|i|] weight[|j|] x[r+i,c+j]").form(Form::plain);
    this->widest_on_cpu(kWidestOnCpu);
  }
  void algorithm() {
    const Bordered along = bordered(x, Border::clamp);
    across(r, c) = weighted([&](int j) { return along(r, Value(c) + j); });
    const Bordered down = bordered(across, shape_of(x), Border::clamp);
    y(r, c) = weighted([&](int i) { return down(Value(r) + i, c); });
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Stage across{"across"};
  Var r{"r"}, c{"c"};
};

// The same through memory: a pass along the rows, and a pass down the columns
template <ElementType T>
class SmoothInTwo : public Kernel<SmoothInTwo<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};
  Scratch<f32, 2> across{"across", shape_of(x)};

  SmoothInTwo() {
    this->formula("y[r,c] = Σ_{|i|,|j| <= 4} weight[|i|] weight[|j|] x[r+i,c+j]").form(Form::plain);
    this->widest_on_cpu(kWidestOnCpu);
  }
  void algorithm() {
    const Bordered along = bordered(x, Border::clamp);
    across(r, c) = weighted([&](int j) { return along(r, Value(c) + j); });
    const Bordered down = bordered(across, Border::clamp);
    y(r, c) = weighted([&](int i) { return down(Value(r) + i, c); });
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Var r{"r"}, c{"c"};
};

// The same with a schedule of its own
template <ElementType T>
class SmoothInTiles : public Kernel<SmoothInTiles<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};

  SmoothInTiles() {
    this->formula("y[r,c] = Σ_{|i|,|j| <= 4} weight[|i|] weight[|j|] x[r+i,c+j]").form(Form::plain);
    this->widest_on_cpu(kWidestOnCpu);
  }
  void algorithm() {
    const Bordered along = bordered(x, Border::clamp);
    across(r, c) = weighted([&](int j) { return along(r, Value(c) + j); });
    y(r, c) = weighted([&](int i) { return across(Value(r) + i, c); });
  }

  void schedule(Cpu) {
    Var strip("strip"), row("row"), vector("vector"), lane("lane");
    const int lanes = Descriptor::target.natural_vector_size<float>();
    y.func()
        .split(r, strip, row, 32, Halide::TailStrategy::GuardWithIf)
        .split(c, vector, lane, lanes, Halide::TailStrategy::GuardWithIf)
        .reorder(lane, vector, row, strip)
        .vectorize(lane)
        .parallel(strip);
    // Each row once, when it is first needed; the last nine are kept.
    across.func()
        .store_at(y.func(), strip)
        .compute_at(y.func(), row)
        .vectorize(c, lanes, Halide::TailStrategy::GuardWithIf);
  }

  void schedule(OpenCL) { in_tiles(); }
  void schedule(Cuda) { in_tiles(); }

 private:
  void in_tiles() {
    constexpr int kColumns = 32, kRows = 8, kEach = 4, kTile = kRows * kEach, kReach = 4;
    Var column_block("column_block"), row_block("row_block"), column("column"), in_tile("in_tile"), row("row"),
        step("step");
    y.func()
        .split(c, column_block, column, kColumns, Halide::TailStrategy::GuardWithIf)
        .split(r, row_block, in_tile, kTile, Halide::TailStrategy::GuardWithIf)
        .split(in_tile, step, row, kRows)
        .reorder(step, column, row, column_block, row_block)
        .unroll(step)
        .gpu_blocks(column_block, row_block)
        .gpu_threads(column, row);
    across.func()
        .compute_at(y.func(), column_block)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_storage(c, kColumns)
        .bound_storage(r, kTile + 2 * kReach)
        .split(r, step, row, kRows, Halide::TailStrategy::GuardWithIf)
        .reorder(step, c, row)
        .gpu_threads(c, row);
    index_arithmetic();
  }

  Stage across{"across"};
  Var r{"r"}, c{"c"};
};

// The 3x3 blur of neighbours.cpp by a schedule as an author would write it: a row at a time, several of them a thread
template <ElementType T>
class BlurInRows : public Kernel<BlurInRows<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};

  BlurInRows() { this->formula("y[r,c] = Σ_{|i|,|j| <= 1} (2 - |i|) (2 - |j|) x[r+i,c+j] / 16").form(Form::plain); }
  void algorithm() {
    const Bordered around = bordered(x, Border::clamp);
    const auto row = [&](const Value& at) {
      return around(at, Value(c) - 1) + 2.0 * around(at, c) + around(at, Value(c) + 1);
    };
    y(r, c) = (row(Value(r) - 1) + 2.0 * row(r) + row(Value(r) + 1)) * (1.0 / 16);
  }
  void schedule(Cpu) {
    Var task("task"), row("row");
    y.func()
        .split(r, task, row, 32, Halide::TailStrategy::GuardWithIf)
        .vectorize(c, 2 * Descriptor::target.natural_vector_size<float>(), Halide::TailStrategy::GuardWithIf)
        .parallel(task);
  }
  void schedule(auto) {
    Var column_block("column_block"), row_block("row_block"), column("column"), row("row");
    y.func().gpu_tile(c, r, column_block, row_block, column, row, 64, 4, Halide::TailStrategy::GuardWithIf);
    index_arithmetic();
  }

 private:
  Var r{"r"}, c{"c"};
};

const bool registered = register_kernel<BlurInRows, f32>("test_blur_in_rows") &&
                        register_kernel<Smooth, f32>("test_smooth") &&
                        register_kernel<SmoothInTwo, f32>("test_smooth_in_two") &&
                        register_kernel<SmoothInTiles, f32>("test_smooth_in_tiles");

}  // namespace ashlar::dsl
