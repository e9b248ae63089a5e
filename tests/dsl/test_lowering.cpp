// Passes of our own on a small pipeline, y[i] = Σ_k a[k, i]: what the PTX then holds, and what they refuse. That the
// numbers are right is for tests/conformance to show, on a GPU.
#include <gtest/gtest.h>

#include "dsl/build/instances.h"
#include "dsl/build/ptx_rewriter.h"
#include "dsl/kernel.h"
#include "schedules/elementwise.h"
#include "schedules/lowering/per_thread.h"
#include "schedules/lowering/stage_async.h"
#include "schedules/row_reduction.h"
#include "tests/dsl/pipeline_text.h"

namespace ashlar::dsl {
namespace {

/// What a test changes about the pipeline.
struct Change {
  bool doubled = false;    // the tile holds 2 a
  bool zero_fill = false;  // the tile holds 0 beyond the last k
  bool swapped = false;    // a thread reads its neighbour's sum
  bool rolled = false;     // the sums of a thread are a loop
  bool vectors = true;     // the tile is copied by quads
  bool strided = false;    // with rows that may start anywhere
  bool late_tile = false;  // the tile is computed for each step
  int stages = 3, registers = 0;
};

class ColumnSums : public Kernel<ColumnSums> {
 public:
  static inline Change change;
  In<f32, 2> a{"a"};  // [k, n]
  Out<f32, 1> y{"y", {a.size(1)}};

  void algorithm() {
    steps = Halide::RDom(0, kDepth, 0, (a.extent(0) + kDepth - 1) / kDepth, "steps");
    const Expr inside = Halide::max(Halide::min(k, a.extent(0) - 1), 0);
    Expr element = a(Value(inside), n).expr();
    if (change.doubled) element = element * 2.0f;
    if (change.zero_fill) element = Halide::select(k < a.extent(0), element, 0.0f);
    tile(n, k) = element;
    sums(n) = 0.0f;
    sums(n) += tile(n, steps.y * kDepth + steps.x);
    y(n) = Value(sums(change.swapped ? (n / 4) * 4 + 3 - n % 4 + 4 * (n % 2) : Expr(n)));
  }
  void schedule(Cuda) {
    Var block("block"), lane("lane"), warp("warp"), i("i"), quad("quad"), item("item");
    Halide::Func out = y.func();
    const auto over_threads = [&](Halide::Stage s) {
      s.split(n, lane, i, 4).split(lane, warp, lane, 32).reorder(i, lane, warp).gpu_threads(lane, warp);
      if (!change.rolled) s.unroll(i);
    };
    out.split(n, block, n, kColumns, Halide::TailStrategy::ShiftInwards).gpu_blocks(block);
    over_threads(out);
    sums.compute_at(out, block).bound_extent(n, kColumns);
    over_threads(sums);
    Halide::Stage update = sums.update();
    update.split(n, lane, i, 4).split(lane, warp, lane, 32).reorder({i, steps.x, lane, warp, steps.y});
    update.unroll(steps.x).gpu_threads(lane, warp);
    if (!change.rolled) update.unroll(i);
    tile.compute_at(sums, change.late_tile ? Var(steps.x.name()) : Var(steps.y.name()));
    tile.bound_extent(n, kColumns).bound_extent(k, change.late_tile ? 1 : kDepth);
    if (change.vectors) {
      tile.split(n, item, quad, 4).vectorize(quad).split(item, warp, lane, 32);
      tile.reorder({quad, k, lane, warp}).unroll(k).gpu_threads(lane, warp);
    } else {
      tile.fuse(n, k, item).split(item, item, lane, 32).split(item, item, warp, 2);
      tile.reorder({item, lane, warp}).unroll(item).gpu_threads(lane, warp);
    }
    if (!change.strided && change.vectors) {
      const Expr wide = a.extent(1) % 4 == 0 && a.axis(0).stride() % 4 == 0 && a.dim(2).min() % 4 == 0;
      out.specialize(wide);
      out.specialize_fail("narrow");
    }
    per_thread(sums);
    if (change.registers > 0) limit_registers(sums, change.registers);
    stage_async({tile}, out, block, change.stages);
  }
  void schedule(OpenCL) { y.func().gpu_tile(n, Var("block"), Var("thread"), 32); }
  void schedule(Cpu) { y.func().vectorize(n, 4, Halide::TailStrategy::GuardWithIf); }

