#include "schedules/lowering/per_thread.h"

#include <optional>
#include <set>

#include "dsl/descriptor.h"
#include "dsl/ptx_markers.h"
#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

// An index taken apart: what depends on the thread, and a constant. Vectors are dense ramps.
struct Place {
  ir::Linear index;
  int lanes;
};

// Walks one kernel and gives every access of the Func, taken apart, to `found`.
class Accesses : public IRMutator {
 public:
  explicit Accesses(std::string func) : func_(std::move(func)) {}

 protected:
  using IRMutator::visit;
  bool is_mine(const std::string& name) const { return ir::is_allocation_of(name, func_); }
  [[noreturn]] void fail(const std::string& what) const { ir::fail("per_thread", func_, what); }

  Place place(const Expr& index) const {
    Expr base = index;
    int lanes = 1;
    if (const auto* ramp = index.as<Ramp>()) {
      if (!is_const_one(ramp->stride) || !ramp->base.type().is_scalar()) fail("a vector access that isn't dense");
      base = ramp->base;
      lanes = ramp->lanes;
    } else if (!index.type().is_scalar()) {
      fail("a vector access that isn't dense: " + ir::text(index));
    }
    const ir::Linear at(bindings_.expand(base));
    for (const auto& [name, part] : at.parts) {
      struct Others : IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        void visit(const Variable* op) override { found = found || !ir::is_thread_index(op->name); }
      } others;
      part.first.accept(&others);
      if (others.found) fail("an index depends on more than the thread; unroll the loops inside a thread: " + name);
    }
    return {at, lanes};
  }

  Stmt visit(const LetStmt* op) override {
    const Expr value = mutate(op->value);
    bindings_.push(op->name, op->value);
    const Stmt body = mutate(op->body);
    bindings_.pop();
    return LetStmt::make(op->name, value, body);
  }
  Expr visit(const Let* op) override {
    const Expr value = mutate(op->value);
    bindings_.push(op->name, op->value);
    const Expr body = mutate(op->body);
    bindings_.pop();
    return Let::make(op->name, value, body);
  }

  const std::string func_;
  ir::Bindings bindings_;
};

// First walk: which constants there are, that the thread-dependent part is the same everywhere, and that every constant
// that is read is also written. Whatever that part is, a thread then reads only places that it writes itself.
class Collect : public Accesses {
 public:
  using Accesses::Accesses;
  std::set<int64_t> stored, loaded;

  void check() const {
    for (const int64_t constant : loaded) {
      if (stored.count(constant) == 0) {
        fail("threads use each other's part: one reads " + std::to_string(constant) +
             " beyond its first place, where it never writes");
      }
    }
  }

 private:
  using Accesses::visit;
  void add(const Expr& index, std::set<int64_t>& constants) {
    const Place at = place(index);
    if (!first_) first_ = at.index;
    if (!first_->same_parts(at.index)) {
      std::string parts;
      for (const auto& [name, part] : at.index.parts) parts += " + " + std::to_string(part.second) + " · " + name;
      fail("threads use each other's part: beside constants, an access is at" + parts + ", unlike the first");
    }
    for (int i = 0; i < at.lanes; i++) constants.insert(at.index.constant + i);
  }
  Expr visit(const Load* op) override {
    if (is_mine(op->name)) add(op->index, loaded);
    return IRMutator::visit(op);
  }
  Stmt visit(const Store* op) override {
    if (is_mine(op->name)) add(op->index, stored);
    return IRMutator::visit(op);
  }
  std::optional<ir::Linear> first_;
};

// Second walk: indices become numbers from 0.
class Renumber : public Accesses {
 public:
  Renumber(const std::string& func, const std::set<int64_t>& constants) : Accesses(func) {
    for (const int64_t constant : constants) slots_.emplace(constant, static_cast<int>(slots_.size()));
  }
  int allocations = 0;

