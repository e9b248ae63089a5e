// Guarded vectors on OpenCL: how often a kernel's text says the same.
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

}  // namespace
}  // namespace ashlar::dsl
