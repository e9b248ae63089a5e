#include "schedules/lowering/accesses.h"

#include <optional>

#include "dsl/descriptor.h"
#include "dsl/element.h"
#include "dsl/ptx_markers.h"
#include "schedules/lowering/beside.h"
#include "schedules/lowering/kernel_ir.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Type;

class AlignedVectors : public ir::ScopedMutator {
 public:
  AlignedVectors() : ScopedMutator(scope_) {}

 private:
  using ScopedMutator::visit;
  ModulusRemainder alignment(const Expr& index, bool is_tensor, const ModulusRemainder& known) const {
    const auto* run = index.as<Ramp>();
    const bool is_aligned = is_tensor && run != nullptr && is_const_one(run->stride) && run->base.type().is_scalar() &&
                            scope_.is_multiple(run->base, run->lanes);
    return is_aligned ? ModulusRemainder(run->lanes, 0) : known;
  }
  Expr visit(const Load* op) override {
    return Load::make(op->type, op->name, mutate(op->index), op->image, op->param, mutate(op->predicate),
                      alignment(op->index, op->param.defined(), op->alignment));
  }
  Stmt visit(const Store* op) override {
    return Store::make(op->name, mutate(op->value), mutate(op->index), op->param, mutate(op->predicate),
                       alignment(op->index, op->param.defined(), op->alignment));
  }
  ir::Scope scope_;
};

class WideAccesses : public IRMutator {
  using IRMutator::visit;

  static constexpr int kElements = 8, kWords = 4;

  // The index of the first word, where `index` is a run of eight elements that begins at a multiple of eight.
  static Expr word_index(const Type& type, const Expr& index, const Expr& predicate,
                         const ModulusRemainder& alignment) {
    const auto* ramp = index.as<Ramp>();
    const bool is_run = ramp != nullptr && is_const_one(ramp->stride) && ramp->lanes == kElements;
    const bool is_aligned = alignment.modulus % kElements == 0 && alignment.remainder % kElements == 0;
    if (!is_run || !is_aligned || type.bits() != 16 || !is_const_one(predicate)) return Expr();
    return Ramp::make(simplify(ramp->base / (kElements / kWords)), make_one(ramp->base.type()), kWords);
  }
  static ModulusRemainder in_words(const ModulusRemainder& alignment) {
    return ModulusRemainder(alignment.modulus / (kElements / kWords), alignment.remainder / (kElements / kWords));
  }

  // Pairs of bf16 are converted together, where each would need its own instructions to come out of or into its word.
  Expr visit(const Call* call) override {
    if (call->name != ptx::marker_name(ptx::kNarrow) || call->type.lanes() % 2 != 0) return IRMutator::visit(call);
    const int pairs = call->type.lanes() / 2;
    const std::string name = unique_name('n');
    const Expr wide = Variable::make(call->args[0].type(), name);
    const Expr words =
        Call::make(Halide::UInt(32, pairs), ptx::marker_name(ptx::kNarrowPair),
                   {Shuffle::make_slice(wide, 0, 2, pairs), Shuffle::make_slice(wide, 1, 2, pairs)}, Call::PureExtern);
    return Let::make(name, mutate(call->args[0]), Halide::reinterpret(call->type, words));
  }
  Expr visit(const Reinterpret* bits) override {
    const Expr elements = shifted_elements(bits);
    if (!elements.defined()) return IRMutator::visit(bits);
    const int pairs = bits->type.lanes() / 2;
    const Type word = Halide::UInt(32, pairs), real = Halide::Float(32, pairs);
    const std::string name = unique_name('w');
    const Expr words = Variable::make(word, name);
    const Expr lower = Halide::reinterpret(real, words << make_const(word, 16));
    const Expr upper = Halide::reinterpret(real, words & make_const(word, 0xffff0000));
    return Let::make(name, Halide::reinterpret(word, mutate(elements)), Shuffle::make_interleave({lower, upper}));
  }
  // The elements that Element<bf16>::load widens, an even number of them; undefined where it's another expression.
  static Expr shifted_elements(const Reinterpret* bits) {
    if (bits->type.element_of() != Halide::Float(32) || bits->type.lanes() % 2 != 0) return Expr();
    const Call* shift = Call::as_intrinsic(bits->value, {Call::widening_shift_left});
    if (shift == nullptr || shift->args[0].type().element_of() != Halide::UInt(16)) return Expr();
    return is_const(shift->args[1], 16) ? shift->args[0] : Expr();
  }

