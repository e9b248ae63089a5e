#include "schedules/lowering/beside.h"

#include "schedules/lowering/accesses.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Func;

// value_beside(value, column, index, other value, …): the value to store, its column, and for each of the others where
// its element goes and what it is.
constexpr const char* kBeside = "ashlar_marker_beside";
constexpr size_t kFirstOther = 2;

class StoreBeside : public IRMutator {
 public:
  explicit StoreBeside(const std::vector<Func>& others) {
    for (const Func& other : others) {
      others_.push_back({other.name(), other.dimensions() == 1, Func(other).output_buffer().parameter()});
    }
  }

 private:
  using IRMutator::visit;
  struct Other {
    std::string name;
    bool is_per_row;
    Halide::Parameter buffer;
  };

  // The loops that an output had of its own.
  Stmt visit(const ProducerConsumer* op) override {
    const bool is_other = std::ranges::any_of(others_, [&](const Other& other) { return other.name == op->name; });
    return is_other && op->is_producer ? Evaluate::make(0) : IRMutator::visit(op);
  }

  Stmt visit(const Store* store) override {
    Expr value = store->value;
    std::vector<std::pair<std::string, Expr>> lets;
    while (const auto* let = value.as<Let>()) {
      lets.emplace_back(let->name, let->value);
      value = let->body;
    }
    const auto* marker = value.as<Call>();
    if (marker == nullptr || marker->name != kBeside) return store;
    std::vector<Stmt> stores{
        Store::make(store->name, marker->args[0], store->index, store->param, store->predicate, store->alignment)};
    const Expr is_first = simplify(first_lane(marker->args[1]) == 0 && first_lane(store->predicate));
    std::vector<Stmt> of_row;
    for (size_t i = 0; i < others_.size(); i++) {
      const Expr& index = marker->args[kFirstOther + 2 * i];
      const Expr& element = marker->args[kFirstOther + 2 * i + 1];
      const Other& other = others_[i];
      if (other.is_per_row) {
        of_row.push_back(Store::make(other.name, first_lane(element), first_lane(index), other.buffer, const_true(),
                                     ModulusRemainder()));
      } else {
        stores.push_back(
            Store::make(other.name, element, simplify(index), other.buffer, store->predicate, store->alignment));
      }
    }
    if (!of_row.empty()) stores.push_back(IfThenElse::make(is_first, Block::make(of_row)));
    Stmt result = Block::make(stores);
    for (size_t i = lets.size(); i-- > 0;) result = LetStmt::make(lets[i].first, lets[i].second, result);
    return result;
  }

  static Expr first_lane(const Expr& value) { return value.type().is_scalar() ? value : simplify(lane_of(value, 0)); }

  std::vector<Other> others_;
};

}  // namespace

void compute_beside(const Func& out, const std::vector<Func>& others, const Var& row, const Var& column) {
  if (others.empty()) return;
  Expr& value = values_of(out).at(0);
  const bool out_has_columns = out.dimensions() == 2;
  std::vector<Expr> parts{value, out_has_columns ? Expr(column) : Expr(0)};
  for (Func other : others) {
    const std::vector<Var> own = other.args();
    const Halide::OutputImageParam buffer = other.output_buffer();
    if (own.size() > (out_has_columns ? 2 : 1) || own.empty()) {
      mistake("output " + other.name() + " has rank " + std::to_string(own.size()) + ", and " + out.name() + ", " +
              std::to_string(out_has_columns ? 2 : 1) + ": the family stores values of its rows and elements alone");
    }
    Rewrite in_place{{{own.back().name(), row}}, {}};
    if (own.size() == 2) in_place.variables[own[0].name()] = column;
    parts.push_back(own.size() == 2 ? column + row * buffer.dim(1).stride() : Expr(row));
    Expr& definition = values_of(other).at(0);
    parts.push_back(in_place(definition));
    // What is left of its own loops: a store that goes.
    definition = make_zero(definition.type());
    if (Descriptor::target.has_gpu_feature()) {
      Var block("beside_block"), thread("beside_thread");
      other.gpu_tile(own.back(), block, thread, 32, Halide::TailStrategy::GuardWithIf);
    } else {
      other.parallel(own.back());
    }
  }
  value = Call::make(value.type(), kBeside, parts, Call::PureExtern);
}

void store_beside(const std::vector<Func>& others) {
  if (others.empty()) return;
  Descriptor::current->lowering_passes.push_back(std::make_shared<StoreBeside>(others));
}

}  // namespace ashlar::dsl
