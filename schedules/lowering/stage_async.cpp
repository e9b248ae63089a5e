#include "schedules/lowering/stage_async.h"

#include <algorithm>

#include "dsl/descriptor.h"
#include "dsl/ptx_markers.h"
#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

constexpr const char* kDirective = "stage_async";

// Turns a tile's stores into asynchronous copies: markers numbered within their region. Where the turn that they are
// for doesn't exist, they copy no bytes: a branch around them would tempt LLVM to duplicate the commit that follows.
class ToCopies : public ir::ScopedMutator {
 public:
  ToCopies(ir::Scope& scope, std::string tile, Expr exists, bool are_bounded, int region, int first)
      : ScopedMutator(scope),
        copies(first),
        tile_(std::move(tile)),
        exists_(std::move(exists)),
        are_bounded_(are_bounded),
        region_(region) {}
  int copies;

 private:
  using ScopedMutator::visit;
  [[noreturn]] void fail(const std::string& what) const { ir::fail(kDirective, tile_, what); }

  // A load that only stands for its address; the rewriter takes that and drops the load.
  static Expr address(const std::string& name, const Expr& index, const Halide::Buffer<>& image,
                      const Halide::Parameter& p) {
    return Load::make(Halide::UInt(32), name, index, image, p, const_true(), ModulusRemainder());
  }

  Stmt visit(const Store* op) override {
    Expr value = substitute_in_all_lets(op->value), condition = const_true();
    if (const auto* select = value.as<Select>()) {
      if (!is_const_zero(select->false_value)) fail("a tile holds a copy or zero, not " + ir::text(value));
      condition = select->condition;
      value = select->true_value;
    }
    if (const auto* same = condition.as<Broadcast>()) condition = same->value;
    const auto* load = value.as<Load>();
    if (load == nullptr || !is_const_one(load->predicate) || !is_const_one(op->predicate)) {
      fail("a tile is a plain copy of a tensor, not " + ir::text(op->value));
    }
    if (!condition.type().is_scalar()) fail("the elements of a vector are copied under different conditions");
    Expr to = op->index, from = load->index;
    int lanes = 1;
    if (const auto* ramp = to.as<Ramp>()) {
      const auto* source = from.as<Ramp>();
      if (source == nullptr || !is_const_one(ramp->stride) || !is_const_one(source->stride)) {
        fail("a vector that isn't contiguous on both sides: " + ir::text(from) + " to " + ir::text(to));
      }
      lanes = ramp->lanes;
      to = ramp->base;
      from = source->base;
      if (!scope_.is_multiple(to, lanes) || !scope_.is_multiple(from, lanes)) {
        fail("a vector whose alignment can't be proven: " + ir::text(Stmt(op)));
      }
    } else if (!to.type().is_scalar()) {
      fail("a vector that isn't contiguous");
    }
    if (!are_bounded_ || is_const_one(condition)) condition = simplify(exists_ && condition);
    const int bytes = lanes * op->value.type().bytes();
    if (bytes != 4 && bytes != 8 && bytes != 16) {
      fail("asynchronous copies are of 4, 8 or 16 bytes, not " + std::to_string(bytes));
    }
    return ir::marker(ptx::marker_name(ptx::kCopy, {bytes, region_, copies++}),
                      {address(op->name, to, Halide::Buffer<>(), op->param),
                       address(load->name, from, load->image, load->param), select(condition, Expr(bytes), Expr(0))});
  }
  Stmt visit(const For* op) override { fail("a loop among the copies: unroll " + op->name); }
  Stmt visit(const Allocate* op) override { fail("an allocation among the copies: " + op->name); }

  const std::string tile_;
  const Expr exists_;
  const bool are_bounded_;
  const int region_;
};

// Within one kernel: finds the loop that computes the tiles and rewrites it.
class Pipeline : public ir::ScopedMutator {
 public:
  Pipeline(ir::Scope& scope, const AsyncTiles& directive) : ScopedMutator(scope), directive_(directive) {}
  int loops = 0;

 private:
  using ScopedMutator::visit;
  const std::string& shown() const { return directive_.tiles.front(); }
  [[noreturn]] void fail(const std::string& what) const { ir::fail(kDirective, shown(), what); }
  bool is_tile(const std::string& name) const {
    return std::find(directive_.tiles.begin(), directive_.tiles.end(), name) != directive_.tiles.end();
  }

  // A loop's body without its barriers: what fills the tiles, by tile, and what uses them.
  struct Body {
    std::vector<Stmt> fills, uses;
    int barriers = 0;
  };
  void take_apart(const Stmt& s, Body& body) const {
    if (const auto* block = s.as<Block>()) {
      take_apart(block->first, body);
      take_apart(block->rest, body);
    } else if (ir::is_barrier(s)) {
      body.barriers++;
    } else if (const auto* node = s.as<ProducerConsumer>(); node != nullptr && is_tile(node->name)) {
      if (!node->is_producer) return take_apart(node->body, body);
      if (!body.uses.empty()) fail("tile " + node->name + " is filled after another has been used");
      body.fills.push_back(s);
    } else if (node != nullptr) {  // what a thread keeps for itself: nothing but a frame around its statements
      take_apart(node->body, body);
    } else {
      body.uses.push_back(s);
    }
  }