  // A run of eight of a tensor's elements that begins anywhere: of the five words that they lie in, of which the last
  // is the fourth again where they begin with a word, two and two are shifted together.
  Expr from_words_around(const Load* load) {
    const auto* ramp = load->index.as<Ramp>();
    const std::string name = unique_name('i');
    const Expr first = Variable::make(Halide::Int(32), name), odd = first & 1;
    std::vector<Expr> names, words, pairs;
    for (int k = 0; k <= kWords; k++) {
      words.push_back(Load::make(Halide::UInt(32), load->name, (first >> 1) + (k < kWords ? Expr(k) : odd + (k - 1)),
                                 load->image, load->param, const_true(), ModulusRemainder()));
      names.push_back(Variable::make(Halide::UInt(32), unique_name('w')));
    }
    for (int k = 0; k < kWords; k++) {
      const auto at = static_cast<size_t>(k);
      const Expr both = (Halide::cast<uint64_t>(names[at + 1]) << 32) | Halide::cast<uint64_t>(names[at]);
      pairs.push_back(Halide::cast<uint32_t>(both >> Halide::cast<uint64_t>(16 * odd)));
    }
    Expr elements = Halide::reinterpret(load->type, Shuffle::make_concat(pairs));
    for (size_t k = words.size(); k-- > 0;) {
      elements = Let::make(names[k].as<Variable>()->name, words[k], elements);
    }
    return Let::make(name, mutate(ramp->base), elements);
  }
  static bool is_run_of_tensor(const Load* load) {
    const auto* ramp = load->index.as<Ramp>();
    return load->param.defined() && load->type.bits() == 16 && ramp != nullptr && is_const_one(ramp->stride) &&
           ramp->lanes == kElements && is_const_one(load->predicate);
  }

  Expr visit(const Load* load) override {
    const Expr index = word_index(load->type, load->index, load->predicate, load->alignment);
    if (!index.defined()) return is_run_of_tensor(load) ? from_words_around(load) : IRMutator::visit(load);
    const Expr words = Load::make(Halide::UInt(32, kWords), load->name, mutate(index), load->image, load->param,
                                  const_true(kWords), in_words(load->alignment));
    return Halide::reinterpret(load->type, words);
  }

  Stmt visit(const Store* store) override {
    const Expr index = word_index(store->value.type(), store->index, store->predicate, store->alignment);
    if (!index.defined()) return IRMutator::visit(store);
    const Expr words = Halide::reinterpret(Halide::UInt(32, kWords), mutate(store->value));
    return Store::make(store->name, words, mutate(index), store->param, const_true(kWords), in_words(store->alignment));
  }
};

// One lane of a vector. Its loads run under that lane's guard alone.
class Lane : public IRMutator {
 public:
  explicit Lane(Expr lane) : lane_(std::move(lane)) {}
  /// False once a lane was asked for that only its number can pick, and `lane` wasn't a constant.
  bool found = true;

