#include "schedules/lowering/barriers.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "dsl/descriptor.h"
#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::MemoryType;

struct Event {
  enum Kind : uint8_t { load, store, barrier } kind;
  std::string allocation;  ///< of a load or store
  int number = -1;         ///< of a barrier, in the order of the loop's text
};

// The barriers of a piece of code and its accesses of shared memory in the order of the text, a loop's body once.
class Events : public IRVisitor {
 public:
  explicit Events(const std::set<std::string>& shared) : shared_(shared) {}
  std::vector<Event> all;
  int barriers = 0;
  bool has_inner_loop = false;  ///< with barriers

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    IRVisitor::visit(op);
    if (shared_.contains(op->name)) all.push_back({Event::load, op->name});
  }
  void visit(const Store* op) override {
    IRVisitor::visit(op);
    if (shared_.contains(op->name)) all.push_back({Event::store, op->name});
  }
  void visit(const Evaluate* op) override {
    if (ir::is_barrier(op)) {
      all.push_back({Event::barrier, {}, barriers++});
    } else {
      IRVisitor::visit(op);
    }
  }
  void visit(const For* op) override {
    const int before = barriers;
    IRVisitor::visit(op);
    has_inner_loop = has_inner_loop || (op->for_type == ForType::Serial && barriers != before);
  }
  const std::set<std::string>& shared_;
};

// Of two accesses that a barrier has to stand between, the last one there is needed.
std::set<int> needed_between(const std::vector<Event>& events) {
  std::set<int> needed;
  size_t begin = 0;  // behind the last needed one
  for (size_t i = 0; i < events.size(); i++) {
    if (events[i].kind == Event::barrier) continue;
    for (size_t j = i; j-- > begin;) {
      const bool is_conflict = events[j].kind != Event::barrier && events[j].allocation == events[i].allocation &&
                               (events[j].kind == Event::store || events[i].kind == Event::store);
      if (!is_conflict) continue;
      // The last barrier between both: where there's none, they are one thread's.
      for (size_t k = i; k-- > j + 1;) {
        if (events[k].kind != Event::barrier) continue;
        if (events[k].number >= 0) needed.insert(events[k].number);
        begin = k + 1;
        break;
      }
      if (begin > j) break;
    }
  }
  return needed;
}

class NeededBarriers : public ir::EachKernel {
 private:
  Stmt kernel(const Stmt& loop) override {
    struct Shared : IRVisitor {
      using IRVisitor::visit;
      std::set<std::string> names;
      void visit(const Allocate* op) override {
        if (op->memory_type == MemoryType::GPUShared) names.insert(op->name);
        IRVisitor::visit(op);
      }
    } shared;
    loop.accept(&shared);
    Events whole(shared.names);
    loop.accept(&whole);

    class Loops : public IRMutator {
     public:
      explicit Loops(const std::set<std::string>& shared, std::vector<Event> whole)
          : shared_(shared), whole_(std::move(whole)) {}

     private:
      using IRMutator::visit;
      Stmt visit(const Evaluate* op) override {
        if (ir::is_barrier(op)) seen_++;
        return op;
      }
      Stmt visit(const For* op) override {
        if (op->for_type != ForType::Serial) return IRMutator::visit(op);
        Events body(shared_);
        op->body.accept(&body);
        if (body.barriers == 0) return op;
        const int before = seen_;
        seen_ += body.barriers;
        if (body.has_inner_loop) return op;
        // Two turns, and around them what the kernel has since the last barrier before the loop and until the next.
        const auto number = [&](const Event& event) { return event.kind == Event::barrier ? event.number : -1; };
        const auto first = std::ranges::find(whole_, before, number);
        const auto last = std::ranges::find(whole_, seen_ - 1, number);
        auto from = first;
        while (from != whole_.begin() && std::prev(from)->kind != Event::barrier) from--;
        std::vector<Event> events(from, first);
        events.insert(events.end(), body.all.begin(), body.all.end());
        events.insert(events.end(), body.all.begin(), body.all.end());
        for (auto to = std::next(last); to != whole_.end() && to->kind != Event::barrier; to++) events.push_back(*to);
        const std::set<int> needed = needed_between(events);
        class Drop : public IRMutator {
         public:
          explicit Drop(const std::set<int>& needed) : needed_(needed) {}

         private:
          using IRMutator::visit;
          Stmt visit(const Evaluate* op) override {
            if (!ir::is_barrier(op)) return op;
            return needed_.contains(number_++) ? Stmt(op) : Evaluate::make(0);
          }
          const std::set<int>& needed_;
          int number_ = 0;
        } drop(needed);
        return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                         drop.mutate(op->body));
      }
      const std::set<std::string>& shared_;
      const std::vector<Event> whole_;
      int seen_ = 0;
    } loops(shared.names, whole.all);
    return loops.mutate(loop);
  }
};

}  // namespace

std::unique_ptr<IRMutator> needed_barriers_pass() { return std::make_unique<NeededBarriers>(); }

void needed_barriers() { Descriptor::current->lowering_passes.emplace_back(needed_barriers_pass()); }

}  // namespace ashlar::dsl
