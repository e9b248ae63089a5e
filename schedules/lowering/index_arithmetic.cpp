#include "schedules/lowering/index_arithmetic.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "dsl/descriptor.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Type;

class UnsignedDivision : public IRMutator {
  using IRMutator::visit;

  bool all_nonnegative(const std::initializer_list<Expr>& parts) {
    return std::all_of(parts.begin(), parts.end(), [this](const Expr& part) { return is_nonnegative(part); });
  }

  bool is_nonnegative(const Expr& e) {
    if (const auto constant = as_const_int(e)) return *constant >= 0;
    if (const auto* variable = e.as<Variable>()) return nonnegative_.contains(variable->name);
    if (const auto* sum = e.as<Add>()) return all_nonnegative({sum->a, sum->b});
    if (const auto* product = e.as<Mul>()) return all_nonnegative({product->a, product->b});
    if (const auto* quotient = e.as<Div>()) return all_nonnegative({quotient->a, quotient->b});
    if (const auto* least = e.as<Min>()) return all_nonnegative({least->a, least->b});
    if (const auto* choice = e.as<Select>()) return all_nonnegative({choice->true_value, choice->false_value});
    if (const auto* ramp = e.as<Ramp>()) return all_nonnegative({ramp->base, ramp->stride});
    if (const auto* broadcast = e.as<Broadcast>()) return is_nonnegative(broadcast->value);
    if (const auto* greatest = e.as<Max>()) return is_nonnegative(greatest->a) || is_nonnegative(greatest->b);
    if (e.as<Mod>() != nullptr) return true;  // Halide's remainders are never negative
    if (const auto* call = e.as<Call>()) {
      if (call->is_intrinsic(Call::shift_right)) return is_nonnegative(call->args[0]);
      return call->name == Call::buffer_get_extent;
    }
    if (const auto* cast = e.as<Cast>()) {
      const Type from = cast->value.type();
      return from.is_uint() && from.bits() < cast->type.bits();
    }
    return false;
  }

  // What kernels may use is bound on the host: both are seen.
  template <class Let>
  auto visit_let(const Let* let) {
    const Expr value = mutate(let->value);
    const bool is_new = is_nonnegative(let->value) && nonnegative_.insert(let->name).second;
    auto result = Let::make(let->name, value, mutate(let->body));
    if (is_new) nonnegative_.erase(let->name);
    return result;
  }
  Expr visit(const Let* let) override { return visit_let(let); }
  Stmt visit(const LetStmt* let) override { return visit_let(let); }

  Stmt visit(const For* loop) override {
    const bool is_new = is_nonnegative(loop->min) && nonnegative_.insert(loop->name).second;
    const bool is_outermost = is_gpu(loop->for_type) && !in_kernel_;
    in_kernel_ = in_kernel_ || is_outermost;
    Stmt result = IRMutator::visit(loop);
    if (is_outermost) in_kernel_ = false;
    if (is_new) nonnegative_.erase(loop->name);
    return result;
  }

  template <class Operation>
  Expr divided(const Operation* operation) {
    const Type type = operation->type;
    if (!in_kernel_ || !type.is_int() || is_const_power_of_two_integer(operation->b) ||
        !all_nonnegative({operation->a, operation->b}))
      return IRMutator::visit(operation);
    const Type natural = type.with_code(Type::UInt);
    Expr divisor = mutate(operation->b);
    if (!is_const(divisor)) divisor = Max::make(divisor, make_one(type));
    return Halide::cast(type,
                        Operation::make(Halide::cast(natural, mutate(operation->a)), Halide::cast(natural, divisor)));
  }
  Expr visit(const Div* quotient) override { return divided(quotient); }
  Expr visit(const Mod* remainder) override { return divided(remainder); }

  std::set<std::string> nonnegative_;
  bool in_kernel_ = false;
};

bool is_plain_integer(const Type& type) { return type.is_scalar() && (type.is_int_or_uint() || type.is_bool()); }

