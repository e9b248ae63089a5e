#include "schedules/lowering/cluster.h"

#include <algorithm>

#include "dsl/descriptor.h"
#include "dsl/device_facts.h"
#include "dsl/ptx_markers.h"
#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Type;

constexpr const char* kDirective = "across_cluster";
const std::string kOfPeer = "ashlar_of_peer_", kRank = "ashlar_rank_in_cluster";
constexpr int kBytes = 4;  // of a total

// The totals that a statement asks peers for, in order, each with the load that gives this block's own.
struct Asked {
  std::string total;
  Expr own;
};
class FindPeers : public IRVisitor {
 public:
  explicit FindPeers(ir::Bindings& bindings) : bindings_(bindings) {}
  std::vector<Asked> asked;
  bool has_barrier = false;

 private:
  using IRVisitor::visit;
  void visit(const LetStmt* op) override { within(op); }
  void visit(const Let* op) override { within(op); }
  template <class LetNode>
  void within(const LetNode* op) {
    op->value.accept(this);
    bindings_.push(op->name, op->value);
    op->body.accept(this);
    bindings_.pop();
  }
  void visit(const Call* op) override {
    IRVisitor::visit(op);
    has_barrier = has_barrier || op->is_intrinsic(Call::gpu_thread_barrier);
    if (op->name.compare(0, kOfPeer.size(), kOfPeer) != 0) return;
    const std::string total = op->name.substr(kOfPeer.size());
    const auto same = std::find_if(asked.begin(), asked.end(), [&](const Asked& a) { return a.total == total; });
    if (same == asked.end()) asked.push_back({total, bindings_.expand(op->args[0])});
  }
  ir::Bindings& bindings_;
};

// One kernel: puts each total's exchange before the first statement that asks for it.
class Exchange : public IRMutator {
 public:
  Exchange(const std::vector<std::string>& totals, int blocks) : totals_(totals), blocks_(blocks) {}
  int exchanged = 0;
  bool has_cluster() const { return rank_.defined(); }

  using IRMutator::mutate;
  Stmt mutate(const Stmt& s) override {
    if (s.as<Block>() || s.as<ProducerConsumer>() || s.as<Allocate>()) return IRMutator::mutate(s);
    if (const auto* let = s.as<LetStmt>()) {
      const Stmt before = exchange(let->value);
      const Expr value = mutate(let->value);
      bindings_.push(let->name, let->value);
      const Stmt result = LetStmt::make(let->name, value, mutate(let->body));
      bindings_.pop();
      return before.defined() ? Block::make(before, result) : result;
    }
    if (const auto* loop = s.as<For>(); loop != nullptr && loop->for_type != ForType::Serial) return of_gpu(loop);
    if (ir::is_barrier(s)) {
      after_barrier_ = true;
      return s;
    }
    const Stmt before = exchange(s);
    after_barrier_ = false;
    const Stmt replaced = Replace(*this).mutate(s);
    return before.defined() ? Block::make(before, replaced) : replaced;
  }
  Expr mutate(const Expr& e) override { return Replace(*this).mutate(e); }

 private:
  using IRMutator::visit;
  [[noreturn]] void fail(const std::string& what) const { ir::fail(kDirective, totals_.front(), what); }

  // Ranks, and where block `peer` has put its total.
  class Replace : public IRMutator {
   public:
    explicit Replace(const Exchange& exchange) : exchange_(exchange) {}

   private:
    using IRMutator::visit;
    Expr visit(const Call* op) override {
      if (op->name == kRank) {
        if (!exchange_.rank_.defined()) exchange_.fail("a rank outside the loop over the cluster");
        return exchange_.rank_;
      }
      if (op->name.compare(0, kOfPeer.size(), kOfPeer) != 0) return IRMutator::visit(op);
      const int number = exchange_.number_of(op->name.substr(kOfPeer.size()));
      return exchange_.load(op->type, exchange_.place(number, static_cast<int>(*as_const_int(op->args[1]))));
    }
    const Exchange& exchange_;
  };

  int number_of(const std::string& total) const {
    const auto found = std::find(totals_.begin(), totals_.end(), total);
    if (found == totals_.end()) fail("a kernel asks for totals of two directives: " + total);
    return static_cast<int>(found - totals_.begin());
  }
  int place(int number, int peer) const { return first_place_ + number * blocks_ + peer; }
  Expr load(const Type& type, const Expr& index) const {
    return Load::make(type, memory_, index, Halide::Buffer<>(), Halide::Parameter(), const_true(), ModulusRemainder());
  }