 private:
  using IRMutator::visit;
  Expr visit(const Ramp* ramp) override { return ramp->base + ramp->stride * Halide::cast(ramp->stride.type(), lane_); }
  Expr visit(const Broadcast* broadcast) override { return broadcast->value; }
  Expr visit(const Load* load) override {
    if (load->type.is_scalar()) return load;
    return Load::make(load->type.element_of(), load->name, mutate(load->index), load->image, load->param, const_true(),
                      ModulusRemainder());
  }
  Expr visit(const Cast* cast) override { return Cast::make(cast->type.element_of(), mutate(cast->value)); }
  Expr visit(const Reinterpret* bits) override {
    return Reinterpret::make(bits->type.element_of(), mutate(bits->value));
  }
  Expr visit(const Call* call) override {
    std::vector<Expr> arguments;
    for (const Expr& argument : call->args) arguments.push_back(mutate(argument));
    return Call::make(call->type.element_of(), call->name, arguments, call->call_type, call->func, call->value_index,
                      call->image, call->param);
  }
  Expr visit(const Variable* variable) override { return variable->type.is_scalar() ? variable : extracted(variable); }
  Expr visit(const Shuffle* shuffle) override { return shuffle->type.is_scalar() ? shuffle : extracted(shuffle); }
  Expr extracted(const Expr& vector) {
    const auto number = as_const_int(lane_);
    found = found && number.has_value();
    return Shuffle::make_extract_element(vector, static_cast<int>(number.value_or(0)));
  }
  Expr lane_;
};

class FindGuard : public IRVisitor {
 public:
  bool found = false;

 private:
  using IRVisitor::visit;
  void visit(const Load* load) override {
    found = found || !is_const_one(load->predicate);
    IRVisitor::visit(load);
  }
  void visit(const Store* store) override {
    found = found || !is_const_one(store->predicate);
    IRVisitor::visit(store);
  }
};

// A vector that guarded stores use is written out in each of them.
Stmt write_out_guarded(const LetStmt* let) {
  if (!let->value.type().is_vector()) return Stmt();
  FindGuard guard;
  let->value.accept(&guard);
  let->body.accept(&guard);
  return guard.found ? substitute(let->name, let->value, let->body) : Stmt();
}

// A store without its guards, and under them, as Halide writes it for vectors wholly inside and for others.
struct StoredTwice {
  const Store *plain, *guarded;
};

Expr unguarded(const Expr& value) {
  class Unguarded : public IRMutator {
    using IRMutator::visit;
    Expr visit(const Load* load) override {
      return Load::make(load->type, load->name, mutate(load->index), load->image, load->param,
                        const_true(load->type.lanes()), load->alignment);
    }
  } mutator;
  return mutator.mutate(substitute_in_all_lets(value));
}

Stmt without_bindings(Stmt statement) {
  while (const auto* let = statement.as<LetStmt>()) statement = substitute(let->name, let->value, let->body);
  return statement;
}

// The two stores of `inside` and `other`, where that is what they are.
std::optional<StoredTwice> stored_twice(const Stmt& inside, const Stmt& other) {
  const auto *plain = inside.as<Store>(), *guarded = other.as<Store>();
  const bool is_same = plain != nullptr && guarded != nullptr && !is_const_one(guarded->predicate) &&
                       plain->name == guarded->name && equal(plain->index, guarded->index) &&
                       equal(unguarded(plain->value), unguarded(guarded->value));
  return is_same ? std::optional(StoredTwice{plain, guarded}) : std::nullopt;
}

class WholeVectors : public IRMutator {
  using IRMutator::visit;

  // Whether all vectors that are loaded lie side by side from a multiple of their length on.
  static bool loads_whole(const Expr& value) {
    class Find : public IRVisitor {
     public:
      bool whole = true;

     private:
      using IRVisitor::visit;
      void visit(const Load* load) override {
        const int lanes = load->type.lanes();
        const auto* ramp = load->index.as<Ramp>();
        const bool is_run = ramp != nullptr && is_const_one(ramp->stride);
        const bool is_aligned = load->alignment.modulus % lanes == 0 && load->alignment.remainder % lanes == 0;
        whole = whole && (lanes == 1 || (is_run && is_aligned));
        IRVisitor::visit(load);
      }
    } find;
    value.accept(&find);
    return find.whole;
  }

  // A vector whose first element is inside, worked out whole, and how it is stored.
  struct Whole {
    Expr begins_inside;
    std::string name;
    Expr value;
    Stmt stored;
  };

