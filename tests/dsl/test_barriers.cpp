// Which barriers of a kernel's loop are left.
#include <gtest/gtest.h>

#include "schedules/lowering/barriers.h"
#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::MemoryType;

const Stmt kBarrier = ir::make_barrier();

Expr loaded(const std::string& from) {
  return Load::make(Halide::Float(32), from, 0, {}, {}, const_true(), ModulusRemainder());
}
Stmt stored(const std::string& to, const Expr& value = 1.0f) {
  return Store::make(to, value, 1, Halide::Parameter(), const_true(), ModulusRemainder());
}
Stmt serial(const std::vector<Stmt>& body, const std::string& name = "turn") {
  return For::make(name, 0, 8, ForType::Serial, Halide::Partition::Never, Halide::DeviceAPI::CUDA, Block::make(body));
}
// A kernel that shares `a` and `b`, while `own` is each thread's.
Stmt kernel(const std::vector<Stmt>& body) {
  Stmt all = Block::make(body);
  for (const auto& [name, memory] :
       {std::pair{"a", MemoryType::GPUShared}, {"b", MemoryType::GPUShared}, {"own", MemoryType::Register}}) {
    all = Allocate::make(name, Halide::Float(32), memory, {64}, const_true(), all);
  }
  return For::make("block", 0, 4, ForType::GPUBlock, Halide::Partition::Never, Halide::DeviceAPI::CUDA, all);
}

// The loop's statements as letters: | is a barrier, A and B are stores of what is shared, a and b loads, . is else.
std::string left(const Stmt& statement) {
  struct Letters : IRVisitor {
    using IRVisitor::visit;
    std::string text;
    void visit(const Evaluate* op) override {
      if (ir::is_barrier(op)) text += '|';
    }
    void visit(const Store* op) override {
      op->value.accept(this);
      text += op->name == "a" ? 'A' : op->name == "b" ? 'B' : '.';
    }
    void visit(const Load* op) override { text += op->name == "own" ? "" : op->name; }
  } letters;
  needed_barriers_pass()->mutate(statement).accept(&letters);
  return letters.text;
}

const Stmt kOwn = stored("own"), kReadsA = stored("own", loaded("a")), kReadsB = stored("own", loaded("b"));

TEST(Barriers, GoWhereNothingIsShared) { EXPECT_EQ(left(kernel({serial({kOwn, kBarrier, kOwn, kBarrier})})), ".."); }

TEST(Barriers, StayBetweenAStoreAndALoadAndBeforeTheNextStore) {
  EXPECT_EQ(left(kernel({serial({kOwn, kBarrier, stored("a"), kBarrier, kReadsA, kBarrier})})), ".|A|a.");
}

TEST(Barriers, OfTwoAllocationsSeparateEachOthersTurns) {
  // What is behind |A|a and before the next A is B's.
  EXPECT_EQ(
      left(kernel({serial({stored("a"), kBarrier, kReadsA, kBarrier, stored("b"), kBarrier, kReadsB, kBarrier})})),
      "A|a.B|b.");
}

TEST(Barriers, StayWhereALoopsEndsMeetWhatIsAround) {
  EXPECT_EQ(left(kernel({stored("a"), serial({kOwn, kBarrier, kReadsA, kBarrier}), kBarrier, stored("a")})), "A.|a.|A");
  EXPECT_EQ(left(kernel({kReadsA, serial({kOwn, kBarrier, kOwn, kBarrier, stored("a")})})), "a...|A");
}

TEST(Barriers, StayInsideOfLoopsWithLoops) {
  const Stmt inner = serial({kOwn, kBarrier, kOwn, kBarrier}, "inner");
  EXPECT_EQ(left(kernel({serial({inner, kBarrier, kOwn, kBarrier})})), ".|.||.|");
}

}  // namespace
}  // namespace ashlar::dsl