/// True for integer operations whose value depends on their operands alone and that can't fail.
bool is_arithmetic(const Expr& e) {
  switch (e.node_type()) {
    case IRNodeType::Cast:
    case IRNodeType::Add:
    case IRNodeType::Sub:
    case IRNodeType::Mul:
    case IRNodeType::Div:
    case IRNodeType::Mod:
    case IRNodeType::Min:
    case IRNodeType::Max:
    case IRNodeType::EQ:
    case IRNodeType::NE:
    case IRNodeType::LT:
    case IRNodeType::LE:
    case IRNodeType::GT:
    case IRNodeType::GE:
    case IRNodeType::And:
    case IRNodeType::Or:
    case IRNodeType::Not:
    case IRNodeType::Select:
      return is_plain_integer(e.type());
    case IRNodeType::Call: {
      const auto* call = e.as<Call>();
      return is_plain_integer(e.type()) && call->is_intrinsic({Call::shift_left, Call::shift_right, Call::bitwise_and,
                                                               Call::bitwise_or, Call::bitwise_xor, Call::bitwise_not});
    }
    default:
      return false;
  }
}

bool is_operand(const Expr& e) { return is_const(e) || e.as<Variable>() != nullptr; }

class AllArithmetic : public IRMutator {
 public:
  bool holds = true;
  using IRMutator::mutate;
  Expr mutate(const Expr& e) override {
    holds = holds && (is_operand(e) || is_arithmetic(e));
    return holds ? IRMutator::mutate(e) : e;
  }
};

// A kernel's body in which no two bindings have the same name, and arithmetic is written out wherever it is used: it is
// to be shared anew. A statement that bound some stays as a place of it, so that none moves into a loop.
class PlainBindings : public IRMutator {
 public:
  static constexpr const char* kPlace = "place";

 private:
  using IRMutator::visit;
  static bool binds_arithmetic(const Expr& value) {
    AllArithmetic arithmetic;
    arithmetic.mutate(value);
    return is_plain_integer(value.type()) && arithmetic.holds;
  }
  template <class Body>
  static Body renamed(const std::string& name, const Type& type, const std::string& own, const Body& body) {
    return substitute(name, Variable::make(type, own), body);
  }
  Expr visit(const Let* let) override {
    const Expr value = mutate(let->value);
    if (binds_arithmetic(value)) return mutate(substitute(let->name, value, let->body));
    const std::string own = unique_name(let->name);
    return Let::make(own, value, mutate(renamed(let->name, value.type(), own, let->body)));
  }
  Stmt visit(const LetStmt* let) override {
    const Expr value = mutate(let->value);
    if (binds_arithmetic(value))
      return LetStmt::make(unique_name(kPlace), value, mutate(substitute(let->name, value, let->body)));
    const std::string own = unique_name(let->name);
    return LetStmt::make(own, value, mutate(renamed(let->name, value.type(), own, let->body)));
  }
  Stmt visit(const For* loop) override {
    const std::string own = unique_name(loop->name);
    return For::make(own, mutate(loop->min), mutate(loop->extent), loop->for_type, loop->partition_policy,
                     loop->device_api, mutate(renamed(loop->name, loop->min.type(), own, loop->body)));
  }
};

/// Which arithmetic to share, by its number; parts have lower numbers than what they are parts of.
struct Shared {
  struct Entry {
    Expr value;
    int statement;             // the last one that encloses every use
    std::set<int> users = {};  // numbers of what uses it: other entries, or less than 0 for anything else
    std::string name = "";     // empty: used once
  };
  std::map<Expr, int, IRGraphDeepCompare> numbers;
  std::vector<Entry> entries;
};

// Statements are numbered in the order in which a mutator comes by them; so they are here and in Share.
class FindShared : public IRMutator {
 public:
  Shared shared;

  using IRMutator::mutate;
  Stmt mutate(const Stmt& statement) override {
    const int outer = current_;
    current_ = static_cast<int>(places_.size());
    places_.push_back({outer, outer < 0 ? 0 : places_[static_cast<size_t>(outer)].depth + 1});
    IRMutator::mutate(statement);
    current_ = outer;
    return statement;
  }

  Expr mutate(const Expr& e) override {
    const bool is_root = !std::exchange(is_within_, true);
    Part part{is_arithmetic(e), {}};
    std::swap(part, whole_);
    IRMutator::mutate(e);
    std::swap(part, whole_);
    if (is_root) is_within_ = false;
    const auto* variable = e.as<Variable>();
    if (is_const(e) || (variable != nullptr && !inner_.contains(variable->name))) return e;
    int number = --anything_else_;
    if (part.is_arithmetic) {
      const auto [found, is_new] = shared.numbers.emplace(e, static_cast<int>(shared.entries.size()));
      number = found->second;
      if (is_new) shared.entries.push_back({e, current_});
      int& statement = shared.entries[static_cast<size_t>(number)].statement;
      statement = enclosing(statement, current_);
      if (is_root)
        shared.entries[static_cast<size_t>(number)].users.insert(--anything_else_);
      else
        whole_.arithmetic_parts.push_back(number);
    } else {
      whole_.is_arithmetic = false;
    }
    for (const int p : part.arithmetic_parts) shared.entries[static_cast<size_t>(p)].users.insert(number);
    return e;
  }