  static std::optional<Whole> whole_of(const Stmt& statement) {
    const auto* branch = statement.as<IfThenElse>();
    if (branch == nullptr || !branch->else_case.defined()) return {};
    const Stmt inside = without_bindings(branch->then_case), other = without_bindings(branch->else_case);
    const std::optional<StoredTwice> stores = stored_twice(inside, other);
    if (!stores) return {};
    const auto [plain, guarded] = *stores;
    const Expr value = unguarded(plain->value);
    if (!loads_whole(value)) return {};
    const std::string name = unique_name("whole");
    const Expr whole = Variable::make(value.type(), name);
    std::vector<Stmt> elements;
    for (int i = 0; i < value.type().lanes(); i++) {
      Lane lane(i);
      elements.push_back(
          IfThenElse::make(lane.mutate(guarded->predicate),
                           Store::make(plain->name, Shuffle::make_extract_element(whole, i), lane.mutate(plain->index),
                                       plain->param, const_true(), ModulusRemainder())));
    }
    const Stmt all = Store::make(plain->name, whole, plain->index, plain->param, plain->predicate, plain->alignment);
    return Whole{Lane(0).mutate(guarded->predicate), name, common_subexpression_elimination(value),
                 IfThenElse::make(branch->condition, all, Block::make(elements))};
  }
  static Stmt made(const Whole& whole) {
    return IfThenElse::make(whole.begins_inside, LetStmt::make(whole.name, whole.value, whole.stored));
  }

  Stmt visit(const IfThenElse* branch) override {
    const std::optional<Whole> whole = whole_of(branch);
    return whole ? made(*whole) : IRMutator::visit(branch);
  }

  // A thread's vectors: where all of them begin inside, they are worked out, and so loaded, before the first is stored.
  Stmt visit(const Block* block) override {
    std::vector<Whole> wholes;
    std::vector<Stmt> one_by_one;
    Expr begin_inside = const_true();
    Stmt rest = block;
    while (rest.defined()) {
      const auto* pair = rest.as<Block>();
      std::optional<Whole> whole = whole_of(pair != nullptr ? pair->first : rest);
      if (!whole) return IRMutator::visit(block);
      begin_inside = begin_inside && whole->begins_inside;
      one_by_one.push_back(made(*whole));
      wholes.push_back(std::move(*whole));
      rest = pair != nullptr ? pair->rest : Stmt();
    }
    std::vector<Stmt> stores;
    for (const Whole& whole : wholes) stores.push_back(whole.stored);
    Stmt all = Block::make(stores);
    for (const Whole& whole : wholes) all = LetStmt::make(whole.name, whole.value, all);
    return IfThenElse::make(begin_inside, all, Block::make(one_by_one));
  }
};

// Guards that are the same for all lanes of a vector: one `if` around the whole store.
class UniformGuards : public IRMutator {
 public:
  explicit UniformGuards(bool is_text) : is_text_(is_text) {}

 private:
  using IRMutator::visit;

  // Where all lanes are inside Halide writes the store without guards, and with them else: one of the two is enough,
  // the first for machine code, the second, which is shorter, where text is compiled at its first use.
  Stmt visit(const IfThenElse* branch) override {
    if (!branch->else_case.defined()) return IRMutator::visit(branch);
    const Stmt inside = without_bindings(branch->then_case), other = without_bindings(branch->else_case);
    const std::optional<StoredTwice> stores = stored_twice(inside, other);
    if (!stores) return IRMutator::visit(branch);
    if (has_own_place(stores->plain->value)) return mutate(other);
    return is_text_ ? mutate(other) : IfThenElse::make(branch->condition, mutate(branch->then_case));
  }
  Stmt visit(const LetStmt* let) override {
    const Stmt written_out = write_out_guarded(let);
    return written_out.defined() ? mutate(written_out) : IRMutator::visit(let);
  }
  Stmt visit(const Store* store) override {
    if (is_const_one(store->predicate)) return store;
    const Expr value = common_subexpression_elimination(unguarded(store->value));
    const Stmt whole = Store::make(store->name, value, store->index, store->param,
                                   const_true(store->value.type().lanes()), store->alignment);
    return has_own_place(value) ? whole : IfThenElse::make(Lane(0).mutate(store->predicate), whole);
  }
  bool is_text_;
};

