#include "schedules/lowering/write_ahead.h"

#include <algorithm>

#include "dsl/prefetch.h"
#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;

// The first contiguous vector of an input of so many dimensions that an expression loads.
class FirstVector : public IRGraphVisitor {
 public:
  explicit FirstVector(int dimensions) : dimensions_(dimensions) {}
  const Load* found = nullptr;
  Expr base;  ///< of found's index, without the lets around it

 private:
  using IRGraphVisitor::visit;
  void visit(const Load* load) override {
    const auto* ramp = load->index.as<Ramp>();
    const bool is_it = ramp != nullptr && is_const_one(ramp->stride) && load->param.defined() &&
                       load->param.dimensions() == dimensions_;
    if (is_it && found == nullptr) {
      found = load;
      base = lets_.expand(ramp->base);
    }
    IRGraphVisitor::visit(load);
  }
  void visit(const Let* let) override {
    let->value.accept(this);
    lets_.push_whole(let->name, let->value);
    let->body.accept(this);
    lets_.pop();
  }
  int dimensions_;
  ir::Bindings lets_;
};

class WriteAhead : public IRMutator {
 public:
  WriteAhead(std::string stage, const Halide::Func& out)
      : stage_(std::move(stage)), out_(out.name()), type_(out.types()[0]), dimensions_(out.dimensions()) {}

 private:
  using IRMutator::visit;
  static constexpr int kLine = 64, kMostBytes = 256 * 1024;  // the second cache keeps a row until it is written

  Stmt visit(const LetStmt* let) override {
    lets_.push_back(let->value);
    Stmt result = IRMutator::visit(let);
    lets_.pop_back();
    return result;
  }
  Stmt visit(const Store* store) override {
    if (store->name != stage_) return store;
    FirstVector input(dimensions_ + 1);  // and the hidden one
    store->value.accept(&input);
    for (const Expr& value : lets_) value.accept(&input);
    if (input.found == nullptr) return store;
    const auto buffer = [](const std::string& name) {
      return Variable::make(Halide::type_of<halide_buffer_t*>(), name + ".buffer");
    };
    // The hidden dimension begins at minus the view's offset.
    const auto* ramp = input.found->index.as<Ramp>();
    const Expr first = input.base + Call::make(Halide::Int(32), Call::buffer_get_min,
                                               {buffer(input.found->name), dimensions_}, Call::Extern);
    const Expr columns = Call::make(Halide::Int(32), Call::buffer_get_extent, {buffer(out_), 0}, Call::Extern);
    std::vector<Stmt> lines;
    for (int element = 0; element < ramp->lanes; element += kLine / type_.bytes()) {
      lines.push_back(prefetch(out_, first + element, type_, PrefetchFor::writing));
    }
    return Block::make(IfThenElse::make(columns <= kMostBytes / type_.bytes(), Block::make(lines)), store);
  }

  std::string stage_, out_;
  Halide::Type type_;
  int dimensions_;
  std::vector<Expr> lets_;
};

// The places in `out` where an unrolled statement stores vectors, without the lets around them.
class StoredVectors : public IRVisitor {
 public:
  explicit StoredVectors(std::string out) : out_(std::move(out)) {}
  std::vector<Expr> first;

 private:
  using IRVisitor::visit;
  void visit(const For*) override {}
  void visit(const LetStmt* let) override {
    lets_.push_whole(let->name, let->value);
    let->body.accept(this);
    lets_.pop();
  }
  void visit(const Store* store) override {
    const auto* ramp = store->index.as<Ramp>();
    if (store->name != out_ || ramp == nullptr || !is_const_one(ramp->stride)) return;
    const Expr place = simplify(lets_.expand(ramp->base));
    const bool is_known = std::ranges::any_of(first, [&](const Expr& other) { return equal(other, place); });
    if (!is_known) first.push_back(place);
  }
  std::string out_;
  ir::Bindings lets_;
};

class WriteTileAhead : public IRMutator {
 public:
  WriteTileAhead(std::string sums, const Halide::Func& out)
      : sums_(std::move(sums)), out_(out.name()), type_(out.types()[0]) {}

 private:
  using IRMutator::visit;
  Stmt visit(const Allocate* allocate) override {
    if (allocate->name != sums_) return IRMutator::visit(allocate);
    StoredVectors stored(out_);
    allocate->body.accept(&stored);
    std::vector<Stmt> statements;
    for (const Expr& first : stored.first) statements.push_back(prefetch(out_, first, type_, PrefetchFor::writing));
    statements.push_back(allocate->body);
    return Allocate::make(allocate->name, allocate->type, allocate->memory_type, allocate->extents, allocate->condition,
                          Block::make(statements), allocate->new_expr, allocate->free_function, allocate->padding);
  }
  std::string sums_, out_;
  Halide::Type type_;
};

}  // namespace

void write_tile_ahead(const Halide::Func& sums, const Halide::Func& out) {
  Descriptor::current->lowering_passes.push_back(std::make_shared<WriteTileAhead>(sums.name(), out));
}

void write_ahead(const Halide::Func& stage, const Halide::Func& out) {
  Descriptor::current->lowering_passes.push_back(std::make_shared<WriteAhead>(stage.name(), out));
}

}  // namespace ashlar::dsl
