// across_cluster() on a small pipeline, y[r, c] = x[r, c] (1 + 2 Σ_k x[r, k]) with a row for each cluster of two
// blocks: what the PTX then holds for GPUs with clusters and without, and what is refused. That the numbers are right
// is for tests/conformance to show, on a GPU.
#include <gtest/gtest.h>

#include "dsl/build/ptx_rewriter.h"
#include "dsl/kernel.h"
#include "schedules/lowering/cluster.h"
#include "tests/dsl/pipeline_text.h"

namespace ashlar::dsl {
namespace {

/// What a test changes about the pipeline.
struct Change {
  bool of_thread = false;  // peers are asked for each thread's part
  bool in_rows = false;    // the block's threads have two dimensions
  bool swapped = false;    // the totals are listed in the wrong order
  bool unlisted = false;   // one total isn't listed
  bool plain = false;      // the totals lie in registers
  int cluster = kBlocks;   // what the directive says
  static constexpr int kBlocks = 2, kThreads = 32;
};

class RowTimesSum : public Kernel<RowTimesSum> {
 public:
  static inline Change change;
  In<f32, 2> x{"x"};
  Out<f32, 2> y{"y", shape_of(x)};

  void algorithm() {
    steps = Halide::RDom(0, 4, "steps");
    const Expr thread = rank_in_cluster(t, Change::kBlocks) * Change::kThreads + t;
    const Expr k = Halide::min(steps * Change::kBlocks * Change::kThreads + thread, x.extent(1) - 1);
    part(t, r) = 0.0f;
    part(t, r) += x(r, Value(k)).expr();
    sum(r) = sum_of(part, 0.0f);
    more(r) = sum_of(part, 1.0f);
    const auto whole = [&](const Halide::Func& of) {
      const std::vector<Expr> at = change.of_thread ? std::vector<Expr>{c % Change::kThreads, r} : std::vector<Expr>{r};
      return of_peer(change.of_thread ? part : of, at, 0) + of_peer(change.of_thread ? part : of, at, 1);
    };
    y(r, c) = x(r, c) * Value(whole(sum) + whole(more));
  }
  void schedule(Cuda) {
    Var step("step"), lane("lane"), rank("rank"), above("above");
    Halide::Func out = y.func();
    out.split(c, step, lane, Change::kBlocks * Change::kThreads).split(lane, rank, lane, Change::kThreads);
    out.reorder(step, lane, r, rank).gpu_blocks(r, rank);
    if (change.in_rows) {
      out.split(lane, above, lane, Change::kThreads / 2).gpu_threads(lane, above);
    } else {
      out.gpu_threads(lane);
    }
    part.compute_at(out, r).store_in(Halide::MemoryType::GPUShared).bound_extent(t, Change::kThreads);
    part.gpu_threads(t).bound_storage(r, 1).update().gpu_threads(t);
    for (Halide::Func* total : {&sum, &more}) {
      total->compute_at(out, r).bound_storage(r, 1).gpu_threads(r);
      total->store_in(change.plain ? Halide::MemoryType::Register : Halide::MemoryType::GPUShared);
    }
    std::vector<Halide::Func> totals{sum, more};
    if (change.of_thread) totals = {part};
    if (change.swapped) std::swap(totals[0], totals[1]);
    if (change.unlisted) totals.pop_back();
    across_cluster(totals, change.cluster);
  }
  void schedule(OpenCL) { y.func().gpu_tile(c, Var("block"), Var("thread"), 32); }
  void schedule(Cpu) { y.func().vectorize(c, 4, Halide::TailStrategy::GuardWithIf); }

 private:
  Expr sum_of(const Halide::Func& parts, const Expr& start) const {
    Expr all = start;
    for (int i = 0; i < Change::kThreads; i++) all = all + parts(i, r);
    return all;
  }
  Var t{"t"}, r{"r"}, c{"c"};
  Halide::Func part{"part"}, sum{"sum"}, more{"more"};
  Halide::RDom steps;
};

// The PTX of the pipeline so changed, or the error's text.
std::string ptx_of(const Change& change) {
  RowTimesSum::change = change;
  return ptx_or_error<RowTimesSum>();
}

void expect_refusal(const Change& change, const std::string& total, const std::string& what) {
  const std::string error = ptx_of(change);
  EXPECT_EQ(error.find("across_cluster(" + total), 0u) << error.substr(0, 500);
  EXPECT_EQ(count(error, what), 1u) << error.substr(0, 500);
}

TEST(AcrossCluster, BlocksGiveEachOtherTheirTotals) {
  const std::string ptx = rewrite_ptx(ptx_of({}));
  EXPECT_EQ(count(ptx, ".target sm_90"), 1u) << ptx;
  EXPECT_EQ(count(ptx, ".explicitcluster\n.reqnctapercluster 1, 2, 1\n{"), 1u) << ptx;
  // One beginning and, for each of two totals, a gift and a meeting.
  EXPECT_EQ(count(ptx, "barrier.cluster.arrive.release"), 3u);
  EXPECT_EQ(count(ptx, "barrier.cluster.wait.acquire"), 3u);
  EXPECT_EQ(count(ptx, "mapa.shared::cluster"), 2u);
  EXPECT_EQ(count(ptx, "st.shared::cluster"), 2u);
  EXPECT_EQ(count(ptx, "ashlar_marker") + count(ptx, "ashlar_of_peer") + count(ptx, "ashlar_rank_in"), 0u);
}

TEST(AcrossCluster, OlderGpusGetATrap) {
  const std::string original = ptx_of({}), plain = without_clusters(rewrite_ptx(original), original);
  EXPECT_EQ(count(plain, ".target sm_80"), 1u) << plain;
  EXPECT_EQ(count(plain, "\ttrap;\n}"), 1u) << plain;
  EXPECT_EQ(count(plain, "cluster"), 0u) << plain;
}

TEST(AcrossCluster, RefusesAGridOfAnotherShape) {
  expect_refusal({.cluster = 4}, "sum", "the second dimension of blocks isn't the cluster");
}
TEST(AcrossCluster, RefusesThreadsInTwoDimensions) {
  expect_refusal({.in_rows = true}, "sum", "a block has at least as many threads as the cluster has blocks");
}
TEST(AcrossCluster, RefusesPartsOfThreads) {
  expect_refusal({.of_thread = true}, "part", "a total is one element of 32 bits in the block's shared memory");
}
TEST(AcrossCluster, RefusesTotalsInAnotherOrder) {
  expect_refusal({.swapped = true}, "more", "totals are listed in the order in which they are read");
}
TEST(AcrossCluster, RefusesATotalOfNoDirective) {
  expect_refusal({.unlisted = true}, "sum", "a kernel asks for totals of two directives: more");
}
TEST(AcrossCluster, RefusesTotalsInRegisters) {
  expect_refusal({.plain = true}, "sum", "a total is one element of 32 bits in the block's shared memory");
}

}  // namespace
}  // namespace ashlar::dsl