  // The stages of a tile lie next to each other, and turn t uses stage t % stages: no index may depend on the turn in
  // any other way, or the stage filled for a later turn would not be the one left free.
  void check_ring(const Stmt& s, const std::string& turn, const std::vector<std::string>& allocations) const {
    struct Check : IRVisitor {
      using IRVisitor::visit;
      const Pipeline& owner;
      const std::string& turn;
      const std::vector<std::string>& allocations;
      ir::Bindings bindings;
      Check(const Pipeline& o, const std::string& t, const std::vector<std::string>& a)
          : owner(o), turn(t), allocations(a) {}
      void visit(const LetStmt* op) override {
        op->value.accept(this);
        bindings.push(op->name, op->value);
        op->body.accept(this);
        bindings.pop();
      }
      void check(const std::string& name, const Expr& index) {
        if (std::find(allocations.begin(), allocations.end(), name) == allocations.end()) return;
        const Expr t = Variable::make(Halide::Int(32), turn), stage = Variable::make(Halide::Int(32), "stage");
        struct Ring : IRMutator {
          using IRMutator::visit;
          Expr turn, stage;
          int stages;
          Expr visit(const Mod* op) override {
            return is_const(op->b, stages) && equal(op->a, turn) ? stage : IRMutator::visit(op);
          }
        } ring;
        ring.turn = t;
        ring.stage = stage;
        ring.stages = owner.directive_.stages;
        const auto* vector = index.as<Ramp>();
        const Expr at = ring.mutate(bindings.expand(vector == nullptr ? index : vector->base));
        bool uses_stage = false, uses_turn = false;
        for (const auto& [name, part] : ir::Linear(at).parts) {
          uses_stage = uses_stage || expr_uses_var(part.first, "stage");
          uses_turn = uses_turn || expr_uses_var(part.first, turn);
        }
        if (uses_turn || !uses_stage) owner.fail("an access that isn't to stage (turn % stages): " + ir::text(at));
      }
      void visit(const Load* op) override {
        check(op->name, op->index);
        IRVisitor::visit(op);
      }
      void visit(const Store* op) override {
        check(op->name, op->index);
        IRVisitor::visit(op);
      }
    } check(*this, turn, allocations);
    s.accept(&check);
  }
  // The shared allocations that these statements store to.
  static std::vector<std::string> stored_to(const std::vector<Stmt>& statements) {
    struct Find : IRVisitor {
      using IRVisitor::visit;
      std::vector<std::string> names;
      void visit(const Store* op) override {
        if (std::find(names.begin(), names.end(), op->name) == names.end()) names.push_back(op->name);
      }
    } find;
    for (const Stmt& s : statements) s.accept(&find);
    return find.names;
  }

  Stmt visit(const For* op) override {
    Stmt inner = op->body;
    std::vector<std::pair<std::string, Expr>> lets;
    while (const auto* let = inner.as<LetStmt>()) {
      lets.emplace_back(let->name, let->value);
      inner = let->body;
    }
    Body body;
    if (op->for_type == ForType::Serial) take_apart(inner, body);
    if (body.fills.empty()) return IRMutator::visit(op);

    loops++;
    if (body.fills.size() != directive_.tiles.size()) fail("not every tile is filled, once, in loop " + op->name);
    for (const std::string& tile : directive_.tiles) {
      const bool filled = std::any_of(body.fills.begin(), body.fills.end(),
                                      [&](const Stmt& s) { return s.as<ProducerConsumer>()->name == tile; });
      if (!filled) fail("tile " + tile + " isn't filled in loop " + op->name);
    }
    if (body.uses.empty()) fail("nothing uses the tiles in loop " + op->name);
    if (!is_const_zero(op->min)) fail("loop " + op->name + " doesn't start at 0");
    // One barrier after each fill (the next fill's included) and one after the use.
    if (body.barriers != static_cast<int>(body.fills.size()) + 1) {
      fail("expected " + std::to_string(body.fills.size() + 1) + " barriers in loop " + op->name + ", found " +
           std::to_string(body.barriers));
    }
    const auto wrap = [&](Stmt s) {
      for (size_t i = lets.size(); i-- > 0;) s = LetStmt::make(lets[i].first, lets[i].second, s);
      return s;
    };
    for (const auto& [name, value] : lets) scope_.bindings.push(name, value);
    const std::vector<std::string> allocations = stored_to(body.fills);
    for (const Stmt& s : body.fills) check_ring(wrap(s), op->name, allocations);
    for (const Stmt& s : body.uses) check_ring(wrap(s), op->name, allocations);
    const Stmt result = pipelined(op, body, wrap);
    for (size_t i = 0; i < lets.size(); i++) scope_.bindings.pop();
    return result;
  }

