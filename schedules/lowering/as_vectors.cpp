#include "schedules/lowering/as_vectors.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

/// An allocation's stores become values of names of their own, its loads shuffles of these.
class AsVectors : public IRMutator {
 public:
  explicit AsVectors(std::string stage) : stage_(std::move(stage)) {}

 private:
  using IRMutator::visit;

  Stmt visit(const Allocate* op) override {
    if (op->name != stage_) return IRMutator::visit(op);
    values_.clear();
    at_.clear();
    Stmt result = mutate(op->body);
    for (auto value = values_.rbegin(); value != values_.rend(); ++value) {
      result = LetStmt::make(value->first, value->second, result);
    }
    return result;
  }
  Stmt visit(const Free* op) override { return op->name == stage_ ? Evaluate::make(0) : IRMutator::visit(op); }
  Stmt visit(const ProducerConsumer* op) override {
    if (op->name != stage_ || !op->is_producer) return IRMutator::visit(op);
    take(op->body);
    return Evaluate::make(0);
  }

  // What produces the stage: values in their order, with no condition and no loop.
  void take(const Stmt& stmt) {
    if (const auto* block = stmt.as<Block>()) {
      take(block->first);
      take(block->rest);
    } else if (const auto* let = stmt.as<LetStmt>()) {
      values_.emplace_back(let->name, let->value);
      take(let->body);
    } else if (const auto* store = stmt.as<Store>(); store != nullptr && store->name == stage_) {
      const std::string name = unique_name(stage_ + ".vector");
      const Expr vector = Variable::make(store->value.type(), name);
      const std::vector<int> places = places_of(store->index);
      if (!is_const_one(store->predicate)) fail("is stored under a condition");
      for (size_t lane = 0; lane < places.size(); lane++) {
        at_[places[lane]] = {vector, static_cast<int>(lane)};
      }
      values_.emplace_back(name, store->value);
    } else {
      fail("isn't fully unrolled");
    }
  }

  Expr visit(const Load* load) override {
    return load->name == stage_ ? elements(places_of(load->index)) : IRMutator::visit(load);
  }
  // Elements some way apart are chosen from a load of all that lie between them.
  Expr visit(const Shuffle* shuffle) override {
    const auto* load = shuffle->vectors.size() == 1 ? shuffle->vectors[0].as<Load>() : nullptr;
    if (load == nullptr || load->name != stage_) return IRMutator::visit(shuffle);
    const std::vector<int> loaded = places_of(load->index);
    std::vector<int> chosen;
    for (const int lane : shuffle->indices) chosen.push_back(loaded[static_cast<size_t>(lane)]);
    return elements(chosen);
  }

  Expr elements(const std::vector<int>& places) const {
    std::vector<Expr> vectors;
    std::vector<int> lanes;
    for (const int place : places) {
      const auto element = at_.find(place);
      if (element == at_.end()) fail("is read where nothing was stored");
      const auto& [vector, lane] = element->second;
      int before = 0;
      bool is_there = false;
      for (const Expr& other : vectors) {
        is_there = other.same_as(vector);
        if (is_there) break;
        before += other.type().lanes();
      }
      if (!is_there) vectors.push_back(vector);
      lanes.push_back(before + lane);
    }
    return Shuffle::make(vectors, lanes);
  }

  std::vector<int> places_of(const Expr& index) const {
    if (const auto place = as_const_int(index)) return {static_cast<int>(*place)};
    const auto* ramp = index.as<Ramp>();
    const auto base = ramp != nullptr ? as_const_int(ramp->base) : std::optional<int64_t>();
    const auto stride = ramp != nullptr ? as_const_int(ramp->stride) : std::optional<int64_t>();
    if (!base || !stride) fail("isn't read and stored at constant places");
    std::vector<int> places;
    for (int lane = 0; lane < ramp->lanes; lane++) places.push_back(static_cast<int>(*base + *stride * lane));
    return places;
  }
  [[noreturn]] void fail(const std::string& what) const { ir::fail("as_vectors", stage_, what); }

  struct Element {
    Expr vector;
    int lane;
  };
  std::string stage_;
  std::vector<std::pair<std::string, Expr>> values_;
  std::map<int, Element> at_;
};

}  // namespace

void as_vectors(const Halide::Func& stage) {
  Descriptor::current->lowering_passes.push_back(std::make_shared<AsVectors>(stage.name()));
}

}  // namespace ashlar::dsl