  Stmt of_gpu(const For* loop) {
    const auto extent = as_const_int(simplify(loop->extent));
    const bool is_first = loop->name.find(".thread_id_x") != std::string::npos;
    if (loop->for_type == ForType::GPUThread) {
      if (!extent || (is_first ? *extent < blocks_ : *extent != 1)) {
        fail("a block has at least as many threads as the cluster has blocks, in one dimension, unlike " + loop->name);
      }
      if (is_first) thread_ = Variable::make(Halide::Int(32), loop->name);
    } else if (loop->for_type == ForType::GPUBlock) {
      if (loop->name.find(".block_id_y") != std::string::npos) {  // with a number behind it, if need be
        if (!extent || *extent != blocks_)
          fail("the second dimension of blocks isn't the cluster: " + ir::text(loop->extent));
        rank_ = Variable::make(Halide::Int(32), loop->name);
      }
    } else {
      fail("a loop that is neither over blocks nor over threads: " + loop->name);
    }
    return IRMutator::visit(loop);
  }

  Stmt visit(const Allocate* op) override {
    if (op->memory_type != Halide::MemoryType::GPUShared) return IRMutator::visit(op);
    const auto count = op->extents.size() == 1 ? as_const_int(simplify(op->extents[0])) : std::nullopt;
    if (!count || !memory_.empty()) fail("a kernel has one piece of shared memory, of constant size");
    const int bytes = op->type.bytes();
    memory_ = op->name;
    first_place_ = (static_cast<int>(*count) * bytes + kBytes - 1) / kBytes;
    const int end = place(static_cast<int>(totals_.size()), 0) * kBytes;
    return Allocate::make(op->name, op->type, op->memory_type, {(end + bytes - 1) / bytes}, op->condition,
                          mutate(op->body), op->new_expr, op->free_function, op->padding);
  }

  // What stands before the first reader of totals that weren't exchanged yet; undefined where there are none.
  template <class Node>
  Stmt exchange(const Node& reader) {
    FindPeers find(bindings_);
    reader.accept(&find);
    std::vector<Stmt> all;
    for (const auto& [total, own] : find.asked) {
      const int number = number_of(total);
      if (number < exchanged) continue;
      if (find.has_barrier) fail("a reader that has a barrier inside");
      if (!after_barrier_) fail("no barrier of the block stands before the first reader");
      const Load* load_of_own = own.template as<Load>();
      if (load_of_own == nullptr || load_of_own->name != memory_ || own.type().bits() != 8 * kBytes ||
          !own.type().is_scalar() || !is_const(simplify(load_of_own->index)) || !thread_.defined()) {
        fail("a total is one element of 32 bits in the block's shared memory, not " + ir::text(own));
      }
      if (number != exchanged++) fail("totals are listed in the order in which they are read");
      if (number == 0) all.push_back(ir::marker(ptx::marker_name(ptx::kPeers)));
      all.push_back(IfThenElse::make(thread_ < blocks_,
                                     ir::marker(ptx::marker_name(ptx::kGive, {number, place(number, 0) * kBytes}),
                                                {load(Halide::UInt(32), simplify(load_of_own->index)), thread_})));
      all.push_back(ir::marker(ptx::marker_name(ptx::kMeet, {number})));
      all.push_back(ir::make_barrier());
    }
    return all.empty() ? Stmt() : Block::make(all);
  }

  const std::vector<std::string> totals_;
  const int blocks_;
  ir::Bindings bindings_;
  bool after_barrier_ = false;
  int first_place_ = 0;
  std::string memory_;
  Expr thread_, rank_;
};

class AcrossCluster : public ir::EachKernel {
 public:
  AcrossCluster(std::vector<std::string> totals, int blocks) : totals_(std::move(totals)), blocks_(blocks) {}

