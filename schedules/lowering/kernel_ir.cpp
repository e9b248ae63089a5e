#include "schedules/lowering/kernel_ir.h"

#include <algorithm>

namespace ashlar::dsl::ir {

using namespace Halide::Internal;

bool is_allocation_of(const std::string& allocation, const std::string& func) {
  if (allocation == func) return true;
  if (allocation.size() < func.size() + 2 || allocation.compare(0, func.size() + 1, func + ".") != 0) return false;
  return std::all_of(allocation.begin() + static_cast<std::ptrdiff_t>(func.size()) + 1, allocation.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_thread_index(const std::string& variable) {
  for (const char* name : {".thread_id_x", ".thread_id_y", ".thread_id_z"}) {
    if (ends_with(variable, name)) return true;
  }
  return false;
}

bool is_barrier(const Stmt& statement) {
  const auto* evaluate = statement.as<Evaluate>();
  const Call* call = evaluate == nullptr ? nullptr : evaluate->value.as<Call>();
  return call != nullptr && call->is_intrinsic(Call::gpu_thread_barrier);
}

Stmt make_barrier() {
  constexpr int kSharedMemory = 2;  // CodeGen_GPU_Dev::MemoryFenceType::Shared
  return Evaluate::make(Call::make(Halide::Int(32), Call::gpu_thread_barrier,
                                   {IntImm::make(Halide::Int(32), kSharedMemory)}, Call::Intrinsic));
}

Stmt marker(const std::string& name, std::vector<Expr> arguments) {
  return Evaluate::make(Call::make(Halide::Int(32), name, arguments, Call::Extern));
}

Stmt EachKernel::visit(const For* op) { return op->for_type == ForType::GPUBlock ? kernel(op) : IRMutator::visit(op); }

namespace {

class StartKernel : public IRMutator {
 public:
  explicit StartKernel(Stmt first) : first_(std::move(first)) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    const Stmt inner = op->for_type == ForType::GPUThread ? mutate(op->body) : Stmt();
    if (op->for_type != ForType::GPUThread) return IRMutator::visit(op);
    const Stmt body = placed_ ? inner : Block::make(first_, inner);
    placed_ = true;
    return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, body);
  }
  Stmt first_;
  bool placed_ = false;
};

}  // namespace

Stmt started_with(const Stmt& first, const Stmt& kernel) { return StartKernel(first).mutate(kernel); }

void Bindings::push(const std::string& name, const Expr& value) {
  const bool is_opaque = value.as<Call>() != nullptr || !value.type().is_scalar();
  bind(name, is_opaque ? Variable::make(value.type(), name) : expand(value));
}

void Bindings::bind(const std::string& name, const Expr& expanded) {
  hidden_.emplace_back(name, values_[name]);
  values_[name] = expanded;
}

void Bindings::pop() {
  const auto& [name, before] = hidden_.back();
  if (before.defined())
    values_[name] = before;
  else
    values_.erase(name);
  hidden_.pop_back();
}

Expr Bindings::expand(const Expr& expression) const { return substitute(values_, substitute_in_all_lets(expression)); }

void Linear::add(const Expr& e, int64_t factor) {
  if (is_const(e)) {
    constant += factor * *as_const_int(e);
  } else if (const auto* sum = e.as<Add>()) {
    add(sum->a, factor);
    add(sum->b, factor);
  } else if (const auto* difference = e.as<Sub>()) {
    add(difference->a, factor);
    add(difference->b, -factor);
  } else if (const auto* product = e.as<Mul>(); product != nullptr && is_const(product->b)) {
    add(product->a, factor * *as_const_int(product->b));
  } else {
    std::ostringstream name;
    name << e;
    auto& part = parts.try_emplace(name.str(), e, 0).first->second;
    part.second += factor;
    if (part.second == 0) parts.erase(name.str());
  }
}

bool Linear::same_parts(const Linear& other) const {
  return std::equal(
      parts.begin(), parts.end(), other.parts.begin(), other.parts.end(),
      [](const auto& a, const auto& b) { return a.first == b.first && a.second.second == b.second.second; });
}

void Scope::assume(const Expr& condition) {
  std::map<std::string, int64_t> known;
  std::vector<Expr> pending{bindings.expand(condition)};
  while (!pending.empty()) {
    const Expr e = pending.back();
    pending.pop_back();
    if (const auto* both = e.as<And>()) {
      pending.push_back(both->a);
      pending.push_back(both->b);
    } else if (const auto* equation = e.as<EQ>(); equation != nullptr && is_const_zero(equation->b)) {
      const auto* rest = equation->a.as<Mod>();
      const Variable* variable = rest == nullptr ? nullptr : rest->a.as<Variable>();
      if (variable != nullptr && is_const(rest->b)) known[variable->name] = *as_const_int(rest->b);
    }
  }
  multiples_.push_back(std::move(known));
}

bool Scope::is_multiple(const Expr& index, int n) const {
  Halide::Internal::Scope<ModulusRemainder> known;
  for (const auto& assumed : multiples_) {
    for (const auto& [variable, multiple] : assumed) known.push(variable, ModulusRemainder(multiple, 0));
  }
  const ModulusRemainder found = modulus_remainder(bindings.expand(index), known);
  return found.modulus % n == 0 && found.remainder % n == 0;
}

Stmt ScopedMutator::visit(const LetStmt* op) {
  const Expr value = mutate(op->value);
  scope_.bindings.push(op->name, op->value);
  const Stmt body = mutate(op->body);
  scope_.bindings.pop();
  return LetStmt::make(op->name, value, body);
}

Stmt ScopedMutator::visit(const IfThenElse* op) {
  scope_.assume(op->condition);
  const Stmt then_case = mutate(op->then_case);
  scope_.forget();
  return IfThenElse::make(op->condition, then_case, op->else_case.defined() ? mutate(op->else_case) : Stmt());
}

void fail(const std::string& directive, const std::string& func, const std::string& what) {
  throw Halide::CompileError(directive + "(" + func + "): " + what);
}

}  // namespace ashlar::dsl::ir