// What the OpenCL back end can't write: a store under a guard that differs between a vector's lanes (done by a loop
// over them: written out, such ends of tensors were most of what drivers had to compile), and strict comparisons of
// vectors.
class PlainVectors : public IRMutator {
  using IRMutator::visit;

  // OpenCL's code is the same for strict comparisons and plain ones, but of vectors Halide only knows the plain.
  Expr visit(const Call* call) override {
    if (!call->type.is_vector() || !call->type.is_bool()) return IRMutator::visit(call);
    const auto argument = [&](int i) { return mutate(call->args[i]); };
    if (call->is_intrinsic(Call::strict_lt)) return LT::make(argument(0), argument(1));
    if (call->is_intrinsic(Call::strict_le)) return LE::make(argument(0), argument(1));
    if (call->is_intrinsic(Call::strict_eq)) return EQ::make(argument(0), argument(1));
    return IRMutator::visit(call);
  }

  Stmt visit(const LetStmt* let) override {
    const Stmt written_out = write_out_guarded(let);
    return written_out.defined() ? mutate(written_out) : IRMutator::visit(let);
  }

  Stmt visit(const Store* store) override {
    if (is_const_one(store->predicate)) return IRMutator::visit(store);
    const Expr value = mutate(substitute_in_all_lets(store->value));
    const int count = value.type().lanes();
    const auto one = [&](Lane& lane) {
      const Expr element = common_subexpression_elimination(lane.mutate(value));
      const Stmt stored =
          Store::make(store->name, element, lane.mutate(store->index), store->param, const_true(), ModulusRemainder());
      return IfThenElse::make(lane.mutate(store->predicate), stored);
    };
    const std::string name = unique_name("lane");
    Lane each(Variable::make(Halide::Int(32), name));
    const Stmt body = one(each);
    if (each.found) {
      return For::make(name, 0, count, ForType::Serial, Halide::Partition::Never, Halide::DeviceAPI::None, body);
    }
    std::vector<Stmt> lanes;
    for (int i = 0; i < count; i++) {
      Lane lane(i);
      lanes.push_back(one(lane));
    }
    return Block::make(lanes);
  }
};

}  // namespace

Expr lane_of(const Expr& vector, int lane) {
  return vector.type().is_scalar() ? vector : Lane(lane).mutate(substitute_in_all_lets(vector));
}

std::unique_ptr<IRMutator> plain_vectors_pass() { return std::make_unique<PlainVectors>(); }

std::unique_ptr<IRMutator> aligned_vectors_pass() { return std::make_unique<AlignedVectors>(); }

std::unique_ptr<IRMutator> wide_accesses_pass() { return std::make_unique<WideAccesses>(); }

std::unique_ptr<IRMutator> whole_vectors_pass() { return std::make_unique<WholeVectors>(); }

std::unique_ptr<IRMutator> uniform_guards_pass(bool is_text) { return std::make_unique<UniformGuards>(is_text); }

void uniform_guards() {
  const bool is_opencl = Descriptor::target.has_feature(Halide::Target::OpenCL);
  Descriptor::current->lowering_passes.emplace_back(uniform_guards_pass(is_opencl));
}

void whole_vectors() {
  const bool is_cuda = Descriptor::target.has_feature(Halide::Target::CUDA);
  if (is_cuda) Descriptor::current->lowering_passes.emplace_back(whole_vectors_pass());
}

void aligned_vectors() { Descriptor::current->lowering_passes.emplace_back(aligned_vectors_pass()); }

void vector_accesses() {
  const bool is_cuda = Descriptor::target.has_feature(Halide::Target::CUDA);
  Descriptor::current->lowering_passes.emplace_back(is_cuda ? wide_accesses_pass() : plain_vectors_pass());
}

}  // namespace ashlar::dsl