 private:
  Stmt kernel(const Stmt& loop) override {
    ir::Bindings none;
    FindPeers find(none);
    loop.accept(&find);
    const bool is_mine = std::any_of(find.asked.begin(), find.asked.end(), [&](const Asked& a) {
      return std::find(totals_.begin(), totals_.end(), a.total) != totals_.end();
    });
    if (!is_mine) return loop;
    Exchange exchange(totals_, blocks_);
    const Stmt exchanged = exchange.mutate(loop);
    if (!exchange.has_cluster()) {
      ir::fail(kDirective, totals_.front(), "the second dimension of the kernel's blocks isn't the cluster");
    }
    if (exchange.exchanged != static_cast<int>(totals_.size())) {
      ir::fail(kDirective, totals_.front(), "a kernel reads some of the totals only");
    }
    return ir::started_with(ir::marker(ptx::marker_name(ptx::kCluster, {blocks_, static_cast<int>(totals_.size())})),
                            exchanged);
  }
  const std::vector<std::string> totals_;
  const int blocks_;
};

// One kernel whose second dimension of blocks becomes a cluster that meets in each turn of its serial loop.
class Assemble : public IRMutator {
 public:
  Assemble(const std::string& strip, int blocks) : loop_("." + strip + ".block_id_y"), blocks_(blocks) {}
  int clusters = 0, meetings = 0;

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (op->for_type == ForType::GPUBlock && op->name.find(loop_) != std::string::npos) {
      clusters++;
      return For::make(op->name, op->min, blocks_, op->for_type, op->partition_policy, op->device_api,
                       mutate(op->body));
    }
    if (op->for_type != ForType::Serial) return IRMutator::visit(op);
    return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                     ending(op->body));
  }
  // The statement, whose last part, a barrier, is preceded by the cluster's.
  Stmt ending(const Stmt& s) {
    if (const auto* let = s.as<LetStmt>()) return LetStmt::make(let->name, let->value, ending(let->body));
    if (const auto* block = s.as<Block>()) return Block::make(block->first, ending(block->rest));
    if (!ir::is_barrier(s)) return s;
    meetings++;
    return Block::make(ir::marker(ptx::marker_name(ptx::kAssemble)), s);
  }
  const std::string loop_;
  const int blocks_;
};

class StepsInCluster : public ir::EachKernel {
 public:
  StepsInCluster(std::string func, std::string strip, int blocks)
      : func_(std::move(func)), strip_(std::move(strip)), blocks_(blocks) {}

 private:
  Stmt kernel(const Stmt& loop) override {
    Assemble assemble(strip_, blocks_);
    const Stmt result = assemble.mutate(loop);
    if (assemble.clusters != 1 || assemble.meetings != 1) {
      ir::fail("steps_in_cluster", func_,
               "a kernel with " + std::to_string(assemble.clusters) + " second dimensions of blocks of that name and " +
                   std::to_string(assemble.meetings) + " serial loops that end with a barrier: " + ir::text(loop));
    }
    return ir::started_with(ir::marker(ptx::marker_name(ptx::kGroup, {blocks_})), result);
  }
  const std::string func_, strip_;
  const int blocks_;
};

}  // namespace

Expr rank_in_cluster(const Expr& thread, int blocks) {
  return Halide::unsafe_promise_clamped(Call::make(Halide::Int(32), kRank, {thread}, Call::PureExtern), 0, blocks - 1);
}

Expr of_peer(const Halide::Func& total, const std::vector<Expr>& index, int peer) {
  return Call::make(total.type(), kOfPeer + total.name(), {total(index), peer}, Call::PureExtern);
}

void across_cluster(const std::vector<Halide::Func>& totals, int blocks) {
  std::vector<std::string> names;
  for (const Halide::Func& total : totals) names.push_back(total.name());
  Descriptor::current->lowering_passes.emplace_back(across_cluster_pass(names, blocks));
}

void steps_in_cluster(const Halide::Func& func, const Halide::Var& strip, int blocks) {
  Descriptor::current->lowering_passes.emplace_back(steps_in_cluster_pass(func.name(), strip.name(), blocks));
}

Expr has_clusters() { return device_fact(kCudaClusters) != 0; }

std::unique_ptr<IRMutator> across_cluster_pass(const std::vector<std::string>& totals, int blocks) {
  return std::make_unique<AcrossCluster>(totals, blocks);
}

std::unique_ptr<IRMutator> steps_in_cluster_pass(const std::string& func, const std::string& strip, int blocks) {
  return std::make_unique<StepsInCluster>(func, strip, blocks);
}

}  // namespace ashlar::dsl