 private:
  using Accesses::visit;
  // A vector's elements one by one: LLVM would carry the sums in pairs of registers otherwise, with moves around.
  std::vector<Expr> slots(const Expr& index) const {
    const Place at = place(index);
    std::vector<Expr> all;
    for (int i = 0; i < at.lanes; i++) all.emplace_back(slots_.at(at.index.constant + i));
    return all;
  }
  Expr visit(const Load* op) override {
    if (!is_mine(op->name)) return IRMutator::visit(op);
    if (!is_const_one(op->predicate)) fail("a predicated load");
    std::vector<Expr> elements;
    for (const Expr& slot : slots(op->index)) {
      elements.push_back(
          Load::make(op->type.element_of(), op->name, slot, op->image, op->param, const_true(), ModulusRemainder()));
    }
    return elements.size() == 1 ? elements[0] : Shuffle::make_concat(elements);
  }
  Stmt visit(const Store* op) override {
    if (!is_mine(op->name)) return IRMutator::visit(op);
    if (!is_const_one(op->predicate)) fail("a predicated store");
    const std::vector<Expr> all = slots(op->index);
    const auto store = [&](const Expr& value, const Expr& slot) {
      return Store::make(op->name, value, slot, op->param, const_true(), ModulusRemainder());
    };
    if (all.size() == 1) return store(mutate(op->value), all[0]);
    const std::string name = unique_name('v');
    const Expr vector = Variable::make(op->value.type(), name);
    std::vector<Stmt> stores;
    for (size_t i = 0; i < all.size(); i++) {
      stores.push_back(store(Shuffle::make_extract_element(vector, static_cast<int>(i)), all[i]));
    }
    return LetStmt::make(name, mutate(op->value), Block::make(stores));
  }
  Stmt visit(const Allocate* op) override {
    if (!is_mine(op->name)) return IRMutator::visit(op);
    if (op->memory_type != Halide::MemoryType::Register) fail("it isn't stored in registers");
    allocations++;
    return Allocate::make(op->name, op->type, op->memory_type, {static_cast<int>(slots_.size())}, op->condition,
                          mutate(op->body), op->new_expr, op->free_function, op->padding);
  }
  std::map<int64_t, int> slots_;
};

class PerThread : public ir::EachKernel {
 public:
  explicit PerThread(std::string func) : func_(std::move(func)) {}

 private:
  Stmt kernel(const Stmt& loop) override {
    Collect collect(func_);
    collect.mutate(loop);
    if (collect.stored.empty()) return loop;
    collect.check();
    Renumber renumber(func_, collect.stored);
    const Stmt result = renumber.mutate(loop);
    if (renumber.allocations != 1) {
      ir::fail("per_thread", func_,
               "a kernel must allocate it once, at block level, and allocates it " +
                   std::to_string(renumber.allocations) + " times");
    }
    return result;
  }
  const std::string func_;
};

// Has the kernels that compute a Func, or all, begin with a marker.
class MarkKernels : public ir::EachKernel {
 public:
  MarkKernels(std::string marker, std::string func = {}) : marker_(std::move(marker)), func_(std::move(func)) {}

 private:
  Stmt kernel(const Stmt& loop) override {
    struct Computes : IRVisitor {
      using IRVisitor::visit;
      std::string func;
      bool found = false;
      void visit(const ProducerConsumer* op) override {
        found = found || (op->is_producer && op->name == func);
        IRVisitor::visit(op);
      }
    } computes;
    computes.func = func_;
    loop.accept(&computes);
    if (!func_.empty() && !computes.found) return loop;
    return ir::started_with(ir::marker(marker_), loop);
  }
  const std::string marker_, func_;
};

}  // namespace

std::unique_ptr<IRMutator> per_thread_pass(const std::string& func) { return std::make_unique<PerThread>(func); }

std::unique_ptr<IRMutator> limit_registers_pass(const std::string& func, int registers) {
  return std::make_unique<MarkKernels>(ptx::marker_name(ptx::kRegisters, {registers}), func);
}

void per_thread(Halide::Func sums) {
  sums.store_in(Halide::MemoryType::Register);
  Descriptor::current->lowering_passes.emplace_back(per_thread_pass(sums.name()));
}

void limit_registers(Halide::Func func, int registers) {
  Descriptor::current->lowering_passes.emplace_back(limit_registers_pass(func.name(), registers));
}

void loads_see_stores() {
  Descriptor::current->lowering_passes.emplace_back(std::make_unique<MarkKernels>(ptx::marker_name(ptx::kCoherent)));
}

}  // namespace ashlar::dsl
