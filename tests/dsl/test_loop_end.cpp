// Loops that end where the data say.
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "dsl/kernel.h"
#include "schedules/lowering/loop_end.h"

namespace ashlar::dsl {
namespace {

// y[i] = Σ_{k < ends[i]} 2 (a[i, k] + 1), by two stages for each k
class SumsToAnEnd : public Kernel<SumsToAnEnd> {
 public:
  static inline bool ends_by_data = true;
  In<f32, 2> a{"a"};
  In<i32, 1> ends{"ends", {a.size(0)}};
  Out<f32, 1> y{"y", {a.size(0)}};

  void algorithm() {
    k = Halide::RDom(0, a.extent(1), "k");
    const Expr end = ends(i).expr();
    first(t, i) = a(i, t).expr() + 1.0f;
    second(t, i) = Halide::select(t < (ends_by_data ? loop_end(end, k.x) : end), first(t, i) * 2.0f, 0.0f);
    sums(i) = 0.0f;
    sums(i) += second(k, i);
    y(i) = Value(Expr(sums(i)));
  }
  void schedule(Cpu) {
    y.func().parallel(i);
    sums.compute_at(y.func(), i).update().unscheduled();
    first.compute_at(sums, k.x);
    second.compute_at(sums, k.x);
  }
  void schedule(auto) { y.func().gpu_tile(i, Var("block"), Var("thread"), 32); }

 private:
  Var i{"i"}, t{"t"};
  Halide::Func first{"first"}, second{"second"}, sums{"sums"};
  Halide::RDom k;
};

struct Loops : Halide::Internal::IRVisitor {
  using IRVisitor::visit;
  void visit(const Halide::Internal::For* op) override {
    if (op->name.ends_with(".k$x")) {
      std::ostringstream text;
      text << op->extent;
      extents.push_back(text.str());
    }
    IRVisitor::visit(op);
  }
  void visit(const Halide::Internal::Call* op) override {
    markers += op->name.starts_with("ashlar_end_of") ? 1 : 0;
    IRVisitor::visit(op);
  }
  std::vector<std::string> extents;
  int markers = 0;
};

Loops loops_of(bool ends_by_data) {
  const Halide::Internal::ScopedValue<Halide::Target> keep(Descriptor::target);
  SumsToAnEnd::ends_by_data = ends_by_data;
  const auto kernel =
      SumsToAnEnd::create(Halide::GeneratorContext(Halide::get_host_target().without_feature(Halide::Target::CUDA)));
  Loops loops;
  for (const auto& function : kernel->build_module("f").functions()) function.body.accept(&loops);
  return loops;
}

TEST(LoopEnd, BoundsTheLoopAndLeavesNoMarker) {
  const Loops all = loops_of(false), ended = loops_of(true);
  ASSERT_EQ(all.extents.size(), 1U);
  ASSERT_EQ(ended.extents.size(), 1U);
  EXPECT_EQ(all.extents[0].find("min("), std::string::npos) << all.extents[0];
  EXPECT_NE(ended.extents[0].find("max(min("), std::string::npos) << ended.extents[0];
  EXPECT_EQ(ended.markers, 0);
}

}  // namespace
}  // namespace ashlar::dsl
