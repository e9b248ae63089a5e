// Guarded vectors on OpenCL: how often a kernel's text says the same; and where vectors of tensors begin.
#include <gtest/gtest.h>

#include "schedules/lowering/accesses.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

// y[4 i + lane] = x[4 i + lane] + by, under a guard or not.
struct Accesses : testing::Test {
  const Expr i = Variable::make(Halide::Int(32), "i"), n = Variable::make(Halide::Int(32), "n");
  const Expr index = Ramp::make(i * 4, 1, 4), inside = index < Broadcast::make(n, 4), all = const_true(4);

  Stmt store(const Expr& guard, float by = 1) const {
    const Expr x = Load::make(Halide::Float(32, 4), "x", index, {}, {}, guard, ModulusRemainder());
    return Store::make("y", x + Broadcast::make(by, 4), index, Halide::Parameter(), guard, ModulusRemainder());
  }
  Stmt twice(float by = 1) const {
    const Stmt other = LetStmt::make("t", i, store(inside, by));
    return IfThenElse::make(i * 4 + 4 <= n, LetStmt::make("s", i, store(all)), other);
  }
};

size_t stores_in(const Stmt& statement) {
  struct Count : IRVisitor {
    size_t stores = 0;
    using IRVisitor::visit;
    void visit(const Store*) override { stores++; }
  } count;
  statement.accept(&count);
  return count.stores;
}

TEST_F(Accesses, StoresTheLanesOfAGuardedVectorInALoop) {
  const Stmt lowered = plain_vectors_pass()->mutate(store(inside));
  const auto* loop = lowered.as<For>();
  ASSERT_NE(loop, nullptr) << lowered;
  EXPECT_TRUE(is_const(loop->extent, 4)) << lowered;
  EXPECT_NE(loop->body.as<IfThenElse>(), nullptr) << lowered;
  EXPECT_EQ(stores_in(lowered), 1u) << lowered;
}

TEST_F(Accesses, WritesOutLanesThatOnlyTheirNumberPicks) {
  const Expr mixed =
      Shuffle::make_concat({Variable::make(Halide::Float(32, 2), "a"), Variable::make(Halide::Float(32, 2), "b")});
  const Stmt guarded = Store::make("y", mixed, index, Halide::Parameter(), inside, ModulusRemainder());
  EXPECT_EQ(stores_in(plain_vectors_pass()->mutate(guarded)), 4u);
}

TEST_F(Accesses, KeepsOneOfTwoEqualStoresUnderAUniformGuard) {
  for (const bool is_text : {true, false}) {
    const Stmt lowered = uniform_guards_pass(is_text)->mutate(twice());
    EXPECT_EQ(stores_in(lowered), 1u) << lowered;
    const auto* guarded = lowered.as<IfThenElse>();
    ASSERT_NE(guarded, nullptr) << lowered;
    EXPECT_FALSE(guarded->else_case.defined()) << lowered;
    EXPECT_EQ(equal(guarded->condition, i * 4 + 4 <= n), !is_text) << lowered;
  }
}

TEST_F(Accesses, KeepsBothWhereTheyStoreSomethingElse) {
  for (const bool is_text : {true, false}) EXPECT_EQ(stores_in(uniform_guards_pass(is_text)->mutate(twice(2))), 2u);
}

// if (stride % 4 == 0) { let row = j stride in y[row + 4 i + lane] = x[row + 4 i + begin + lane] }, under that
// condition by its own name, as Halide has it.
struct AlignedVectors : Accesses {
  const Expr stride = Variable::make(Halide::Int(32), "stride"), row = Variable::make(Halide::Int(32), "row");
  const Expr condition = stride % 4 == 0, named = Variable::make(Halide::Bool(), "named");

  Stmt copy(const Expr& guard, int begin) const {
    const Halide::Parameter x(Halide::Float(32), true, 1, "x"), y(Halide::Float(32), true, 1, "y");
    const auto run = [&](int from) { return Ramp::make(row + i * 4 + from, 1, 4); };
    const Expr loaded = Load::make(Halide::Float(32, 4), "x", run(begin), {}, x, all, ModulusRemainder());
    const Stmt stored = Store::make("y", loaded, run(0), y, all, ModulusRemainder());
    const Stmt body = LetStmt::make("row", Variable::make(Halide::Int(32), "j") * stride, stored);
    return LetStmt::make("named", condition, guard.defined() ? IfThenElse::make(guard, body) : body);
  }
  // How many accesses begin at a multiple of four, as code generation will know.
  static int aligned_in(const Stmt& statement) {
    struct Count : IRVisitor {
      using IRVisitor::visit;
      int aligned = 0;
      void add(const ModulusRemainder& at) { aligned += at.modulus % 4 == 0 && at.remainder == 0 ? 1 : 0; }
      void visit(const Load* op) override { add(op->alignment); }
      void visit(const Store* op) override {
        add(op->alignment);
        op->value.accept(this);
      }
    } count;
    aligned_vectors_pass()->mutate(statement).accept(&count);
    return count.aligned;
  }
};

TEST_F(AlignedVectors, BeginWhereTheConditionSaysSo) {
  EXPECT_EQ(aligned_in(copy(condition, 0)), 2);
  EXPECT_EQ(aligned_in(copy(named, 0)), 2);
}

TEST_F(AlignedVectors, BeginAnywhereElse) {
  EXPECT_EQ(aligned_in(copy(condition, 1)), 1);
  EXPECT_EQ(aligned_in(copy(Expr(), 0)), 0);
}

}  // namespace
}  // namespace ashlar::dsl