 private:
  using IRMutator::visit;
  struct Place {
    int outer, depth;
  };
  /// What is known of the expression whose operands are being visited.
  struct Part {
    bool is_arithmetic = false;
    std::vector<int> arithmetic_parts;
  };

  Expr visit(const Let* let) override {
    mutate(let->value);
    inner_.insert(let->name);
    mutate(let->body);
    return let;
  }

  int enclosing(int a, int b) const {
    while (a != b) {
      int& deeper = places_[static_cast<size_t>(a)].depth > places_[static_cast<size_t>(b)].depth ? a : b;
      deeper = places_[static_cast<size_t>(deeper)].outer;
    }
    return a;
  }

  std::vector<Place> places_;
  std::set<std::string> inner_;  // variables that an expression binds: no statement may use them
  Part whole_;
  bool is_within_ = false;  // an expression
  int current_ = -1, anything_else_ = 0;
};

class Share : public IRMutator {
 public:
  explicit Share(Shared& shared) : shared_(shared) {
    for (size_t i = 0; i < shared.entries.size(); i++) {
      Shared::Entry& entry = shared.entries[i];
      if (entry.users.size() < 2) continue;
      entry.name = unique_name("shared");
      bound_[entry.statement].push_back(i);
    }
  }

  using IRMutator::mutate;
  Stmt mutate(const Stmt& statement) override {
    const auto bound = bound_.find(next_++);
    Stmt result = IRMutator::mutate(statement);
    if (bound == bound_.end()) return result;
    for (auto i = bound->second.rbegin(); i != bound->second.rend(); ++i) {
      const Shared::Entry& entry = shared_.entries[*i];
      result = LetStmt::make(entry.name, IRMutator::mutate(entry.value), result);
    }
    return result;
  }
  Expr mutate(const Expr& e) override {
    if (is_operand(e)) return e;
    const auto found = shared_.numbers.find(e);
    if (found == shared_.numbers.end()) return IRMutator::mutate(e);
    const std::string& name = shared_.entries[static_cast<size_t>(found->second)].name;
    return name.empty() ? IRMutator::mutate(e) : Variable::make(e.type(), name);
  }

 private:
  using IRMutator::visit;
  Stmt visit(const LetStmt* let) override {
    return starts_with(let->name, PlainBindings::kPlace) ? mutate(let->body) : IRMutator::visit(let);
  }
  Shared& shared_;
  std::map<int, std::vector<size_t>> bound_;
  int next_ = 0;
};

class FindGpuLoop : public IRVisitor {
 public:
  bool found = false;

 private:
  using IRVisitor::visit;
  void visit(const For* loop) override {
    found = found || is_gpu(loop->for_type);
    IRVisitor::visit(loop);
  }
};

class SharedArithmetic : public IRMutator {
  using IRMutator::visit;
  Stmt visit(const For* loop) override {
    FindGpuLoop inner;
    loop->body.accept(&inner);
    if (!is_gpu(loop->for_type) || inner.found) return IRMutator::visit(loop);
    const Stmt body = PlainBindings().mutate(loop->body);
    FindShared find;
    find.mutate(body);
    return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api,
                     Share(find.shared).mutate(body));
  }
};

}  // namespace

std::unique_ptr<IRMutator> unsigned_division_pass() { return std::make_unique<UnsignedDivision>(); }

std::unique_ptr<IRMutator> shared_arithmetic_pass() { return std::make_unique<SharedArithmetic>(); }

void index_arithmetic() {
  Descriptor::current->lowering_passes.emplace_back(unsigned_division_pass());
  if (Descriptor::target.has_feature(Halide::Target::OpenCL))
    Descriptor::current->lowering_passes.emplace_back(shared_arithmetic_pass());
}

}  // namespace ashlar::dsl
