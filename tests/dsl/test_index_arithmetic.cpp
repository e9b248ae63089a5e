// How coordinates are worked out inside kernels, seen in the OpenCL C of a small pipeline over three dimensions. That
// the numbers are right is for tests/conformance to show.
#include <gtest/gtest.h>

#include "dsl/build/instances.h"
#include "dsl/kernel.h"
#include "schedules/lowering/index_arithmetic.h"
#include "tests/dsl/pipeline_text.h"

namespace ashlar::dsl {
namespace {

class Permuted : public Kernel<Permuted> {
 public:
  static inline bool is_directed = true, divides_values = false;
  In<i32, 3> a{"a"};
  Out<i32, 3> y{"y", {a.size(0), a.size(1), a.size(2)}};

  Permuted() { this->formula("y[i,j,k] = a[i,j,k]"); }
  void algorithm() {
    const Expr value = a(i, j, k).expr();
    y(i, j, k) = Value(divides_values ? value / a.extent(1) : value);
  }
  void schedule(OpenCL) {
    Var outer("outer"), block("block"), thread("thread"), step("step");
    y.func().fuse(k, j, outer).fuse(outer, i, outer);
    y.func().split(outer, block, thread, 128, Halide::TailStrategy::GuardWithIf);
    y.func().split(thread, thread, step, 2).unroll(step).gpu_blocks(block).gpu_threads(thread);
    if (is_directed) index_arithmetic();
  }
  void schedule(auto) {}

 private:
  Var i{"i"}, j{"j"}, k{"k"};
};

std::string source_of(bool is_directed, bool divides_values = false) {
  Permuted::is_directed = is_directed;
  Permuted::divides_values = divides_values;
  const Halide::Internal::ScopedValue<Halide::Target> keep(Descriptor::target);  // other tests count on the host's
  const KernelEntry entry{"permuted", {detail::make_instance<Permuted>({DType::i32})}};
  const KernelSummary kernel = summarize(entry);
  const auto generator = create(kernel.builds.front(), halide_target("opencl", 0));
  const Halide::Buffer<> source = generator->generator().build_module("permuted").get_device_code_buffer();
  return static_cast<const char*>(source.data());
}

constexpr const char* kSign = "? -1 : 0";  // a part of signed division

TEST(IndexArithmetic, DividesWithoutSigns) {
  EXPECT_GT(count(source_of(false), kSign), 0u) << "Halide divides without signs by itself: the pass is dead";
  EXPECT_EQ(count(source_of(true), kSign), 0u);
}

TEST(IndexArithmetic, KeepsTheSignOfValues) { EXPECT_GT(count(source_of(true, true), kSign), 0u); }

TEST(IndexArithmetic, DividesOnceForAllStatements) {
  // Two elements a thread, each stored by whole blocks and by the last one, each with two quotients.
  const std::string plain = source_of(false), shared = source_of(true);
  EXPECT_EQ(count(plain, " / "), 8u) << plain;
  EXPECT_EQ(count(shared, " / "), 4u) << shared;
  EXPECT_EQ(count(plain, "_y["), count(shared, "_y["));
}

}  // namespace
}  // namespace ashlar::dsl