 private:
  static constexpr int kDepth = 4, kColumns = 256;
  Var n{"n"}, k{"k"};
  Halide::Func tile{"tile"}, sums{"sums"};
  Halide::RDom steps;
};

// The PTX of the pipeline so changed, or the error's text.
std::string ptx_of(const Change& change, int capability = 80) {
  ColumnSums::change = change;
  return ptx_or_error<ColumnSums>(capability);
}

bool contains(const std::string& text, const std::string& part) { return count(text, part) > 0; }

// Names of Funcs have a number behind them where a process builds several pipelines.
bool is_refusal(const std::string& error, const std::string& start, const std::string& what) {
  return error.find(start) == 0 && contains(error, "): " + what);
}

TEST(PerThread, SumsLiveInRegisters) {
  const std::string ptx = ptx_of({});
  EXPECT_TRUE(contains(ptx, ".visible .entry")) << ptx;
  EXPECT_FALSE(contains(ptx, ".local")) << "the sums lie in memory";
}

TEST(PerThread, RefusesThreadsThatReadEachOther) {
  const std::string error = ptx_of({.swapped = true});
  EXPECT_TRUE(is_refusal(error, "per_thread(sums", "threads use each other's part")) << error;
}

TEST(PerThread, RefusesALoopOverSums) {
  const std::string error = ptx_of({.rolled = true});
  EXPECT_TRUE(is_refusal(error, "per_thread(sums", "an index depends on more than the thread; unroll")) << error;
}

TEST(StageAsync, CopiesQuadsOfSixteenBytes) {
  const std::string ptx = rewrite_ptx(ptx_of({}));
  // Four of k per thread and turn; two turns are started before the loop, one in it.
  EXPECT_EQ(count(ptx, "cp.async.ca.shared.global"), 12u) << ptx;
  EXPECT_EQ(count(ptx, "], 16"), 12u) << ptx;
  EXPECT_EQ(count(ptx, "cp.async.commit_group"), 3u);
  EXPECT_EQ(count(ptx, "cp.async.wait_group 1"), 1u);
  EXPECT_EQ(count(ptx, "cp.async.wait_group 0"), 1u);
  EXPECT_FALSE(contains(ptx, "ashlar_marker"));
}

TEST(StageAsync, CopiesSingleElements) {
  const std::string ptx = rewrite_ptx(ptx_of({.zero_fill = true, .vectors = false}));
  EXPECT_EQ(count(ptx, "cp.async.ca.shared.global"), 48u) << ptx;
}

TEST(StageAsync, FillsWithZerosBeyondTheEnd) {
  const std::string ptx = rewrite_ptx(ptx_of({.zero_fill = true}));
  EXPECT_EQ(count(ptx, ", 16, %r"), 12u) << "a copy doesn't say how many bytes there are:\n" << ptx;
}

TEST(StageAsync, MoreStagesMeanMoreCopiesAhead) {
  const std::string ptx = rewrite_ptx(ptx_of({.stages = 4}));
  EXPECT_EQ(count(ptx, "cp.async.commit_group"), 4u);
  EXPECT_EQ(count(ptx, "cp.async.wait_group 2"), 1u);
}

TEST(StageAsync, PlainCopiesBelowSm80) {
  const std::string ptx = ptx_of({.zero_fill = true}, 70);
  EXPECT_TRUE(contains(ptx, ".visible .entry")) << ptx;
  EXPECT_FALSE(contains(ptx, "ashlar_marker"));
  EXPECT_TRUE(contains(ptx, "st.shared")) << ptx;
}

TEST(StageAsync, RefusesATileThatIsNoCopy) {
  const std::string error = ptx_of({.doubled = true});
  EXPECT_TRUE(is_refusal(error, "stage_async(tile", "a tile is a plain copy of a tensor, not")) << error;
}

TEST(StageAsync, RefusesVectorsOfUnknownAlignment) {
  const std::string error = ptx_of({.strided = true});
  EXPECT_TRUE(is_refusal(error, "stage_async(tile", "a vector whose alignment can't be proven")) << error;
}

TEST(StageAsync, RefusesASingleStage) {
  const std::string error = ptx_of({.stages = 1});
  EXPECT_TRUE(is_refusal(error, "stage_async(tile", "needs two stages or more")) << error;
}

TEST(LimitRegisters, GoesIntoThePtx) {
  const std::string ptx = rewrite_ptx(ptx_of({.registers = 96}));
  EXPECT_EQ(count(ptx, ".maxnreg 96"), 1u) << ptx;
}

template <ElementType T>
class Doubled : public Kernel<Doubled<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  void algorithm() { y(i) = x(i) + x(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

template <ElementType T>
std::string doubled_ptx(int capability) {
  const Halide::Internal::ScopedValue<Halide::Target> keep(Descriptor::target);
  const auto kernel = Doubled<T>::create(Halide::GeneratorContext(halide_target("cuda", capability)));
  const Halide::Module module = kernel->build_module("f");
  return static_cast<const char*>(module.get_device_code_buffer().data());
}

TEST(WideAccesses, ConvertsPairsOfBf16) {
  const std::string ptx = rewrite_ptx(doubled_ptx<bf16>(80));
  EXPECT_TRUE(contains(ptx, "ld.global.nc.v4.b32") && contains(ptx, "st.global.v4.b32")) << ptx;
  EXPECT_GE(count(ptx, "cvt.rn.bf16x2.f32"), 4u) << ptx;
  EXPECT_GE(count(ptx, ", -65536;"), 4u) << "the upper elements aren't masked out of their words\n" << ptx;
}

TEST(WideAccesses, RoundsBf16ByBitsBelowSm80) {
  const std::string ptx = doubled_ptx<bf16>(75);
  EXPECT_FALSE(contains(ptx, "ashlar_marker")) << ptx;
  EXPECT_TRUE(contains(ptx, "32767")) << ptx;
}

TEST(WholeVectors, AThreadsOwnAreLoadedBeforeTheFirstIsStored) {
  const std::string ptx = doubled_ptx<f32>(80), load = "ld.global.nc.v4.b32";
  const size_t second = ptx.rfind(load), first = ptx.rfind(load, second - 1);
  ASSERT_NE(first, std::string::npos) << ptx;
  EXPECT_GT(ptx.find("st.global", first), second) << ptx;
}

// out[r,c] = a[r,c] + b[r,c] Σ_k a[r,k]: what the output alone reads, beside a sum over a warp's lanes
class ScaledBySums : public Kernel<ScaledBySums> {
 public:
  In<f32, 2> a{"a"};
  In<f32, 2> b{"b", shape_of(a)};
  RowTunables tunables;
  Out<f32, 2> out{"out", shape_of(a)};

  void algorithm() {
    k = a.reduce(1);
    total(r) = sum(k, a(r, k));
    out(r, c) = a(r, c) + b(r, c) * total(r);
  }
  void schedule(auto target) { row_reduction(target, {{total}, out.func(), r, c, tunables}); }

 private:
  Axis k;
  Stage total{"total"};
  Var r{"r"}, c{"c"};
};

// The text of each kernel in which a warp's lanes read from each other.
std::vector<std::string> kernels_with_shuffles(const std::string& ptx) {
  std::vector<std::string> kernels;
  const std::string begin = ".visible .entry";
  for (size_t at = ptx.find(begin); at != std::string::npos;) {
    const size_t next = ptx.find(begin, at + 1);
    const std::string text = ptx.substr(at, next == std::string::npos ? next : next - at);
    if (contains(text, "shfl.sync")) kernels.push_back(text);
    at = next;
  }
  return kernels;
}

TEST(WarpShuffles, ARotationIsOne) {
  const std::vector<std::string> kernels = kernels_with_shuffles(ptx_or_error<ScaledBySums>());
  ASSERT_FALSE(kernels.empty());
  for (const std::string& text : kernels) {
    EXPECT_TRUE(contains(text, "shfl.sync.idx")) << text;
    EXPECT_FALSE(contains(text, "shfl.sync.up") || contains(text, "shfl.sync.down")) << text;
  }
}

TEST(StagedRows, WhatTheOutputAloneReadsIsLoadedBeforeTheLanesMeet) {
  for (const std::string& text : kernels_with_shuffles(ptx_or_error<ScaledBySums>())) {
    EXPECT_LT(text.rfind("ld.global"), text.find("shfl.sync")) << text;
  }
}

}  // namespace
}  // namespace ashlar::dsl