  template <class Wrap>
  Stmt pipelined(const For* loop, const Body& body, const Wrap& wrap) {
    const Expr turn = Variable::make(Halide::Int(32), loop->name);
    const int ahead = directive_.stages - 1;
    const auto fill = [&](const Expr& t, int region) {
      const Expr exists = t < loop->extent;
      if (!directive_.async) {
        return IfThenElse::make(exists, substitute(loop->name, t, wrap(Block::make(body.fills))));
      }
      int copies = 0;
      std::vector<Stmt> all;
      for (const Stmt& s : body.fills) {
        ToCopies to_copies(scope_, s.as<ProducerConsumer>()->name, turn < loop->extent, directive_.bounded, region,
                           copies);
        all.push_back(to_copies.mutate(s));
        copies = to_copies.copies;
      }
      const Stmt filled = substitute(loop->name, t, wrap(Block::make(all)));
      return Block::make(filled, ir::marker(ptx::marker_name(ptx::kCommit, {region, copies})));
    };
    int waits = 0;
    const auto wait = [&](int pending) {  // until all but the newest `pending` groups of copies have arrived
      const Stmt barrier = ir::make_barrier();
      if (!directive_.async) return barrier;
      return Block::make(ir::marker(ptx::marker_name(ptx::kWait, {waits++, pending})), barrier);
    };
    std::vector<Stmt> all;
    for (int i = 0; i < ahead; i++) all.push_back(fill(Expr(i), i));
    const size_t lead = std::min(static_cast<size_t>(directive_.lead), body.uses.size());
    std::vector<Stmt> turn_body{wait(ahead - 1)};
    const auto use = [&](size_t begin, size_t end) {
      if (begin == end) return;
      turn_body.push_back(wrap(Block::make(std::vector<Stmt>(body.uses.begin() + static_cast<std::ptrdiff_t>(begin),
                                                             body.uses.begin() + static_cast<std::ptrdiff_t>(end)))));
    };
    use(0, lead);
    turn_body.push_back(fill(turn + ahead, ahead));
    use(lead, body.uses.size());
    all.push_back(For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy,
                            loop->device_api, Block::make(turn_body)));
    all.push_back(wait(0));
    if (directive_.async) all.push_back(ir::marker(ptx::marker_name(ptx::kEnd, {directive_.stages, waits})));
    return Block::make(all);
  }

  const AsyncTiles& directive_;
};

class StageAsync : public ir::ScopedMutator {
 public:
  explicit StageAsync(AsyncTiles directive) : ScopedMutator(scope_), directive_(std::move(directive)) {}

 private:
  using ScopedMutator::visit;
  Stmt visit(const For* op) override {
    if (op->for_type != ForType::GPUBlock) return IRMutator::visit(op);
    struct Fills : IRVisitor {  // is any tile filled in this kernel at all?
      using IRVisitor::visit;
      const AsyncTiles* directive;
      bool found = false;
      void visit(const ProducerConsumer* node) override {
        const auto& tiles = directive->tiles;
        found = found || std::find(tiles.begin(), tiles.end(), node->name) != tiles.end();
        IRVisitor::visit(node);
      }
    } fills;
    fills.directive = &directive_;
    Stmt(op).accept(&fills);
    if (!fills.found) return op;
    Pipeline pipeline(scope_, directive_);
    const Stmt result = pipeline.mutate(Stmt(op));
    if (pipeline.loops != 1) {
      ir::fail(kDirective, directive_.tiles.front(),
               "expected one loop that fills the tiles, found " + std::to_string(pipeline.loops));
    }
    return result;
  }
  const AsyncTiles directive_;
  ir::Scope scope_;
};

}  // namespace

std::unique_ptr<IRMutator> stage_async_pass(const AsyncTiles& directive) {
  if (directive.tiles.empty()) throw Halide::CompileError("stage_async: no tiles");
  if (directive.stages < 2) ir::fail(kDirective, directive.tiles.front(), "needs two stages or more");
  return std::make_unique<StageAsync>(directive);
}

bool has_async_copies() { return Descriptor::target.get_cuda_capability_lower_bound() >= 80; }

void stage_async(std::vector<Halide::Func> tiles, Halide::Func out, const Halide::Var& block, int stages, int lead,
                 bool bounded) {
  AsyncTiles directive{{}, stages, lead, has_async_copies(), bounded};
  for (Halide::Func& tile : tiles) {
    tile.store_in(Halide::MemoryType::GPUShared).hoist_storage(out, block).ring_buffer(stages);
    directive.tiles.push_back(tile.name());
  }
  Descriptor::current->lowering_passes.emplace_back(stage_async_pass(directive));
}

}  // namespace ashlar::dsl
