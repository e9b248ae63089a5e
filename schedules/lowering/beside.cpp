#include "schedules/lowering/beside.h"

#include "schedules/lowering/accesses.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Func;

// value_beside(value, column, index, other value, is per row, condition, …): the value to store, its column, and for
// each of the others where its element goes, what it is, whether a row has one, and where it is to be stored at all.
constexpr const char* kBeside = "ashlar_beside";
// value_stored_at(value, index, condition)
constexpr const char* kStoredAt = "ashlar_stored_at";
constexpr size_t kFirstOther = 2, kPartsOfOther = 4;

class StoreBeside : public IRMutator {
 public:
  explicit StoreBeside(const std::vector<Func>& others) {
    for (const Func& other : others) {
      others_.push_back({other.name(), Func(other).output_buffer().parameter()});
    }
  }

 private:
  using IRMutator::visit;
  struct Other {
    std::string name;
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
    if (marker != nullptr && marker->name == kStoredAt) return in_lets(lets, stored_at(store, marker));
    if (marker == nullptr || marker->name != kBeside) return store;
    const auto* own_place = marker->args[0].as<Call>();
    const bool has_own = own_place != nullptr && own_place->name == kStoredAt;
    const Expr guard = has_own ? const_true(store->value.type().lanes()) : store->predicate;
    std::vector<Stmt> stores{
        has_own ? stored_at(store, own_place)
                : Store::make(store->name, marker->args[0], store->index, store->param, guard, store->alignment)};
    const Expr is_first = simplify(first_lane(marker->args[1]) == 0 && first_lane(guard));
    std::vector<Stmt> of_row;
    for (size_t i = 0; i < others_.size(); i++) {
      const Expr* const part = &marker->args[kFirstOther + kPartsOfOther * i];
      const Expr &index = part[0], &element = part[1];
      const Other& other = others_[i];
      if (is_const_one(first_lane(part[2]))) {
        of_row.push_back(Store::make(other.name, first_lane(element), first_lane(index), other.buffer, const_true(),
                                     ModulusRemainder()));
      } else {
        stores.push_back(stored_where(part[3], Store::make(other.name, element, simplify(index), other.buffer, guard,
                                                           has_own ? ModulusRemainder() : store->alignment)));
      }
    }
    if (!of_row.empty()) stores.push_back(IfThenElse::make(is_first, Block::make(of_row)));
    return in_lets(lets, Block::make(stores));
  }

  static Stmt stored_at(const Store* store, const Call* marker) {
    return stored_where(marker->args[2],
                        Store::make(store->name, marker->args[0], simplify(marker->args[1]), store->param,
                                    const_true(store->value.type().lanes()), ModulusRemainder()));
  }

  static Stmt in_lets(const std::vector<std::pair<std::string, Expr>>& lets, Stmt body) {
    for (size_t i = lets.size(); i-- > 0;) body = LetStmt::make(lets[i].first, lets[i].second, body);
    return body;
  }

  // A vector of which some lanes are to be stored is worked out as all others are, and stored lane by lane.
  static Stmt stored_where(const Expr& condition, const Stmt& whole) {
    const auto* store = whole.as<Store>();
    const int lanes = store->value.type().lanes();
    const Expr first = first_lane(condition);
    if (is_const_one(first)) return whole;
    const Expr last = lanes == 1 || condition.type().is_scalar() ? first : simplify(lane_of(condition, lanes - 1));
    if (equal(first, last)) return IfThenElse::make(first, whole);
    const std::string name = unique_name("beside");
    const Expr vector = Variable::make(store->value.type(), name);
    std::vector<Stmt> single;
    Expr any = const_false();
    for (int i = 0; i < lanes; i++) {
      const Expr there = simplify(lane_of(condition, i));
      any = any || there;
      single.push_back(IfThenElse::make(
          there, Store::make(store->name, Shuffle::make_extract_element(vector, i), lane_of(store->index, i),
                             store->param, const_true(), ModulusRemainder())));
    }
    const Stmt all = Store::make(store->name, vector, store->index, store->param, store->predicate, store->alignment);
    const Stmt stored = LetStmt::make(name, store->value, IfThenElse::make(first && last, all, Block::make(single)));
    return IfThenElse::make(simplify(any), stored);
  }

  static Expr first_lane(const Expr& value) { return value.type().is_scalar() ? value : simplify(lane_of(value, 0)); }

  std::vector<Other> others_;
};

// What is left of an output's own loops: a store that goes.
void leave_to_others(Func other) {
  Expr& definition = values_of(other).at(0);
  definition = make_zero(definition.type());
  const Var row = other.args().back();
  if (on_gpu()) {
    Var block("beside_block"), thread("beside_thread");
    other.gpu_tile(row, block, thread, 32, Halide::TailStrategy::GuardWithIf);
  } else {
    other.parallel(row);
  }
}

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
    parts.push_back(in_place(values_of(other).at(0)));
    parts.emplace_back(own.size() == 2 ? 0 : 1);
    parts.push_back(const_true());
    leave_to_others(other);
  }
  value = Call::make(value.type(), kBeside, parts, Call::PureExtern);
}

void compute_rows_beside(const Func& out, const std::vector<Func>& others) {
  if (others.empty()) return;
  Expr& value = values_of(out).at(0);
  const std::vector<Var> all = Func(out).args();
  std::vector<Expr> parts{value, all.at(0)};
  for (Func other : others) {
    const std::vector<Var> own = other.args();
    if (own.size() + 1 != all.size()) {
      mistake("output " + other.name() + " has rank " + std::to_string(own.size()) + ", and a row of " + out.name() +
              " has " + std::to_string(all.size() - 1) + " indices");
    }
    Rewrite in_place;
    Expr index = all[1];
    for (size_t i = 0; i < own.size(); i++) {
      in_place.variables[own[i].name()] = all[i + 1];
      if (i > 0) index = index + all[i + 1] * other.output_buffer().dim(static_cast<int>(i)).stride();
    }
    parts.push_back(index);
    parts.push_back(in_place(values_of(other).at(0)));
    parts.emplace_back(1);
    parts.push_back(const_true());
    leave_to_others(other);
  }
  value = Call::make(value.type(), kBeside, parts, Call::PureExtern);
}

Expr value_and_store(const Expr& value, const StoredBeside& other) {
  leave_to_others(other.output);
  return Call::make(value.type(), kBeside, {value, 0, other.index, other.element, 0, other.condition},
                    Call::PureExtern);
}

Expr value_stored_at(const Expr& value, const Expr& index, const Expr& condition) {
  return Call::make(value.type(), kStoredAt, {value, index, condition}, Call::PureExtern);
}

bool has_own_place(const Expr& value) {
  struct Find : IRVisitor {
    using IRVisitor::visit;
    bool found = false;
    void visit(const Call* op) override {
      found = found || op->name == kStoredAt;
      IRVisitor::visit(op);
    }
  } find;
  value.accept(&find);
  return find.found;
}

Expr row_stored_at(const Expr& value, const Expr& position, const Expr& index, const Expr& condition) {
  const auto* marker = value.as<Call>();
  if (marker == nullptr || marker->name != kBeside) return value_stored_at(value, index, condition);
  std::vector<Expr> parts = marker->args;
  parts[0] = value_stored_at(parts[0], index, condition);
  parts[1] = position;
  for (size_t i = kFirstOther; i < parts.size(); i += kPartsOfOther) {
    if (!is_const_one(parts[i + 2])) parts[i + 3] = condition;
  }
  return Call::make(value.type(), kBeside, parts, Call::PureExtern);
}

void store_beside(const std::vector<Func>& others) {
  Descriptor::current->lowering_passes.push_back(std::make_shared<StoreBeside>(others));
}

}  // namespace ashlar::dsl
